"""Draw tokens from logits with numbers that belong to the request, so that who decodes beside it changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor

    from ada_lightning.core.records import SamplingSettings


_BLOCK = 256
"""Tokens whose probabilities are added up first: then it takes one pass over the vocabulary, not three."""
_BELOW_ONE = 1 - 2**-53


def draw(logits_BV: Tensor, uniforms_B: Tensor, settings: SamplingSettings) -> tuple[Tensor, Tensor]:
    """Draw a token of each row by inverting its distribution function.

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
    probs_BV = _warped(scores_BV, settings).softmax(-1)
    tokens_B = _inverted(probs_BV, uniforms_B)
    return tokens_B, probs_BV.gather(-1, tokens_B[:, None])[:, 0].log()  # not a number where logits are not


def _inverted(probs_BV: Tensor, uniforms_B: Tensor) -> Tensor:
    """Return the first token up to which the probabilities add up to more than the number: its block, then it.

    Sums are of float64: in float32 the last of 50,000 tokens would stand on rounding.
    """
    blocks_BNW = functional.pad(probs_BV, (0, -probs_BV.shape[1] % _BLOCK)).unflatten(1, (-1, _BLOCK))
    of_block_BN = blocks_BNW.sum(-1, dtype=torch.float64)
    block_B, rest_B = _located(of_block_BN, uniforms_B)
    of_token_BW = blocks_BNW[torch.arange(len(block_B), device=block_B.device), block_B].double()
    token_B, _ = _located(of_token_BW, rest_B)
    return (block_B * _BLOCK + token_B).clamp(max=probs_BV.shape[1] - 1)  # of what is no number, some token


def _located(weights_BN: Tensor, uniforms_B: Tensor) -> tuple[Tensor, Tensor]:
    """Return where each number falls among weights laid end to end, and how far into that weight, in [0, 1)."""
    ends_BN = _sums(weights_BN)
    targets_B1 = (uniforms_B * ends_BN[:, -1])[:, None]
    # `right`: the first whose end exceeds the number, so that a weight of 0 is never met.
    index_B1 = torch.searchsorted(ends_BN, targets_B1, right=True).clamp(max=weights_BN.shape[1] - 1)
    width_B1 = weights_BN.gather(-1, index_B1)
    inside_B1 = (targets_B1 - (ends_BN.gather(-1, index_B1) - width_B1)) / width_B1
    return index_B1[:, 0], inside_B1[:, 0].clamp(0, _BELOW_ONE)


def _sums(weights_BN: Tensor) -> Tensor:
    """Return running sums."""
    return _summable(weights_BN).cumsum(-1).to(weights_BN.device)


def _summable(values: Tensor) -> Tensor:
    """Return them where torch adds them up: it has no deterministic running sums on a GPU, and refuses if asked."""
    return values.cpu() if values.is_cuda and torch.are_deterministic_algorithms_enabled() else values


def _warped(scores_BV: Tensor, settings: SamplingSettings) -> Tensor:
    """Return scores whose softmax is the distribution that is asked for."""
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    warpers = [
        *([TemperatureLogitsWarper(float(settings.temperature))] if settings.temperature != 1 else []),
        *([TopKLogitsWarper(settings.top_k)] if settings.top_k > 0 else []),
        *([TopPLogitsWarper(settings.top_p)] if settings.top_p < 1 else []),
    ]
    warped_BV = _summable(scores_BV) if settings.top_p < 1 else scores_BV
    for warper in warpers:
        warped_BV = warper(None, warped_BV)
    return warped_BV.to(scores_BV.device)
