"""How packed documents attend, on every device, by torch's own kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ada_lightning.training.attention.by_document import attend_long, attend_short
from ada_lightning.training.attention.layout import PackedLayout, ShortDocuments
from ada_lightning.training.attention.varlen import attend_varlen, can_attend
from ada_lightning.training.batch import Microbatch

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
                f"{name} has {what}, which would run on from one packed response into the next; use a model whose "
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
            f"{type(module).__name__} needs {', '.join(asked)}, which packed attention does not do; use another model"
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
