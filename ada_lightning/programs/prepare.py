"""Draws responses of each prompt, grades them, and selects prompts by their pass rates."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from ada_lightning.analysis.offline import ResponseStore, SamplingJob
from ada_lightning.analysis.offline.preparation import OutcomeRule
from ada_lightning.analysis.offline.preparation import prepare as select
from ada_lightning.config.assembly import assemble, read_data
from ada_lightning.data.formats import warn_of_other_end
from ada_lightning.rewards.hints import start_lines
from ada_lightning.run.run_dir import RunDir
from ada_lightning.run.stopping import StopSignals
from ada_lightning.run.terminal import quiet_libraries, start_of

OWN_KEYS = ("run_name", "run_dir", "num_samples", "prompts_per_file", "band", "data.only", "num_steps")
NUM_HELDOUT = "data.source.num_heldout"


def prepare(cfg: DictConfig) -> int:
    """Sample, count, select, write; the number of selected prompts.

    Raises:
        SamplingStoppedError: a signal came; what was finished is stored.
        ValueError: something turns out wrong that only data, weights or an earlier start could show.
    """
    quiet_libraries()
    parts = assemble(cfg)
    service, signals = parts.service, StopSignals("finished prompts are kept")
    store, run_dir = ResponseStore(cfg.run_dir), RunDir(cfg.run_dir)
    try:
        data = read_data(cfg, parts.model.tokenizer, parts.grader)
        service.check_template(parts.model.tokenizer, parts.model.eos_token_ids)
        warn_of_other_end(parts.model.tokenizer, data.format, parts.model.eos_token_ids)
        prompts = data.distinct_prompts()
        drawn: dict[str, Any] = {"prompts": prompts, "num_samples": cfg.num_samples, "stage": "prepare"}
        store.claim(parts.job_settings(cfg, cfg.reward.reward, **drawn, sampling=service.sampling))
        job = SamplingJob(**drawn, store=store, service=service, prompts_per_file=cfg.prompts_per_file)
        run_dir.write_config(cfg)
        data.report.write(run_dir.path)
        print(
            data.report.text(), *start_lines(parts.grader.reward, prompts, parts.model.tokenizer), sep="\n", flush=True
        )
        print(_start_line(job.num_pending, len(prompts), cfg), flush=True)
        if job.num_pending:
            signals.install()
            parts.open(store.folder / "engine.log")
            job.run(signals.check)
        counted = service.settings
        rule = OutcomeRule(counted.positive_threshold, counted.truncated, counted.grader_failure)
        band = instantiate(cfg.band)
        made = select(store, prompts, num_samples=cfg.num_samples, rule=rule, band=band)
        run_dir.write_summary({**made.summary(), "band": band.describe()})
    finally:
        parts.close()
        signals.restore()
        store.release()
    print("\n".join(made.lines(band, service.failure_alarm_ratio)), flush=True)
    return len(made.selected)


def train_command(cfg: DictConfig, overrides: Sequence[str]) -> str:
    """Spell the command that trains on the selection with the model, data and reward it was made with.

    A run without evaluation shows nothing: where the preparation held no prompts out, the run holds out a tenth.
    """
    folder = Path(cfg.run_dir)
    kept = [line for line in overrides if not _is_own(line)]
    if OmegaConf.select(cfg, NUM_HELDOUT) == 0:
        num_prompts = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["num_prompts"]
        kept = [line for line in kept if line.partition("=")[0].lstrip("+") != NUM_HELDOUT]
        kept.append(f"{NUM_HELDOUT}={max(1, min(64, num_prompts // 10))}")
    history = f"estimator.history_file={folder / 'history.json'}"
    return shlex.join([*start_of("train"), "+experiment=grpo_chosen", *kept, f"data.only={folder}", history])


def _is_own(override: str) -> bool:
    key = override.partition("=")[0].lstrip("+~")
    return any(key == own or key.startswith(f"{own}.") for own in OWN_KEYS)


def _start_line(num_pending: int, num_prompts: int, cfg: DictConfig) -> str:
    if num_pending == 0:
        return f"all {num_prompts} prompts are already stored in {cfg.run_dir}; only the selection is made anew"
    stored = f", {num_prompts - num_pending} of them stored already" if num_pending < num_prompts else ""
    return f"prepare: {num_prompts} prompts x {cfg.num_samples} responses into {cfg.run_dir}{stored}"
