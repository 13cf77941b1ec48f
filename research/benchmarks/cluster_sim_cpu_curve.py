"""What the cluster simulation needs of this machine: ``python -m research.benchmarks.cluster_sim_cpu_curve``.

Times the real engine's steps (SmolLM2-135M, the settings of ``conf/rollout/vllm_cpu.yaml``) and then four real
rollouts with imposed response lengths, in one process and under the same load, and writes both to
``docs/performance/cluster_sim_cpu_curve.json``. The simulation is fitted to the former and checked on the latter.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))  # before torch is imported


def main() -> None:
    """Measure and save."""
    from ada_lightning.run.machine import keep_freed_memory
    from ada_lightning.training.models.wheel import SmolLM2Wheel
    from research.benchmarks import report
    from research.benchmarks.simulation import cpu, validation
    from research.benchmarks.simulation.forced_engine import ForcedEngine

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3, help="rollouts per case, in turns with the curve")
    arguments = parser.parse_args()
    keep_freed_memory()
    engine = ForcedEngine(
        validation.FATES,
        model_path=SmolLM2Wheel().prepare(),
        log_file=Path(tempfile.mkdtemp()) / "engine.log",
        max_model_tokens=validation.MAX_MODEL_TOKENS,
    )
    timings, rollouts = cpu.Timings(), dict[str, dict[str, Any]]()
    before = os.getloadavg()
    try:
        cpu.measure(engine, timings)
        for _ in range(arguments.repetitions):  # in turns: a busy minute must not bend only one of the two
            validation.measure(engine, rollouts)
            cpu.measure(engine, timings)
    finally:
        engine.close()
    steps = cpu.fit(timings)
    path = report.save(
        "cluster_sim_cpu_curve",
        threads=int(os.environ["OMP_NUM_THREADS"]),
        load_average={"before": before, "after": os.getloadavg()},
        **steps,
        all_decode={f"{size} x {context}": seconds for (size, context), seconds in timings.decode.items()},
        rollouts=rollouts,
    )
    simulated = validation.simulate(cpu.load_curve(steps["curve"]))
    for name, (seconds, _) in simulated.items():
        measured = statistics.median(rollouts[name]["seconds"])
        print(f"{name:<36} measured {measured:6.2f} s  simulated {seconds:6.2f} s  {seconds / measured - 1:+6.1%}")
    print(path)


if __name__ == "__main__":
    main()
