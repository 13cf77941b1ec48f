"""Shell lines of the pages: their programs, files, make targets and extras are there and know the options they get.

What ``train``, ``evaluate``, ``prepare``, ``report``, ``export`` and ``audit`` are given is the business of
``test_documented_commands.py``; what verl's program is given, that of ``adapters/test_verl.py``. Programs of others
(``torchrun``, ``mlflow``, ...) are only known by name here: a wrong option of theirs is not seen.
"""

from __future__ import annotations

import argparse
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from ada_lightning.cli import ada
from ada_lightning.config.described import described
from ada_lightning.run import doctor
from tests.unit.documented import PAGES, ROOT

SHELL = {"export", "source", "trap", "wait", "[", "{", "case", "cd", "chmod", "cp", "ls", "mkdir", "printf"}
THEIRS = {
    "ray",
    "git",
    "apt-get",
    "torchrun",
    "srun",
    "mlflow",
    "tensorboard",
    "wandb",
    "trackio",
    "pre-commit",
    "docker",
    "rl",
}
OURS = {"python", "pytest", "ada", "make", "pip", "bash"}
OF_HYDRA = {"train.py", "evaluate.py", "prepare.py", "report.py", "export.py"}
THEIR_MODULES = {"verl.trainer.main_ppo"}
_BLOCK = re.compile(r"^```(?:bash|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(rf"`((?:\.venv/bin/)?(?:{'|'.join(OURS | THEIRS)}) [^`\n]+)`")
_OPTION = re.compile(r"(?<!\S)--[a-z][\w-]*")


def read(page):
    return (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ") if page.endswith(".md") else ""


def blocks():
    return [(page, block) for page in PAGES for block in _BLOCK.findall(read(page))]


def lines():
    """Commands of blocks and of inline code: the page, the words without the program of Python, what the comment says.

    A script within quotes is one word; what is between ``<`` and ``>`` is a blank.
    """
    texts = [(page, text) for page, block in blocks() for text in split(block)]
    texts += [(page, text) for page in PAGES for text in _INLINE.findall(read(page))]
    for page, text in texts:
        command, _, comment = text.partition(" # ")
        command = re.sub(r"^[a-z]+=\$\((.*)\)$", r"\1", command)  # what a command prints, kept in a variable
        words = shlex.split(re.sub(r"<([^<>]*)>", "BLANK", command.split(" & ")[0]), comments=True)
        while words and re.match(r"[A-Z]+=", words[0]):
            words = words[1:]
        if words:
            yield page, [words[0].removeprefix(".venv/bin/"), *words[1:]], comment


def split(block):
    """Return the lines of a block, one for each command; a quoted text may have several."""
    found = [""]
    for line in block.splitlines():
        found[-1] += line
        if len(re.findall(r'(?<!\\)"', found[-1].partition(" # ")[0])) % 2 == 0:
            found.append("")
        else:
            found[-1] += "\n"
    return [part.strip() for line in found for part in line.split(" && ") if part.strip()[:1] not in ("", "#", "+")]


LINES = [(page, words, comment) for page, words, comment in lines()]


def started(what):
    """Lines that start a file or a module with Python: its name, the words behind it, the comment."""
    for page, words, comment in LINES:
        if words[0].removesuffix("3") == "python" and (words[1:2] == ["-m"]) == (what == "module"):
            rest = words[2:] if what == "module" else words[1:]
            yield page, rest[0] if rest else "", rest[1:], comment


def test_every_program_is_known():
    assert len(LINES) > 150
    assert {words[0] for _, words, _ in LINES} <= SHELL | THEIRS | OURS | {"python3"}


@pytest.mark.parametrize(("page", "block"), blocks(), ids=lambda value: str(value)[:60])
def test_a_block_is_a_shell_script(page, block):
    text = re.sub(r"<([^<>\n]*)>", "BLANK", block)
    checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
    assert checked.stderr == ""


def test_every_target_of_make_and_every_extra_is_there():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {word for _, words, _ in LINES if words[0] == "make" for word in words[1:] if "=" not in word}
    assert named
    assert named <= targets
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pattern = re.compile(r"(?:^\.|^ada[-_]lightning)\[([\w,-]+)\]")
    asked = {
        extra
        for _, words, _ in LINES
        if words[0] == "pip"
        for word in words
        if (found := pattern.search(word))
        for extra in found[1].split(",")
    }
    assert asked
    assert asked <= set(extras)


def test_every_file_and_module_that_is_started_is_there():
    files = {name for _, name, _, _ in started("file") if not name.startswith("-")}
    assert files > OF_HYDRA
    assert [name for name in files if not (ROOT / name).is_file()] == []
    modules = {name for _, name, _, _ in started("module")} - THEIR_MODULES
    assert "research.benchmarks.tables" in modules
    assert [name for name in modules if find_spec(name) is None] == []
    tests = [word for _, words, _ in LINES if "pytest" in words for word in words if word.startswith("tests/")]
    assert tests
    assert [word for word in tests if not (ROOT / word.replace("/BLANK", "")).exists()] == []
    scripts = [words[1] for _, words, _ in LINES if words[0] == "bash"]
    assert [name for name in scripts if not (ROOT / name).is_file()] == []


def test_what_ada_describe_is_asked_for_is_there():
    names = {words[2] for _, words, _ in LINES if words[:2] == ["ada", "describe"] and words[2:]} - {"NAME"}
    assert names
    assert all(described(name) for name in names)
    programs = {words[1] for _, words, _ in LINES if words[0] == "ada" and "=" not in words[1]}  # or the method of it
    assert programs <= set(ada.PROGRAMS)


def test_scripts_within_a_line_are_python():
    scripts = [rest[0] for _, name, rest, _ in started("file") if name == "-c"]
    assert len(scripts) == 2
    for script in scripts:
        compile(script, "page", "exec")


def test_the_problems_of_the_first_page_are_as_many_as_its_command_trains_on(tmp_path, monkeypatch):
    (script,) = [rest[0] for page, name, rest, _ in started("file") if (page, name) == ("docs/start.md", "-c")]
    monkeypatch.chdir(tmp_path)
    exec(script, {})
    rows = Path("my.jsonl").read_text().splitlines()
    assert len(set(rows)) == 5 * 98 * 8


class ParsedError(Exception):
    """Instead of the work of a program: its parser has read the words."""


def parser_of(name, words, monkeypatch):
    """Start a program up to where it has read its words; ``SystemExit`` where it refuses them."""
    parse = argparse.ArgumentParser.parse_args

    def stop(self, args=None, namespace=None):
        parse(self, args, namespace)
        raise ParsedError(self)

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    monkeypatch.setattr(sys, "argv", [name, *words])
    with pytest.raises(ParsedError) as found:
        runpy.run_module(name, run_name="__main__")
    return found.value.args[0]


def with_options():
    """Lines for programs of ``research/`` that get words, or whose comment names options; ``a|b`` stands for either."""
    for page, name, rest, comment in started("module"):
        told = set(_OPTION.findall(comment)) - set(rest)
        if name.startswith("research.") and (rest or told):
            yield pytest.param(name, rest, told, id=f"{page} {name} {' '.join([*rest, *sorted(told)])}"[:90])


@pytest.mark.filterwarnings("ignore:.*found in sys.modules after import:RuntimeWarning")  # of runpy
@pytest.mark.parametrize(("name", "words", "told"), list(with_options()))
def test_a_program_knows_the_options_of_the_page(name, words, told, monkeypatch):
    parser = parser_of(name, [word.split("|")[0] for word in words], monkeypatch)
    assert told <= set(parser._option_string_actions)


def test_a_script_names_the_options_of_the_page():
    """Of ``scripts/`` and ``examples/`` only the text is read: what examples do with options, their tests ask."""
    asked = [(name, {*rest, *_OPTION.findall(comment)}) for _, name, rest, comment in started("file") if "/" in name]
    options = {(name, option) for name, words in asked for option in words if option.startswith("--")}
    assert ("examples/trl_ada.py", "--steps") in options
    assert [pair for pair in sorted(options) if f'"{pair[1]}"' not in (ROOT / pair[0]).read_text()] == []


def test_the_doctor_knows_its_options():
    asked = {word for _, words, _ in LINES if words[:2] == ["ada", "doctor"] for word in words[2:]}
    assert asked == {"--repair"}
    with pytest.raises(SystemExit) as end:
        doctor.main([*asked, "--help"])
    assert end.value.code == 0


def test_a_wrong_option_is_seen(monkeypatch):
    with pytest.raises(SystemExit):
        parser_of("research.benchmarks.estimator_bias", ["--simulated", "3"], monkeypatch)


@pytest.mark.parametrize(("experiment", "points"), [("ada_seq_balance", True), ("auto", False)])
def test_make_train_ends_with_what_would_test_choosing_unless_it_did(experiment, points):
    dry = ["make", "-n", "-o", "setup", "train", f"EXPERIMENT={experiment}"]
    outside_make = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "ARGS"))
    }
    done = subprocess.run(dry, cwd=ROOT, env=outside_make, capture_output=True, text=True, check=True)
    first, *others = done.stdout.splitlines()
    assert first.strip().endswith(f"train.py +experiment={experiment}")
    assert any("make train EXPERIMENT=auto" in line for line in others) == points
