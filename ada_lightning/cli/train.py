"""Train: ``ada train +experiment=ada_seq_balance``. See conf/train.yaml for what can be changed."""

from __future__ import annotations

from ada_lightning.programs.start import CONFIG_DIR, begin  # first: from here on Ctrl-C is no traceback

# isort: split
import sys

import hydra
from omegaconf import DictConfig

from ada_lightning.programs.command import is_sweep
from ada_lightning.programs.train import SWEEP, foresee_refusals, run_job, run_sweep_job


@hydra.main(version_base="1.3", config_path=str(CONFIG_DIR), config_name="train")
def run(cfg: DictConfig) -> float | None:
    """Run one training job; a sweep gets its final held-out avg@k."""
    return run_sweep_job(cfg) if is_sweep() else run_job(cfg)


def main() -> None:
    """Do what the command line asks for."""
    sys.argv[1:] = begin(sys.argv[1:], "train")
    foresee_refusals(sys.argv[1:])
    try:
        run()
    finally:
        SWEEP.report()


if __name__ == "__main__":
    main()
