"""Evaluate: ``ada evaluate checkpoint=runs/<name>``. See conf/evaluate.yaml for what can be changed."""

from __future__ import annotations

# The first: from here on Ctrl-C is no traceback.
from ada_lightning.programs.start import CONFIG_DIR, begin, failures_in_a_line

# isort: split
import atexit
import shutil
import sys
import tempfile
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from ada_lightning.run.importing import importing

EXIT_STOPPED = 130
"""What a shell sees of a program that Ctrl-C ended."""


@hydra.main(version_base="1.3", config_path=str(CONFIG_DIR), config_name="evaluate")
def run(cfg: DictConfig) -> None:
    """Run one evaluation, or compare two."""
    with failures_in_a_line(Path(cfg.run_dir), stopped_code=EXIT_STOPPED):
        with importing():
            from ada_lightning.programs.evaluate import evaluate

        evaluate(cfg, list(HydraConfig.get().overrides.task))


def expanded(argv: list[str]) -> list[str]:
    """Write out what a checkpoint implies, in a folder that goes with the process."""
    from ada_lightning.analysis.evaluation.checkpoint import expand_arguments

    options = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, options, ignore_errors=True)
    return expand_arguments(argv, Path(options), CONFIG_DIR)


def main() -> None:
    """Do what the command line asks for."""
    sys.argv[1:] = begin(sys.argv[1:], "evaluate", expanded)
    run()


if __name__ == "__main__":
    main()
