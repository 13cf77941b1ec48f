"""What is said of runs whose sampler draws a pilot first, and of what goes with them."""

from __future__ import annotations

import pytest

from ada_lightning.analysis.statement import inexact
from ada_lightning.analysis.statement.exact import exact_lines
from ada_lightning.methods.advantages import (
    GroupNormalizedAdvantage,
    LeaveOneOutAdvantage,
    NoveltyAdvantage,
)
from ada_lightning.methods.gradient_norms import ConstantNorm
from ada_lightning.methods.objectives import LinearObjective, LogObjective
from ada_lightning.methods.sampling import DarsSampler, GvmSampler, PilotCommitSampler, SpeedSampler
from ada_lightning.methods.selection import AllSelection, ResolvedSelection
from ada_lightning.training.losses import ConstantReduction

DARS = DarsSampler(num_pilot=8, n_max=32, hardness_weighted=False, normalize_std=False, group_size=32)
SPEED = SpeedSampler(num_screen=4, num_continue=20, group_size=24)
COMMIT = PilotCommitSampler(num_pilot=16, num_commit=48, min_rate=0.125, max_rate=0.75, group_size=64)
GVM = GvmSampler(gradient_norm=ConstantNorm())


def inexact_lines(advantage, sampler, selection):
    return inexact.inexact_lines(advantage, sampler, selection, ConstantReduction(token_scale=8))


def weights(lines):
    """The row of figures that was computed from the parts."""
    (row,) = (line for line in lines if line.strip().startswith("expected here"))
    return [float(word) for word in row.split()[2:]]


def test_the_exact_estimator_is_exact_with_two_rounds():
    assert exact_lines(LinearObjective(), DARS) == ["update: exact for f(p) = p"]
    assert exact_lines(LogObjective(), DARS)[0].endswith("as far as 32 responses can see: f'(p) = (1 - (1-p)^31) / p")
    # what the screening turns down is out of sight: four wrong ones end a prompt
    assert exact_lines(LogObjective(), SPEED)[0].endswith("as far as 24 responses can see: f'(p) = (1 - (1-p)^3) / p")
    assert "stops by more than a prompt's counts" in exact_lines(LogObjective(), GVM)[0]


def test_what_two_rounds_make_of_the_usual_estimators_is_computed():
    """DARS multiplies by the number of responses; RLOO of a pool that was screened loses what was turned down."""
    dars = weights(inexact_lines(GroupNormalizedAdvantage(normalize_std=False), DARS, AllSelection()))
    assert dars[2] == 1.0
    assert dars[0] > 1.5  # hard prompts
    assert dars[3] == pytest.approx(1.0, abs=0.2)  # easy prompts get no second round
    speed = weights(inexact_lines(LeaveOneOutAdvantage(), SPEED, AllSelection()))
    assert speed[0] < 0.3
    resolved = weights(inexact_lines(LeaveOneOutAdvantage(), SPEED, ResolvedSelection(selection=AllSelection())))
    assert resolved == speed  # what the screening turned down has equal rewards, and so no weight


def test_pilots_that_are_turned_down_weigh_nothing():
    kept = weights(inexact_lines(LeaveOneOutAdvantage(), COMMIT, AllSelection()))
    dropped = weights(inexact_lines(LeaveOneOutAdvantage(), COMMIT, ResolvedSelection(selection=AllSelection())))
    assert dropped[3] < kept[3]  # p = 0.9: most pilots are above 3/4


def test_a_division_by_gradients_has_no_table():
    lines = inexact_lines(GroupNormalizedAdvantage(), GVM, AllSelection())
    assert lines[0].startswith("update: reward minus the mean of the kept group over its standard deviation")
    assert lines[-1] == "  sampling ends by more than a prompt's counts: expected weights cannot be computed"


def test_the_novelty_bonus_says_that_it_follows_nothing():
    (line,) = inexact_lines(NoveltyAdvantage(normalize_std=False), GVM, AllSelection())
    assert "up to 0.5 of it more for right answers" in line
    assert "standard deviation" not in line
