from __future__ import annotations

import json

import pytest
import torch
from transformers import AutoModelForCausalLM

from ada_lightning.parallel.checkpoint_writer import write_checkpoint
from ada_lightning.parallel.sharding import CheckpointReader


@pytest.fixture(scope="module")
def model(tiny_path):
    return AutoModelForCausalLM.from_pretrained(tiny_path, dtype=torch.float32)


def test_several_files_load_as_the_same_model(model, tmp_path):
    limit = 400_000
    write_checkpoint(tmp_path, model, model.named_parameters(), max_file_bytes=limit)
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) > 5
    assert files[0].name == f"model-00001-of-{len(files):05d}.safetensors"
    assert max(file.stat().st_size for file in files) < limit + 10_000  # and the header
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == sum(4 * p.numel() for p in model.parameters())
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    torch.testing.assert_close(dict(loaded.named_parameters()), dict(model.named_parameters()), rtol=0, atol=0)
    reader = CheckpointReader(tmp_path)
    name = "model.layers.2.mlp.up_proj.weight"
    torch.testing.assert_close(reader.read(name), model.get_parameter(name).detach(), rtol=0, atol=0)
    assert reader.has([name])
    assert not reader.has([name, "model.layers.99.mlp.up_proj.weight"])


def test_other_tensors_than_announced_are_an_error(model, tmp_path):
    swapped = list(model.named_parameters())
    swapped[0], swapped[1] = swapped[1], swapped[0]
    with pytest.raises(ValueError, match=r"expected the tensor model.embed_tokens.weight of shape \(259, 128\); got"):
        write_checkpoint(tmp_path, model, swapped)
    with pytest.raises(ValueError, match="the model announced no tensor extra"):
        write_checkpoint(tmp_path, model, [*model.named_parameters(), ("extra", torch.zeros(1))])
