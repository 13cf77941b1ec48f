import json
import subprocess
import sys

import pytest

from research.benchmarks import on_device, report, step_task, step_vs_trl
from research.drive import composed


def steps(seconds, tokens=1000):
    return [
        {"step_s": s, "rollout_s": s / 2, "update_s": s / 2, "cpu_s": s, "tokens": tokens, "signal_ratio": 0.5}
        for s in seconds
    ]


def test_without_trl_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(step_vs_trl, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["step_vs_trl"])
    with pytest.raises(SystemExit, match=r"pip install -e '\.\[bench\]'"):
        step_vs_trl.main()


def test_ratios_are_of_medians_per_step_and_per_token():
    theirs, ours = step_vs_trl.summary(steps([30, 20, 90])), step_vs_trl.summary(steps([6, 5, 4], tokens=500))
    *trl, every_group, skipped = step_vs_trl.VARIANTS
    ratios = step_vs_trl.speedups(dict.fromkeys(trl, theirs) | {every_group: ours, skipped: theirs})
    assert ratios[f"{every_group} / {trl[0]}"] == {"per_step": 6.0, "per_token": 3.0}
    assert ratios[f"{skipped} / {trl[1]}"] == {"per_step": 1.0, "per_token": 1.0}


def test_the_first_step_of_a_process_is_left_out(monkeypatch):
    class Done:
        returncode = 0
        stdout = "something else\n" + json.dumps({"steps": steps([9, 1, 2])})

    monkeypatch.setattr(step_vs_trl.subprocess, "run", lambda *args, **kwargs: Done())
    assert step_vs_trl.run(["module"], seed=0, num_steps=2) == steps([1, 2])


def test_the_fastest_setting_of_each_variant_is_searched_for_and_used(monkeypatch, tmp_path):
    """Continuous batching does not run with the first variant, and is the fastest of the second."""
    asked = []

    def run(variant, seed, num_steps):
        asked.append(variant)
        if "--continuous-batching" in variant:
            if "bfloat16" in variant:
                raise RuntimeError("step_trl failed:\nNotOnCpu: no kernel\n")
            return steps([1.0] * num_steps)
        size = int(variant[variant.index("--batch-size") + 1]) if "--batch-size" in variant else 0
        return steps([2.0 if size == 32 else 3.0] * num_steps)

    monkeypatch.setattr(step_vs_trl, "find_spec", lambda name: True)
    monkeypatch.setattr(step_vs_trl, "run", run)
    monkeypatch.setattr(report, "FOLDER", tmp_path)
    monkeypatch.setattr(sys, "argv", ["step_vs_trl", "--search", "--turns", "1"])
    step_vs_trl.main()
    rows = json.loads((tmp_path / "step_vs_trl_search.json").read_text())["rows"]
    assert [row.get("error", row.get("step_s")) for row in rows] == [
        3.0, 3.0, 2.0, 3.0, "NotOnCpu: no kernel", 3.0, 3.0, 2.0, 3.0, 1.0,
    ]  # fmt: skip
    used = [variant[variant.index("--batch-size") :] for variant in asked[-4:-2]]
    assert used == [["--batch-size", "32"], ["--batch-size", "32", "--continuous-batching"]]
    assert all("--batch-size" not in variant for variant in asked[-2:])


def test_it_saves_every_step(monkeypatch, tmp_path):
    monkeypatch.setattr(step_vs_trl, "find_spec", lambda name: True)
    monkeypatch.setattr(step_vs_trl, "run", lambda variant, seed, num_steps: steps([2.0] * num_steps))
    monkeypatch.setattr(report, "FOLDER", tmp_path)
    monkeypatch.setattr(sys, "argv", ["step_vs_trl"])
    step_vs_trl.main()
    saved = json.loads((tmp_path / "step_vs_trl.json").read_text())
    assert [len(timed) for timed in saved["steps"].values()] == [6, 6, 6, 6]


@pytest.mark.parametrize("skip", [True, False])
def test_our_side_is_a_valid_command_line(tmp_path, skip):
    from hydra import compose, initialize_config_dir

    from ada_lightning.config.check import check_config

    overrides = step_task.our_overrides(
        num_steps=2, seed=0, run_dir=tmp_path / "run", skip_groups_without_signal=skip, work=step_task.Work()
    )
    with initialize_config_dir(str(step_task.CONF), version_base="1.3"):
        cfg = compose("train", overrides)
    check_config(cfg)
    assert cfg.data.skip_groups_without_signal is skip
    assert dict(cfg.data.source.tasks.chain_sum) == step_task.TASKS["chain_sum"]
    assert cfg.loss.kl_coef == 0


