from __future__ import annotations

from types import SimpleNamespace

import pytest

from ada_lightning.training.attention import AttentionBackend


def check_model(model, *, can_slide):
    backend = AttentionBackend()
    backend.can_slide = can_slide
    backend.check_model(model)


def model(*, is_stateful=False, **config):
    return SimpleNamespace(config=SimpleNamespace(**config), _is_stateful=is_stateful)


@pytest.mark.parametrize(
    "accepted",
    [
        model(),
        model(layer_types=["full_attention"], sliding_window=4096),  # a window that no layer uses, as in Qwen2.5
        model(attention_dropout=0.0),
    ],
)
def test_plain_attention_is_accepted_by_every_backend(accepted):
    check_model(accepted, can_slide=False)


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (
            model(layer_types=["full_attention", "linear_attention"]),
            "layers of type linear_attention, which would run on",
        ),
        (model(is_stateful=True), "layers with a state"),
        (model(attention_dropout=0.1), "drops 10% of its attention"),
    ],
)
def test_what_crosses_packed_responses_is_refused_by_every_backend(refused, message):
    with pytest.raises(ValueError, match=message):
        check_model(refused, can_slide=True)


@pytest.mark.parametrize("slides", [{"layer_types": ["sliding_attention"]}, {}])
def test_a_sliding_window_needs_a_backend_that_keeps_it(slides):
    check_model(model(sliding_window=8, **slides), can_slide=True)
    with pytest.raises(ValueError, match="a sliding window of 8 tokens, which attention=flex would ignore"):
        check_model(model(sliding_window=8, **slides), can_slide=False)
