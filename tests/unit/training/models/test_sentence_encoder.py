"""With a tiny encoder of random weights, made here; nothing is downloaded."""

from __future__ import annotations

import contextlib
import io
import shutil

import pytest
import torch
from omegaconf import OmegaConf

from ada_lightning.config.view import ConfigView
from ada_lightning.core.protocols import PromptEmbedding
from ada_lightning.core.records import Prompt
from ada_lightning.methods.estimators import FixedLengthScale, GaussianProcessEstimator
from ada_lightning.methods.estimators.sentence_encoder import SentenceEncoder
from ada_lightning.training.models.tiny import byte_tokenizer
from tests.builders import make_pool

WIDTH = 32


def make_encoder(folder, width=WIDTH):
    from transformers import BertConfig, BertModel

    tokenizer = byte_tokenizer()
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=128,
    )
    with torch.random.fork_rng(devices=[]), contextlib.redirect_stderr(io.StringIO()):
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


def prompt(text, key="p1", system=None):
    turns = [{"role": "system", "content": system}] if system else []
    return Prompt(key, (*turns, {"role": "user", "content": text}))


def encode(folder, *prompts, **settings):
    return SentenceEncoder(path=str(folder), **{"max_tokens": 64} | settings)(prompts, represent=None)


def test_it_is_the_mean_over_the_tokens_at_length_one_and_padding_is_none(folder):
    from transformers import AutoModel, AutoTokenizer

    encoder = SentenceEncoder(path=str(folder), max_tokens=64)
    encoder.check()
    assert isinstance(encoder, PromptEmbedding)
    texts, before = ["short", "a text that is rather longer", "mid length"], torch.get_rng_state()
    rows_PH = encode(folder, *map(prompt, texts), batch_size=2)
    assert torch.equal(torch.get_rng_state(), before)
    assert (rows_PH.dtype, rows_PH.requires_grad) == (torch.float32, False)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    for text, row_H in zip(texts, rows_PH, strict=True):
        with torch.no_grad():
            hidden_TH = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        mean_H = hidden_TH.mean(0)
        assert torch.allclose(row_H, mean_H / mean_H.norm(), atol=1e-5)  # float32, padded attention


def test_text_is_what_the_user_asks(folder):
    bare, instructed = encode(folder, prompt("2 + 2"), prompt("2 + 2", system="Think step by step."))
    assert torch.allclose(bare, instructed, atol=1e-6)
    only_system = Prompt("p", ({"role": "system", "content": "2 + 2"},))
    assert torch.allclose(encode(folder, only_system)[0], bare, atol=1e-6)


def test_long_texts_are_cut(folder):
    start = "x" * 16
    cut, whole = encode(folder, prompt(start + "y" * 300), prompt(start), max_tokens=16)
    assert torch.allclose(cut, whole, atol=1e-6)


def test_a_gaussian_process_over_it_resumes_and_refuses_another_encoder(folder, tmp_path):
    def process(path):
        return GaussianProcessEstimator(
            embedding=SentenceEncoder(path=str(path), max_tokens=64), length_scale=FixedLengthScale(value=0.4)
        )

    first = process(folder)
    known, new = prompt("What is 3 + 4?", "p7"), prompt("What is 3 + 5?", "p8")
    first.predict([known], represent=None)
    first.update([make_pool([1.0, 1.0, 1.0, 0.0])])
    second = process(folder)
    second.load_state_dict(first.state_dict())
    (belief,) = second.predict([new], represent=None)
    assert belief == first.predict([new], represent=None)[0]
    assert 0.5 < belief.mean < 0.75
    other = process(make_encoder(tmp_path / "wide", width=64))
    other.load_state_dict(first.state_dict())
    with pytest.raises(
        ValueError, match=r"SentenceEncoder gives embeddings of 64 numbers, .* have 32: .* another model"
    ):
        other.predict([prompt("A third one?", "p9")], represent=None)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("config.json", r"lacks config.json; save the encoder with save_pretrained"),
        ("tokenizer.json", r"lacks a tokenizer \(tokenizer.json\)"),
        ("model.safetensors", r"lacks weights \(model.safetensors\)"),
    ],
)
def test_an_incomplete_folder_is_found_by_the_check(folder, tmp_path, missing, message):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / missing).unlink()
    with pytest.raises(ValueError, match=message):
        SentenceEncoder(path=str(copy)).check()


def test_more_tokens_than_positions_are_refused_with_their_number(folder):
    with pytest.raises(ValueError, match=r"max_tokens = 256 exceeds the 128 positions of .*; use .*max_tokens=128 or"):
        SentenceEncoder(path=str(folder)).check()


def test_the_check_of_the_configuration_reaches_it(tmp_path):
    estimators = "ada_lightning.methods.estimators"
    embedding = {"_target_": f"{estimators}.sentence_encoder.SentenceEncoder", "path": f"{tmp_path}/none"}
    scale = {"_target_": f"{estimators}.MedianDistance"}
    process = {"_target_": f"{estimators}.GaussianProcessEstimator", "embedding": embedding, "length_scale": scale}
    (error,) = ConfigView(OmegaConf.create({"estimator": process})).errors("estimator")
    assert error.startswith("estimator: estimator.embedding.path=")
    assert error.endswith("does not exist; give a folder with an encoder, or a hub id (organisation/name)")


def test_an_encoder_out_of_reach_says_how_to_go_on(monkeypatch, tmp_path):
    from huggingface_hub import HfApi

    def refuse(*args, **kwargs):
        raise OSError("no route to host\nmore")

    monkeypatch.setattr(HfApi, "model_info", refuse)
    with pytest.raises(ValueError, match=r"not in the local cache, .*no route to host\); .*estimator/embedding=words"):
        SentenceEncoder(path="nobody/no-such-encoder").check()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"path": ""}, r"path must be a hub id or a local folder; got ''"),
        ({"path": "what is this?"}, "neither a folder nor a hub id"),
        ({"path": "/a/b", "revision": "v1"}, r"revision must be left out for the local folder /a/b; got v1"),
        ({"path": "", "batch_size": 0}, r"path must be .*; estimator.embedding.batch_size must be at least 1; got 0"),
    ],
)
def test_settings_that_cannot_work_are_rejected(settings, message):
    with pytest.raises(ValueError, match=message):
        SentenceEncoder(**settings).check()
