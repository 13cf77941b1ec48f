from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from scipy.stats import chi2

from ada_lightning.core.records import Belief, Verdict
from ada_lightning.core.schedule import Barrier, Continuous
from ada_lightning.core.stopping.paths import end_probability, ends
from ada_lightning.methods.sampling import BalanceSampler, GiveUpByPosterior, PositiveSampler, UniformSampler
from research.scripted import ScriptedEngine, ScriptedGrader
from tests.builders import collect

PASS_RATES = {1: 0.02, 2: 0.2, 3: 0.6, 4: 0.97}
SIZES = {"samples_per_round": 4, "n_max": 32, "group_size": 4}
BALANCE = BalanceSampler(k_pos=2, k_neg=2, **SIZES)
EARLY = BalanceSampler(k_pos=1, k_neg=1, **SIZES)
PLENTY = Continuous(fill_to=64, min_chance=0.3, max_waste_ratio=10.0)


class CountingEngine(ScriptedEngine):
    """Remembers how many requests ran at once and in which order prompts got slots; ``latency`` by request, in polls.

    Args:
        latency: of a request id and a prompt's key; None leaves it to ``num_polls``.
    """

    def __init__(self, *, latency=None, **options):
        super().__init__(pass_rates=PASS_RATES, **options)
        self.in_flight, self.started, self.latency = [], [], latency

    def submit(self, request_id, prompt_ids, settings, seed):
        self.started.append(prompt_ids[0])
        if self.latency:
            polls = self.latency(int(request_id.split("/")[-1]), prompt_ids[0])
            self._num_polls = lambda generator, is_positive: polls
        super().submit(request_id, prompt_ids, settings, seed)

    def poll(self):
        self.in_flight.append(self.num_in_flight())
        return super().poll()


def random_latency(generator, is_positive):
    return generator.randrange(1, 30)


