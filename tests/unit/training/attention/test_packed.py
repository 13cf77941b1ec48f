from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from ada_lightning.training.attention import packed, varlen
from ada_lightning.training.attention.layout import LongDocument, ShortDocuments, packed_pieces
from ada_lightning.training.attention.packed import packed_attention

CPU = torch.device("cpu")


def test_pieces_cover_all_tokens_in_order_and_pad_little():
    pieces = packed_pieces([(300, 40, 1000), (100, 100), (90, 60), (20, 10), (20, 5)], CPU)
    assert pieces == (
        LongDocument((300, 40, 1000)),
        ShortDocuments(((100, 100), (90, 60)), CPU),
        ShortDocuments(((20, 10), (20, 5)), CPU),
    )


def test_what_the_function_does_not_know_is_refused():
    x = torch.zeros(1, 1, 2, 4)
    for unknown in ({"softcap": 30.0}, {"s_aux": x}, {"dropout": 0.1}, {"position_bias": x}):
        with pytest.raises(ValueError, match=f"Identity needs {next(iter(unknown))}, which packed attention lacks"):
            packed_attention(torch.nn.Identity(), x, x, x, None, **unknown)
    with pytest.raises(ValueError, match="needs values of another size than keys"):
        packed_attention(torch.nn.Identity(), x, x, x[..., :2], None)
    with pytest.raises(ValueError, match="needs a mask"):
        packed_attention(torch.nn.Identity(), x, x, x, x)


@pytest.mark.parametrize("window", [None, 3, 64])
def test_rows_without_documents_are_causal_sequences(window):
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 4, 5, 8)
    ours, _ = packed_attention(torch.nn.Identity(), query, key, value, None, sliding_window=window)
    is_seen = torch.ones(5, 5).tril().bool() & ~torch.ones(5, 5).tril(-(window or 5)).bool()
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_seen).transpose(1, 2)
    torch.testing.assert_close(ours, expected)


def test_where_half_precision_is_off_documents_are_attended_to_in_float32(monkeypatch):
    """On a GPU that torch's kernel is not for; the CPU stands for it."""
    monkeypatch.setattr(packed, "_is_off_in_half", lambda query: query.dtype != torch.float32)
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 1, 4, 50, 12)
    halves = [x.bfloat16() for x in (query, key, value)]
    exact, _ = packed_attention(torch.nn.Identity(), *(x.float() for x in halves), None, sliding_window=9)
    with torch.autocast("cpu", torch.bfloat16):
        ours, _ = packed_attention(torch.nn.Identity(), query, key, value, None, sliding_window=9)
    assert ours.dtype == torch.bfloat16
    torch.testing.assert_close(ours, exact.bfloat16(), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("changed", "is_taken"),
    [
        ({}, True),
        ({"dtype": torch.float16}, True),
        ({"shape": (5, 2, 256)}, True),
        ({"dtype": torch.float32}, False),
        ({"is_cuda": False}, False),
        ({"shape": (5, 2, 264)}, False),
        ({"shape": (5, 2, 60)}, False),
    ],
)
def test_torchs_kernel_is_given_what_it_takes(changed, is_taken, monkeypatch):
    monkeypatch.setattr(varlen, "_has_kernel", lambda device: device == "a GPU")
    query = {"dtype": torch.bfloat16, "shape": (5, 2, 64), "is_cuda": True, "device": "a GPU"}
    assert varlen.can_attend(SimpleNamespace(**query | changed)) is is_taken
