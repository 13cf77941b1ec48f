"""One decoding step of a transformers model: a token in, logits of the next one out, for every slot in use.

Or several tokens in, and the logits after each of them out: that is how a draft is checked.

The next token is drawn with numbers that belong to the request, so other requests in the batch change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from ada_lightning.core.records import SamplingSettings


class Slots:
    """What transformers takes for a cache, with a position of its own for every sequence.

    The caches of transformers hold a batch that began together. Here a slot is given to the next sequence when one has
    ended. A decoding step writes each row at its own position and reads as many positions as the longest row has. What
    lies beyond a row's own position is left over from another sequence or from a wrong draft, and masked.

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
        self._positions_BT: Tensor | None = None
        self._slots_B: Tensor | None = None
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

    def point(self, positions_BT: Tensor, length: int, slots_B: Tensor | None = None) -> None:
        """Say where the next pass writes: T tokens of each slot at their positions, reading ``length`` positions.

        Args:
            positions_BT: of the tokens.
            length: positions that are read.
            slots_B: whose tokens they are; None: of the first B.
        """
        self._positions_BT, self._slots_B = positions_BT, slots_B
        self._places_of.clear()
        self._length = length

    def update(self, keys_BHTD: Tensor, values_BHTD: Tensor, layer_index: int, *_: Any) -> tuple[Tensor, Tensor]:
        """Write tokens of each sequence and return all that a layer may attend to; called by the model."""
        size, num_heads = keys_BHTD.shape[:2]
        keys_SHTD, values_SHTD = self._layer(layer_index, keys_BHTD, values_BHTD)
        places_BHT = self._places(num_heads)
        keys_SHTD.view(-1, keys_SHTD.shape[-1])[places_BHT] = keys_BHTD
        values_SHTD.view(-1, values_SHTD.shape[-1])[places_BHT] = values_BHTD
        rows = slice(size) if self._slots_B is None else self._slots_B
        return keys_SHTD[rows, :, : self._length], values_SHTD[rows, :, : self._length]

    def _places(self, num_heads: int) -> Tensor:
        """Return the rows of memory that each head of each sequence writes, once for all layers of a pass.

        One index: by two with heads between them, deterministic torch on a GPU copies all the memory there and back.
        """
        if num_heads not in self._places_of:
            assert self._positions_BT is not None
            rows_B, heads_H = (
                torch.arange(number, device=self._positions_BT.device)
                for number in (len(self._positions_BT), num_heads)
            )
            if self._slots_B is not None:
                rows_B = self._slots_B
            places_BH1 = ((rows_B[:, None] * num_heads + heads_H) * self.num_tokens)[:, :, None]
            self._places_of[num_heads] = places_BH1 + self._positions_BT[:, None]
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


IMPLEMENTATION = "ada_decoding"
"""Name of :func:`attend` in transformers; a model of a :class:`Decoder` has it for its attention."""


