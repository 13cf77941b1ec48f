"""Corrections for the engine's own probabilities, by hand: token ratios 1, 4, 1/2; of the responses 4 and 1/2."""

from __future__ import annotations

import pytest
import torch

from ada_lightning.training.losses import (
    GeometricRejection,
    SequenceRejection,
    SequenceTruncation,
    TokenRejection,
    TokenTruncation,
)
from tests.unit.training.losses.two_responses import LOSSES, make_loss, make_terms, run


@pytest.mark.parametrize(
    ("part", "cap", "weights"),
    [
        (TokenTruncation(), 2.0, [1.0, 2.0, 0.5]),
        (TokenRejection(), 5.0, [1.0, 4.0, 0.5]),
        (TokenRejection(), 2.0, [1.0, 0.0, 0.5]),
        (TokenRejection(floor=0.6), 5.0, [1.0, 4.0, 0.0]),
        (SequenceTruncation(), 3.0, [3.0, 3.0, 0.5]),
        (SequenceTruncation(), 9.0, [4.0, 4.0, 0.5]),
        (SequenceRejection(), 3.0, [0.0, 0.0, 0.5]),
        (SequenceRejection(), 9.0, [4.0, 4.0, 0.5]),
        (SequenceRejection(floor=0.6), 9.0, [4.0, 4.0, 0.0]),
        (GeometricRejection(floor=0.4), 2.1, [1.0, 1.0, 1.0]),  # means 2 and 1/2
        (GeometricRejection(floor=0.4), 1.9, [0.0, 0.0, 1.0]),
        (GeometricRejection(floor=0.6), 2.1, [1.0, 1.0, 0.0]),
    ],
)
def test_weights_by_hand(part, cap, weights):
    assert part(make_terms(), 2, cap=cap).tolist() == pytest.approx(weights, rel=1e-5)


@pytest.mark.parametrize("name", [name for name in LOSSES if not name.startswith("divergence")])
@pytest.mark.parametrize("part", [TokenTruncation(), SequenceTruncation(), SequenceRejection()])
def test_every_loss_is_multiplied_by_them(name, part):
    terms = make_terms([-0.9999, -2.0001, -1.5002])
    plain = run(make_loss(name), terms)[1]
    _, weighed, sums = run(make_loss(name, importance=part, importance_cap=5.0), terms)
    weights = part(terms, 2, cap=5.0).tolist()
    assert weighed == pytest.approx([slope * weight for slope, weight in zip(plain, weights, strict=True)], rel=1e-5)
    assert sums["importance_weight"] == pytest.approx(sum(weights))


def test_a_masked_token_still_counts_in_the_ratio_of_its_response():
    """It was sampled with the rest."""
    terms = make_terms(mask_K=torch.tensor([1.0, 0.0, 1.0]))
    assert SequenceTruncation()(terms, 2, cap=9.0).tolist() == pytest.approx([4.0, 4.0, 0.5])


def test_weights_have_no_gradient_and_no_overflow():
    terms = make_terms(old_logprobs_K=torch.tensor([-1.0, 200.0, -300.0], requires_grad=True))
    for part in (TokenTruncation(), SequenceTruncation(), SequenceRejection(), TokenRejection(), GeometricRejection()):
        weights_K = part(terms, 2, cap=1e9)
        assert not weights_K.requires_grad
        assert bool(torch.isfinite(weights_K).all())


@pytest.mark.parametrize("cls", [TokenRejection, SequenceRejection, GeometricRejection])
def test_bounds_that_reject_everything_are_refused(cls):
    with pytest.raises(ValueError, match=r"loss.importance.floor must be in \[0, 1\].*got 1.5"):
        cls(floor=1.5)
    with pytest.raises(ValueError, match=r"loss.importance_cap = 0.5 rejects everything.*use at least 1, or 0"):
        make_loss("clipped", importance=cls(), importance_cap=0.5)
    make_loss("clipped", importance=cls(), importance_cap=0.0)  # off


@pytest.mark.parametrize(
    "cls", [TokenTruncation, TokenRejection, SequenceTruncation, SequenceRejection, GeometricRejection]
)
def test_each_says_what_it_bends(cls):
    assert make_loss("clipped", importance=cls(), importance_cap=2.0).caveats() == [cls().caveat(2.0)]
