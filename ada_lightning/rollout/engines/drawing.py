"""Draw tokens from logits with numbers that belong to the request, so that who decodes beside it changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from ada_lightning.core.records import SamplingSettings


def draw(logits_BV: Tensor, uniforms_B: Tensor, settings: SamplingSettings) -> tuple[Tensor, Tensor]:
    """Draw a token of each row by inverting its distribution function.

    Sums of probabilities are of float64: in float32 the last of 50,000 tokens would stand on rounding.

    Args:
        logits_BV: of the model.
        uniforms_B: float64 in [0, 1), independent of everything else.
        settings: temperature (0: the likeliest token), ``top_k``, ``top_p``; in that order, as vLLM has it.

    Returns:
        Token ids and their log-probabilities, in nats, under the distribution they were drawn from. Shapes ``(B,)``.
    """
    scores_BV = logits_BV.float()
    if settings.temperature == 0:
        tokens_B = scores_BV.argmax(-1)
        return tokens_B, scores_BV.log_softmax(-1).gather(-1, tokens_B[:, None])[:, 0]
    scores_BV = _warped(scores_BV, settings)
    logprobs_BV = scores_BV.log_softmax(-1)
    sums_BV = logprobs_BV.double().exp().cumsum(-1)
    # `right`: the first token whose sum exceeds the number, so that one without probability is never drawn.
    tokens_B = torch.searchsorted(sums_BV, (uniforms_B * sums_BV[:, -1])[:, None], right=True)[:, 0]
    return tokens_B, logprobs_BV.gather(-1, tokens_B[:, None])[:, 0]


def _warped(scores_BV: Tensor, settings: SamplingSettings) -> Tensor:
    """Return scores whose softmax is the distribution that is asked for."""
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    warpers = [
        *([TemperatureLogitsWarper(settings.temperature)] if settings.temperature != 1 else []),
        *([TopKLogitsWarper(settings.top_k)] if settings.top_k > 0 else []),
        *([TopPLogitsWarper(settings.top_p)] if settings.top_p < 1 else []),
    ]
    for warper in warpers:
        scores_BV = warper(None, scores_BV)
    return scores_BV