def step(schedule, *, sampler=BALANCE, num_prompts=16, slots=256, **options):
    engine = CountingEngine(num_polls=random_latency, max_num_seqs=slots)
    groups, stats = collect([*PASS_RATES] * (num_prompts // 4), engine, sampler, schedule=schedule, **options)
    pools = [[(r.sample_index, r.round_index, r.is_positive) for r in group.pool.responses] for group in groups]
    return pools, stats, engine


@pytest.mark.parametrize("schedule", [Barrier(), Continuous(), PLENTY], ids=["barrier", "continuous", "ahead"])
@pytest.mark.parametrize("key", [2, 3])
def test_requests_without_seeds_end_where_the_stopping_rule_says(schedule, key):
    """Where positives are slow, a schedule that looked at who finished first would end too early, on negatives."""
    engine = CountingEngine(num_polls=lambda generator, is_positive: 25 if is_positive else 2, max_num_seqs=64)
    groups, _ = collect([key] * 600, engine, BALANCE, schedule=schedule, seed_requests=False)
    quota = BALANCE.quota
    expected = {end: 600 * end_probability(quota, end, PASS_RATES[key]) for end in ends(quota)}
    seen = Counter((group.pool.num_positive, group.pool.num_negative) for group in groups)
    assert set(seen) <= set(expected)
    common = [end for end, number in expected.items() if number >= 5]  # where chi-square is good
    statistic = sum((seen[end] - expected[end]) ** 2 / expected[end] for end in common)
    assert chi2.sf(statistic, len(common)) > 1e-4  # the seed is fixed: this says how unlucky it may be


@pytest.mark.parametrize(("schedule", "order"), [(Continuous(), [3, 4, 2, 1]), (Barrier(), [1, 2, 3, 4])])
def test_slots_go_to_the_longest_expected_need_first(schedule, order):
    """For two right and two wrong answers."""
    engine = CountingEngine(max_num_seqs=4)
    beliefs = [Belief(5, 5), Belief(3, 20), Belief(1, 60), Belief(40, 1)]
    collect(PASS_RATES, engine, BALANCE, schedule=schedule, beliefs=beliefs)
    assert list(dict.fromkeys(engine.started)) == order


@pytest.mark.parametrize("schedule", [Barrier(), Continuous(), PLENTY])
def test_no_more_requests_than_slots_are_in_flight(schedule):
    assert max(step(schedule, slots=6)[2].in_flight) == 6


def test_a_barrier_waits_for_the_slowest_of_every_round():
    """Four blocks of a hopeless prompt beside one that is slow and done after its first block."""
    sampler = PositiveSampler(k_pos=1, samples_per_round=4, n_max=16, group_size=4)
    polls = {}
    for schedule in (Barrier(), Continuous()):
        engine = CountingEngine(latency=lambda index, key: {1: 1, 4: 50}[key])
        collect([1, 4], engine, sampler, schedule=schedule, step=3)
        polls[type(schedule)] = len(engine.in_flight)
    assert polls == {Barrier: 50 + 3, Continuous: 50}


def test_drawing_ahead_fills_the_engine_and_what_is_dropped_is_counted_and_not_committed():
    """One token a response: finished ones that were dropped are the waste, running ones are aborted."""
    _, plain, plain_engine = step(Continuous())
    _, ahead, engine = step(PLENTY)
    assert (ahead.num_drawn, ahead.generated_tokens) == (plain.num_drawn, plain.generated_tokens)
    assert (plain.wasted_tokens, ahead.wasted_tokens > 0, engine.num_aborted > 0) == (0, True, True)
    assert len(engine.in_flight) < 0.75 * len(plain_engine.in_flight)


@pytest.mark.parametrize("truncated", ["zero", "exclude"])
def test_what_is_dropped_may_have_finished_in_the_very_same_poll(truncated):
    """Wrong responses are cut: their verdicts are known while the poll that brought them is still being read."""

    class TruncatingEngine(CountingEngine):
        def poll(self):
            return [replace(generation, is_truncated=generation.response_ids[0] == 0) for generation in super().poll()]

    engine = TruncatingEngine(num_polls=lambda generator, is_positive: 1 if is_positive else 4)
    sampler = PositiveSampler(k_pos=1, **SIZES)
    groups, stats = collect([*PASS_RATES] * 4, engine, sampler, schedule=PLENTY, truncated=truncated)
    assert stats.num_drawn == sum(group.pool.num_drawn for group in groups)
    assert engine.num_in_flight() == 0


@pytest.mark.long
def test_waste_stays_near_what_is_allowed_however_many_slots_there_are():
    """Bounded is what is expected from a prior that these pass rates are not drawn from, so twice that is allowed."""
    dropped = {}
    for max_waste_ratio in (0.02, 10.0):
        schedule = Continuous(fill_to=4000, max_waste_ratio=max_waste_ratio)
        _, stats, engine = step(schedule, num_prompts=400, slots=4000)
        dropped[max_waste_ratio] = (stats.wasted_tokens + engine.num_aborted) / stats.num_drawn
    assert 0 < dropped[0.02] <= 2 * 0.02
    assert dropped[10.0] > 0.1


def test_waste_stays_near_what_is_allowed_where_prompts_are_given_up():
    """The hopeless and the mastered have seemed certain to go on, were drawn far ahead, and then given up."""
    give_up = GiveUpByPosterior(price=0.5, explore_ratio=0.0)
    give_up.load_state_dict({"num_resolved": 100.0, "num_drawn": 800.0})
    sampler = BalanceSampler(k_pos=2, k_neg=2, give_up=give_up, **SIZES)
    beliefs = [Belief(0.4, 3.0), Belief(1.0, 3.0), Belief(2.0, 2.0), Belief(3.0, 0.4)] * 16
    options = {"sampler": sampler, "num_prompts": 64, "beliefs": beliefs}
    plain_pools, _, plain = step(Continuous(), **options)
    pools, stats, ahead = step(Continuous(fill_to=256, max_waste_ratio=0.1), **options)
    assert pools == plain_pools
    assert 0 < (stats.wasted_tokens + ahead.num_aborted) / stats.num_drawn <= 2 * 0.1
    assert len(ahead.in_flight) < 0.6 * len(plain.in_flight)


def test_what_was_drawn_ahead_stops_as_soon_as_it_is_certainly_not_wanted():
    """One right and one wrong answer are among the first three: nothing the late fourth says can change it."""
    seen = set()
    for number in range(20):
        engine = CountingEngine(latency=lambda index, key: 2 if index < 3 else 40)
        (group,), _ = collect([3], engine, EARLY, schedule=PLENTY, step=number)
        is_decided = len({response.is_positive for response in group.pool.responses[:3]}) == 2
        assert engine.in_flight[1] >= 4 + 4  # the first block, and one ahead
        assert (engine.in_flight[10] == 1) == is_decided
        seen.add(is_decided)
    assert seen == {True, False}


def test_the_chance_to_go_on_counts_every_launched_response_once():
    """Whole blocks of four are launched; graded ones that wait for their turn are known, not open."""
    asked = []

    class AskedSampler(BalanceSampler):
        def chance_to_go_on(self, pool, num_positive, num_negative, num_open):
            asked.append((pool.num_sampled, num_positive + num_negative, num_open))
            return super().chance_to_go_on(pool, num_positive, num_negative, num_open)

    step(PLENTY, sampler=AskedSampler(k_pos=2, k_neg=2, **SIZES))
    assert all((known + num_open) % 4 == 0 and known >= committed for committed, known, num_open in asked)
    assert any(known > committed for committed, known, _ in asked)


def test_a_full_engine_draws_only_ahead_what_is_surely_wanted():
    schedule = Continuous(fill_to=64, min_chance=0.2)
    assert schedule.required_chance(0.0, 0.0) == 0.2
    assert schedule.required_chance(1.0, 0.0) == 1.0
    assert schedule.required_chance(0.0, 0.1) == 1.0  # all of the waste that is allowed
    assert schedule.required_chance(0.0, 0.09) == pytest.approx(0.9**4)


@pytest.mark.parametrize(
    ("sampler", "schedule"),
    [
        (BALANCE, Continuous(fill_to=0)),
        (BalanceSampler(k_pos=2, k_neg=2, budget_per_step=500, **SIZES), PLENTY),
        (UniformSampler(group_size=4), PLENTY),
    ],
)
def test_nothing_is_drawn_ahead_without_reason(sampler, schedule):
    _, stats, engine = step(schedule, sampler=sampler)
    assert (stats.wasted_tokens, engine.num_aborted) == (0, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fill_to": -1}, r"schedule.fill_to must be 0 \(off\) or positive; got -1"),
        ({"min_chance": 0.0}, r"schedule.min_chance must be in \(0, 1\]; got 0.0"),
        ({"max_waste_ratio": -0.1}, "schedule.max_waste_ratio must not be negative; got -0.1"),
    ],
)
def test_values_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Continuous(**options)


class SlowGrader(ScriptedGrader):
    """Keeps what was drawn ahead for thirty polls, fails the third response, takes no name twice."""

    def __init__(self):
        super().__init__()
        self.pending, self.num_polls = {}, 0

    def submit(self, ticket, prompt, completion):
        assert ticket not in self.pending, "pending already"
        grade = Verdict(None, failure="crash") if ticket[2] == 2 else Verdict(float(completion.text == "1"))
        self.pending[ticket] = (self.num_polls + (30 if ticket[2] >= 4 else 1), grade)

    def poll(self):
        self.num_polls += 1
        due = [ticket for ticket, (at, _) in self.pending.items() if at <= self.num_polls]
        return [(ticket, self.pending.pop(ticket)[1]) for ticket in due]


def test_what_was_dropped_while_it_was_graded_may_be_drawn_again():
    """A failed grade leaves a hole in a block that seemed decided, so a number already used is asked for."""
    num_redrawn = 0
    for number in range(20):
        engine = CountingEngine(latency=lambda index, key: {0: 4, 1: 4, 2: 10, 3: 10}.get(index, 1))
        (group,), stats = collect([3], engine, EARLY, grader=SlowGrader(), schedule=PLENTY, step=number)
        assert group.pool.num_sampled % 4 == 0
        num_redrawn += stats.wasted_tokens > 0 and group.pool.num_drawn == 5
    assert num_redrawn > 0
