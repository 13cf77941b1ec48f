"""Whether a step that is said to have a signal has one: rewards that differ need not give an advantage."""

from __future__ import annotations

import warnings

import pytest

from ada_lightning.core.records import Verdict
from ada_lightning.methods.advantages import ExactAdvantage, GroupNormalizedAdvantage
from ada_lightning.methods.objectives import LogObjective
from ada_lightning.methods.refill import NoRefill
from tests.unit.callbacks.test_refill_run import fit
from tests.unit.scripted_run import Grader


class Scaled(Grader):
    """A right response gets one number, a wrong one another."""

    def __init__(self, right, wrong):
        super().__init__()
        self.right, self.wrong = right, wrong

    def poll(self):
        return [(ticket, Verdict(self.right if grade.reward else self.wrong)) for ticket, grade in super().poll()]


def fit_with(folder, advantage, right, wrong):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = fit(folder, NoRefill(), advantage=advantage, grader=Scaled(right, wrong), num_steps=2)
    return run, [str(found.message) for found in caught if "positive_threshold" in str(found.message)]


@pytest.mark.parametrize(("right", "wrong"), [(-0.01, -0.3), (3.0, 2.0)])
def test_rewards_on_one_side_of_the_threshold_are_no_signal_to_what_counts_positives(tmp_path, right, wrong):
    run, messages = fit_with(tmp_path, ExactAdvantage(objective=LogObjective()), right, wrong)
    for figures in run.figures.values():
        assert figures["rollout/signal_ratio"] == figures["rollout/num_trained"] == 0.0
    assert [batch.microbatches for batch in run.policy.batches] == [(), ()]
    assert len(messages) == 1, "said once"
    assert "ExactAdvantage learns from which rewards are above rollout.positive_threshold = 0.7" in messages[0]
    assert f"of 16 rewards, from {wrong:g} to {right:g}, {0 if right < 0.7 else 16} are; nothing can be" in messages[0]
    assert "advantage=weighted_leave_one_out" in messages[0]


def test_the_same_rewards_are_a_signal_to_what_takes_them_as_they_are(tmp_path):
    run, messages = fit_with(tmp_path, GroupNormalizedAdvantage(), -0.01, -0.3)
    assert messages == []
    assert max(figures["rollout/signal_ratio"] for figures in run.figures.values()) > 0


@pytest.mark.parametrize(("right", "wrong"), [(1.0, 0.0), (1.0, -1.0)])
def test_two_rewards_with_the_threshold_between_them_lose_nothing(tmp_path, right, wrong):
    run, messages = fit_with(tmp_path, ExactAdvantage(objective=LogObjective()), right, wrong)
    assert messages == []
    for step, figures in run.figures.items():
        mixed = [classes for _, classes in run.trained[step] if len(set(classes)) == 2]
        assert figures["rollout/signal_ratio"] == len(mixed) / 4
