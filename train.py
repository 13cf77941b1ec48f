"""Train: ``python train.py +experiment=ada_seq_balance``. See conf/train.yaml for what can be changed."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

if TYPE_CHECKING:
    from lightning.pytorch import Trainer

# Only light imports stand above: reward workers and wrong command lines must not wait for torch. And torch reads the
# number of threads once, at import; where it is not set, vLLM cuts the whole process, training included, to one.
os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))
CONFIG_DIR = Path(__file__).parent / "conf"


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg: DictConfig) -> float | None:
    """Run one training job; a sweep gets its final held-out avg@k."""
    from ada_lightning.config import check_config
    from ada_lightning.run_dir import RunDir

    _name_sweep_run(cfg)
    try:
        check_config(cfg)
        run_dir = RunDir(cfg.run_dir)
        if not cfg.preview:
            run_dir.claim(resume=cfg.ckpt is not None)
    except ValueError as error:
        sys.exit(f"error: {error}")
    return run(cfg, run_dir)


def run(cfg: DictConfig, run_dir: Any) -> float | None:
    """Instantiate every part, train, and leave nothing running."""
    from lightning.pytorch import seed_everything
    from transformers import AutoTokenizer

    from ada_lightning.malloc import keep_freed_memory
    from ada_lightning.rollout.quiet import quiet_libraries
    from callbacks.cost_preview import PreviewDone

    quiet_libraries()
    if cfg.trainer.get("accelerator") == "cpu":
        keep_freed_memory()
    seed_everything(cfg.seed, verbose=False)
    grader = instantiate(cfg.reward)
    grader.start()  # before the memory of this process grows
    initial_path = instantiate(cfg.model).prepare()
    checkpoint = run_dir.last_checkpoint() if cfg.ckpt is not None else None
    model_path = checkpoint / "policy" if checkpoint else initial_path
    tokenizer = AutoTokenizer.from_pretrained(model_path)
    service = instantiate(cfg.rollout)
    sampler, selection = instantiate(cfg.sampler), instantiate(cfg.selection)
    datamodule = instantiate(cfg.data)
    datamodule.encode_prompts(tokenizer)
    policy = instantiate(
        cfg.policy,
        model_path=model_path,
        reference_path=initial_path,
        advantage=instantiate(cfg.advantage),
        loss=instantiate(cfg.loss),
        optimizer=instantiate(cfg.optimizer),
    )
    shared = {
        "adaptive_sampling": {
            "service": service,
            "grader": grader,
            "sampler": sampler,
            "selection": selection,
            "tokenizer": tokenizer,
            "eos_token_ids": _eos_token_ids(model_path, tokenizer),
        },
        "preview": {"service": service, "sampler": sampler, "selection": selection},
        "evaluation": {"service": service},
        "checkpoint": {"tokenizer": tokenizer},
    }
    parts = instantiate(cfg.callbacks)
    callbacks = [part(**shared[name]) if isinstance(part, partial) else part for name, part in parts.items()]
    loggers = [] if cfg.preview else list(instantiate(cfg.logger).values())
    trainer: Trainer = instantiate(cfg.trainer, callbacks=callbacks, logger=loggers)
    if not cfg.preview:
        run_dir.write_config(cfg)
    for logger in loggers:
        logger.log_hyperparams(OmegaConf.to_container(cfg, resolve=True))
    try:
        trainer.fit(policy, datamodule=datamodule, ckpt_path=checkpoint / "trainer.ckpt" if checkpoint else None)
    except PreviewDone:
        return None
    except SystemExit:  # how Lightning ends a run that was interrupted
        print(f"continue with the same options and: ckpt=last run_name={cfg.run_name}", flush=True)
        raise
    finally:
        service.close()
        grader.close()
    return next((callback.last_score for callback in callbacks if hasattr(callback, "last_score")), None)


def _name_sweep_run(cfg: DictConfig) -> None:
    """Give each job of a sweep its own folder inside the sweep's, and its sweep as MLflow parent."""
    job = HydraConfig.get()
    if job.mode != RunMode.MULTIRUN:
        return
    cfg.run_dir = job.runtime.output_dir
    cfg.run_name = f"{Path(job.sweep.dir).name}/{job.job.num}"
    if "mlflow" in cfg.logger:
        cfg.logger.mlflow.parent = Path(job.sweep.dir).name


def _eos_token_ids(model_path: Path, tokenizer: Any) -> list[int]:
    """Tokens that end a response: those of the generation config, and the tokenizer's."""
    from transformers import GenerationConfig

    eos = GenerationConfig.from_pretrained(model_path).eos_token_id
    ids = set(eos if isinstance(eos, list) else [eos]) | {tokenizer.eos_token_id}
    return sorted(token for token in ids if token is not None)


if __name__ == "__main__":
    from ada_lightning.config import override_errors

    if errors := override_errors(sys.argv[1:], CONFIG_DIR, "train"):
        sys.exit("\n".join(f"error: {error}" for error in errors))
    main()
