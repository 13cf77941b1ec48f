"""What a folder must hold to be trained and served, and a checkpoint as an engine and prompts need it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def check_description(folder: Path, source: str) -> None:
    """Check the small files of a checkpoint: is it a causal LM, and trainable. Messages name its ``source``.

    Whether it needs a chat template depends on how prompts are put to it, see :mod:`ada_lightning.data.formats`.

    Raises:
        ValueError: something is missing or cannot be trained.
    """
    config = read_json(folder / "config.json", source)
    architectures = config.get("architectures") or []
    if not any(name.endswith("ForCausalLM") for name in architectures):
        raise ValueError(f"{source} is not a causal language model: its config.json says architectures={architectures}")
    if "quantization_config" in config:
        method = config["quantization_config"].get("quant_method", "unknown")
        raise ValueError(
            f"{source} is quantised ({method}) and cannot be trained; name the full-precision checkpoint it came from"
        )
    if (folder / "adapter_config.json").exists():
        raise ValueError(
            f"{source} has adapters in addition to its weights (adapter_config.json). transformers would add them to "
            "the weights, and an engine would not. Merge them (peft's merge_and_unload) and name the resulting folder. "
            "An adapter of a head that is tied to the embedding has to be untied first: peft 0.21 merges it into both"
        )


def check_weights(folder: Path, source: str) -> None:
    """Check that the large files of a checkpoint are there: weights as safetensors, every shard, and the tokenizer.

    Raises:
        ValueError: a file is missing; it is named.
    """
    expected = ["model.safetensors"]
    if not (folder / "model.safetensors").exists():
        index = folder / "model.safetensors.index.json"
        if not index.exists():
            raise ValueError(
                f"{source} has no safetensors weights; convert it once with "
                "`AutoModelForCausalLM.from_pretrained(...).save_pretrained(folder)` and set model.path to that folder"
            )
        expected = sorted(set(read_json(index, source)["weight_map"].values()))
    missing = [name for name in expected if not (folder / name).exists()]
    if missing:
        raise ValueError(f"{source} is incomplete: {', '.join(missing)} missing in {folder}; download it again")
    if not any((folder / name).exists() for name in ("tokenizer.json", "tokenizer.model", "vocab.json")):
        raise ValueError(f"{source} has no tokenizer in {folder}; copy the tokenizer's files there")


def check_readable(folder: Path) -> None:
    """Read what stands at the head of each file that is about to be loaded: milliseconds, whatever the model's size.

    Raises:
        ValueError: a file is cut off or overwritten; it is named.
    """
    from safetensors import safe_open

    for file in sorted([*folder.glob("*.json"), *folder.glob("*.safetensors")]):
        try:
            if file.suffix == ".json":
                json.loads(file.read_text(encoding="utf-8"))
            else:
                with safe_open(file, framework="pt"):
                    pass
        except Exception as error:  # safetensors has an error of its own
            raise ValueError(
                f"{file} is damaged ({type(error).__name__}: {error}); delete it with its folder, rm -r {folder}: what "
                "is there is made, or downloaded, anew at the next start. Your own model: restore it from its source"
            ) from error


def read_json(file: Path, source: str) -> dict[str, Any]:
    """Read a JSON object of a checkpoint.

    Raises:
        ValueError: the file is missing or broken.
    """
    try:
        content = json.loads(file.read_text())
    except FileNotFoundError as error:
        raise ValueError(f"{source} is not a Hugging Face checkpoint: there is no {file}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{source} is broken: {file} is not JSON ({error}); download it again") from error
    if not isinstance(content, dict):
        raise ValueError(f"{source} is broken: {file} does not hold a JSON object; download it again")
    return content


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A checkpoint as an engine needs it."""

    path: Path
    """Folder in Hugging Face format."""
    tokenizer: Any
    eos_token_ids: list[int]
    """Tokens that end a response."""


def read_model(path: Path) -> ServedModel:
    """Read the files that accompany a checkpoint's weights.

    Raises:
        ValueError: one of its files is damaged, or no token ends a response.
    """
    from transformers import AutoTokenizer

    check_readable(path)
    tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    return ServedModel(path, tokenizer, _eos_token_ids(path, tokenizer))


def _eos_token_ids(model_path: Path, tokenizer: Any) -> list[int]:
    """Tokens that end a response: those of the generation config, or else of the model's, and the tokenizer's."""
    from transformers import AutoConfig, GenerationConfig

    kind = GenerationConfig if (model_path / "generation_config.json").exists() else AutoConfig
    given: dict[str, Any] = {} if kind is GenerationConfig else {"trust_remote_code": False}
    eos = kind.from_pretrained(model_path, **given).eos_token_id
    ids = set(eos if isinstance(eos, list) else [eos]) | {tokenizer.eos_token_id}
    found = sorted(token for token in ids if token is not None)
    if not found:
        raise ValueError(
            f"{model_path} does not name the token that ends a response, so responses would run to the length limit; "
            "set eos_token_id in its generation_config.json, or eos_token in its tokenizer_config.json"
        )
    return found
