import json
import shutil

import pytest

from ada_lightning.training.models.checkpoint import check_description, check_readable, check_weights


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"]}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"")
    return tmp_path


def test_complete_checkpoint_passes(folder):
    check_description(folder, "name")
    check_weights(folder, "name")


def test_a_base_model_passes_and_is_asked_without_roles(folder):
    """How prompts are put to it, data/format says."""
    (folder / "tokenizer_config.json").write_text("{}")
    check_description(folder, "name")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", None, r"name is not a Hugging Face checkpoint: there is no .*config\.json"),
        ("config.json", "{", r"config\.json is not JSON .* download it again"),
        ("config.json", "[]", "holds no JSON object"),
        ("config.json", '{"architectures": ["BertModel"]}', r"not a causal language model.*\['BertModel'\]"),
        (
            "config.json",
            '{"architectures": ["LlamaForCausalLM"], "quantization_config": {"quant_method": "awq"}}',
            r"quantised \(awq\) and cannot be trained; name the full-precision",
        ),
    ],
)
def test_description_that_cannot_be_trained_is_refused(folder, file, content, message):
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_text(content)
    with pytest.raises(ValueError, match=message):
        check_description(folder, "name")


def test_pickled_weights_are_refused(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"no safetensors weights; convert it once with .*save_pretrained"):
        check_weights(folder, "name")


def test_missing_shard_is_named(folder):
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    with pytest.raises(ValueError, match=r"incomplete: model-00002-of-00002\.safetensors missing"):
        check_weights(folder, "name")
    (folder / "model-00002-of-00002.safetensors").write_bytes(b"")
    check_weights(folder, "name")


def test_missing_tokenizer_is_reported(folder):
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match="has no tokenizer in"):
        check_weights(folder, "name")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_damaged_file_is_named_with_how_to_renew_it(tiny_path, tmp_path, name):
    folder = tmp_path / "model"
    shutil.copytree(tiny_path, folder)
    check_readable(folder)
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=rf"{name} is damaged .*rm -r {folder}"):
        check_readable(folder)