@pytest.fixture
def on_gpu(monkeypatch, tmp_path):
    """As if there were a GPU: returns what was started, and has the figures in a folder of its own."""
    started = []

    def run(variant, seed, num_steps):
        started.append(" ".join(variant))
        if "rollout=transformers" in variant:
            raise RuntimeError("step_ours failed:\nOutOfMemoryError: no room\n")
        fast = step_vs_trl.OURS in variant or variant[-6:-4] == ["--batch-size", "256"]
        return steps([1.0 if fast else 3.0] * num_steps)

    for module in (step_vs_trl, on_device):
        monkeypatch.setattr(module, "has_gpu", lambda: True)
    monkeypatch.setattr(step_vs_trl, "find_spec", lambda name: True)
    monkeypatch.setattr(step_vs_trl, "run", run)
    monkeypatch.setattr(report, "FOLDER", tmp_path)
    return started


def test_on_a_gpu_a_search_that_is_cut_off_has_ratios(on_gpu, monkeypatch, tmp_path):
    """Each variant of TRL by one setting and all of ours come before the rest of the search."""
    comparison = step_vs_trl.Comparison(step_vs_trl.GPU_WORK, 2)
    settings = comparison._settings

    def cut_off(theirs):
        for number, row in enumerate(settings(theirs)):
            if number == 3:
                raise on_device.TimeIsUpError
            yield row

    monkeypatch.setattr(comparison, "_settings", cut_off)
    with pytest.raises(on_device.TimeIsUpError):
        comparison.search()
    kinds = [line.split()[0].rsplit("_", 1)[1] + ("+" if "rollout=vllm_gpu" in line else "") for line in on_gpu]
    assert kinds == ["ours+", "trl", "trl", "ours+", "ours", "trl"]
    assert all("--prompts 64 --max-new-tokens 256" in line for line in on_gpu)
    saved = json.loads((tmp_path / "gpu_step_vs_trl.json").read_text())
    assert len(saved["ratios"]) == 4
    assert saved["missing"]
    assert not (tmp_path / "step_vs_trl.json").exists()


def test_what_does_not_run_is_left_out_and_told_at_the_end(on_gpu, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["step_vs_trl", "--search", "--steps", "2"])
    with pytest.raises(SystemExit, match="did not run: ours with transformers"):
        step_vs_trl.main()
    assert sum("rollout=transformers" in line for line in on_gpu) == 1
    saved = json.loads((tmp_path / "gpu_step_vs_trl.json").read_text())
    assert [len(timed) for name, timed in saved["steps"].items() if "TRL" in name] == [4, 4]
    assert saved["missing"] == ["ours with transformers, every group trained, 2 of 2 turns"]
    best = json.loads((tmp_path / "gpu_step_vs_trl_search.json").read_text())["rows"][-1]
    assert (best["batch_size"], best["gpu_memory"]) == (256, step_vs_trl.GPU_MEMORY)


def test_our_side_goes_without_trl(monkeypatch, tmp_path):
    monkeypatch.setattr(step_vs_trl, "find_spec", lambda name: None)
    monkeypatch.setattr(step_vs_trl, "run", lambda variant, seed, num_steps: steps([2.0] * num_steps))
    monkeypatch.setattr(report, "FOLDER", tmp_path)
    monkeypatch.setattr(sys, "argv", ["step_vs_trl", "--only", "ours"])
    step_vs_trl.main()
    saved = json.loads((tmp_path / "step_vs_trl.json").read_text())
    assert [name for name in saved["steps"] if "TRL" in name] == []
    assert saved["ratios"] == {}


GPU_OURS = [variant for name, variant in step_vs_trl.GPU_VARIANTS.items() if step_vs_trl.is_ours(name)]


@pytest.mark.parametrize("variant", GPU_OURS)
def test_our_side_is_a_valid_command_line_for_a_gpu(tmp_path, variant):
    from ada_lightning.config.check import check_config

    cfg = composed(
        "train",
        [
            *step_task.our_overrides(
                num_steps=2,
                seed=0,
                run_dir=tmp_path / "run",
                skip_groups_without_signal="--every-group" not in variant,
                work=step_vs_trl.GPU_WORK,
            ),
            *(word for word in variant if "=" in word),
        ],
    )
    check_config(cfg)
    assert (cfg.trainer.accelerator, cfg.rollout.sampling.max_new_tokens) == ("cuda", 256)


def test_a_benchmark_composes_the_configuration_by_itself():
    """In a process of its own: other tests have Hydra find what is generated."""
    program = "from research.drive import composed; print(composed('train', ['+experiment=grpo']).advantage._target_)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "advantages" in done.stdout
