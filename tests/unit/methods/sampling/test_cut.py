"""Responses that are cut by chance: the expected update is that of whole ones, by enumeration and by simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ada_lightning.core.method import Method
from ada_lightning.core.records import Belief, Outcome, SamplingSettings, Verdict
from ada_lightning.core.step import Step
from ada_lightning.core.step_records import StepSettings
from ada_lightning.methods.advantages import HistoryBaselineAdvantage, RoundedHistoryAdvantage
from ada_lightning.methods.estimators import BetaHistory
from ada_lightning.methods.sampling import CutSampler, UniformSampler
from ada_lightning.methods.selection import AllSelection, ThinnedSelection
from ada_lightning.rollout.grader import FirstGrades
from ada_lightning.run.stopping import RunStoppedError
from research.scripted import ScriptedEngine
from tests.builders import Collector, InstantGrader, decode, make_prompt, weighed
from tests.unit.methods.sampling.planning import collected

AT = 4
TEXTS = {"right-short": (1.0, 3), "right-long": (1.0, 9), "wrong-short": (0.0, AT), "wrong-long": (0.0, AT + 1)}
"""Reward and tokens; the second short one ends exactly where others are cut."""
PROBABILITIES = np.array([0.2, 0.1, 0.3, 0.4])
BELIEF = Belief(3.0, 7.0)  # mean 0.3
HALF = 0.5 / np.sqrt(4 * 0.3 * 0.7)
"""Survival with which a prompt of that belief goes on half of the time."""


def cutting(*, survival=HALF, group_size=1, seed=0):
    return CutSampler(group_size=group_size, num_tokens=AT, survival=survival, seed=seed)


def drawn(text, sampler, *, step=0, ignores_limit=False):
    """The group of a step whose one response says ``text``, as an engine returns it that keeps to the limit."""
    reward, length = TEXTS[text]
    begun = Step(
        [make_prompt()], sampler=sampler, selection=AllSelection(), settings=StepSettings(seed=0), beliefs=[BELIEF],
        step=step,
    )  # fmt: skip
    (request,) = begun.ask()
    limit = length if request.max_new_tokens is None or ignores_limit else min(length, request.max_new_tokens)
    ids = tuple(range(limit))
    begun.tell(request, Outcome(text, ids, (0.0,) * limit, is_truncated=limit < length, grade=Verdict(reward)))
    return begun.finish(), begun.stats, request


def gradient(weight_of):
    """Expected update of the logits: over texts, and both sides of each coin, by the chances they have."""
    total = np.zeros(len(TEXTS))
    for index, text in enumerate(TEXTS):
        for goes_on in (True, False):
            seed = next(each for each in range(99) if goes_on == drawn(text, cutting(seed=each))[2].goes_on)
            groups = weighed(HistoryBaselineAdvantage(), drawn(text, cutting(seed=seed))[0])
            score = np.eye(len(TEXTS))[index] - PROBABILITIES
            total += PROBABILITIES[index] * 0.5 * weight_of(groups) * score
    return total


@pytest.fixture(autouse=True)
def coins(monkeypatch):
    """Requests tell which side their coin fell on."""
    from ada_lightning.core.records import Request

    monkeypatch.setattr(Request, "goes_on", property(lambda request: request.max_new_tokens is None), raising=False)


def test_the_expected_update_is_that_of_whole_responses_and_without_the_weights_is_not():
    def weighted(groups):
        return sum(sum(group.without_chance([kept.advantage for kept in group.kept])) for group in groups)

    def unweighted(groups):
        return sum(kept.advantage for group in groups for kept in group.kept)

    # grad p = pi (r - p) by logits; the reference's golden numbers
    np.testing.assert_allclose(gradient(weighted), [0.14, 0.07, -0.09, -0.12], atol=1e-12)
    np.testing.assert_allclose(gradient(unweighted), [0.135, 0.0325, -0.0975, -0.07], atol=1e-12)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("seed", range(6))
def test_an_engine_that_keeps_no_limits_changes_nothing_but_tokens(text, seed):
    kept, _, _ = drawn(text, cutting(seed=seed))
    same, _, _ = drawn(text, cutting(seed=seed), ignores_limit=True)
    assert [k.response for g in kept for k in g.kept] == [k.response for g in same for k in g.kept]
    assert kept[0].pool.num_cut == same[0].pool.num_cut


class LongEngine(ScriptedEngine):
    """Right responses have 3 tokens or 9, wrong ones 9 mostly; a limit cuts them."""

    def __init__(self, rates):
        super().__init__(pass_rates=rates, num_polls=lambda generator, _: generator.randrange(1, 9))
        self.limits, self.num_tokens = {}, 0

    def submit(self, request_id, prompt_ids, settings, seed):
        super().submit(request_id, prompt_ids, settings, seed)
        self.limits[request_id] = settings.max_new_tokens, seed

    def poll(self):
        return [self._lengthened(each) for each in super().poll()]

    def _lengthened(self, generation):
        limit, seed = self.limits.pop(generation.request_id)
        length = 3 if seed % 5 < (3 if generation.response_ids[0] else 1) else 9
        number = min(length, limit)
        self.num_tokens += number
        return replace(
            generation,
            response_ids=generation.response_ids * number,
            sampling_logprobs=(-0.5,) * number,
            is_truncated=number < length,
        )


RATES = {1: 0.1, 2: 0.5, 3: 0.9}
BELIEFS = [Belief(1, 30), Belief(5, 5), Belief(30, 1)]


class AskedGrader(InstantGrader):
    """Notes how long what it is asked about is."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def submit(self, key, prompt, completion):
        self.asked.append(completion.num_tokens)
        super().submit(key, prompt, completion)


