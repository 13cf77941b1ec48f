from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
START = "from ada_lightning.run.scratch import use_own_scratch; use_own_scratch(); import tempfile, os; "


def run(code, folder):
    environment = os.environ | {"TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", START + code], env=environment, capture_output=True, text=True)


def test_temporary_files_go_with_the_process_and_those_of_a_killed_one_at_the_next_start(tmp_path_factory):
    above = tmp_path_factory.mktemp("t")
    (above / "ada_lightning-mine").mkdir()  # a name that is not of this kind
    leave = "tempfile.mkdtemp(prefix='pymp-'); "
    assert run(leave + "os.kill(os.getpid(), 9)", above).returncode == -9
    assert list(above.glob("ada_lightning-*/pymp-*"))
    assert run(leave, above).returncode == 0
    assert [path.name for path in above.iterdir()] == ["ada_lightning-mine"]


def test_the_folder_of_a_living_process_stays(tmp_path_factory):
    above = tmp_path_factory.mktemp("t")
    another = f"subprocess.run([sys.executable, '-c', {START!r}], env=os.environ | {{'TMPDIR': {str(above)!r}}}); "
    nested = "import subprocess, sys; " + another
    done = run(nested + "print(os.path.isdir(tempfile.gettempdir()), tempfile.gettempdir())", above)
    assert done.stdout.split()[0] == "True", done.stderr
    assert str(above) in done.stdout


def test_multiprocessing_removes_its_own_folder_first(tmp_path_factory):
    above = tmp_path_factory.mktemp("t")
    code = "import multiprocessing.util; " + START + "multiprocessing.util.get_temp_dir()"
    environment = os.environ | {"TMPDIR": str(above), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr, list(above.iterdir())) == (0, "", [])
