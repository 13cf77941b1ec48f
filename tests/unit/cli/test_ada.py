"""The command ``ada`` and the programs that it starts."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from ada_lightning.cli import ada
from ada_lightning.programs import export, report
from ada_lightning.run.terminal import start_of


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


@pytest.mark.parametrize("program", [report, export])
@pytest.mark.parametrize("is_installed", [False, True], ids=["checkout", "wheel"])
def test_the_help_of_a_program_has_commands_as_this_one_was_started(monkeypatch, capsys, program, is_installed):
    name = program.__name__.rpartition(".")[2]
    spec = importlib.util.find_spec(f"ada_lightning.programs.{name}") if is_installed else None
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec)
    with pytest.raises(SystemExit):
        program.main(["--help"])
    own, other = (f"ada {name}", f"python {name}.py")[:: 1 if is_installed else -1]
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: {own} ")
    assert shown.count(f"\n  {own} ") == 4
    assert other not in shown


def test_a_program_that_does_not_compose_does_not_wait_for_hydra():
    code = (
        "import sys; from ada_lightning.programs import export, report; "
        "sys.exit(bool({'hydra', 'torch'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
