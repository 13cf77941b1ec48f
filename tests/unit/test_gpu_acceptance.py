"""The points of ``docs/gpu_acceptance.sh`` and what runs them, with stand-ins for the points, the card and engines."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import weakref
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hydra import compose, initialize_config_dir

from ada_lightning.config.check import check_config
from ada_lightning.config.choices import register_choices
from ada_lightning.parallel.hardware import choose_hardware
from ada_lightning.rollout.engines.gpu_room import room_on_gpu
from research.benchmarks import gpu_tables
from scripts import gpu_acceptance, run_points
from tests.processes import assert_gone

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "docs" / "gpu_acceptance.sh"
LINE = re.compile(r"^(PASS|FAIL|SKIP|TIMEOUT) +(\w+) +\d+s  (?:\d+\.\d GiB  )?(.+)$", re.MULTILINE)
DRIVER = """
import sys
from scripts import run_points
sys.executable, run_points.limit = sys.argv[1], lambda name: float(sys.argv[2])
sys.exit(run_points.main(sys.argv[3:]))
"""
"""Every point is started with another program in Python's place; in a process of its own, for it kills its children."""
TREE = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def write():
    with open(sys.argv[1], "a") as file:
        print(os.getpid(), file=file)
write()
if os.fork() == 0:  # a child with a session of its own, which lets a grandchild become an orphan
    os.setsid()
    write()
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            write()
            time.sleep(300)
        os._exit(0)
    time.sleep(300)
