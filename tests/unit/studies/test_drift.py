"""What a memory foretells of a policy that learns, and what is read from a prompt log."""

from __future__ import annotations

import random

import pytest

from studies.drift import foretold, visits


def steps_of(learns):
    """Thirty visits of each of 40 prompts; of a policy that learns all pass rates rise from below 0.5 to near 1."""
    generator = random.Random(0)
    talents = {str(number): generator.gauss(0, 1) for number in range(40)}
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
    stale, corrected = (foretold(steps, drift_visits=number) for number in (0, 256))
    assert stale["mean_error"] > 0.03
    assert abs(corrected["mean_error"]) < stale["mean_error"] / 2
    assert corrected["log_loss"] < stale["log_loss"]
    assert corrected["visits"] == stale["visits"] > 1000


def test_drift_does_no_harm_where_nothing_moves():
    steps = steps_of(learns=False)
    stale, corrected = (foretold(steps, drift_visits=number)["log_loss"] for number in (0, 256))
    assert corrected == pytest.approx(stale, abs=0.01)


def test_a_prompt_log_is_read_step_by_step(tmp_path):
    log = tmp_path / "prompts.csv"
    log.write_text("step,prompt_id,num_sampled,num_positive\n0,a,4,1\n0,b,4,4\n1,a,0,0\n1,c,4,0\n")
    assert list(visits(log)) == [[("a", 1, 4), ("b", 4, 4)], [("c", 0, 4)]]
