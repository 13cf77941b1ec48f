"""One decoding step of a transformers model: a token in, logits of the next one out, for every slot in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ada_lightning.rollout.engines.transformers_slots import Slots

if TYPE_CHECKING:
    from torch import Tensor


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
    if num_queries > 1 or attention_mask is None:  # prompts
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
            return self._logits(tokens, positions, length)[: len(tokens_B)]
        if (size, length) not in self._graphs:
            self._graphs[size, length] = self._captured(tokens, positions, length)
        graph, tokens_in, positions_in, logits = self._graphs[size, length]
        tokens_in.copy_(tokens)
        positions_in.copy_(positions)
        graph.replay()
        return logits[: len(tokens_B)]

    def _captured(
        self, tokens_B: Tensor, positions_B: Tensor, length: int
    ) -> tuple[torch.cuda.CUDAGraph, Tensor, Tensor, Tensor]:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # kernels are chosen and memory is made outside of the graph
            for _ in range(2):
                self._logits(tokens_B, positions_B, length)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            logits_BV = self._logits(tokens_B, positions_B, length)
        return graph, tokens_B, positions_B, logits_BV

    def _logits(self, tokens_B: Tensor, positions_B: Tensor, length: int) -> Tensor:
        self._slots.point(positions_B, length)
        is_seen_BL = torch.arange(length, device=positions_B.device) <= positions_B[:, None]
        output = self._model(
            input_ids=tokens_B[:, None],
            position_ids=positions_B[:, None],
            attention_mask=is_seen_BL[:, None, None],
            past_key_values=self._slots,
            use_cache=True,
        )
        logits_BV: Tensor = output.logits[:, -1]
        return logits_BV


def _power_of_two(number: int, smallest: int) -> int:
    """Return the next power of two, so that there are few different shapes.

    Example:
        >>> [_power_of_two(number, 8) for number in (1, 8, 9, 100)]
        [8, 8, 16, 128]
    """
    return max(smallest, 1 << (number - 1).bit_length())
