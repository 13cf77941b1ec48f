"""The command ``ada`` and the programs that it starts."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from functools import partial

import pytest

from ada_lightning.cli import ada
from ada_lightning.config.generated import CONFIG_DIR
from ada_lightning.config.overrides import override_errors
from ada_lightning.programs import export, report
from ada_lightning.run.terminal import UNREAD, start_of


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
    assert started("TRAIN") == ([], 2)
    assert capsys.readouterr().err == "error: there is no program 'TRAIN'; did you mean ada train?\n"
    assert started("--helpp") == ([], 2)
    assert capsys.readouterr().err == "error: there is no program '--helpp'; did you mean ada --help?\n"


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


def test_the_first_commands_compose():
    composed = [words for _, program, *words in map(str.split, ada.FIRST) if program == "train"]
    assert len(composed) == 2
    for words in composed:
        assert override_errors(words, CONFIG_DIR, "train") == []
    assert all(command in ada.usage() for command in ada.FIRST)


@pytest.mark.parametrize(
    "words",
    [
        ["ada_lightning.cli.ada"],
        ["ada_lightning.programs.describe"],
        ["ada_lightning.programs.report", "--help"],
        ["ada_lightning.programs.export", "--help"],
        ["ada_lightning.audit", "--help"],
        ["ada_lightning.run.doctor", "--help"],
        ["ada_lightning.cli.prepare", "--help"],
        ["ada_lightning.cli.train", "--cfg", "job"],
    ],
    ids=" ".join,
)
def test_output_that_nobody_reads_is_no_traceback(words):
    reader, writer = os.pipe()
    os.close(reader)  # as head closes it; here before the first line, so that even short output is unread
    try:
        ended = subprocess.run(
            [sys.executable, "-m", *words], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(writer)
    assert ended.stderr == ""
    assert ended.returncode in (UNREAD, -signal.SIGPIPE, 0)  # 0: argparse itself takes no notice


def test_a_job_whose_output_nobody_reads_says_so_and_another_broken_pipe_is_an_error():
    code = (
        "import sys; from ada_lightning.run.terminal import until_nobody_reads\n"
        "with until_nobody_reads('stopped: unread'):\n    {body}"
    )
    run = partial(subprocess.run, stderr=subprocess.PIPE, text=True, check=False)
    reader, writer = os.pipe()
    os.close(reader)
    ended = run([sys.executable, "-c", code.format(body="print('x' * 100_000)")], stdout=writer)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (UNREAD, "stopped: unread\n")
    other = run([sys.executable, "-c", code.format(body="raise BrokenPipeError('of a worker')")])
    assert other.returncode == 1
    assert "of a worker" in other.stderr


def test_a_program_that_does_not_compose_does_not_wait_for_hydra():
    code = (
        "import sys; from ada_lightning.programs import export, report; "
        "sys.exit(bool({'hydra', 'torch'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
