"""What is said of estimators that look at the whole rollout, or at positives only, and of their losses."""

from __future__ import annotations

import pytest

from ada_lightning.methods.advantages import (
    AcceptedAdvantage,
    BatchWhitenedAdvantage,
    ExactAdvantage,
    GdpoAdvantage,
    GroupNormalizedAdvantage,
    LeaveOneOutAdvantage,
    MaxRlAdvantage,
    ReinforcePlusPlusBaselineAdvantage,
)
from ada_lightning.methods.objectives import LogObjective
from ada_lightning.methods.sampling import EstimatedSampler, UniformSampler
from ada_lightning.methods.selection import AllSelection, BalancedSelection, PositivesSelection
from tests.unit.analysis.statement.test_describe import balance, followed, row, statement
from tests.unit.training.losses.two_responses import LOSSES, make_loss

UNIFORM, WHOLE, GROUP = UniformSampler(group_size=4), AllSelection(), BalancedSelection(group_size=4)


def test_max_rl_follows_the_log_as_the_exact_estimator_does():
    assert followed(MaxRlAdvantage(), UNIFORM, WHOLE) == [
        "update: exact for f(p) = log p as far as 4 responses can see: f'(p) = (1 - (1-p)^3) / p"
    ]
    assert followed(MaxRlAdvantage(), UNIFORM, WHOLE) == followed(
        ExactAdvantage(objective=LogObjective()), UNIFORM, WHOLE
    )
    (line,) = followed(MaxRlAdvantage(), UniformSampler(group_size=2), WHOLE)
    assert line.endswith("f'(p) = 1")


def test_max_rl_of_a_balanced_group_has_lost_the_weight():
    lines = followed(MaxRlAdvantage(), balance(), GROUP)
    assert lines[0] == "update: reward over the mean of the kept group, minus 1, whatever the pool's mean"
    assert row(lines, "1/p")[0] == 25.0
    assert row(lines, "expected here")[0] < 15


def test_max_rl_of_ragged_groups_has_figures():
    lines = followed(MaxRlAdvantage(), EstimatedSampler(responses_per_prompt=8), WHOLE)
    assert "exact" not in lines[0]
    assert row(lines, "expected here")[2] == 1.0


@pytest.mark.parametrize("selection", [WHOLE, PositivesSelection()])
def test_accepted_responses_follow_the_mean_without_a_baseline(selection):
    assert followed(AcceptedAdvantage(), UNIFORM, selection) == [
        "update: exact for f(p) = p, without a baseline: the sum over accepted responses"
    ]


def test_accepted_responses_of_adaptive_sampling_have_figures():
    """Groups of positives only train too: with sizes fixed beforehand the sum is the number of responses."""
    lines = followed(AcceptedAdvantage(), EstimatedSampler(responses_per_prompt=8), WHOLE)
    assert lines[0] == "update: the sum over accepted responses, without a baseline"
    assert row(lines, "expected here") == [6.0, 2.67, 1.0, 1.0]  # 18, 8, 3 and 3 responses


@pytest.mark.parametrize(
    "rule", [LeaveOneOutAdvantage(), GroupNormalizedAdvantage(), ExactAdvantage(objective=LogObjective())]
)
@pytest.mark.parametrize(("by_tokens", "over"), [(False, "kept responses"), (True, "tokens")])
def test_whitening_says_what_was_followed_before_it(rule, by_tokens, over):
    lines = followed(BatchWhitenedAdvantage(advantage=rule, by_tokens=by_tokens), UNIFORM, WHOLE)
    assert lines[:-1] == followed(rule, UNIFORM, WHOLE)
    assert lines[-1].startswith(f"  that is before whitening, which centres and scales advantages over all {over} of a")


def test_reinforce_plus_plus_is_the_whitened_group_mean():
    lines = followed(ReinforcePlusPlusBaselineAdvantage(), UNIFORM, WHOLE)
    assert lines[0] == "update: exact for f(p) = p, times 3/4"
    assert len(lines) == 2


def test_gdpo_is_described_in_words():
    lines = followed(GdpoAdvantage(weights={"correct": 1.0, "format": 0.5}), UNIFORM, WHOLE)
    assert lines[0].startswith("update: 1 correct + 0.5 format, each standardised within its group")
    assert lines[1].endswith("over all responses of a step; no function of the pass rate alone is followed")


@pytest.mark.parametrize("name", LOSSES)
def test_the_statement_has_the_lines_of_each_loss(name):
    loss = make_loss(name)
    lines = statement(LeaveOneOutAdvantage(), UNIFORM, WHOLE, loss, num_minibatches=2)
    assert [line for bend in loss.bends() for line in lines if line == f"  {bend}"] == [f"  {b}" for b in loss.bends()]
    assert any(line.endswith(loss.reuse_bend()) for line in lines)


def test_only_losses_that_bend_the_first_update_say_so():
    with_own = {name for name in LOSSES if list(make_loss(name).method_bends())}
    assert with_own == {"raft", "divergence_tv", "divergence_kl"}
