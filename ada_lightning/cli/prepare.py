"""Draw, grade and select prompts: ``ada prepare band=hard``. See conf/prepare.yaml for what can be changed."""

from __future__ import annotations

# The first: from here on Ctrl-C is no traceback.
from ada_lightning.programs.start import CONFIG_DIR, begin, begin_to_read, failures_in_a_line

# isort: split
import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from ada_lightning.run.importing import importing


@hydra.main(version_base="1.3", config_path=str(CONFIG_DIR), config_name="prepare")
def run(cfg: DictConfig) -> None:
    """Draw what is missing, then select."""
    overrides = list(HydraConfig.get().overrides.task)
    with failures_in_a_line(Path(cfg.run_dir)):
        begin_to_read(cfg.data)
        with importing():
            from ada_lightning.config.prepare import check_prepare_config
            from ada_lightning.programs.command import added_folders
            from ada_lightning.programs.prepare import prepare, train_command

        check_prepare_config(cfg, overrides)
        if prepare(cfg):
            print(f"train on them: {train_command(cfg, [*added_folders(), *overrides])}", flush=True)


def main() -> None:
    """Do what the command line asks for."""
    sys.argv[1:] = begin(sys.argv[1:], "prepare")
    run()


if __name__ == "__main__":
    main()
