"""Embeds prompts with any encoder in Hugging Face format, such as those of sentence-transformers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ada_lightning.core.checks import refuse, unmet
from ada_lightning.core.options import option
from ada_lightning.core.protocols import PromptEmbedding, Represent
from ada_lightning.core.records import Prompt

if TYPE_CHECKING:
    from torch import Tensor

_FILES = [
    "config.json",
    "tokenizer*",
    "special_tokens_map.json",
    "vocab*",
    "merges.txt",
    "*.model",
    "model*.safetensors",
]
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json", "spiece.model")
_HUB_TIMEOUT_S = 5.0


@option("estimator/embedding", "sentence")
class SentenceEncoder(PromptEmbedding):
    """A sentence encoder, mean-pooled and normalised (arXiv:2602.01601: all-MiniLM-L6-v2, 384 dimensions).

    The mean of the last hidden states over a text's tokens, scaled to length 1, is what most models of
    sentence-transformers compute, ``all-MiniLM-L6-v2`` among them. A model that pools otherwise (by its first token,
    say) is pooled by the mean here all the same. The text is the prompt's turns without the system's, one per line.

    Args:
        path: hub id (``organisation/name``) or local folder with ``config.json``, a tokenizer and safetensors; the
            paper's unless given.
        revision: branch, tag or commit on the hub. Name a commit to make a run repeatable.
        max_tokens: of a text; what is longer is cut at the end (256: that model's own limit).
        batch_size: texts that pass through the encoder at once; ``estimator=similar_prompts`` encodes each by itself.

    Raises:
        ValueError: an empty path, a revision of a local folder, or a size below 1; all in one message.
    """

    def __init__(
        self,
        *,
        path: str = "sentence-transformers/all-MiniLM-L6-v2",
        revision: str = "main",
        max_tokens: int = 256,
        batch_size: int = 32,
    ) -> None:
        self._folder = Path(path).expanduser()
        self._is_local = self._folder.is_dir() or path.startswith(("/", ".", "~")) or path.count("/") > 1
        is_revised_folder = bool(path) and self._is_local and revision != "main"
        name = "estimator.embedding"
        refuse(
            *unmet(
                (bool(path), f"{name}.path must be a hub id or a local folder", repr(path)),
                (not is_revised_folder, f"{name}.revision must be left out for the local folder {path}", revision),
                (max_tokens >= 1, f"{name}.max_tokens must be at least 1", max_tokens),
                (batch_size >= 1, f"{name}.batch_size must be at least 1", batch_size),
            )
        )
        self.path = path
        self.revision = revision
        self.max_tokens = max_tokens
        self.batch_size = batch_size
        self._loaded: tuple[Any, Any] | None = None

    def check(self) -> None:
        """Check that the encoder is there; from the hub it is brought to the local cache, where it is not yet.

        Raises:
            ValueError: it does not exist, is out of reach or incomplete.
        """
        self._prepare()

    def __call__(self, prompts: Sequence[Prompt], represent: Represent) -> Tensor:
        """Encode the prompts; ``represent`` is not called. Shape ``(P, H)``, float32, rows of length 1."""
        import torch

        tokenizer, model = self._load()
        texts = [prompt_text(prompt) for prompt in prompts]
        rows = []
        with torch.no_grad():
            for start in range(0, len(texts), self.batch_size):
                encoded = tokenizer(
                    texts[start : start + self.batch_size],
                    padding=True,
                    truncation=True,
                    max_length=self.max_tokens,
                    return_tensors="pt",
                )
                hidden_PTH = model(**encoded).last_hidden_state
                mask_PT1 = encoded["attention_mask"][..., None].to(hidden_PTH.dtype)
                rows.append((hidden_PTH * mask_PT1).sum(1) / mask_PT1.sum(1).clamp_min(1.0))
        return torch.nn.functional.normalize(torch.cat(rows), dim=1)

    def _load(self) -> tuple[Any, Any]:
        """Return tokenizer and model, read at the first call; torch's generator is left as it was."""
        if self._loaded is None:
            import torch
            from transformers import AutoModel, AutoTokenizer

            folder = self._prepare()
            with torch.random.fork_rng(devices=[]):
                model = AutoModel.from_pretrained(
                    folder, dtype=torch.float32, trust_remote_code=False, use_safetensors=True
                ).eval()
            self._loaded = AutoTokenizer.from_pretrained(folder, trust_remote_code=False), model
        return self._loaded

    def _prepare(self) -> Path:
        folder = self._folder.absolute() if self._is_local else self._from_hub()
        source = f"estimator.embedding.path={self.path}"
        if not folder.is_dir():
            raise ValueError(f"{source} does not exist; give a folder with an encoder, or a hub id (organisation/name)")
        missing = [] if (folder / "config.json").is_file() else ["config.json"]
        missing += [] if any((folder / name).exists() for name in _TOKENIZERS) else ["a tokenizer (tokenizer.json)"]
        missing += [] if any(folder.glob("model*.safetensors")) else ["weights (model.safetensors)"]
        if missing:
            raise ValueError(f"{source} lacks {', '.join(missing)}; save the encoder with save_pretrained(folder)")
        limit = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("max_position_embeddings")
        if isinstance(limit, int) and self.max_tokens > limit:
            raise ValueError(
                f"estimator.embedding.max_tokens = {self.max_tokens} exceeds the {limit} positions of {self.path}; "
                f"use estimator.embedding.max_tokens={limit} or fewer"
            )
        return folder

    def _from_hub(self) -> Path:
        """Return the folder in the hub's cache; a copy there is used without asking the hub."""
        from huggingface_hub import HfApi, snapshot_download
        from huggingface_hub.errors import HFValidationError, HTTPError

        try:
            folder = snapshot_download(self.path, revision=self.revision, allow_patterns=_FILES, local_files_only=True)
            if any(Path(folder).glob("model*.safetensors")):
                return Path(folder)
        except HFValidationError as error:
            raise ValueError(
                f"estimator.embedding.path={self.path} is neither a folder nor a hub id: {error}"
            ) from error
        except OSError:
            pass  # nothing in the cache
        try:
            HfApi().model_info(self.path, revision=self.revision, timeout=_HUB_TIMEOUT_S)
            return Path(
                snapshot_download(self.path, revision=self.revision, allow_patterns=_FILES, etag_timeout=_HUB_TIMEOUT_S)
            )
        except (HTTPError, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(
                f"estimator.embedding.path={self.path} is not in the local cache, and the hub did not give it "
                f"({type(error).__name__}: {reason}); give a local folder, or use estimator/embedding=words, which "
                "needs no model"
            ) from error


def prompt_text(prompt: Prompt) -> str:
    """Return the turns of a prompt without the system's, one per line; the system's where there are no others."""
    turns = [turn["content"] for turn in prompt.messages if turn["role"] != "system"]
    return "\n".join(turns or [turn["content"] for turn in prompt.messages])
