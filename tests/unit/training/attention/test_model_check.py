from __future__ import annotations

from types import SimpleNamespace

import pytest

from ada_lightning.training.attention import PackedAttention


def model(*, is_stateful=False, **config):
    return SimpleNamespace(config=SimpleNamespace(**config), _is_stateful=is_stateful)


@pytest.mark.parametrize(
    "accepted",
    [
        model(),
        model(layer_types=["full_attention", "sliding_attention"], sliding_window=4096),
        model(attention_dropout=0.0),
    ],
)
def test_plain_attention_is_accepted(accepted):
    PackedAttention().check_model(accepted)


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (
            model(layer_types=["full_attention", "linear_attention"]),
            "layers of type linear_attention, which would carry state",
        ),
        (model(is_stateful=True), "layers with a state"),
        (model(attention_dropout=0.1), r"at random while training \(attention_dropout = 0.1\)"),
        (model(dropout=0.1, attention_dropout=0.0), r"at random while training \(dropout = 0.1\)"),  # OPT
        (model(resid_pdrop=0.1, embd_pdrop=0.2), "embd_pdrop = 0.2, resid_pdrop = 0.1"),  # GPT-2, Phi
    ],
)
def test_what_crosses_packed_responses_is_refused(refused, message):
    with pytest.raises(ValueError, match=message):
        PackedAttention().check_model(refused)
