"""The version is that of the tag, and of the changelog where there is none."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import ada_lightning

ROOT = Path(__file__).resolve().parent.parent.parent
NEXT = re.search(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]


def git(folder, *arguments):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments], cwd=folder, check=True)


@pytest.fixture
def version_of(tmp_path):
    """What a build in a folder with this project's settings would be called."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)

    def ask():
        command = [sys.executable, "-m", "hatchling", "version"]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    return ask


def test_the_version_follows_the_tags_and_the_changelog_without_any(version_of, tmp_path):
    assert version_of() == f"{NEXT}.dev0"  # a source archive
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "pyproject.toml")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    assert version_of().startswith(f"{NEXT}.dev1+g")  # a checkout of one commit
    git(tmp_path, "tag", "v7.8.9")
    assert version_of() == "7.8.9"
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "second")
    assert version_of().startswith("7.8.10.dev1+g")


def test_what_has_to_name_the_next_version_agrees():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["version"]
    assert settings["fallback-version"] == f"{NEXT}.dev0"
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == NEXT


def test_a_version_is_there_and_nothing_that_is_not():
    assert re.match(r"\d+", ada_lightning.__version__)
    with pytest.raises(AttributeError, match="has no attribute 'version'"):
        _ = ada_lightning.version
