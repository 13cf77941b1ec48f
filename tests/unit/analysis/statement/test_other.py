"""What is said of estimators that look at the whole rollout, of samplers that draw a pilot first, and of losses."""

from __future__ import annotations

import pytest

from ada_lightning.methods.advantages import (
    BatchWhitenedAdvantage,
    ExactAdvantage,
    GroupNormalizedAdvantage,
    LeaveOneOutAdvantage,
)
from ada_lightning.methods.gradient_norms import ConstantNorm
from ada_lightning.methods.objectives import LinearObjective, LogObjective
from ada_lightning.methods.published.dars import DarsSampler
from ada_lightning.methods.published.gdpo import GdpoAdvantage
from ada_lightning.methods.published.gvm import GvmSampler
from ada_lightning.methods.published.max_rl import MaxRlAdvantage
from ada_lightning.methods.published.pilot_commit import PilotCommitSampler, ResolvedSelection
from ada_lightning.methods.published.raft import AcceptedAdvantage, PositivesSelection
from ada_lightning.methods.published.reinforce_ada import EstimatedSampler
from ada_lightning.methods.published.speed import SpeedSampler
from ada_lightning.methods.published.xrpo import NoveltyAdvantage
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.methods.selection import AllSelection, BalancedSelection
from tests.unit.analysis.statement.test_describe import EXACTLY, UNKNOWN, balance, followed, row, statement
from tests.unit.training.losses.two_responses import LOSSES, make_loss

UNIFORM, WHOLE, GROUP = UniformSampler(group_size=4), AllSelection(), BalancedSelection(group_size=4)
PLANNED = EstimatedSampler(responses_per_prompt=8)
DARS = DarsSampler(num_pilot=8, n_max=32, hardness_weighted=False, normalize_std=False, group_size=32)
SPEED = SpeedSampler(num_screen=4, num_continue=20, group_size=24)
COMMIT = PilotCommitSampler(num_pilot=16, num_commit=48, min_rate=0.125, max_rate=0.75, group_size=64)
GVM = GvmSampler(gradient_norm=ConstantNorm())
LOG, LINEAR = ExactAdvantage(objective=LogObjective()), ExactAdvantage(objective=LinearObjective())
RESOLVED = ResolvedSelection(selection=WHOLE)
ACCEPTED = f"update: {EXACTLY}, without a baseline: it sums over accepted responses"
LOG_OF_4 = "f(p) = log p (p: pass rate), exactly as far as 4 responses can see: f'(p) = (1 - (1-p)^3) / p"


@pytest.mark.parametrize(
    ("advantage", "sampler", "selection", "expected"),
    [
        (MaxRlAdvantage(), UNIFORM, WHOLE, LOG_OF_4),
        (LOG, UNIFORM, WHOLE, LOG_OF_4),
        (MaxRlAdvantage(), UniformSampler(group_size=2), WHOLE, "2 responses can see: f'(p) = 1"),
        (AcceptedAdvantage(), UNIFORM, WHOLE, ACCEPTED),
        (AcceptedAdvantage(), UNIFORM, PositivesSelection(), ACCEPTED),
        (LINEAR, DARS, WHOLE, EXACTLY),
        (LOG, DARS, WHOLE, "as far as 32 responses can see: f'(p) = (1 - (1-p)^31) / p"),
        # What the screening turns down is out of sight: four wrong ones end a prompt.
        (LOG, SPEED, WHOLE, "as far as 24 responses can see: f'(p) = (1 - (1-p)^3) / p"),
        (LOG, GVM, WHOLE, UNKNOWN),
    ],
)  # fmt: skip
def test_what_follows_an_objective_says_so_in_one_line(advantage, sampler, selection, expected):
    (line,) = followed(advantage, sampler, selection)
    assert line.endswith(expected)


def test_max_rl_of_other_groups_has_figures():
    """A balanced group has lost the weight 1/p."""
    lines = followed(MaxRlAdvantage(), balance(), GROUP)
    assert lines[0] == (
        "update: advantage = reward over the mean of the kept group, minus 1; the pool's mean is not used"
    )
    assert row(lines, "1/p")[0] == 25.0
    assert row(lines, "expected here")[0] < 15
    assert row(followed(MaxRlAdvantage(), PLANNED, WHOLE), "expected here")[2] == 1.0


