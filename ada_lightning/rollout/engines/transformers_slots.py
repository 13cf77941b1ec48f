"""Keys and values of all sequences that a :class:`~.transformers_engine.TransformersEngine` decodes, each in a slot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


class Slots:
    """What transformers takes for a cache, with a position of its own for every sequence.

    The caches of transformers hold a batch that began together. Here a slot is given to the next sequence when one has
    ended, so a decoding step writes each row where that row stands, and reads as many positions as the longest row
    has; what lies beyond a row's own position is left over from somebody else, and masked.

    Args:
        num_slots: sequences.
        num_tokens: positions of each.
    """

    def __init__(self, num_slots: int, num_tokens: int) -> None:
        self.num_slots = num_slots
        self.num_tokens = num_tokens
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._places_of: dict[int, Tensor] = {}
        """By number of heads."""
        self._positions_B: Tensor | None = None
        self._length = 0

    def store(self, slots: Sequence[int], sources: Sequence[int], prefilled: Any) -> None:
        """Copy rows of a cache that transformers filled into slots, from their first position on.

        Args:
            slots: where to.
            sources: the row of the cache for each slot.
            prefilled: a ``DynamicCache``.
        """
        for index, layer in enumerate(prefilled.layers):
            keys_SHTD, values_SHTD = self._layer(index, layer.keys, layer.values)
            device = keys_SHTD.device
            to, of = torch.tensor(slots, device=device), torch.tensor(sources, device=device)
            length = layer.keys.shape[2]
            keys_SHTD[to, :, :length] = layer.keys[of]
            values_SHTD[to, :, :length] = layer.values[of]

    def move(self, sources: Sequence[int], targets: Sequence[int], length: int) -> None:
        """Copy the first positions of slots into others, which are free."""
        for keys_SHTD, values_SHTD in self._layers.values():
            of, to = (torch.tensor(slots, device=keys_SHTD.device) for slots in (sources, targets))
            keys_SHTD[to, :, :length] = keys_SHTD[of, :, :length]
            values_SHTD[to, :, :length] = values_SHTD[of, :, :length]

    def point(self, positions_B: Tensor, length: int) -> None:
        """Say where the next step writes: in the first B slots, each at its position, reading ``length`` positions."""
        self._positions_B = positions_B
        self._places_of.clear()
        self._length = length

    def update(self, keys_BH1D: Tensor, values_BH1D: Tensor, layer_index: int, *_: Any) -> tuple[Tensor, Tensor]:
        """Write a token of each sequence and return all that a layer may attend to; called by the model."""
        size, num_heads = keys_BH1D.shape[:2]
        keys_SHTD, values_SHTD = self._layer(layer_index, keys_BH1D, values_BH1D)
        places_BH = self._places(num_heads)
        keys_SHTD.view(-1, keys_SHTD.shape[-1])[places_BH] = keys_BH1D[:, :, 0]
        values_SHTD.view(-1, values_SHTD.shape[-1])[places_BH] = values_BH1D[:, :, 0]
        return keys_SHTD[:size, :, : self._length], values_SHTD[:size, :, : self._length]

    def _places(self, num_heads: int) -> Tensor:
        """Return the row of memory that each head of each sequence writes, once for all layers of a step.

        One index: by two with heads between them, deterministic torch on a GPU copies all the memory there and back.
        """
        if num_heads not in self._places_of:
            assert self._positions_B is not None
            rows_B, heads_H = (
                torch.arange(number, device=self._positions_B.device) for number in (len(self._positions_B), num_heads)
            )
            places_BH = (rows_B[:, None] * num_heads + heads_H) * self.num_tokens + self._positions_B[:, None]
            self._places_of[num_heads] = places_BH
        return self._places_of[num_heads]

    def _layer(self, index: int, keys_BHTD: Tensor, values_BHTD: Tensor) -> tuple[Tensor, Tensor]:
        """Return memory of a layer; made at its first use, when its heads are known."""
        if index not in self._layers:
            keys_SHTD, values_SHTD = (
                like.new_zeros((self.num_slots, like.shape[1], self.num_tokens, like.shape[3]))
                for like in (keys_BHTD, values_BHTD)
            )
            self._layers[index] = (keys_SHTD, values_SHTD)
        return self._layers[index]
