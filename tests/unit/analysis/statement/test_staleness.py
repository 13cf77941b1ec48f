"""What the statement of a run says of a lag."""

from __future__ import annotations

import pytest

from ada_lightning.analysis.statement import describe_update
from ada_lightning.methods.advantages import HistoryBaselineAdvantage, LeaveOneOutAdvantage
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.methods.selection import AllSelection
from ada_lightning.training.losses import (
    ClippedPolicyLoss,
    ConstantReduction,
    GeometricRejection,
    SequenceRejection,
    TokenRejection,
)

REDUCTION = ConstantReduction(token_scale=32)


def lines(k, advantage=None, num_minibatches=1, **of_loss):
    return describe_update(
        advantage=advantage or LeaveOneOutAdvantage(), sampler=UniformSampler(group_size=4), selection=AllSelection(),
        loss=ClippedPolicyLoss(reduction=REDUCTION, **of_loss), num_minibatches=num_minibatches, max_grad_norm=1.0,
        truncated="grade", max_staleness=k,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("of_loss", "followed"),
    [
        ({"importance": SequenceRejection(floor=0.5)}, "f'(p_old) grad p_new where the ratio of a whole response"),
        ({"importance": TokenRejection()}, "f'(p_old) grad p_new only as far as single tokens' ratios"),
        ({"anchor": "behaviour", "importance_cap": 0.0}, "f'(p_old) grad p_new only as far as single tokens' ratios"),
        ({"importance": GeometricRejection()}, "f'(p_old) times the covariance"),
    ],
)
def test_what_is_followed_depends_on_the_correction(of_loss, followed):
    (found,) = [line for line in lines(2, **of_loss) if "the update follows" in line]
    assert followed in found
    assert any(
        "rollout.max_staleness = 2: the policy of 2 steps before samples" in line for line in lines(2, **of_loss)
    )
    assert not any("p_old" in line for line in lines(0, **of_loss))
    (several,) = [line for line in lines(2, num_minibatches=4, **of_loss) if "the update follows" in line]
    assert several.endswith("by the first update with a rollout")


def test_a_baseline_from_history_is_a_bias_unless_whole_responses_are_weighed():
    of_history = HistoryBaselineAdvantage()
    error = "an error of its baseline no longer cancels"
    assert any(error in line for line in lines(1, of_history, importance=TokenRejection()))
    assert not any(error in line for line in lines(1, of_history, importance=SequenceRejection(floor=0.5)))
    assert any("clips from the first update on" in line for line in lines(1, anchor="behaviour", importance_cap=0.0))
