"""Any pretrained model in Hugging Face format, from the hub or from a folder."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

from ada_lightning.training.models.served import check_description, check_weights, read_json

# Files that say what a checkpoint is, and files that are the checkpoint. Never *.bin or *.pth: they are pickles.
_DESCRIPTION = ["config.json", "generation_config.json", "tokenizer_config.json", "chat_template.jinja"]
_CHECKPOINT = ["*.json", "*.jinja", "*.txt", "tokenizer.model", "model*.safetensors"]
_HUB_TIMEOUT_S = 5.0


class Pretrained:
    """A causal LM by hub id or local folder.

    Args:
        path: hub id (``organisation/name``) or local folder. An existing folder wins.
        revision: branch, tag or commit on the hub. Name a commit to make a run repeatable.

    Raises:
        ValueError: ``path`` is empty, or a revision was asked of a local folder.
    """

    def __init__(self, *, path: str, revision: str = "main") -> None:
        if not path:
            raise ValueError("model.path must be a hub id or a local folder; got ''")
        self.path = path
        self.revision = revision
        self._folder = Path(path).expanduser()
        self._is_local = self._folder.is_dir() or path.startswith(("/", ".", "~")) or path.count("/") > 1
        if self._is_local and revision != "main":
            raise ValueError(f"model.revision must be left out for the local folder {path}; got {revision}")

    def check(self) -> None:
        """Check that this is a model we can train, from its small files only. Takes seconds at most.

        Raises:
            ValueError: it does not exist, is out of reach or cannot be trained.
        """
        if self._is_local:
            self._check_folder(self._folder)
        elif self._cached() is None:
            with contextlib.redirect_stderr(io.StringIO()):  # no progress bar for a few kilobytes
                folder = self._download(_DESCRIPTION)
            check_description(folder, self.path)

    def description(self) -> dict[str, Any]:
        """Return ``config.json``, as far as it is on this machine; empty where it is not.

        Raises:
            ValueError: it is broken.
        """
        from huggingface_hub import try_to_load_from_cache

        file: Any = self._folder / "config.json"
        if not self._is_local:
            file = try_to_load_from_cache(self.path, "config.json", revision=self.revision)
        return read_json(Path(file), self.path) if isinstance(file, str | Path) else {}

    def prepare(self) -> Path:
        """Return the folder of the checkpoint, downloaded to the Hugging Face cache where it comes from the hub.

        A complete copy in that cache is used without asking the hub, so that a run does not depend on the network.

        Raises:
            ValueError: as for :meth:`check`, or a file is missing.
        """
        folder = self._folder.absolute() if self._is_local else self._cached() or self._download(_CHECKPOINT)
        self._check_folder(folder)
        return folder

    def _check_folder(self, folder: Path) -> None:
        """Check a checkpoint that is on this machine."""
        if not folder.is_dir():
            raise ValueError(
                f"model.path={self.path} does not exist; give a folder with config.json and safetensors, a hub id "
                "(organisation/name), or use model=smollm2_135m, which needs no hub"
            )
        check_description(folder, self.path)
        check_weights(folder, self.path)

    def _cached(self) -> Path | None:
        """Return the model's folder in the hub's cache where it is complete, so that no network is needed."""
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError

        try:
            folder = Path(
                snapshot_download(self.path, revision=self.revision, allow_patterns=_CHECKPOINT, local_files_only=True)
            )
            self._check_folder(folder)
        except HFValidationError as error:
            raise ValueError(f"model.path={self.path} is neither a folder nor a hub id: {error}") from error
        except (OSError, ValueError):  # nothing, or the part that an earlier check() or an interrupted download left
            return None
        return folder

    def _download(self, patterns: list[str]) -> Path:
        """Bring files of the hub's model to its cache and return their folder."""
        from huggingface_hub import HfApi, snapshot_download
        from huggingface_hub.errors import HTTPError

        try:
            # One question with a short patience, because a download retries for half a minute.
            HfApi().model_info(self.path, revision=self.revision, timeout=_HUB_TIMEOUT_S)
            folder = snapshot_download(
                self.path, revision=self.revision, allow_patterns=patterns, etag_timeout=_HUB_TIMEOUT_S
            )
        except (HTTPError, OSError) as error:
            raise ValueError(f"model.path={self.path}: {self._explain(error)}") from error
        return Path(folder)

    def _explain(self, error: Exception) -> str:
        """Say what an error of the hub means, with the way out."""
        from huggingface_hub.errors import (
            GatedRepoError,
            OfflineModeIsEnabled,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )

        if isinstance(error, GatedRepoError):  # before its parent, RepositoryNotFoundError
            return "its licence must be accepted on its page at the hub; then `hf auth login`, or set HF_TOKEN"
        if isinstance(error, RepositoryNotFoundError):
            return (
                "no such folder, and no such model on the hub; check the spelling, or `hf auth login` if it is private"
            )
        if isinstance(error, RevisionNotFoundError):
            return f"no revision {self.revision} on the hub; use main, or one that its page lists"
        elsewhere = "set model.path to a local folder, or use model=smollm2_135m, which needs no hub"
        if isinstance(error, OfflineModeIsEnabled):
            return f"not in the local cache, and HF_HUB_OFFLINE is set; unset it to download, {elsewhere}"
        reason = str(error).partition("\n")[0]
        return (
            f"the hub cannot be reached ({type(error).__name__}: {reason}); name a mirror in HF_ENDPOINT, {elsewhere}"
        )
