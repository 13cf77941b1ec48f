"""Writes exported weights with their card, whole or not at all, and sends them to the hub."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from ada_lightning.analysis.export.card import PICTURES, model_card
from ada_lightning.analysis.export.source import ExportSource


def check_output(output: Path) -> None:
    """Refuse a folder that is there.

    Raises:
        ValueError: it is.
    """
    if output.exists() or output.is_symlink():
        raise ValueError(f"{output} exists already; choose another: --output <folder>")


def write_folder(source: ExportSource, output: Path, *, evaluations: Sequence[Path] = ()) -> list[Path]:
    """Copy the weights, the tokenizer and the run's pictures, and write ``README.md``, the card.

    Args:
        source: weights and run.
        output: a folder that does not exist; made last, by renaming.
        evaluations: folders of finished evaluations of these weights, for the card.

    Returns:
        Its files.

    Raises:
        ValueError: the folder exists, or an evaluation is not of these weights; nothing is written.
        OSError: the disk is full, say; nothing is left of what was written.
    """
    check_output(output)
    pictures = [name for name in PICTURES if _is_file(source.run.folder / name)]
    card = model_card(source, evaluations=evaluations, pictures=pictures)
    output.parent.mkdir(parents=True, exist_ok=True)
    unfinished = output.with_name(f".{output.name}.tmp{os.getpid()}")
    try:
        shutil.copytree(source.weights, unfinished, copy_function=shutil.copyfile)  # with rights of a new file
        for name in pictures:
            shutil.copyfile(source.run.folder / name, unfinished / name)
        (unfinished / "README.md").write_text(card, encoding="utf-8")
        unfinished.rename(output)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return sorted(path for path in output.rglob("*") if path.is_file())


def _is_file(path: Path) -> bool:
    """Whether it is a file of the folder itself, which may be anybody's, and not a link out of it."""
    return path.is_file() and not path.is_symlink()


class PushError(Exception):
    """The hub did not take a folder, which is written all the same."""


def check_destination(repo_id: str) -> str:
    """Find out who would push, before anything is written.

    Returns:
        Name of the account.

    Raises:
        ValueError: the name cannot be one of the hub, nobody is logged in, or the hub does not answer.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise ValueError(f"--push {repo_id} is not a name on the hub (organisation/name): {error}") from error
    if not re.fullmatch(r"[^/]+/[^/]+", repo_id):
        raise ValueError(f"--push {repo_id} is not a complete name on the hub: write organisation/name or user/name")
    api = HfApi()
    try:
        return str(api.whoami()["name"])
    except Exception as error:  # of the network, of the hub, of a token: each has errors of its own
        raise ValueError(
            f"--push {repo_id}: {api.endpoint} does not know your account ({_line(error)}); log in with "
            "`hf auth login` or HF_TOKEN=<token>, or leave out --push and upload the folder later: "
            "hf upload <organisation/name> <folder>"
        ) from error


def push_folder(folder: Path, repo_id: str, *, is_public: bool, message: str) -> str:
    """Upload a folder as one model, which is made where it does not exist; of one that exists, only files change.

    Args:
        folder: what is uploaded.
        repo_id: ``organisation/name``.
        is_public: who may see a model that is made now; one that exists stays as it is.
        message: first line of the commit.

    Returns:
        Address of the model.

    Raises:
        PushError: the hub refused it, or was lost on the way.
    """
    from huggingface_hub import HfApi

    api = HfApi()
    try:
        address = api.create_repo(repo_id, private=not is_public, exist_ok=True)
        api.upload_folder(folder_path=folder, repo_id=repo_id, commit_message=message)
    except Exception as error:
        raise PushError(
            f"{api.endpoint} did not take {repo_id} ({_line(error)}); the folder is written, upload it later: "
            f"hf upload {repo_id} {folder}"
        ) from error
    return str(address)


def _line(error: Exception) -> str:
    """Spell an error of the hub's client, which may have many lines, in one."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
