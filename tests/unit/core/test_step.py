"""Whatever order outcomes come in, whenever an engine breaks, whatever else is open: the same groups."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ada_lightning.core.following import SLOTS
from ada_lightning.core.hint import Solution
from ada_lightning.core.records import Belief, Outcome, Prompt, Verdict
from ada_lightning.core.schedule import Barrier, Continuous
from ada_lightning.core.step import Step
from ada_lightning.core.step_records import StepSettings
from ada_lightning.core.top_up import TopUp
from ada_lightning.methods.gradient_norms import ConstantNorm
from ada_lightning.methods.hints import PrefixHints
from ada_lightning.methods.published.cgrpo import CGrpoSampler
from ada_lightning.methods.published.coba import CobaSampler
from ada_lightning.methods.published.dars import DarsSampler
from ada_lightning.methods.published.greso import AdaptiveDynamicSampling
from ada_lightning.methods.published.gvm import GvmSampler
from ada_lightning.methods.published.optpo import OptPoSampler
from ada_lightning.methods.published.pruning import PruningSampler
from ada_lightning.methods.published.reinforce_ada import EstimatedSampler
from ada_lightning.methods.published.sage import TextHints
from ada_lightning.methods.published.speed import SpeedSampler
from ada_lightning.methods.published.token_division import KnownBaselineVariance
from ada_lightning.methods.published.vip import VipSampler
from ada_lightning.methods.published.xrpo import XrpoSampler
from ada_lightning.methods.refill import DynamicSampling
from ada_lightning.methods.sampling import (
    BalanceSampler,
    CutSampler,
    FirstVisitSampler,
    GiveUpByPosterior,
    PositiveSampler,
    SpreadSampler,
    UniformSampler,
)
from ada_lightning.methods.selection import BalancedSelection
from tests.builders import make_pool

RATES = (0.0, 0.05, 0.3, 0.5, 0.7, 1.0)
BALANCE = {"k_pos": 2, "k_neg": 2, "samples_per_round": 2, "n_max": 12, "group_size": 4}
AHEAD = Continuous(fill_to=24, min_chance=0.01, max_waste_ratio=10.0)


QUESTION = {"role": "user", "content": "?"}


def gives_up():
    give_up = GiveUpByPosterior(price=0.8, explore_ratio=0.0)
    give_up.learn([make_pool([1.0, 1.0, 0.0, 0.0])])
    return BalanceSampler(**BALANCE, give_up=give_up)


def calibrated():
    sampler = CGrpoSampler(budgets=(2, 4, 8), group_size=8, num_calibration=3, recalibrate_every=9)
    sampler.load_state_dict({"thresholds": [1.0, 0.75, 0.5]})
    return sampler


def pruned():
    sampler = PruningSampler(group_size=4, rate=0.5)
    sampler.learn([make_pool([1.0, 0.0], key=key) for key in range(len(RATES))])
    return sampler


SAMPLERS = {
    "uniform": lambda: UniformSampler(group_size=4),
    "positive": lambda: PositiveSampler(k_pos=1, samples_per_round=2, n_max=12, group_size=4),
    "balance": lambda: BalanceSampler(**BALANCE),
    "balance with a budget": lambda: BalanceSampler(**BALANCE, budget_per_step=31),
    "giving up": gives_up,
    "estimated": lambda: EstimatedSampler(responses_per_prompt=4, n_max=12, group_size=4),
    "gvm": lambda: GvmSampler(gradient_norm=ConstantNorm(), num_pilot=2, responses_per_prompt=4, n_max=8, group_size=4),
    "by tokens": lambda: VipSampler(
        variance=KnownBaselineVariance(), responses_per_prompt=4, n_min=1, n_max=8, group_size=8, by_tokens=True
    ),
    "cut": lambda: CutSampler(group_size=4, num_tokens=1, survival=0.5),
    "first visit": lambda: FirstVisitSampler(group_size=2, num_first=4),
    "coba": lambda: CobaSampler(responses_per_prompt=4, n_min=2, n_max=8, group_size=8),
    "xrpo": lambda: XrpoSampler(num_pilot=2, responses_per_prompt=4, num_rounds=2, n_max=8, group_size=4),
    "speed": lambda: SpeedSampler(num_screen=3, num_continue=4, group_size=4),
    "dars": lambda: DarsSampler(num_pilot=4, n_max=12, hardness_weighted=True, normalize_std=True, group_size=4),
    "spread": lambda: SpreadSampler(min_spread=1.0, samples_per_round=2, n_max=8, group_size=4),
    "optpo": lambda: OptPoSampler(vote_accuracy=0.7, threshold=9, samples_per_round=2, n_max=8, group_size=8),
    "cgrpo": calibrated,
    "pruning": pruned,
}
SCHEDULES = {"plain": Continuous(), "ahead": AHEAD, "barrier": Barrier()}
REFILLS = {
    "waves": DynamicSampling(oversampling=1.0, refill_ratio=0.5, max_ratio=4),
    "one at a time": DynamicSampling(refill_ratio=0.0, max_ratio=4),
    "adaptive": AdaptiveDynamicSampling(oversampling=1.0, max_ratio=4),
}
CASES = [(sampler, schedule, "") for sampler in SAMPLERS for schedule in SCHEDULES]
CASES += [
    (sampler, schedule, refill)
    for sampler in ("uniform", "balance", "estimated", "xrpo", "speed")
    for schedule in SCHEDULES
    for refill in REFILLS
]
HINTED, SHARE = ("prefix", "text"), 0.4
CASES += [
    (sampler, schedule, kind)
    for sampler in ("uniform", "positive", "balance")
    for schedule in SCHEDULES
    for kind in HINTED
]
SOLUTION = Solution("1\n2\n3\n4", (11, 12, 13, 14), ((2, 1), (4, 2), (6, 3)))


def prompts(first, number):
    keys = [(first + place) % len(RATES) for place in range(number)]
    return [
        (
            Prompt(f"p{key}", (QUESTION,), {"solution": SOLUTION.text}, prompt_ids=(key,), solution=SOLUTION),
            Belief(1.0 + key, 6.0 - key),
        )
        for key in keys
    ]


def hints(kind="prefix", **options):
    """For every prompt whose responses are all wrong, as long as the share lasts."""
    kinds = {"prefix": PrefixHints, "text": TextHints}
    part = kinds[kind](**{"p_min": 0.9, "doubt": 1.0, "max_share": SHARE, **options})
    part.connect(encode, has_turns=True)
    return part


def encode(prompt):
    """One token for the prompt, one for each level of its hint; three for what asks for one."""
    key, _, level = prompt.prompt_id.removeprefix("p").partition("#")
    return (int(key), *range(20, 20 + int(level or 3)))


def begin(case, *, sampler=None, step=3, truncated="exclude"):
    name, schedule, refill = case
    sampler = sampler or SAMPLERS[name]()
    selection = BalancedSelection(group_size=4)
    first, top_up = prompts(0, REFILLS[refill].first_wave(4) if refill in REFILLS else 8), None
    if refill in REFILLS:
        top_up = TopUp(REFILLS[refill], 4, prompts, selection)
    return Step(
        [prompt for prompt, _ in first],
        sampler=sampler,
        selection=selection,
        settings=StepSettings(seed=7, schedule=SCHEDULES[schedule], truncated=truncated),
        step=step,
        policy_version=step,
        beliefs=[belief for _, belief in first],
        top_up=top_up,
        follow_up=hints(refill) if refill in HINTED else None,
    )


def answer(request):
    """What an engine and a grader make of a request: a function of its seed and prompt."""
    coin = random.Random(request.seed)
    helped = 0.3 * len(request.prompt.prompt_ids[1:]) * (request.sample_index >= 0)  # a written hint is seldom right
    is_right, fate = coin.random() < RATES[request.prompt.prompt_ids[0]] + helped, coin.random()
    grade = Verdict(float(is_right), answer="right" if is_right else str(coin.randint(0, 2)))
    if fate < 0.1:
        grade = Verdict(None, failure="OSError") if fate < 0.05 else Verdict(0.0, failure="timeout")
    tokens = tuple(range(1 + coin.randrange(5)))
    return Outcome("" if fate > 0.97 else str(is_right), tokens, tuple(-0.5 for _ in tokens), fate > 0.9, grade)


def wrong(request):
    """The opposite of its answer."""
    outcome = answer(request)
    return Outcome("late", (9,) * 9, (0.0,) * 9, False, Verdict(1.0 - (outcome.grade.reward or 0.0), answer="late"))


def turn(step, order, waiting, num_slots, late):
    """Ask for some, tell of one; what was dropped is told late, and wrongly, once it was asked for again, too."""
    num_free = num_slots - len(waiting)
    waiting += step.ask(order.randint(0, num_free) if waiting else num_free, num_slots)
    for dropped in late:
        step.tell(dropped, wrong(dropped))
    request = waiting.pop(order.randrange(len(waiting)))
    step.tell(request, answer(request))
    for dropped in step.dropped():
        waiting.remove(dropped)
        step.tell(dropped, wrong(dropped))
        late.append(dropped)


def drive(step, order, num_slots=16, num_tells=None):
    """Go on to the end, or for so many tells; what is still open."""
    waiting, late = [], []
    while not step.is_complete and num_tells != 0:
        turn(step, order, waiting, num_slots, late)
        num_tells = None if num_tells is None else num_tells - 1
    return waiting


def result_of(step):
    """The groups, and every count that latency must not change."""
    groups, stats = step.finish(), step.stats
    counts = (stats.num_prompts, stats.num_drawn, stats.num_failed, stats.num_failed_excluded, stats.num_truncated)
    counts += (stats.num_hinted, stats.hinted_tokens, stats.written_tokens)
    return groups, counts, stats.num_empty, stats.generated_tokens, stats.failures, step.division


def in_order(case, **options):
    """Each request told as soon as it is asked for, one after the other."""
    step = begin(case, **options)
    while requests := step.ask():
        for request in requests:
            step.tell(request, answer(request))
    return result_of(step)


ORDERS = st.integers(0, 2**32).map(random.Random)
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(filter(None, case)))
six_examples = settings(max_examples=6, deadline=None, derandomize=True)


@pytest.mark.thinned(40)
@every_case
@six_examples
@given(order=ORDERS, num_slots=st.sampled_from((1, 5, 16, 64)))
def test_any_order_gives_the_same_groups(case, order, num_slots):
    step = begin(case)
    drive(step, order, num_slots)
    assert result_of(step) == in_order((case[0], "plain" if case[1] == "ahead" else case[1], case[2]))


@pytest.mark.thinned(40)
@every_case
@six_examples
@given(order=ORDERS, num_tells=st.integers(0, 40))
def test_a_step_whose_requests_were_lost_with_an_engine_ends_with_the_same_groups(case, order, num_tells):
    step = begin(case)
    lost = drive(step, order, num_tells=num_tells)
    step.ask_again(lost)
    again = step.ask(len(lost))
    assert {(r.slot, r.sample_index, r.seed) for r in again} == {(r.slot, r.sample_index, r.seed) for r in lost}
    step.ask_again(again)
    drive(step, order)
    assert result_of(step) == in_order(case)


@pytest.mark.parametrize("name", SAMPLERS)
@six_examples
@given(order=ORDERS)
def test_several_steps_may_be_open_at_once_and_what_is_learned_meanwhile_changes_none(name, order):
    case, sampler = (name, "ahead", ""), SAMPLERS[name]()
    steps = [begin(case, sampler=sampler, step=number) for number in (3, 4)]
    waiting, late = [[], []], [[], []]
    while open_ones := [place for place in (0, 1) if not steps[place].is_complete]:
        place = order.choice(open_ones)
        turn(steps[place], order, waiting[place], 16, late[place])
        sampler.learn([make_pool([1.0, 1.0, 0.0, 1.0], key=2)])
    alone = (name, "plain", "")
    assert [result_of(step) for step in steps] == [in_order(alone, step=3), in_order(alone, step=4)]


def test_what_is_drawn_ahead_is_marked_and_dropped_once_where_the_first_block_suffices():
    step = begin(("positive", "ahead", ""))
    requests = step.ask(64, 64)
    ahead = {(request.slot, request.sample_index) for request in requests if request.is_ahead}
    assert ahead == {(r.slot, r.sample_index) for r in requests if r.sample_index >= 2} != set()
    right, dropped = Outcome("right", (1,), (0.0,), False, Verdict(1.0)), []
    graded_early = next(request for request in requests if request.is_ahead)
    for request in [graded_early, *(request for request in requests if not request.is_ahead)]:
        step.tell(request, right)
        dropped += step.dropped()
    assert step.is_complete
    assert sorted((r.slot, r.sample_index) for r in dropped) == sorted(
        ahead - {(graded_early.slot, graded_early.sample_index)}
    )
    step.note_wasted(5)
    assert step.stats.wasted_tokens == 5 + 1  # told by the driver, and the token that was graded early


def test_a_budget_is_kept_and_spent():
    groups, *_ = in_order(("balance with a budget", "plain", ""))
    assert 31 - 2 < sum(group.pool.num_drawn for group in groups) <= 31


@pytest.mark.parametrize("kind", HINTED)
@pytest.mark.parametrize("name", ["uniform", "positive", "balance"])
def test_hinted_groups_stand_behind_the_others_and_keep_to_their_share(name, kind):
    groups, counts, *_ = in_order((name, "plain", kind))
    bare = [group.pool for group in groups if not group.pool.hint]
    given = [group.pool for group in groups if group.pool.hint]
    assert [group.pool for group in groups] == [*bare, *given]
    assert [pool.slot for pool in bare] == list(range(8))
    assert given, "the case has none to look at"
    num_hinted, num_written = sum(pool.num_drawn for pool in given), len(given) if kind == "text" else 0
    assert num_hinted + num_written <= SHARE * (sum(group.pool.num_drawn for group in groups) + num_written)
    assert counts[5] == num_hinted
    assert counts[7] == sum(pool.prompt.hint.num_written for pool in given)
    assert bool(counts[7]) is bool(num_written)
    by_slot = {pool.slot: pool for pool in bare}
    for pool in given:
        parent = by_slot[pool.slot - SLOTS]
        assert parent.num_positive == 0
        assert pool.prompt.prompt_id == f"{parent.prompt.prompt_id}#{pool.hint}"
        hint_ids = SOLUTION.token_ids[: pool.hint] if kind == "prefix" else encode(pool.prompt)[1:]
        assert pool.prompt.prompt_ids == (*parent.prompt.prompt_ids, *hint_ids)
        assert pool.belief == Belief()  # what is believed of the bare prompt says nothing here


@pytest.mark.parametrize("kind", HINTED)
def test_the_same_prompt_twice_in_a_step_has_two_hinted_groups_with_seeds_of_their_own(kind):
    prompt = prompts(0, 1)[0][0]
    step = Step(
        [prompt, prompt], sampler=UniformSampler(group_size=2), selection=BalancedSelection(group_size=2),
        settings=StepSettings(seed=7), follow_up=hints(kind, max_share=0.7),
    )  # fmt: skip
    seeds = []
    while requests := step.ask():
        for request in requests:
            seeds.append(request.seed)
            step.tell(request, Outcome("no", (1,), (0.0,), False, Verdict(0.0)))
    assert [group.pool.slot for group in step.finish()] == [0, 1, SLOTS, SLOTS + 1]
    assert len(set(seeds)) == 8 + 2 * (kind == "text")  # one for each hint that is written


@pytest.mark.parametrize(("room", "level"), [(9, 2), (3, 2), (2, 1), (1, None)])
def test_a_hint_without_room_is_a_shorter_one_or_none(room, level):
    step = Step(
        [prompts(0, 1)[0][0]], sampler=UniformSampler(group_size=2), selection=BalancedSelection(group_size=2),
        settings=StepSettings(seed=7), follow_up=PrefixHints(p_min=0.9, doubt=1.0, max_share=0.5),
        max_prompt_tokens=room,
    )  # fmt: skip
    while requests := step.ask():
        for request in requests:
            step.tell(request, Outcome("no", (1,), (0.0,), False, Verdict(0.0)))
    assert [group.pool.hint for group in step.finish()][1:] == ([] if level is None else [level])


@pytest.mark.parametrize("sampler", ["balance with a budget", "estimated", "xrpo", "gvm"])
def test_hints_are_refused_where_a_step_is_divided_among_its_prompts(sampler):
    with pytest.raises(ValueError, match=r"divides a step among its prompts, but hints add groups to it"):
        begin((sampler, "plain", "prefix"))


def test_hints_and_refill_are_refused_together():
    top_up = TopUp(REFILLS["waves"], 4, prompts, BalancedSelection(group_size=4))
    with pytest.raises(ValueError, match="refill and hints both add groups to a step; use refill=none or hints=none"):
        Step(
            [], sampler=UniformSampler(group_size=4), selection=BalancedSelection(group_size=4),
            settings=StepSettings(seed=7), top_up=top_up, follow_up=hints(),
        )  # fmt: skip


def test_an_open_step_cannot_be_finished():
    with pytest.raises(RuntimeError, match="step 3 has 8 open pools"):
        begin(("uniform", "plain", "")).finish()


@pytest.mark.parametrize(("truncated", "asked"), [("grade", True), ("mask", True), ("zero", False), ("exclude", False)])
def test_a_cut_response_is_graded_where_its_grade_can_count(truncated, asked):
    assert StepSettings(seed=0, truncated=truncated).asks_grader(is_truncated=True) is asked
    assert StepSettings(seed=0, truncated=truncated).asks_grader(is_truncated=False)
