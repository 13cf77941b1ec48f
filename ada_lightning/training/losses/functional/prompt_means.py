"""One vector per response that knows its prompt and nothing of the response."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def prompt_means(hidden_TH: Tensor, document_lengths: Sequence[tuple[int, ...]]) -> Tensor:
    """Mean hidden state over the tokens of each response's prompt.

    A prompt that several responses share is averaged once and counts once for each of them.

    Args:
        hidden_TH: of all packed tokens. Shape ``(T, H)``.
        document_lengths: per document the tokens of its prompt, then those of each response, in packed order.

    Returns:
        Shape ``(B, H)``, float32, in the order of the responses; with the gradient of ``hidden_TH``.

    Raises:
        ValueError: the documents do not hold T tokens, or a prompt has none.

    Example:
        >>> hidden = torch.tensor([[1.0], [3.0], [9.0], [8.0], [5.0], [7.0]])  # prompt of 2, two responses; prompt, one
        >>> prompt_means(hidden, [(2, 1, 1), (1, 1)]).tolist()
        [[2.0], [2.0], [5.0]]
    """
    if sum(map(sum, document_lengths)) != len(hidden_TH):
        raise ValueError(f"{len(hidden_TH)} hidden states for documents of {sum(map(sum, document_lengths))} tokens")
    if any(lengths[0] < 1 for lengths in document_lengths):
        raise ValueError("a prompt without tokens has no mean hidden state")
    means, start = [], 0
    for lengths in document_lengths:
        mean_H = hidden_TH[start : start + lengths[0]].float().mean(dim=0)
        means.append(mean_H.expand(len(lengths) - 1, -1))
        start += sum(lengths)
    return torch.cat(means)
