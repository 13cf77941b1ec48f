"""The command ``ada`` and the programs that it starts."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from ada_lightning.cli import ada
from ada_lightning.programs.command import start_of


@pytest.fixture
def started(monkeypatch):
    """Call ``ada`` with a command line; returns what it became."""
    became = []
    monkeypatch.setattr("os.execv", lambda file, words: became.append((file, words)) or sys.exit())

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["ada", *words])
        with pytest.raises(SystemExit) as end:
            ada.main()
        return became, end.value.code

    return call


def test_a_program_takes_the_place_of_the_command(started):
    became, _ = started("train", "+experiment=grpo", "num_steps=3")
    words = [sys.executable, "-m", "ada_lightning.cli.train", "+experiment=grpo", "num_steps=3"]
    assert became == [(sys.executable, words)]


@pytest.mark.parametrize("name", ada.PROGRAMS)
def test_every_program_is_there_and_listed(name):
    assert importlib.util.find_spec(ada.PROGRAMS[name][0])
    assert f"  ada {name} " in ada.usage()


def test_a_wrong_name_gets_the_nearest(started, capsys):
    assert started("evalute") == ([], 2)
    assert capsys.readouterr().err == "error: there is no program 'evalute'; did you mean ada evaluate?\n"


@pytest.mark.parametrize(
    ("module", "words"),
    [(None, ["python", "train.py"]), ("ada_lightning.cli.train", ["ada", "train"]), ("pytest", ["python", "train.py"])],
)
def test_a_command_to_go_on_with_is_spelt_as_this_program_was_started(monkeypatch, module, words):
    spec = module and importlib.util.find_spec(module)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec)
    assert start_of("train") == words