time.sleep(300)
"""


@pytest.fixture
def run_all(tmp_path):
    """Runs points whose bodies are bash, with ``$point`` and ``$LOGS``; ``smi`` is what ``nvidia-smi`` does."""

    def run(body, *points, limit_s=20.0, smi="exit 1"):
        for name, text in {"python": f'point="$2"\n{body}', "nvidia-smi": smi}.items():
            (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
            (tmp_path / name).chmod(0o755)
        environment = os.environ | {"LOGS": str(tmp_path / "logs"), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        environment.pop("DEVICE", None)
        command = [sys.executable, "-c", DRIVER, str(tmp_path / "python"), str(limit_s), *points]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
        rows = json.loads((tmp_path / "logs" / "summary.json").read_text())["points"] if done.returncode != 2 else []
        return done, {row["point"]: row for row in rows}

    return run


def test_every_point_passes_fails_or_is_skipped_with_its_reason(run_all, tmp_path):
    done, rows = run_all(
        'echo chatter; echo "RESULT: about $point"; case $point in ipc) exit 3;; nccl) exit 77;; esac; exit 0'
    )
    found = {point: (verdict, reason) for verdict, point, reason in LINE.findall(done.stdout)}
    assert list(found) == list(rows) == list(gpu_acceptance.POINTS)
    assert found["ipc"] == ("FAIL", f"about ipc; see {tmp_path}/logs/ipc.log")
    assert "chatter" in (tmp_path / "logs" / "ipc.log").read_text()
    assert found["nccl"] == ("SKIP", "about nccl")
    assert all(found[point] == ("PASS", f"about {point}") for point in found if point not in ("ipc", "nccl"))
    assert {point: (row["result"], row["said"]) for point, row in rows.items()} == found
    assert done.returncode == 1
    assert f"1 of {len(rows)} points FAILED" in done.stdout


def test_a_point_that_says_nothing_has_not_passed_and_its_last_line_is_told(run_all, tmp_path):
    done, rows = run_all("echo; echo 'Segmentation fault'; echo; exit 0", "engine")
    said = f"left with status 0: Segmentation fault; see {tmp_path}/logs/engine.log"
    assert LINE.findall(done.stdout) == [("FAIL", "engine", said)]
    assert rows["engine"]["said"] == said
    assert done.returncode == 1


def test_at_its_limit_a_point_ends_with_its_whole_tree_and_the_next_one_runs(run_all, tmp_path):
    """Processes ignore SIGTERM, have sessions of their own, and one has lost its parent."""
    (tmp_path / "tree.py").write_text(TREE)
    pids = tmp_path / "pids"
    tree = f"exec {sys.executable} {tmp_path}/tree.py {pids}"
    body = f"""if [ "$point" = ipc ]; then echo 'FACT {{"runner": "V2"}}'; echo -n 'FACT {{"cut'; {tree}; fi
        echo "RESULT: fine" """
    done, rows = run_all(body, "ipc", "reload", limit_s=3.0)
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 3
    for pid in started:
        assert_gone(pid, patience_s=0.5)
    assert (rows["ipc"]["result"], rows["ipc"]["runner"]) == ("TIMEOUT", "V2")
    assert rows["ipc"]["said"].startswith("killed after its limit of 3.0 s")
    assert 3 <= rows["ipc"]["seconds"] < 3 + 2
    assert rows["reload"]["result"] == "PASS"
    assert done.returncode == 1


def test_what_a_point_leaves_behind_is_gone_before_the_next(run_all, tmp_path):
    body = f'setsid sleep 300 & echo $! >>{tmp_path}/pids; echo "RESULT: fine"'
    done, _ = run_all(body, "engine")
    assert done.returncode == 0
    assert_gone(int((tmp_path / "pids").read_text()), patience_s=0.5)


def test_the_summary_is_there_after_each_point_with_versions_and_what_the_card_says(run_all, tmp_path):
    smi = """used=1000; echo "0, $used, 580.65, NVIDIA H100"; echo "1, 10, 580.65, NVIDIA H100"
        while sleep 0.02; do
            asked=$(cd "$LOGS" && ls | grep -x "more\\|same"); [ "$asked" = more ] && used=$((used + 1024))
            echo "0, $used, 580.65, NVIDIA H100"; echo "1, [N/A], 580.65, NVIDIA H100"
            [ -n "$asked" ] && rm "$LOGS/$asked"
        done"""
    body = """asked=same
        if [ "$point" = reload ]; then asked=more; cp "$LOGS/summary.json" "$LOGS/before.json"; fi
        touch "$LOGS/$asked"; while [ -e "$LOGS/$asked" ]; do sleep 0.02; done
        sleep 0.1; echo 'FACT {"vllm": "9.9", "runner": "V1"}'; echo "RESULT: fine" """
    done, rows = run_all(body, "engine", "reload", smi=smi)
    assert done.returncode == 0
    before = json.loads((tmp_path / "logs" / "before.json").read_text())["points"]
    assert before == [rows["engine"]]
    assert [rows[point]["gib"] for point in rows] == [0.0, 1.0]
    assert "1.0 GiB  fine" in done.stdout
    row = rows["reload"]
    assert row["seconds"] > 0
    expected = {"vllm": "9.9", "torch": torch.__version__, "card": "NVIDIA H100", "driver": "580.65", "runner": "V1"}
    assert {key: row[key] for key in expected} == expected


def test_without_a_gpu_the_others_are_skipped_at_once(run_all):
    done, rows = run_all('echo "RESULT: no GPU"; [ "$point" = hardware ] && exit 77')
    assert {(row["result"], row["said"]) for row in rows.values()} == {("SKIP", "no GPU")}
    assert len(rows) == len(gpu_acceptance.POINTS)
    assert done.returncode == 77


def test_chosen_points_only(run_all):
    done, rows = run_all('echo "RESULT: fine"', "reload", "fsdp")
    assert list(rows) == ["reload", "fsdp"]
    assert done.returncode == 0
    done, _ = run_all('echo "RESULT: fine"', "reload", "speed")
    assert "no such point: speed; there are hardware, engine" in done.stderr
    assert done.returncode == 2


def test_one_card_is_through_in_a_quarter_of_an_hour_whatever_hangs():
    points = list(gpu_acceptance.POINTS.values())
    alone = [point for point in points if point.num_gpus == 1]
    assert sum(point.limit_s for point in alone) <= 890
    assert len(alone) * run_points.KILL_WAIT_S <= 10 - 2  # the rest is for writing
    assert points[: len(alone)] == alone


def _script(python, *points, **variables):
    environment = os.environ | {"PYTHON": str(python)} | variables
    return subprocess.run([SCRIPT, *points], capture_output=True, text=True, env=environment, check=False)


def test_a_python_that_is_not_there_is_named():
    done = _script("/no/such/python")
    assert done.returncode == 2
    assert "/no/such/python" in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="about a machine without a GPU")
def test_the_script_without_a_gpu(tmp_path):
    done = _script(sys.executable, LOGS=str(tmp_path), DEVICE="cuda")
    found = LINE.findall(done.stdout)
    assert [point for _, point, _ in found] == list(gpu_acceptance.POINTS)
    assert {(verdict, reason) for verdict, _, reason in found} == {
        ("SKIP", "no GPU: torch.cuda.is_available() is False")
    }
    assert done.returncode == 77


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_point_that_a_machine_cannot_try_says_why(device, monkeypatch):
    monkeypatch.setattr(gpu_acceptance, "DEVICE", device)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    refused = {}
    for name, point in gpu_acceptance.POINTS.items():
        try:
            point.check()
        except gpu_acceptance.SkippedError as error:
            refused[name] = str(error)
    if device == "cuda":
        assert refused == dict.fromkeys(("nccl", "ray"), "needs 2 GPUs, and there are 1")
    else:
        assert gpu_acceptance.POINTS.keys() - refused == {"hardware", "engine", "reload", "run", "process", "paper"}
        assert set(refused.values()) == {"needs a GPU, and DEVICE=cpu asks for none"}


def test_enforce_eager_reaches_engines_and_runs():
    code = "from scripts.gpu_acceptance import ENGINE, SMALL; print(ENGINE['enforce_eager'], SMALL[-1])"
    for value, expected in (
        ("1", "True rollout.engine.enforce_eager=true\n"), ("", "False rollout.engine.kv_cache_gib=2\n")
    ):  # fmt: skip
        environment = os.environ | {"ENFORCE_EAGER": value, "DEVICE": "cuda"}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=ROOT)
        assert done.stdout == expected


class Ballast:
    """In place of a tensor."""


class FullCard:
    """A GPU of 8 GiB in whose place tensors take from a number."""

    def __init__(self, monkeypatch):
        self.free = 6 * 2**30
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index=0: (self.free, 8 * 2**30))
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
        monkeypatch.setattr(torch, "empty", self.empty)

    def empty(self, size, **_):
        tensor = Ballast()
        self.free -= size
        weakref.finalize(tensor, self.give_back, size)
        return tensor

    def give_back(self, size):
        self.free += size


@contextmanager
def _asking():
    room_on_gpu(kv_cache_gib=1.0, weights_gib=0.0)
    yield "opened", None


def test_a_full_card_is_refused_and_the_engine_opens_once_there_is_room(monkeypatch):
    card = FullCard(monkeypatch)
    drawn = []
    monkeypatch.setattr(gpu_acceptance, "probe", _asking)
    monkeypatch.setattr(gpu_acceptance, "draw", drawn.append)
    said = gpu_acceptance.crowded()
    assert said == "refused with 1.0 GiB asked and 0.5 free, and opened once there was room"
    assert drawn == ["opened"]
    assert card.free == 6 * 2**30


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, "an engine opened that asks for more than is free"),
        (ValueError("No available memory"), "no way out is named: No available memory"),
        (ValueError("lower rollout.engine.kv_cache_gib"), "neither asked nor free GiB are named"),
        (torch.OutOfMemoryError("tried to allocate"), "tried to allocate"),
    ],
)
def test_an_engine_that_ends_in_another_way_on_a_full_card_fails(monkeypatch, error, expected):
    FullCard(monkeypatch)

    @contextmanager
    def probe():
        if error:
            raise error
        yield "opened", None

    monkeypatch.setattr(gpu_acceptance, "probe", probe)
    with pytest.raises((AssertionError, torch.OutOfMemoryError), match=expected):
        gpu_acceptance.crowded()


def _responses(*ids):
    return [SimpleNamespace(response_ids=one) for one in ids]


def _compared(monkeypatch, second_greedy, *, runner="V2", gap=0.01):
    """Compares the runners where V1 draws 1 2 3 4 and V2 these; ``runner`` is what V2's process really took."""
    taken, asked = iter(("V1", runner)), []

    @contextmanager
    def probe(host):
        asked.append(host.environment)
        monkeypatch.setitem(gpu_acceptance.facts, "runner", next(taken))
        yield len(asked), ("old", "new")

    def draw(number, temperature=1.0):
        if temperature:
            return _responses((1, 2, 3, 4), (5, 6) if number == 1 else (5, 7))
        return _responses((1, 2, 3, 4)) if number == 1 else _responses(second_greedy)

    monkeypatch.setattr(gpu_acceptance, "probe", probe)
    monkeypatch.setattr(gpu_acceptance, "draw", draw)
    monkeypatch.setattr(gpu_acceptance, "mean_gap", lambda model, generations: gap)
    said = gpu_acceptance.runners()
    assert asked == [{"VLLM_USE_V2_MODEL_RUNNER": "0"}, {"VLLM_USE_V2_MODEL_RUNNER": "1"}]
    return said


