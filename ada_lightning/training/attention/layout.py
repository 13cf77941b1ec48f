"""Where the documents of a packed microbatch are: as pieces that are cheap to attend in, or as one kernel has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from ada_lightning.training.attention.varlen import Sequences, packed_sequences

SHORT = 256
"""Documents of up to this many tokens are attended to many at a time, longer ones one by one. About where torch's
kernel became as fast on 2 busy CPU cores in bf16; not tuned on a quiet machine, nor on a GPU."""
_MIN_FILL = 0.7  # a shorter document starts a new block: attention in a padded one costs up to 1 / 0.7**2 of its own


def is_hidden(lengths: Sequence[tuple[int, ...]], device: torch.device) -> Tensor:
    """Whether a query (second axis) may not see a key (third) of the same document. Shape ``(D, W, W)``, bool.

    Padding sees padding, so no row is empty.
    """
    width = max(map(sum, lengths))
    segment_DW = torch.full((len(lengths), width), -1)
    for index, parts in enumerate(lengths):
        segment_DW[index, : sum(parts)] = torch.arange(len(parts)).repeat_interleave(torch.tensor(parts))
    query_DW1, key_D1W = segment_DW[:, :, None], segment_DW[:, None, :]
    is_causal_WW = torch.ones(width, width, dtype=torch.bool).tril()
    return ~(is_causal_WW & ((query_DW1 == key_D1W) | (key_D1W == 0))).to(device)


@dataclass(frozen=True)
class LongDocument:
    """A document whose responses are attended to one by one, each behind the prompt."""

    lengths: tuple[int, ...]
    """Tokens of the prompt, then of each response."""

    @property
    def num_tokens(self) -> int:
        """Tokens of the document."""
        return sum(self.lengths)


@dataclass(frozen=True)
class ShortDocuments:
    """Consecutive short documents, to be laid side by side and padded to the longest. D documents, W wide."""

    lengths: tuple[tuple[int, ...], ...]
    """As in :class:`~ada_lightning.training.batch.Microbatch`."""
    device: torch.device = field(compare=False)

    @property
    def num_tokens(self) -> int:
        """Tokens of all documents."""
        return sum(map(sum, self.lengths))

    @property
    def width(self) -> int:
        """W: tokens of the longest document."""
        return max(map(sum, self.lengths))

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt and response together."""
        return max(parts[0] + max(parts[1:], default=0) for parts in self.lengths)

    def apart(self) -> list[LongDocument]:
        """Return the same documents, to be attended to one by one."""
        return [LongDocument(parts) for parts in self.lengths]

    @cached_property
    def slot_t(self) -> Tensor:
        """Where in ``(D * W)`` each of the block's tokens stands. Shape ``(t,)``, int64."""
        slots = [torch.arange(sum(parts)) + index * self.width for index, parts in enumerate(self.lengths)]
        return torch.cat(slots).to(self.device)

    @cached_property
    def token_in_slot(self) -> Tensor:
        """Which of the block's tokens stands in each slot; the first one where none does. Shape ``(D * W,)``, int64."""
        tokens_S = torch.zeros(len(self.lengths) * self.width, dtype=torch.int64, device=self.device)
        tokens_S[self.slot_t] = torch.arange(len(self.slot_t), device=self.device)
        return tokens_S

    @cached_property
    def hidden(self) -> Tensor:
        """See :func:`is_hidden`."""
        return is_hidden(self.lengths, self.device)


Pieces = tuple[ShortDocuments | LongDocument, ...]


class PackedLayout:
    """Where the documents of a microbatch are, worked out once for all layers of the model.

    Args:
        lengths: ``document_lengths`` of the microbatch.
        device: where it is computed.
    """

    def __init__(self, lengths: Sequence[tuple[int, ...]], device: torch.device) -> None:
        self._lengths = lengths
        self._device = device

    @cached_property
    def pieces(self) -> Pieces:
        """Documents by how they are cheap to attend in, in packed order."""
        return packed_pieces(self._lengths, self._device)

    @cached_property
    def sequences(self) -> Sequences:
        """All of them for one kernel."""
        return packed_sequences(self._lengths, self._device)


def packed_pieces(lengths: Sequence[tuple[int, ...]], device: torch.device) -> Pieces:
    """Cut documents into pieces in packed order."""
    pieces: list[ShortDocuments | LongDocument] = []
    for parts in lengths:
        size, last = sum(parts), pieces[-1] if pieces else None
        if size > SHORT:
            pieces.append(LongDocument(parts))
        elif isinstance(last, ShortDocuments) and _are_alike([size, *map(sum, last.lengths)]):
            pieces[-1] = ShortDocuments((*last.lengths, parts), device)
        else:
            pieces.append(ShortDocuments((parts,), device))
    return tuple(pieces)


def _are_alike(sizes: Sequence[int]) -> bool:
    return min(sizes) >= _MIN_FILL * max(sizes)
