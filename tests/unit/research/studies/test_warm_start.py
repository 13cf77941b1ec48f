"""The field's runs start from the committed model, which knows how sums go and gets them wrong."""

import random

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from research.studies.field import warm_start
from research.studies.field.sums import problems, worked
from research.studies.supervised import labelled


@pytest.fixture
def model_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(warm_start, "MODEL", tmp_path / "some" / "model")
    warm_start.prepare_model()
    return warm_start.MODEL


def test_the_committed_model_is_unpacked_and_likes_right_workings_better_than_wrong_ones(model_folder):
    model, tokenizer = AutoModelForCausalLM.from_pretrained(model_folder), AutoTokenizer.from_pretrained(model_folder)

    class NoSlips:
        def random(self):
            return 1.0

    def loss(slips):
        pairs = [(question, worked(question, slips)) for question, _ in problems(size=64, seed=7)]
        token_ids_BT, labels_BT = labelled(tokenizer, pairs)
        with torch.no_grad():
            return float(model(input_ids=token_ids_BT, labels=labels_BT).loss)

    assert loss(NoSlips()) < loss(random.Random(0)) < 1.0  # nats per token; a guess among all letters has more than 5


def test_another_model_in_its_place_is_refused(model_folder):
    (model_folder / "note").touch()
    warm_start.prepare_model()
    assert (model_folder / "note").exists()  # it is there already
    weights = model_folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match="not the model that the committed results start from; move it away"):
        warm_start.prepare_model()


def test_a_model_can_be_trained_anew(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(warm_start, "NUM_STEPS", 2)
    monkeypatch.setattr(warm_start, "MODEL", tmp_path / "untouched")
    warm_start.main(["--into", str(tmp_path / "mine")])
    assert capsys.readouterr().out.strip() == str(tmp_path / "mine")
    weights = [
        AutoModelForCausalLM.from_pretrained(folder).state_dict()
        for folder in (tmp_path / "mine", warm_start.COMMITTED)
    ]
    assert [tensor.shape for tensor in weights[0].values()] == [tensor.shape for tensor in weights[1].values()]
    assert any(not torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not warm_start.MODEL.exists()
    with pytest.raises(SystemExit, match=r"--into .*mine is there already"):
        warm_start.main(["--into", str(tmp_path / "mine")])
