"""A checkpoint as an engine and prompts need it: its folder, its tokenizer, and the tokens that end a response."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ada_lightning.training.models.checkpoint import check_readable


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A checkpoint as an engine needs it."""

    path: Path
    """Folder in Hugging Face format."""
    tokenizer: Any
    eos_token_ids: list[int]
    """Tokens that end a response."""


def read_model(path: Path) -> ServedModel:
    """Read what stands beside a checkpoint's weights.

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
            f"{model_path} names no token that ends a response, so every response would run to the length limit; set "
            "eos_token_id in its generation_config.json, or eos_token in its tokenizer_config.json"
        )
    return found
