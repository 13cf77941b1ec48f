"""What the benchmarks of a GPU make of their figures."""

from __future__ import annotations

import json
import shutil

import pytest

from research.benchmarks import gpu_tables, gpu_update, report, rollout


@pytest.fixture
def saved(monkeypatch, tmp_path):
    """The committed figures of updates, in a folder where they may change; returns what reads them."""
    shutil.copy(report.FOLDER / "gpu_update.json", tmp_path)
    monkeypatch.setattr(report, "FOLDER", tmp_path)
    return lambda: json.loads((tmp_path / "gpu_update.json").read_text())


def test_a_part_that_is_measured_again_leaves_the_others_and_says_what_made_each(saved):
    before = saved()
    gpu_update.save_part("variants", {"variants": {"ours": {"seconds": 1.0}}, "matmul_tflops": 700.0})
    gpu_update.save_part("trainers/fsdp", {"trainers": {"fsdp": {"seconds": 2.0}}})
    after = saved()
    assert after["variants"] == {"ours": {"seconds": 1.0}}
    assert after["trainers"] == before["trainers"] | {"fsdp": {"seconds": 2.0}}
    assert after["lora"] == before["lora"]
    assert {"lora", "trainers", "variants", "trainers/fsdp"} <= after["made"].keys()
    assert after["made"]["lora"]["gpu"] == before.get("gpu", before["machine"].get("gpu"))
    assert after["made"]["variants"]["versions"] == after["versions"] == report.versions()


def test_a_first_part_needs_no_file(saved, tmp_path):
    (tmp_path / "gpu_update.json").unlink()
    gpu_update.save_part("trainers/gpu", {"trainers": {"gpu": {"seconds": 2.0}}})
    assert saved()["trainers"] == {"gpu": {"seconds": 2.0}}


def test_a_rollout_is_compared_by_its_own_tokens_per_second():
    """On a GPU rounding differs between ways, so some responses do, and their lengths."""
    rows = rollout.rows_of({"barrier": [(8.0, 400, 0)], "ahead": [(2.0, 380, 19)], "vllm": [(2.0, 400, 0)]}, 40)
    found = {row["way"]: row for row in rows}
    assert found["ahead"]["over_vllm"] == pytest.approx(0.95)
    assert found["ahead"]["over_barrier"] == pytest.approx(3.8)
    assert found["ahead"]["wasted"] == pytest.approx(0.05)


def test_tables_show_what_the_benchmarks_save(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_tables, "FOLDER", tmp_path)
    timed = {"barrier": [(8.0, 40_000, 0)], "ahead": [(2.0, 38_000, 1900)], "vllm": [(2.0, 40_000, 0)]}
    about = {"work": "short", "prompts": 128, "sequences": 512, "used_gib": 20.25}
    step = {"step_s": 2.0, "rollout_s": 1.5, "update_s": 0.5, "tokens": 5000}
    sync = {"model": "smollm2", "way": "process", "gib": 0.251, "first_s": 0.7, "seconds": [0.3, 0.5, 0.4]}
    contents = {
        "gpu_rollout": {"rows": [about | row for row in rollout.rows_of(timed, 1000)]},
        "gpu_step_vs_trl": {"medians": {"TRL": step | {"step_s": 5.0}, "ours, every group trained": step}},
        "gpu_weight_sync": {"rows": [sync | {"parts_s": {"copy": 0.1, "load": 0.3}}]},
    }
    for name, content in contents.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    rows = {name: gpu_tables.TABLES[name]().splitlines()[2] for name in contents}
    assert rows == {
        "gpu_rollout": "| short | 512 | 20,000 | 19,000 | **0.95** | 3.80 | 5.0% | 20.2 |",
        "gpu_step_vs_trl": "| TRL | 5.00 s | 1.50 s | 0.50 s | 5,000 | 2.50 |",
        "gpu_weight_sync": "| smollm2, 0.25 GiB | `process` | 0.70 s | 0.40 s | copy 0.10, load 0.30 |",
    }
