"""Sampling until the majority is settled: when it stops, what it saves, and that no reference ever leaks in."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from ada_lightning.core.records import Outcome, Prompt, Response, ResponsePool, Verdict
from ada_lightning.core.schedule import Barrier, Continuous
from ada_lightning.methods.advantages import GroupNormalizedAdvantage
from ada_lightning.methods.estimators import BetaHistory
from ada_lightning.methods.published.optpo import OptPoSampler, majority
from research.scripted import ScriptedEngine
from tests.builders import InstantGrader, assigned
from tests.unit.methods.sampling.planning import collected


def log_likelihood(votes, truth, accuracy):
    """Of the votes where ``truth`` is the consensus: it has ``accuracy``, the others share the rest evenly."""
    candidates = max(len(set(votes)), 2)
    return sum(math.log(accuracy if vote == truth else (1 - accuracy) / (candidates - 1)) for vote in votes)


@pytest.mark.parametrize("accuracy", [0.55, 0.7, 0.95])
def test_log_odds_are_the_ratio_of_likelihoods_of_leader_and_runner_up(accuracy):
    for length in range(1, 7):
        for answers in itertools.product(["a", "b", "c", None], repeat=length):
            votes = [answer for answer in answers if answer is not None]
            ranked = sorted(set(votes), key=votes.count, reverse=True)
            expected = 0.0
            if ranked:
                runner_up = ranked[1] if len(ranked) > 1 else "an answer that nobody gave"
                expected = log_likelihood(votes, ranked[0], accuracy) - log_likelihood(votes, runner_up, accuracy)
            assert majority(answers, vote_accuracy=accuracy)[1] == pytest.approx(expected, abs=1e-9)


def make_sampler(**options):
    sizes = {"samples_per_round": 2, "n_max": 8, "group_size": 8, "vote_accuracy": 0.7, "threshold": 5.0}
    return OptPoSampler(**{**sizes, **options})


def pool_of(answers):
    pool = ResponsePool(Prompt("p", ()), slot=0)
    for index, answer in enumerate(answers):
        pool.add(Response("p", index, index // 2, (1,), (0.0,), "", False, 0.0, False, 0, answer=answer))
    return pool


@pytest.mark.long
def test_it_stops_at_the_first_settled_block_of_every_history():
    """All 4^8 histories of three answers and none: ln 5 = 1.609 and ln(7/3) = 0.847 for two candidates: a lead of 2;

    ln(14/3) = 1.540 for three candidates: a lead of 2, too. Written out apart from the sampler.
    """
    sampler = make_sampler()
    for length in range(0, 9, 2):
        for answers in itertools.product(["a", "b", "c", None], repeat=length):
            counts = sorted((answers.count(answer) for answer in "abc"), reverse=True)
            is_settled = length > 0 and counts[0] - counts[1] >= 2
            pool = pool_of(answers)
            assert sampler.end(pool).is_resolved == is_settled
            assert sampler.num_to_draw(pool) == (0 if is_settled or length == 8 else 2), answers


@pytest.mark.parametrize(
    ("answers", "labels"),
    [
        (["a", "b", "a"], [1.0, 0.0, 1.0]),
        (["b", "a"], [1.0, 0.0]),  # a tie: the first
        (["b", "a", "a", "b", None], [1.0, 0.0, 0.0, 1.0, 0.0]),
        (["a", None, None, None], [1.0, 0.0, 0.0, 0.0]),
        ([None, None], [0.0, 0.0]),
        ([], []),
    ],
)
def test_labels_are_agreement_with_the_majority(answers, labels):
    assert make_sampler().end(pool_of(answers)).rewards == labels


def exact_walk(accuracy, *, lead, n_max, block):
    """Mean draws and chance of settling on the wrong one of two answers, by summing over all walks."""
    at = {0: 1.0}
    draws = wrong = 0.0
    for drawn in range(1, n_max + 1):
        step = {}
        for difference, chance in at.items():
            step[difference + 1] = step.get(difference + 1, 0.0) + chance * accuracy
            step[difference - 1] = step.get(difference - 1, 0.0) + chance * (1 - accuracy)
        at = step
        if drawn % block == 0:
            for difference in [d for d in at if abs(d) >= lead or drawn == n_max]:
                chance = at.pop(difference)
                draws += chance * drawn
                wrong += chance * (difference < 0) if abs(difference) >= lead else 0.0
    return draws, wrong


def test_what_it_saves_is_what_the_walk_of_the_lead_says():
    """Two answers, p0 = 0.7, odds of 99: ln 99 / ln(7/3) = 5.42, a lead of 6. Blocks of 4, at most 32.

    4000 prompts: a mean off by 4.5 standard errors would come in 7 of 10^6 seeds. Wald: errors of at most about 1 / 99.
    """
    sampler = make_sampler(threshold=99, samples_per_round=4, n_max=32, group_size=32)
    generator = random.Random(0)
    drawn, num_wrong = [], 0
    for _ in range(4000):
        answers = []
        while num := sampler.num_to_draw(pool_of(answers)):
            answers += ["right" if generator.random() < 0.7 else "wrong" for _ in range(num)]
        drawn.append(len(answers))
        num_wrong += sampler.end(pool_of(answers)).is_resolved and answers.count("wrong") > answers.count("right")
    mean, wrong = exact_walk(0.7, lead=6, n_max=32, block=4)
    spread = math.sqrt(sum((n - mean) ** 2 for n in drawn)) / 4000
    assert abs(sum(drawn) / 4000 - mean) <= 4.5 * spread
    assert abs(num_wrong / 4000 - wrong) <= 4.5 * math.sqrt(wrong * (1 - wrong) / 4000)
    assert mean < 0.5 * 32
    assert wrong < 1 / 99


# --- nothing of the reference leaks ---------------------------------------------------------------------------------


class VotingEngine(ScriptedEngine):
    """Answers 0 to 3, of unequal chance; 4 is no answer."""

    def submit(self, request_id, prompt_ids, settings, seed):
        generator = random.Random(seed)
        (token,) = generator.choices(range(5), weights=[4, 2, 1, 1, 1])
        polls = generator.randrange(1, 20)
        self._running[request_id] = (self._clock + polls, Outcome("", (token,), (-0.5,), False, request_id=request_id))


def collect(reward_of, schedule):
    """Rollout of 30 prompts whose graders think ``reward_of`` of each answer; the answers told are the same."""
    sampler = make_sampler(threshold=20.0, samples_per_round=4, n_max=16, group_size=16)

    def grade(text):
        return Verdict(reward_of(text), answer=None if text == "4" else text, components={"truth": reward_of(text)})

    engine, keys = VotingEngine(pass_rates={}), dict.fromkeys(range(30))
    return collected(sampler, keys, engine=engine, grader=InstantGrader(grade), schedule=schedule)


def without_components(group):
    pool = group.pool
    return (
        [(r.reward, r.is_positive, r.answer, r.response_ids, r.round_index) for r in pool.responses],
        [(kept.response.reward, kept.selection_weight) for kept in group.kept],
        (pool.num_drawn, pool.num_positive, pool.num_negative, pool.first_round_rewards, pool.rule, pool.is_resolved),
    )


@pytest.mark.parametrize("schedule", [Barrier(), Continuous(fill_to=64)], ids=["barrier", "ahead"])
def test_labels_never_leak(schedule):
    """Graders that think the opposite of each other, or fail no matter what, leave the same rollout behind."""
    always_right, always_wrong = lambda text: 1.0, lambda text: 0.0
    likes_zero, likes_one = (lambda right: lambda text: float(text == right))("0"), lambda text: float(text == "1")
    runs = [collect(reward_of, schedule) for reward_of in (always_right, always_wrong, likes_zero, likes_one)]
    first, stats = runs[0]
    for groups, others in runs[1:]:
        assert list(map(without_components, groups)) == list(map(without_components, first))
        assert (others.num_drawn, others.generated_tokens) == (stats.num_drawn, stats.generated_tokens)
    assert {r.reward for group in first for r in group.pool.responses} == {0.0, 1.0}
    assert len({group.pool.num_drawn for group in first}) > 1
    for group in first:
        answers = [r.answer for r in group.pool.responses]
        assert group.pool.is_resolved == (majority(answers, vote_accuracy=0.7)[1] > math.log(20.0))
    advantages = [[assigned(GroupNormalizedAdvantage(), group).tolist() for group in groups] for groups, _ in runs]
    assert all(other == advantages[0] for other in advantages)
    histories = []
    for groups, _ in runs:
        estimator = BetaHistory()
        estimator.update([group.pool for group in groups])
        histories.append(estimator.history_counts())
    assert all(history == histories[0] for history in histories)


def test_only_a_step_without_any_answer_warns(recwarn):
    make_sampler().learn([pool_of([None]), pool_of([None, "a"])])
    assert not recwarn.list
    with pytest.warns(RuntimeWarning, match="no response of this step has an answer"):
        make_sampler().learn([pool_of([None, None])])
