"""How packed documents attend, on every device, by torch's own kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import scaled_dot_product_attention

from ada_lightning.training.attention.layout import LongDocument, PackedLayout, ShortDocuments, is_hidden
from ada_lightning.training.attention.varlen import attend_varlen, can_attend
from ada_lightning.training.batch import Microbatch


def attend_short(query_tMC: Tensor, key_tNC: Tensor, value_tNC: Tensor, block: ShortDocuments, scale: float) -> Tensor:
    """Let the documents of a block attend each to itself.

    The CPU's flash kernel spends most of its backward pass on overhead at this size; products over all documents and
    heads at once take a third of its time. The probabilities are kept for the backward pass, ``D * M * W**2`` numbers
    of the inputs' type, which is why long documents go elsewhere.

    Args:
        query_tMC: M query heads of size C. Shape ``(t, M, C)``, t being the block's tokens.
        key_tNC: N key heads, each for ``M / N`` query heads in order. Shape ``(t, N, C)``.
        value_tNC: as keys.
        block: where the documents are.
        scale: of the scores.

    Returns:
        Shape ``(t, M, C)``.
    """
    result: Tensor = _AttendShort.apply(query_tMC, key_tNC, value_tNC, block, scale)
    return result


class _AttendShort(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query_tMC: Tensor, key_tNC: Tensor, value_tNC: Tensor, block: ShortDocuments, scale: float
    ) -> Tensor:
        query, key, value = (_side_by_side(x, block, key_tNC.shape[1]) for x in (query_tMC, key_tNC, value_tNC))
        with torch.autocast(query.device.type, enabled=False):  # on a GPU it would make the probabilities float32
            scores = torch.bmm(query, key.mT).mul_(scale)  # (D * N, M / N * W, W)
            num_documents, width = len(block.lengths), block.width
            by_document = scores.view(num_documents, -1, width, width)
            by_document.masked_fill_(block.hidden[:, None], float("-inf"))
            probabilities = torch.softmax(scores, dim=-1)
            attended = torch.bmm(probabilities, value)
        ctx.save_for_backward(query, key, value, probabilities)
        ctx.block, ctx.scale = block, scale
        return _end_to_end(attended, block, query_tMC)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_tMC: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, probabilities = ctx.saved_tensors
        num_heads = key.shape[0] // len(ctx.block.lengths)
        grad = _side_by_side(grad_tMC.to(value.dtype), ctx.block, num_heads, fill=False)
        with torch.autocast(grad.device.type, enabled=False):  # a backward pass inside of it would be cast, too
            grad_value = torch.bmm(probabilities.mT, grad)
            grad_scores = torch._softmax_backward_data(
                torch.bmm(grad, value.mT), probabilities, -1, probabilities.dtype
            ).mul_(ctx.scale)
            grad_query, grad_key = torch.bmm(grad_scores, key), torch.bmm(grad_scores.mT, query)
        like_key = grad_tMC[:, :num_heads]
        return (
            _end_to_end(grad_query, ctx.block, grad_tMC),
            _end_to_end(grad_key, ctx.block, like_key),
            _end_to_end(grad_value, ctx.block, like_key),
            None,
            None,
        )


def _side_by_side(x_tMC: Tensor, block: ShortDocuments, num_key_heads: int, *, fill: bool = True) -> Tensor:
    """From ``(t, M, C)`` to ``(D * N, M / N * W, C)``; padding repeats a token, or is zero with ``fill=False``."""
    num_documents, width, size = len(block.lengths), block.width, x_tMC.shape[-1]
    if fill:
        x_SMC = x_tMC[block.token_in_slot]
    else:
        x_SMC = x_tMC.new_zeros(num_documents * width, *x_tMC.shape[1:]).index_copy_(0, block.slot_t, x_tMC)
    x_DWNgC = x_SMC.view(num_documents, width, num_key_heads, -1, size)
    return x_DWNgC.permute(0, 2, 3, 1, 4).reshape(num_documents * num_key_heads, -1, size)


def _end_to_end(x: Tensor, block: ShortDocuments, like_tMC: Tensor) -> Tensor:
    """Undo :func:`_side_by_side`."""
    num_documents, num_heads, size = len(block.lengths), like_tMC.shape[1], like_tMC.shape[2]
    x_DMWC = x.view(num_documents, num_heads, block.width, size)
    return x_DMWC.transpose(1, 2).reshape(-1, num_heads, size)[block.slot_t]


ONE_MASK = 1024
"""Longest document of several responses that is attended to with one mask. A guess between measured sizes: at 1000
tokens both ways took the same, at 4100 one mask took twice as long."""


def attend_long(
    query_1MtC: Tensor, key_1MtC: Tensor, value_1MtC: Tensor, document: LongDocument, scale: float, window: int = 0
) -> Tensor:
    """Attend to one document, response by response.

    Response by response above a thousand tokens: a mask over the whole document costs the blocks between responses,
    which are empty, and four responses of 1000 tokens take twice as long that way. Behind its prompt each response is a
    plain causal sequence, which needs no mask at all; the prompt's queries are computed again with each, and only the
    first result is used. Where the prompt is longer than the response, that costs more than a mask of response by
    keys, which is used instead. Shorter documents get one mask, since calls cost more than blocks there.

    Args:
        query_1MtC: M heads of size C over the document's t tokens. Shape ``(1, M, t, C)``.
        key_1MtC: the same for the keys.
        value_1MtC: and the values.
        document: its parts.
        scale: of the scores.
        window: tokens that a sliding window lets a query see, itself included; 0 where there is none.

    Returns:
        Shape ``(1, M, t, C)``.
    """
    num_prompt, *num_responses = document.lengths
    if len(num_responses) > 1 and document.num_tokens <= ONE_MASK and not window:
        is_visible = ~is_hidden((document.lengths,), query_1MtC.device)[0]
        return scaled_dot_product_attention(query_1MtC, key_1MtC, value_1MtC, attn_mask=is_visible, scale=scale)
    if len(num_responses) < 2:
        return _causal(query_1MtC, key_1MtC, value_1MtC, scale, window)
    # Split, not sliced: the gradient of a slice is as large as what it was taken from.
    (prompt_query, *queries), (prompt_key, *keys), (prompt_value, *values) = (
        x.split(document.lengths, dim=2) for x in (query_1MtC, key_1MtC, value_1MtC)
    )
    outputs: list[Tensor] = []
    for query, own_key, own_value in zip(queries, keys, values, strict=True):
        key, value = torch.cat([prompt_key, own_key], dim=2), torch.cat([prompt_value, own_value], dim=2)
        num_tokens = query.shape[2]
        if not outputs or num_tokens >= num_prompt:
            attended = _causal(torch.cat([prompt_query, query], dim=2), key, value, scale, window)
            outputs.append(attended if not outputs else attended[:, :, num_prompt:])
        elif num_tokens:
            outputs.append(_causal(query, key, value, scale, window))
    return torch.cat(outputs, dim=2)


def _causal(query: Tensor, key: Tensor, value: Tensor, scale: float, window: int) -> Tensor:
    """Causal attention of the last positions of a sequence, or of all."""
    num_queries, num_keys = query.shape[2], key.shape[2]
    mask = None
    if num_queries < num_keys or 0 < window < num_keys:
        distance = torch.arange(num_keys - num_queries, num_keys, device=key.device)[:, None]
        distance = distance - torch.arange(num_keys, device=key.device)
        mask = (distance >= 0) & (distance < (window or num_keys))
    return scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=mask is None, scale=scale)


QueryKeyValue = tuple[Tensor, Tensor, Tensor]
_NOT_SUPPORTED = ("softcap", "s_aux", "position_bias")
"""What some architectures hand to their attention function and this one does not know."""

_DROPOUTS = (
    "activation_dropout", "attention_dropout", "attn_pdrop", "dropout", "embd_pdrop", "hidden_dropout", "resid_pdrop"
)  # fmt: skip
"""Settings by which the architectures of transformers leave out activations."""


class PackedAttention:
    """Packed tokens attend to those before them in their response, and to its prompt; only that is computed.

    In half precision on an NVIDIA GPU from Ampere on, one kernel serves all documents
    (:mod:`~ada_lightning.training.attention.varlen`); elsewhere they are attended to piece by piece. Registers its
    function with transformers as ``ada_packed``. Sliding windows are kept; an architecture that caps its scores, has
    attention sinks or position biases is refused at its first forward pass, before any training.
    """

    implementation = "ada_packed"
    """Name of its function in transformers."""

    def __init__(self) -> None:
        from transformers import AttentionInterface

        AttentionInterface.register(self.implementation, packed_attention)

    def check_model(self, model: Any) -> None:
        """Refuse a transformers model whose layers would carry something from one packed document to the next.

        Raises:
            ValueError: it has recurrent or convolutional layers, attention in chunks of positions, or dropout.
        """
        config, name = model.config, type(model).__name__
        layer_types = set(getattr(config, "layer_types", None) or ())
        others = sorted(layer_types - {"full_attention", "sliding_attention"})
        if getattr(model, "_is_stateful", False) or others:
            what = f"layers of type {', '.join(others)}" if others else "layers with a state"
            raise ValueError(
                f"{name} has {what}, which would carry state from one packed response into the next; use a model whose "
                "layers are all attention"
            )
        if drops := [f"{key} = {getattr(config, key):g}" for key in _DROPOUTS if getattr(config, key, 0.0)]:
            raise ValueError(
                f"{name} leaves out activations at random while training ({', '.join(drops)}), so its "
                "log-probabilities are not those of the policy that sampled; set that to 0 in its config.json"
            )

    def arguments(self, microbatch: Microbatch) -> dict[str, Any]:
        """Arguments of the model for this microbatch."""
        return {"packed": PackedLayout(microbatch.document_lengths, microbatch.input_ids_T.device)}


@torch.compiler.disable  # its pieces differ from microbatch to microbatch: each would be compiled anew
def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    packed: PackedLayout | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attend within documents, with the signature that transformers gives attention functions.

    Args:
        module: the layer.
        query: shape ``(batch, query heads, T, C)``.
        key: shape ``(batch, key heads, T, C)``.
        value: as key.
        attention_mask: None, since transformers builds no mask for a function of ours.
        dropout: 0.
        scaling: of the scores.
        sliding_window: tokens a query sees, itself included.
        packed: the documents of the one row; left out where every row is one sequence.
        others: what else transformers passes to layers.

    Returns:
        Shape ``(batch, T, query heads, C)``, and no attention weights.

    Raises:
        ValueError: the architecture asks for something that this function does not do.
    """
    asked = [name for name in _NOT_SUPPORTED if others.get(name) is not None]
    asked += ["dropout"] * (dropout > 0) + ["a mask"] * (attention_mask is not None)
    asked += ["values of another size than keys"] * (value.shape[-1] != query.shape[-1])
    if asked:
        raise ValueError(
            f"{type(module).__name__} needs {', '.join(asked)}, which packed attention lacks; use another model"
        )
    if torch.is_autocast_enabled(query.device.type):
        # Rotary embeddings leave queries and keys in float32.
        dtype = torch.get_autocast_dtype(query.device.type)
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    window = sliding_window or 0
    if packed is None:
        rows = zip(query.split(1), key.split(1), value.split(1), strict=True)
        whole = PackedLayout(((query.shape[2],),), query.device)
        return torch.cat([_attend(row, whole, scale, window) for row in rows]), None
    return _attend((query, key, value), packed, scale, window), None