def test_runners_are_compared_by_the_share_of_their_tokens(monkeypatch):
    assert _compared(monkeypatch, (1, 2, 3, 4)) == (
        "100% of greedy tokens agree, 83% of sampled ones with the same seeds; V1 within 0.010 nat of transformers, "
        "V2 0.010"
    )
    with pytest.raises(AssertionError, match=r"fewer than 90% agree: 50% of greedy tokens agree, 83% of sampled"):
        _compared(monkeypatch, (1, 2, 4, 4))
    with pytest.raises(AssertionError, match=r"log-probabilities differ: 100% of greedy"):
        _compared(monkeypatch, (1, 2, 3, 4), gap=0.06)
    with pytest.raises(AssertionError, match="asked for V2, got V1"):
        _compared(monkeypatch, (1, 2, 3, 4), runner="V1")


def test_a_response_that_ends_early_agrees_up_to_its_end():
    assert gpu_acceptance.same_share(_responses((1, 2)), _responses((1, 2, 3, 4))) == 0.5


@pytest.mark.parametrize(
    ("point", "num_gpus"), [("run", 1), ("sleeping_run", 1), ("paper", 1), ("fsdp", 1), ("fsdp", 2)]
)
def test_the_runs_have_settings_that_go_together(point, num_gpus, monkeypatch):
    """Composed and checked here, with a data file as the point writes it."""
    commands = []
    monkeypatch.setattr(gpu_acceptance, "trained", lambda name, overrides, launcher=(): commands.append(overrides))
    monkeypatch.setattr(gpu_acceptance, "need_gpus", lambda number: num_gpus)
    monkeypatch.setattr("ada_lightning.parallel.hardware.count_gpus", lambda: num_gpus)
    gpu_acceptance.POINTS[point].run()
    (overrides,) = commands
    register_choices(ROOT / "conf")
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        cfg = compose("train", overrides)
    choose_hardware(cfg.trainer)
    check_config(cfg)


