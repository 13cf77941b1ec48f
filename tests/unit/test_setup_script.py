"""``scripts/setup.py`` against a Python that records what it is asked to do."""

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def script(tmp_path, monkeypatch):
    specification = importlib.util.spec_from_file_location("setup_script", ROOT / "scripts" / "setup.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "VENV_PYTHON", tmp_path / ".venv" / "bin" / "python")
    return module


@pytest.fixture
def fake_python(script):
    """Install a ``.venv`` whose Python fails on arguments that match a pattern, and return its log."""

    def install(failing_pattern):
        script.VENV_PYTHON.parent.mkdir(parents=True)
        log = script.VENV / "log"
        script.VENV_PYTHON.write_text(
            f'#!/bin/sh\necho "$*" >> {log}\n'
            f'case "$*" in {failing_pattern}) echo "ERROR: No matching distribution" >&2; exit 1;; esac\n'
        )
        script.VENV_PYTHON.chmod(0o755)
        return log

    return install


def test_torch_comes_from_the_configured_indexes_where_they_have_it(script, fake_python):
    log = fake_python("nothing")
    script.install_torch()
    (command,) = log.read_text().splitlines()
    assert command.endswith(script.locked_pin("torch"))
    assert "--index-url" not in command
    assert "--retries 1 --timeout 15" in command


def test_torch_comes_from_pytorchs_index_where_the_configured_ones_lack_it(script, fake_python):
    log = fake_python("*retries*15?-qq?torch*")
    script.install_torch()
    _, command = log.read_text().splitlines()
    assert f"--index-url {script.TORCH_CPU_INDEX} torch==" in command


def test_torch_found_nowhere_ends_with_the_reasons_and_the_way_out(script, fake_python):
    fake_python("*torch*")
    with pytest.raises(SystemExit, match=r"(?s)ERROR: No matching.*ERROR: No matching.*PIP_FIND_LINKS=folder make"):
        script.install_torch()


@pytest.fixture
def fake_uv(script):
    """Put a uv beside the Python that logs where it looks and what it is asked, and ends with this status."""

    def install(status):
        uv = script.VENV / "bin" / "uv"
        uv.write_text(f'#!/bin/sh\necho "$UV_DEFAULT_INDEX|$UV_INDEX|$*" >> {script.VENV}/uv\nexit {status}\n')
        uv.chmod(0o755)
        return script.VENV / "uv"

    return install


def test_uv_installs_the_lock_from_where_pip_is_configured_to_look(script, fake_python, fake_uv, monkeypatch):
    log = fake_python("nothing")
    configured = script.VENV / "configured"
    configured.write_text(
        "global.index-url='https://one/simple'\n"
        r"global.extra-index-url='\nhttps://two/simple\nhttps://three/simple'" + "\n"
        ":env:.index-url='https://four/simple'\n"
    )
    with script.VENV_PYTHON.open("a") as python:
        python.write(f'case "$*" in *config*) cat {configured};; esac\n')
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX"):
        monkeypatch.delenv(name, raising=False)
    uv = fake_uv(0)
    script.install_packages()
    where, more, asked = uv.read_text().strip().split("|")
    assert (where, more) == ("https://four/simple", "https://two/simple https://three/simple")
    assert asked.startswith("pip install --no-deps")
    assert str(script.LOCK) in asked
    assert not [line for line in log.read_text().splitlines() if "-r " in line]


@pytest.mark.parametrize(("failing", "status"), [("*uv==*", 0), ("nothing", 1)])
def test_pip_installs_the_lock_where_uv_cannot_be_had_or_fails(script, fake_python, fake_uv, failing, status):
    log = fake_python(failing)
    fake_uv(status)
    script.install_packages()
    assert log.read_text().splitlines()[-1].endswith(f"-qq -r {script.LOCK}")


def test_missing_compiler_is_found_out_before_the_downloads(script, fake_python):
    fake_python("*pycosat*")
    with pytest.raises(SystemExit, match="build-essential python3-dev"):
        script.install_pycosat()


def test_cuda_torch_is_not_replaced(script):
    site_packages = script.VENV / "lib" / "python3.11" / "site-packages"
    (site_packages / "torch-2.13.0+cpu.dist-info").mkdir(parents=True)
    script.check_not_cuda()
    (site_packages / "torch-2.13.0+cpu.dist-info").rename(site_packages / "torch-2.13.0.dist-info")
    with pytest.raises(SystemExit, match=r"holds torch-2\.13\.0, which is not a CPU build"):
        script.check_not_cuda()


def test_other_platforms_are_told_what_to_use(script, monkeypatch):
    monkeypatch.setattr(script.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(script.platform, "machine", lambda: "arm64")
    with pytest.raises(SystemExit, match=r"this is Darwin on arm64. Use a Linux virtual machine or WSL"):
        script.check_platform()


def test_old_python_looks_for_a_newer_one_and_else_says_which(script, monkeypatch, tmp_path):
    monkeypatch.setattr(script.sys, "version_info", (3, 9, 1))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match=r"Python 3\.11 to 3\.14 is needed; .*make setup PYTHON="):
        script.find_python()
    newer = tmp_path / "python3.12"
    newer.write_text("#!/bin/sh\n")
    newer.chmod(0o755)
    assert script.find_python() == str(newer)


def made(folder, *arguments, **variables):
    outside_make = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    environment = outside_make | variables
    done = subprocess.run(["make", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_python_keeps_what_it_compiled_where_make_runs_it(tmp_path):
    """Or every start compiles torch, vllm and the rest anew."""
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text() + "\nshow:\n\t@env\n")
    shown = made(tmp_path, "show", PYTHONDONTWRITEBYTECODE="1", KEPT="1")
    assert "KEPT=1" in shown
    assert not [line for line in shown if line.startswith("PYTHONDONTWRITEBYTECODE=")]


def test_make_sets_up_before_it_trains_or_tests_and_only_when_needed(tmp_path):
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())
    for name in ("pyproject.toml", "requirements/cpu.txt", "scripts/setup.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")

    def planned(goal):
        return made(tmp_path, "--dry-run", goal, "ARGS=a=1")

    train = ".venv/bin/python train.py +experiment=ada_seq_balance a=1"
    hint = 'echo "would it pay to choose prompts? a run that tests it: make train EXPERIMENT=auto (docs/auto.md)"'
    assert planned("train") == ["python3 scripts/setup.py", "touch .venv/.ready", train, hint]
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".ready").write_text("")
    assert planned("train") == [train, hint]
    assert [
        line.removeprefix(".venv/bin/python -m ").removeprefix(".venv/bin/python ").split()[0]
        for line in planned("test")
    ] == ["ruff", "ruff", "mypy", "scripts/lint_prose.py", "pytest"]
