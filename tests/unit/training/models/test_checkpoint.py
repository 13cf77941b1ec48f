import json
import shutil

import pytest

from ada_lightning.training.models.served import check_description, check_readable, check_weights

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"]}))
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"")
    return tmp_path


def test_a_complete_checkpoint_passes_in_one_file_or_in_shards(folder):
    """A base model too: whether it is asked in roles, data/formats says."""
    check_description(folder, "name")
    check_weights(folder, "name")
    (folder / "model.safetensors").rename(folder / SHARDS[0])
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": dict(zip("ab", SHARDS, strict=True))})
    )
    with pytest.raises(ValueError, match=r"incomplete: model-00002-of-00002\.safetensors missing"):
        check_weights(folder, "name")
    (folder / SHARDS[1]).write_bytes(b"")
    check_weights(folder, "name")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"name is not a Hugging Face checkpoint: there is no .*config\.json"),
        ("{", r"config\.json is not JSON .* download it again"),
        ("[]", "does not hold a JSON object"),
        ('{"architectures": ["BertModel"]}', r"not a causal language model.*\['BertModel'\]"),
        (
            '{"architectures": ["LlamaForCausalLM"], "quantization_config": {"quant_method": "awq"}}',
            r"quantised \(awq\) and cannot be trained; name the full-precision",
        ),
    ],
)
def test_description_that_cannot_be_trained_is_refused(folder, content, message):
    (folder / "config.json").unlink()
    if content is not None:
        (folder / "config.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        check_description(folder, "name")


def test_adapters_beside_the_weights_are_refused(folder):
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"adapters in addition to its weights \(adapter_config.json\).*Merge them"):
        check_description(folder, "name")


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("model.safetensors", r"no safetensors weights; convert it once with .*save_pretrained"),
        ("tokenizer.json", "has no tokenizer in"),
    ],
)
def test_what_is_missing_is_named_and_pickles_are_not_weights(folder, file, message):
    (folder / file).rename(folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match=message):
        check_weights(folder, "name")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_damaged_file_is_named_with_how_to_renew_it(tiny_path, tmp_path, name):
    folder = tmp_path / "model"
    shutil.copytree(tiny_path, folder)
    check_readable(folder)
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=rf"{name} is damaged .*rm -r {folder}"):
        check_readable(folder)