def test_accepted_responses_of_adaptive_sampling_have_figures():
    """Groups of positives only train too: with sizes fixed beforehand the sum is the number of responses."""
    lines = followed(AcceptedAdvantage(), PLANNED, WHOLE)
    assert lines[0] == "update: sums over accepted responses, without a baseline"
    assert row(lines, "expected here") == [6.0, 2.67, 1.0, 1.0]  # 18, 8, 3 and 3 responses


def test_what_two_rounds_make_of_the_usual_estimators_is_computed():
    """DARS multiplies by the number of responses; RLOO of a pool that was screened loses what was turned down."""
    dars = row(followed(GroupNormalizedAdvantage(normalize_std=False), DARS, WHOLE), "expected here")
    assert dars[2] == 1.0
    assert dars[0] > 1.5  # hard prompts
    assert dars[3] == pytest.approx(1.0, abs=0.2)  # easy prompts get no second round
    speed, screened, pilots, committed = (
        row(followed(LeaveOneOutAdvantage(), sampler, selection), "expected here")
        for sampler in (SPEED, COMMIT)
        for selection in (WHOLE, RESOLVED)
    )
    assert speed[0] < 0.3
    assert screened == speed  # what the screening turned down has equal rewards, and so no weight
    assert committed[3] < pilots[3]  # p = 0.9: most pilots are above 3/4


@pytest.mark.parametrize(
    "rule", [LeaveOneOutAdvantage(), GroupNormalizedAdvantage(), ExactAdvantage(objective=LogObjective())]
)
@pytest.mark.parametrize(("by_tokens", "over"), [(False, "kept responses"), (True, "tokens")])
def test_whitening_says_what_was_followed_before_it(rule, by_tokens, over):
    lines = followed(BatchWhitenedAdvantage(advantage=rule, by_tokens=by_tokens), UNIFORM, WHOLE)
    before = followed(rule, UNIFORM, WHOLE)
    assert lines[:-1] == [
        before[0].replace("the mean", "about the mean", 1).replace(", exactly as", ", as").replace(", exactly", "")
        if "exactly" in before[0]
        else before[0].replace("increases the mean", "increases about the mean"),
        *before[1:],
    ]
    assert lines[-1].startswith(f"  that is before whitening, which centres and scales advantages over all {over} of a")


REINFORCE_PLUS_PLUS = BatchWhitenedAdvantage(advantage=GroupNormalizedAdvantage(normalize_std=False), by_tokens=True)


@pytest.mark.parametrize(
    ("advantage", "sampler", "first", "last"),
    [
        (REINFORCE_PLUS_PLUS, UNIFORM,
         "increases about the mean over prompts of f(p) = p (p: pass rate), times 3/4",
         "  that is before whitening"),
        (GdpoAdvantage(weights={"correct": 1.0, "format": 0.5}), UNIFORM,
         "follows no f(p): 1 correct + 0.5 format, each standardised within its group",
         "  the sum is centred and scaled over all resp"),
        (GroupNormalizedAdvantage(), GVM,
         "advantage = reward minus the mean of the kept group over its standard deviation",
         "  sampling stops by more than right and wrong counts, so expected weights cannot be computed"),
        (NoveltyAdvantage(normalize_std=False), GVM,
         "follows no f(p): advantage = reward minus the mean of the kept group, and up to 0.5 of it",
         "update: "),
    ],
)  # fmt: skip
def test_what_follows_no_objective_of_its_own_is_described(advantage, sampler, first, last):
    lines = followed(advantage, sampler, WHOLE)
    assert lines[0].startswith(f"update: {first}")
    assert lines[-1].startswith(last)


@pytest.mark.parametrize("name", LOSSES)
def test_the_statement_has_the_lines_of_each_loss(name):
    loss = make_loss(name)
    lines = statement(LeaveOneOutAdvantage(), UNIFORM, WHOLE, loss, num_minibatches=2)
    assert [line for each in loss.caveats() for line in lines if line == f"  {each}"] == [
        f"  {b}" for b in loss.caveats()
    ]
    assert any(line.endswith(loss.reuse_caveat()) for line in lines)


def test_only_losses_that_change_the_first_update_say_so():
    with_own = {name for name in LOSSES if list(make_loss(name).method_caveats())}
    assert with_own == {"raft", "divergence_tv", "divergence_kl"}
