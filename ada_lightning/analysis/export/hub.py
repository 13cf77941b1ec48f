"""Pushes an exported folder to the Hugging Face hub, or to another one that ``HF_ENDPOINT`` names."""

from __future__ import annotations

import re
from pathlib import Path


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
        raise ValueError(f"--push {repo_id} is no name on the hub, organisation/name: {error}") from error
    if not re.fullmatch(r"[^/]+/[^/]+", repo_id):
        raise ValueError(f"--push {repo_id} is no whole name on the hub: write organisation/name, or your user/name")
    api = HfApi()
    try:
        return str(api.whoami()["name"])
    except Exception as error:  # of the network, of the hub, of a token: each has errors of its own
        raise ValueError(
            f"--push {repo_id}: {api.endpoint} does not know who pushes ({_line(error)}); log in with "
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
