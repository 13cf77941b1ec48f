"""Steps that overlap on a virtual clock: when what begins, and that no overlap changes what is sampled."""

from __future__ import annotations

from functools import partial

import pytest

from ada_lightning.core.records import Prompt, SamplingSettings
from ada_lightning.core.schedule import Continuous
from ada_lightning.core.step_records import StepSettings
from ada_lightning.methods.sampling import BalanceSampler
from research.benchmarks.overlap import OverlappedRun
from research.benchmarks.simulation.engine import SimulatedEngine
from research.benchmarks.simulation.replica import Fates, StepTime
from research.benchmarks.simulation.rolling_engine import RollingEngine

RATES = {key: (key / 11) ** 2 for key in range(12)}
STEP_TIME = StepTime((1, 64), (0.01, 0.05), context_s=1e-7, prompt_token_s=1e-5, admission_s=1e-4)


def overlapped(lag, *, engines=1, update_s=0.5, drains=False, rolls=False, streams=False, num_steps=6):
    kind = partial(RollingEngine, load_s=0.05) if rolls else SimulatedEngine
    engine = kind(Fates(RATES, median_tokens=20, sigma=0.6), STEP_TIME, num_replicas=engines, slots=16)
    run = OverlappedRun(
        engine=engine,
        prompts=[Prompt(f"p{key}", (), prompt_ids=(key,) * 8) for key in RATES],
        sampler=BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=16, group_size=4),
        settings=StepSettings(seed=0, schedule=Continuous(fill_to=16 * engines)),
        sampling=SamplingSettings(max_new_tokens=60),
        lag=lag,
        update_s=update_s,
        sync_s=0.1,
        drains=drains,
        rolls=rolls,
        streams=streams,
    )
    groups = run.run(num_steps)
    found = [[(r.policy_version, r.is_positive, len(r.response_ids))
              for group in each for r in group.pool.responses] for each in groups]  # fmt: skip
    return run, found


PLAIN = overlapped(0)


@pytest.mark.parametrize("lag", [0, 1, 2, 3])
@pytest.mark.parametrize(
    ("engines", "update_s", "way", "streams"),
    [(1, 0.0, "", True), (3, 2.0, "", False), (2, 0.5, "drains", True), (1, 0.5, "rolls", False), (3, 0.5, "rolls", 1)],
)
def test_neither_overlap_nor_engines_nor_seconds_change_what_is_sampled(lag, engines, update_s, way, streams):
    options = {way: True} if way else {}
    run, found = overlapped(lag, engines=engines, update_s=update_s, streams=bool(streams), **options)
    assert [[row[1:] for row in step] for step in found] == [[row[1:] for row in step] for step in PLAIN[1]]
    assert [{row[0] for row in step} for step in found] == [{max(0, step - lag)} for step in range(6)]
    assert run.versions_at_once <= (1 if way == "drains" else lag + 1)


def test_steps_follow_each_other_without_a_lag_and_hide_the_shorter_of_both_with_one():
    run, _ = PLAIN
    waits = [later - earlier for earlier, later in zip(run.ends, run.ends[1:], strict=False)]
    assert all(wait > 0.6 for wait in waits)  # rollout, update and sync, one after the other
    slow = overlapped(1, update_s=30.0)[0]
    assert slow.period(1) == pytest.approx(
        30.1
    )  # the engines are done long before, and all of this short sync is the copy
    assert overlapped(1)[0].period(2) < run.period(2) - 0.3
    drained, rolling, filled = (
        overlapped(2, engines=3, **way)[0].period(3) for way in ({"drains": True}, {"rolls": True}, {})
    )
    assert max(filled, rolling) < drained


def test_a_streamed_update_ends_with_the_last_prompts_and_takes_as_long_in_all():
    """Alone it begins with the first complete prompt, so that it hides behind the rollout but for its last part."""
    whole, streamed = overlapped(0, update_s=1.0)[0], overlapped(0, update_s=1.0, streams=True)[0]
    for step, (end, earlier) in enumerate(zip(streamed.ends, whole.ends, strict=True)):
        rollout_s = whole.ends[step] - (whole.ends[step - 1] if step else 0.0) - 1.1
        took_s = end - (streamed.ends[step - 1] if step else 0.0)
        assert rollout_s + 0.5 + 0.1 < took_s < rollout_s + 1.1
        assert earlier - end > 0.1 * (step + 1)
    slow = overlapped(1, update_s=30.0, streams=True)[0]
    assert slow.period(1) == pytest.approx(30.1)
