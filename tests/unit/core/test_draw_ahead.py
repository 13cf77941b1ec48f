from __future__ import annotations

import pytest

from ada_lightning.core.draw_ahead import DrawAhead
from ada_lightning.core.schedule import Barrier, Continuous
from ada_lightning.core.step_records import PromptRun, RolloutStats, StepSettings
from ada_lightning.methods.sampling import BalanceSampler
from tests.builders import make_pool

BLOCK = 4


def make(schedule, **options):
    sampler = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=BLOCK, n_max=32, group_size=4, **options)
    stats = RolloutStats()
    run = PromptRun(make_pool([]), num_launched=BLOCK, round_of=[0] * BLOCK)
    ahead = DrawAhead(StepSettings(seed=0, schedule=schedule), sampler, stats)
    ahead.note_asked(run, BLOCK)
    return ahead, run, stats


def fill(ahead, run, num_slots):
    while ahead.best(run.num_launched, num_slots) is run:
        run.num_launched += BLOCK


PLENTY = Continuous(fill_to=64, min_chance=0.1, max_waste_ratio=10.0)


def test_the_expected_waste_is_the_chance_that_a_block_is_not_wanted():
    """By the chances at which the blocks after the first were drawn, which fall with every block."""
    ahead, run, _ = make(PLENTY)
    fill(ahead, run, 64)
    assert run.num_launched == (1 + len(run.early_risks)) * BLOCK
    assert run.early_risks == sorted(run.early_risks)
    assert len(run.early_risks) >= 2
    assert ahead.expected_waste_ratio() == pytest.approx(sum(run.early_risks) / BLOCK)
    assert all(0 < risk < BLOCK for risk in run.early_risks)


def test_a_block_that_is_asked_for_is_no_risk_any_more_nor_one_that_was_dropped():
    ahead, run, _ = make(PLENTY)
    fill(ahead, run, 64)
    _, *others = run.early_risks
    assert others
    ahead.note_asked(run, BLOCK)
    assert run.early_risks == others
    assert ahead.expected_waste_ratio() == pytest.approx(sum(others) / (2 * BLOCK))
    ahead.note_dropped(run)
    assert ahead.expected_waste_ratio() == pytest.approx(0.0, abs=1e-12)


def test_tokens_already_dropped_count():
    ahead, _, tally = make(PLENTY)
    tally.generated_tokens, tally.num_drawn, tally.wasted_tokens = 40, BLOCK, 8
    assert ahead.expected_waste_ratio() == pytest.approx(8 / 40)


@pytest.mark.parametrize(
    ("schedule", "options"),
    [(Barrier(), {}), (Continuous(fill_to=0), {}), (PLENTY, {"budget_per_step": 100})],
    ids=["barrier", "off", "budget"],
)
def test_nothing_is_drawn_ahead_where_it_may_not(schedule, options):
    ahead, run, _ = make(schedule, **options)
    fill(ahead, run, 64)
    assert run.num_launched == BLOCK


def test_no_more_than_the_slots_are_filled():
    ahead, run, _ = make(PLENTY)
    fill(ahead, run, 8)
    assert run.num_launched == 8
