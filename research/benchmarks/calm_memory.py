"""Does memory stay level in a long session that nothing disturbs: ``python -m research.benchmarks.calm_memory``.

The run of :mod:`research.benchmarks.soak` without its faults: the random model, the real engine, reward workers,
MLflow, a checkpoint after every step. Reports the highest resident memory in each quarter of the session. Writes
``docs/reliability/calm_memory.json``.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from research.benchmarks.faults.sessions import SMALL, MemoryWatch, exit_code, start_session, warm_up
from research.benchmarks.report import RELIABILITY, save


def main() -> None:
    """Run, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400, help="rollout steps")
    arguments = parser.parse_args()
    warm_up()
    with tempfile.TemporaryDirectory(prefix="ada_lightning-") as folder:
        overrides = [
            *SMALL,
            f"num_steps={arguments.steps}",
            f"run_dir={folder}/run",
            "run_name=calm",
            f"logger.mlflow.tracking_uri=sqlite:///{folder}/mlflow.db",
            "reward.reward.path=research.benchmarks.faults.grader.few_letters_later",
            "callbacks.response_log.every_n_steps=1",
        ]
        log = Path(folder) / "run.log"
        pid = start_session(overrides, log)
        watch = MemoryWatch(pid)
        code = exit_code(pid)
        quarters = [round(mb) for mb in watch.stop()]
        if code != 0:
            raise RuntimeError(f"the run ended with {code}: {log.read_text()[-2000:]}")
    print(f"{arguments.steps} steps, {watch.seconds:.0f} s: {quarters} MB")
    save("calm_memory", folder=RELIABILITY, steps=arguments.steps, seconds=round(watch.seconds), quarters_mb=quarters)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
