"""What a memory foretells of a policy that learns, and what is read from a prompt log."""

from __future__ import annotations

import math
import random

import pytest

from ada_lightning.core.records import Belief, Prompt
from research.studies.drift import Counts, Laplace, Similar, foretold, visits

KINDS = ("add 3 + 4", "spell the word tree backwards")
NAMES = [str(number) for number in range(40)]
PROMPTS = {name: Prompt(name, ({"role": "user", "content": KINDS[int(name) % 2]},)) for name in NAMES}


def steps_of(learns, kinds_differ_by=0.0):
    """Thirty visits of each of 40 prompts; of a policy that learns all pass rates rise from below 0.5 to near 1."""
    generator = random.Random(0)
    talents = {name: generator.gauss(0, 1) + kinds_differ_by * (int(name) % 2) for name in NAMES}
    steps = []
    for step in range(150):
        names = generator.sample(sorted(talents), 8)
        rates = [1 / (1 + 2.718 ** -(talents[name] + (step / 40 if learns else 0))) for name in names]
        steps.append(
            [
                (name, sum(generator.random() < rate for _ in range(4)), 4)
                for name, rate in zip(names, rates, strict=True)
            ]
        )
    return steps


def test_drift_foretells_a_policy_that_learns_better():
    steps = steps_of(learns=True)
    stale, corrected = (foretold(steps, Counts(drift_visits=number), PROMPTS)["known"] for number in (0, 256))
    assert stale["mean_error"] > 0.03
    assert abs(corrected["mean_error"]) < stale["mean_error"] / 2
    assert corrected["log_loss"] < stale["log_loss"]
    assert corrected["visits"] == stale["visits"] > 1000


def test_drift_does_no_harm_where_nothing_moves():
    steps = steps_of(learns=False)
    stale, corrected = (
        foretold(steps, Counts(drift_visits=number), PROMPTS)["known"]["log_loss"] for number in (0, 256)
    )
    assert corrected == pytest.approx(stale, abs=0.01)


def test_prompts_like_others_are_foretold_before_they_were_seen():
    """Two kinds of prompts, each prompt once: counts know nothing of them, the words tell the kinds apart."""
    generator = random.Random(1)
    prompts = {
        str(number): Prompt(str(number), ({"role": "user", "content": KINDS[number % 2]},)) for number in range(400)
    }
    rates = (0.1, 0.6)
    steps = [
        [
            (str(number), sum(generator.random() < rates[number % 2] for _ in range(4)), 4)
            for number in range(start, start + 8)
        ]
        for start in range(0, 400, 8)
    ]
    blind = foretold(steps, Counts(), prompts)
    sees = foretold(steps, Similar(list(prompts.values())), prompts)
    assert sees["new"]["visits"] == blind["new"]["visits"] == 320
    assert blind["known"] == {"visits": 0}
    entropy = -sum(rate * math.log(rate) + (1 - rate) * math.log(1 - rate) for rate in rates) / 2
    assert sees["new"]["log_loss"] < entropy + 0.05
    assert blind["new"]["log_loss"] > entropy + 0.1
    assert sees["new"]["correlation"] > 0.3


def test_a_belief_is_judged_whole():
    """Of two that expect one half, the one that says all or nothing is better where responses are all alike."""

    class Believes:
        def __init__(self, strength):
            self.belief = Belief(strength / 2, strength / 2)

        def recall(self, prompts):
            return [self.belief for _ in prompts]

        def learn_step(self, visits):
            pass

    alike = [[("1", 4 * (step % 2), 4)] for step in range(30)]
    extreme, middle = (foretold(alike, Believes(strength), PROMPTS)["known"] for strength in (0.2, 200.0))
    assert extreme["log_loss"] == middle["log_loss"] == pytest.approx(math.log(2))
    assert extreme["belief_loss"] < 0.25 < 0.6 < middle["belief_loss"]
    single = [[("1", step % 2, 1)] for step in range(30)]
    assert foretold(single, Believes(3.0), PROMPTS)["known"]["belief_loss"] == pytest.approx(math.log(2))


def test_a_correlation_with_what_never_changes_is_not_a_number():
    steps = [[("1", 1, 4)] for _ in range(30)]
    assert math.isnan(foretold(steps, Counts(), PROMPTS)["known"]["correlation"])
    single = [[("1", step % 2, 1)] for step in range(30)]
    assert math.isnan(foretold(single, Counts(), PROMPTS)["known"]["correlation"])


def test_a_prompt_log_is_read_step_by_step(tmp_path):
    log = tmp_path / "prompts.csv"
    log.write_text("step,prompt_id,num_sampled,num_positive\n0,a,4,1\n0,b,4,4\n1,a,0,0\n1,c,4,0\n")
    assert list(visits(log)) == [[("a", 1, 4), ("b", 4, 4)], [("c", 0, 4)]]


def test_laplaces_approximation_is_more_moderate_where_responses_are_all_alike():
    known, before = Similar(list(PROMPTS.values())), Laplace(list(PROMPTS.values()))
    for memory in (known, before):
        memory.learn_step([(PROMPTS["1"], 4, 4)])
    (moments,), (laplace,) = (memory.recall([PROMPTS["1"]]) for memory in (known, before))
    assert moments.mean > laplace.mean + 0.02