def collect(sampler, step, engine, grader, selection):
    return Collector(decode=decode).collect(
        [make_prompt(key) for key in RATES],
        engine=engine,
        grader=grader,
        sampler=sampler,
        selection=selection,
        settings=SamplingSettings(max_new_tokens=16),
        step=step,
        beliefs=BELIEFS,
    )


def update_of(groups, advantage, *, weighs=True):
    """Sums of advantage times score, of each prompt by the logits of what it may say: right or wrong, short or long."""
    total = np.zeros((3, 2, 2))
    groups = weighed(advantage, groups)
    for slot, (group, rate) in enumerate(zip(groups, RATES.values(), strict=True)):
        chances = np.array([[(1 - rate) * 0.2, (1 - rate) * 0.8], [rate * 0.6, rate * 0.4]])
        values = [kept.advantage for kept in group.kept]
        for kept, value in zip(group.kept, group.without_chance(values) if weighs else values, strict=True):
            total[slot] -= value * chances
            total[slot, int(kept.response.is_positive), int(kept.response.num_tokens > AT)] += value
    return total.ravel()


@pytest.mark.long
@pytest.mark.parametrize(
    ("advantage", "selection"),
    [
        (HistoryBaselineAdvantage(), AllSelection()),
        (HistoryBaselineAdvantage(), ThinnedSelection(full_advantage=0.3)),
        (RoundedHistoryAdvantage(), AllSelection()),
    ],
    ids=["history", "thinned", "rounded"],
)
def test_a_rollout_with_cuts_has_the_mean_update_of_one_without(advantage, selection):
    """The same responses with and without cuts; four standard errors of the mean difference."""
    num_steps, tokens = 1200, {}
    updates = {}
    for name, sampler in (("whole", UniformSampler(group_size=4)), ("cut", cutting(survival=0.6, group_size=4))):
        engine, grader = LongEngine(RATES), AskedGrader()
        steps = [collect(sampler, step, engine, grader, selection) for step in range(num_steps)]
        assert all(stats.num_drawn == 12 for _, stats in steps)
        assert sum(stats.num_cut for _, stats in steps) == 12 * num_steps - len(grader.asked)  # those are not graded
        assert sum(stats.generated_tokens for _, stats in steps) == engine.num_tokens
        updates[name] = np.array([update_of(groups, advantage) for groups, _ in steps])
        tokens[name] = engine.num_tokens
        biased = np.array([update_of(groups, advantage, weighs=False) for groups, _ in steps])
    assert tokens["cut"] < 0.8 * tokens["whole"]
    for found, is_unbiased in ((updates["cut"], True), (biased, False)):
        differences = found - updates["whole"]
        error = np.sqrt(differences.var(0, ddof=1) / num_steps)
        assert (np.abs(differences.mean(0)) <= 4 * error + 1e-12).all() == is_unbiased


def test_what_was_cut_is_not_taken_for_graded_or_truncated():
    """Figures are of responses of any length; a reward that fails each time ends the run."""
    engine = LongEngine({1: 0.5})
    grader = AskedGrader()
    grader._grade = lambda text: Verdict(None, failure="crash")
    _, stats = Collector(decode=decode).collect(
        [make_prompt(1)] * 16, engine=engine, grader=grader, sampler=cutting(group_size=4), selection=AllSelection(),
        settings=SamplingSettings(max_new_tokens=16),
    )  # fmt: skip
    assert stats.num_cut > 0
    assert stats.num_failed == stats.num_drawn - stats.num_cut
    with pytest.raises(RunStoppedError):
        FirstGrades(grader).check(stats, StepSettings(seed=0), alarm_ratio=1.0, where="the first rollout")


def test_who_is_cut_depends_on_seeds_alone():
    first, second = (
        collected(cutting(group_size=4), RATES, engine=LongEngine(RATES), beliefs=BELIEFS)[0] for _ in range(2)
    )
    assert [group.pool for group in first] == [group.pool for group in second]


def test_beliefs_are_learned_from_responses_that_nothing_could_have_cut():
    """Short responses are right here and long ones wrong, so that what escapes a cut would all be right."""
    estimator = BetaHistory()
    sampler = cutting(survival=0.5, group_size=1)
    method = Method(estimator=estimator, sampler=sampler, selection=AllSelection())
    pools = []
    for step in range(400):
        text = "right-short" if step % 4 == 0 else "wrong-long"  # a quarter is right
        pools.append(drawn(text, sampler, step=step)[0][0].pool)
    trained = [response.is_positive for pool in pools for response in pool.trainable()]
    assert np.mean(trained) > 0.35
    method.learn(pools, {})
    seen, positives = (sum(getattr(pool, name) for pool in pools) for name in ("num_sampled", "num_positive"))
    assert 0 < seen < len(trained)
    assert abs(positives / seen - 0.25) < 4 * np.sqrt(0.25 * 0.75 / seen)
    assert len(trained) - seen == sum(len(pool.short) for pool in pools)


def test_prompts_that_are_nearly_decided_are_cut_most():
    sampler = cutting(survival=0.8)
    assert sampler.chance(0.5) == pytest.approx(0.8)
    assert sampler.chance(0.1) == pytest.approx(0.8 * 0.6)
    assert sampler.chance(0.9) == pytest.approx(0.8 * 0.6)
    assert sampler.chance(1e-9) == 0.1


@pytest.mark.parametrize("options", [{"survival": 0.0}, {"survival": 1.5}, {"min_survival": 0.0}, {"num_tokens": 0}])
def test_what_cannot_work_is_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        CutSampler(**{"group_size": 2, "num_tokens": 8, "survival": 0.5} | options)