def test_an_unknown_point_is_named():
    with pytest.raises(SystemExit, match="name one point of: hardware, engine"):
        gpu_acceptance.main(["speed"])


def test_summaries_become_tables_of_the_page(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_tables, "FOLDER", tmp_path)
    assert gpu_tables.gpu_acceptance() == "No run of these points on a GPU is on record.\n"
    known = {"vllm": "0.26.0", "torch": "2.11.0", "card": "NVIDIA H100", "driver": "580.65"}
    rows = [
        known | {"point": "engine", "runner": "V2", "result": "PASS", "seconds": 41.4, "gib": 3.0},
        known | {"point": "ipc", "runner": None, "result": "TIMEOUT", "seconds": 55.0, "gib": None},
    ]
    run_points.write({"points": rows}, tmp_path / "gpu_acceptance_h100.json")
    assert gpu_tables.gpu_acceptance().splitlines() == [
        "NVIDIA H100, driver 580.65, torch 2.11.0:",
        "",
        "| point | vLLM | runner | result | seconds | GiB |",
        "| --- | --- | --- | --- | --- | --- |",
        "| `engine` | 0.26.0 | V2 | PASS | 41 | 3.0 |",
        "| `ipc` | 0.26.0 |  | TIMEOUT | 55 |  |",
    ]
