"""Draw, grade and select prompts: ``python prepare.py band=hard``. See conf/prepare.yaml for what can be changed."""

from __future__ import annotations

import ada_lightning.run.interrupted_start  # noqa: F401 - first: from here on Ctrl-C is no traceback

# isort: split
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from ada_lightning.config.choices import register_choices
from ada_lightning.rollout.engines.engine_environment import num_cores

# Only light imports stand above: reward workers and wrong command lines must not wait for torch. And torch reads the
# number of threads once, at import; where it is not set, vLLM cuts the whole process to one.
os.environ.setdefault("OMP_NUM_THREADS", str(num_cores()))
CONFIG_DIR = Path(__file__).parent / "conf"
register_choices(CONFIG_DIR)
OWN_KEYS = ("run_name", "run_dir", "num_samples", "prompts_per_file", "band", "data.only", "num_steps")
NUM_HELDOUT = "data.source.num_heldout"


@hydra.main(version_base="1.3", config_path="conf", config_name="prepare")
def main(cfg: DictConfig) -> None:
    """Draw what is missing, then select."""
    from ada_lightning.analysis.offline.sampling_job import SamplingStoppedError
    from ada_lightning.config.prepare import check_prepare_config
    from ada_lightning.rollout.engines.guard import EngineError
    from ada_lightning.run.doctor import explain_broken_install
    from ada_lightning.run.run_stopped import RunStoppedError

    overrides = list(HydraConfig.get().overrides.task)
    try:
        check_prepare_config(cfg, overrides)
        num_selected = run(cfg)
    except ValueError as error:
        sys.exit(f"error: {error}")
    except SamplingStoppedError as stop:
        sys.exit(str(stop))
    except EngineError as error:
        sys.exit(f"error: {error.for_people(Path(cfg.run_dir))}")
    except RunStoppedError as error:
        sys.exit(f"stopped: {error}")
    except ImportError as error:
        sys.exit(explain_broken_install(error) or f"error: {type(error).__name__}: {error}")
    if num_selected:
        print(f"train on them: {train_command(overrides, Path(cfg.run_dir), _num_heldout(cfg))}", flush=True)


def run(cfg: DictConfig) -> int:
    """Sample, count, select, write; the number of selected prompts.

    Raises:
        SamplingStoppedError: a signal came; what was finished is stored.
        ValueError: something turns out wrong that only data, weights or an earlier start could show.
    """
    from ada_lightning.analysis.offline import ResponseStore, SamplingJob
    from ada_lightning.analysis.offline.outcome import OutcomeRule
    from ada_lightning.analysis.offline.preparation import prepare
    from ada_lightning.config.assembly import assemble, read_data
    from ada_lightning.rollout.engines.quiet import quiet_libraries
    from ada_lightning.run.run_dir import RunDir
    from ada_lightning.run.stop_signals import StopSignals

    quiet_libraries()
    parts = assemble(cfg)
    service, stage = parts.service, "prepare"
    store, run_dir, signals = ResponseStore(cfg.run_dir), RunDir(cfg.run_dir), StopSignals("finished prompts are kept")
    try:
        data = read_data(cfg, parts.model.tokenizer, parts.grader)
        prompts = list({prompt.prompt_id: prompt for prompt in data.train_prompts}.values())  # an epoch may repeat some
        settings = parts.job_settings(
            cfg, prompts=prompts, num_samples=cfg.num_samples, stage=stage, sampling=service.sampling
        )
        store.claim(settings)
        job = SamplingJob(
            prompts=prompts,
            num_samples=cfg.num_samples,
            store=store,
            service=service,
            stage=stage,
            prompts_per_file=cfg.prompts_per_file,
        )
        run_dir.write_config(cfg)
        data.report.write(run_dir.path)
        print(data.report.text(), flush=True)
        print(_start_line(job.num_pending, len(prompts), cfg), flush=True)
        if job.num_pending:
            signals.install()
            parts.open(store.folder / "engine.log")
            job.run(signals.check)
        rule = OutcomeRule(service.positive_threshold, service.truncated, service.grader_failure)
        band = instantiate(cfg.band)
        made = prepare(store, prompts, num_samples=cfg.num_samples, rule=rule, band=band)
        run_dir.write_summary({**made.summary(), "band": band.describe()})
    finally:
        parts.close()
        signals.restore()
        store.release()
    print("\n".join(made.lines(band, service.failure_alarm_ratio)), flush=True)
    return len(made.selected)


def train_command(overrides: Sequence[str], folder: Path, num_heldout: int | None) -> str:
    """Spell the command that trains on the selection with the model, data and reward it was made with.

    Args:
        overrides: of the preparation.
        folder: of the preparation.
        num_heldout: prompts to evaluate on, where none was held out; None leaves what is held out as it was.
    """
    kept = [line for line in overrides if not _is_own(line)]
    if num_heldout is not None:
        kept = [line for line in kept if line.partition("=")[0].lstrip("+") != NUM_HELDOUT]
        kept.append(f"{NUM_HELDOUT}={num_heldout}")
    history = f"estimator.history_file={folder / 'history.json'}"
    return shlex.join(["python", "train.py", "+experiment=ada_seq_balance", *kept, f"data.only={folder}", history])


def _num_heldout(cfg: DictConfig) -> int | None:
    """A tenth of the prompts where the preparation held none out: a run without evaluation shows nothing."""
    if OmegaConf.select(cfg, NUM_HELDOUT) != 0:
        return None
    num_prompts = json.loads((Path(cfg.run_dir) / "summary.json").read_text(encoding="utf-8"))["num_prompts"]
    return max(1, min(64, num_prompts // 10))


def _is_own(override: str) -> bool:
    key = override.partition("=")[0].lstrip("+~")
    return any(key == own or key.startswith(f"{own}.") for own in OWN_KEYS)


def _start_line(num_pending: int, num_prompts: int, cfg: DictConfig) -> str:
    if num_pending == 0:
        return f"all {num_prompts} prompts are stored in {cfg.run_dir}; nothing is drawn, the selection is made anew"
    stored = f", {num_prompts - num_pending} of them stored already" if num_pending < num_prompts else ""
    return f"prepare: {num_prompts} prompts x {cfg.num_samples} responses into {cfg.run_dir}{stored}"


if __name__ == "__main__":
    from ada_lightning.config.check import override_errors
    from ada_lightning.rollout.engines.quiet import plain_warnings
    from ada_lightning.run.scratch import use_own_scratch

    plain_warnings()
    use_own_scratch()
    if errors := override_errors(sys.argv[1:], CONFIG_DIR, "prepare"):
        sys.exit("\n".join(f"error: {error}" for error in errors))
    main()