def _attend(tensors: QueryKeyValue, packed: PackedLayout, scale: float, window: int) -> Tensor:
    """Return shape ``(1, T, query heads, C)``."""
    query_TMC, key_TNC, value_TNC = by_token = [x[0].transpose(0, 1) for x in tensors]
    if can_attend(query_TMC):
        return attend_varlen(query_TMC, key_TNC, value_TNC, packed.sequences, scale, window)[None]
    if not _is_off_in_half(query_TMC):
        return _attend_to_pieces(by_token, packed, scale, window)
    with torch.autocast(query_TMC.device.type, enabled=False):
        result = _attend_to_pieces([x.float() for x in by_token], packed, scale, window)
    return result.to(query_TMC.dtype)


def _is_off_in_half(query: Tensor) -> bool:
    """Whether the kernels for single documents are too far off there: on a GPU those with masks are (docs/gpu.md)."""
    return query.is_cuda and query.dtype != torch.float32


def _attend_to_pieces(by_token: Sequence[Tensor], packed: PackedLayout, scale: float, window: int) -> Tensor:
    sizes = [piece.num_tokens for piece in packed.pieces]
    outputs = []
    for piece, query, key, value in zip(packed.pieces, *(x.split(sizes) for x in by_token), strict=True):
        if isinstance(piece, ShortDocuments) and not 0 < window < piece.longest:
            outputs.append(attend_short(query, key, value, piece, scale))
            continue
        documents = piece.apart() if isinstance(piece, ShortDocuments) else [piece]
        own = [document.num_tokens for document in documents]
        for document, *mine in zip(documents, *(x.split(own) for x in (query, key, value)), strict=True):
            heads = _repeat_heads(*(x.transpose(0, 1)[None] for x in mine))
            outputs.append(attend_long(*heads, document, scale, window)[0].transpose(0, 1))
    return torch.cat(outputs)[None]


def _repeat_heads(query: Tensor, key: Tensor, value: Tensor) -> QueryKeyValue:
    """Give every query head keys of its own: with shared ones torch leaves its fast kernels on a CPU and with masks."""
    repeats = query.shape[1] // key.shape[1]
    if repeats == 1:
        return query, key, value
    return query, key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)