def attend(
    module: torch.nn.Module,
    query_BHTC: Tensor,
    key_BNLC: Tensor,
    value_BNLC: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attend by torch's kernel, in a decoding step without a copy of keys and values for each query head.

    All H query heads of a step stand at the same position, so those that share one of N key heads can be that head's
    queries, one below the other: H / N rows instead of one.

    Returns:
        Shape ``(B, T, H, C)``, and no attention weights.

    Raises:
        ValueError: the architecture hands over something that this does not compute.
    """
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if odd := [name for name in ("softcap", "s_aux", "position_bias") if others.get(name) is not None]:
        raise ValueError(f"attention with {odd[0]} is not what rollout=transformers computes; use a vLLM engine")
    size, num_heads, num_queries, _ = query_BHTC.shape
    if num_queries > 1 or attention_mask is None:  # prompts and drafts
        output: tuple[Tensor, None] = sdpa_attention_forward(
            module, query_BHTC, key_BNLC, value_BNLC, attention_mask, scaling=scaling, **others
        )
        return output
    grouped = query_BHTC.reshape(size, key_BNLC.shape[1], -1, query_BHTC.shape[-1])
    result = torch.nn.functional.scaled_dot_product_attention(
        grouped, key_BNLC, value_BNLC, attn_mask=attention_mask, scale=scaling
    )
    return result.reshape(size, 1, num_heads, -1), None


class Decoder:
    """Runs steps, on a GPU of fixed shapes, so that they can be replayed.

    A small model's step is a few hundred kernels of microseconds each, which Python starts one by one in ten times
    that: captured as a CUDA graph, a step takes what its kernels take. There is a graph for each pair of sizes, and
    those are powers of two.

    Args:
        model: in the engine's type, on its device, with :data:`IMPLEMENTATION` for its attention.
        slots: keys and values.
        captures: whether to capture; only where the model is on a GPU.
    """

    def __init__(self, model: Any, slots: Slots, *, captures: bool) -> None:
        self._model = model
        self._slots = slots
        self._captures = captures
        self._pool = torch.cuda.graph_pool_handle() if captures else None
        """Memory of all graphs: what one computes is read before the next is replayed."""
        self._graphs: dict[tuple[int, int], tuple[torch.cuda.CUDAGraph, Tensor, Tensor, Tensor]] = {}

    def size(self, num_rows: int) -> int:
        """Return how many rows a step of so many sequences has."""
        return min(_power_of_two(num_rows, 8), self._slots.num_slots) if self._captures else num_rows

    def step(self, tokens_B: Tensor, positions_B: Tensor) -> Tensor:
        """Write a token of each of the first B slots at its position.

        Args:
            tokens_B: on the CPU; of a slot that is free, any.
            positions_B: where they stand, on the CPU; of a slot that is free, 0.

        Returns:
            Logits of the token that follows, shape ``(B, V)``, valid until the next step.
        """
        size, length = self.size(len(tokens_B)), int(positions_B.max()) + 1
        if self._captures:
            length = min(_power_of_two(length, 64), self._slots.num_tokens)
        padding = (0, size - len(tokens_B))
        tokens, positions = (
            torch.nn.functional.pad(each, padding).to(self._model.device) for each in (tokens_B, positions_B)
        )
        if not self._captures:
            return self._next(tokens, positions, length)[: len(tokens_B)]
        if (size, length) not in self._graphs:
            self._graphs[size, length] = self._captured(tokens, positions, length)
        graph, tokens_in, positions_in, logits = self._graphs[size, length]
        tokens_in.copy_(tokens)
        positions_in.copy_(positions)
        graph.replay()
        return logits[: len(tokens_B)]

    def check(self, tokens_BT: Tensor, positions_B: Tensor, slots: Sequence[int]) -> Tensor:
        """Write T tokens of each of some slots, from its position on.

        Args:
            tokens_BT: on the CPU; behind the last one of a row, any.
            positions_B: where the first of them stands, on the CPU.
            slots: whose they are.

        Returns:
            Logits of what follows each token, shape ``(B, T, V)``.
        """
        # Nobody reads the last position of a slot: the token that would stand there is drawn and not taken in.
        last = self._slots.num_tokens - 1
        positions_BT = (positions_B[:, None] + torch.arange(tokens_BT.shape[1])).clamp(max=last)
        length, device = int(positions_BT.max()) + 1, self._model.device
        return self._logits(tokens_BT.to(device), positions_BT.to(device), length, torch.tensor(slots, device=device))

    def _captured(
        self, tokens_B: Tensor, positions_B: Tensor, length: int
    ) -> tuple[torch.cuda.CUDAGraph, Tensor, Tensor, Tensor]:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # kernels are chosen and memory is made outside of the graph
            for _ in range(2):
                self._next(tokens_B, positions_B, length)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            logits_BV = self._next(tokens_B, positions_B, length)
        return graph, tokens_B, positions_B, logits_BV

    def _next(self, tokens_B: Tensor, positions_B: Tensor, length: int) -> Tensor:
        return self._logits(tokens_B[:, None], positions_B[:, None], length)[:, -1]

    def _logits(self, tokens_BT: Tensor, positions_BT: Tensor, length: int, slots_B: Tensor | None = None) -> Tensor:
        self._slots.point(positions_BT, length, slots_B)
        is_seen_BTL = torch.arange(length, device=positions_BT.device) <= positions_BT[:, :, None]
        output = self._model(
            input_ids=tokens_BT,
            position_ids=positions_BT,
            attention_mask=is_seen_BTL[:, None],
            past_key_values=self._slots,
            use_cache=True,
        )
        logits_BTV: Tensor = output.logits
        return logits_BTV


def _power_of_two(number: int, smallest: int) -> int:
    """Return the next power of two, so that there are few different shapes.

    Example:
        >>> [_power_of_two(number, 8) for number in (1, 8, 9, 100)]
        [8, 8, 16, 128]
    """
    return max(smallest, 1 << (number - 1).bit_length())


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
