"""Writes the final figures of a run, and prints them at its end."""

from __future__ import annotations

import re
import resource
import shlex
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.utilities.exceptions import SIGTERMException

from ada_lightning.core.following import without_hints
from ada_lightning.run.run_dir import RunDir
from ada_lightning.run.terminal import duration, is_new, start_of

from .cost_preview import PreviewDone
from .metrics_csv import read_metrics
from .mlflow_logger import MLflowTracking
from .rollout_listener import RolloutListener

if TYPE_CHECKING:
    from ada_lightning.core.step_records import EvaluationResult, RolloutResult


class Summary(RolloutListener):
    """Writes ``summary.json`` however the run ends, and prints held-out accuracy before and after.

    Counts travel with the checkpoint, so those of a resumed run cover the whole run, each step once, and every response
    that was drawn for a step which has begun to train.

    Args:
        run_dir: folder of the run.
    """

    def __init__(self, *, run_dir: str | Path) -> None:
        self.run_dir = RunDir(run_dir)
        self._counts, self._unfinished = Counter[str](), Counter[str]()
        self._failures, self._unfinished_failures = Counter[str](), Counter[str]()
        self._earlier_seconds: dict[str, float] = {}
        self._earlier_wall_s = 0.0
        self._started_at = time.monotonic()
        self._clock: Any = None
        self._has_begun = False
        self._evaluations: dict[int, dict[str, float]] = {}
        self._heldout_since = 0
        """Policy version from which on evaluations are of today's held-out prompts."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Start counting the wall-clock seconds of this session."""
        module: Any = pl_module
        self._clock = module.clock
        self._started_at = time.monotonic()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """From here on this session is part of the run."""
        self._has_begun = True
        module, data = cast("Any", pl_module), cast("Any", trainer).datamodule
        if data.heldout_changed:
            self._heldout_since = module.policy_version + 1

    def on_rollout_end(self, trainer: Trainer, pl_module: LightningModule, result: RolloutResult) -> None:
        """Note what was sampled."""
        self._unfinished = Counter(
            prompts=len(bare := without_hints(result.groups)),
            prompts_with_signal=sum(group.has_signal for group in bare),
            responses=result.stats.num_drawn,
            generated_tokens=result.stats.drawn_tokens,
        )
        self._unfinished_failures = Counter(result.stats.failures)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count a rollout with its first update, a step with its last: what is interrupted before is drawn again."""
        data: Any = trainer.datamodule  # type: ignore[attr-defined]
        if batch.update_index == data.updates_per_rollout - 1:
            self._counts["steps"] += 1
        self._counts.update(self._unfinished)
        self._failures.update(self._unfinished_failures)
        self._unfinished, self._unfinished_failures = Counter(), Counter()

    def on_evaluation_end(self, trainer: Trainer, pl_module: LightningModule, result: EvaluationResult) -> None:
        """Keep the held-out figures."""
        self._evaluations[result.policy_version] = dict(result.metrics)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Write and print; the last evaluation is over by now."""
        self._finish(trainer, status="finished", error="")

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Write what there is of a run that was stopped or failed; a resume that never began leaves it as it was."""
        if isinstance(exception, PreviewDone):
            return
        if not self._has_begun and (self.run_dir.path / "summary.json").exists():
            return
        is_stop = isinstance(exception, KeyboardInterrupt | SIGTERMException)
        self._finish(
            trainer,
            status="interrupted" if is_stop else "failed",
            error="" if is_stop else f"{type(exception).__name__}: {exception}",
        )

    def state_dict(self) -> dict[str, Any]:
        """Counts up to now."""
        return {
            "counts": dict(self._counts),
            "failures": dict(self._failures),
            "seconds": self._seconds(),
            "wall_s": self._wall_s(),
            "heldout_since": self._heldout_since,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue the counts of :meth:`state_dict`."""
        self._counts = Counter(state_dict["counts"])
        self._failures = Counter(state_dict["failures"])
        self._earlier_seconds = dict(state_dict["seconds"])
        self._earlier_wall_s = float(state_dict["wall_s"])
        self._heldout_since = int(state_dict.get("heldout_since", 0))

    def _finish(self, trainer: Trainer, *, status: str, error: str) -> None:
        if not trainer.is_global_zero:
            return
        summary = self._summary(trainer, status=status, error=error)
        try:
            self.run_dir.write_summary(summary)
        except OSError as failed:
            if not error:
                raise
            print(f"summary.json could not be written: {failed}", flush=True)  # the run fails for a reason of its own
            return
        print("\n".join(self._closing_lines(trainer, summary)), flush=True)

    def _summary(self, trainer: Trainer, *, status: str, error: str) -> dict[str, Any]:
        counts = self._counts
        module: Any = trainer.lightning_module
        peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {
            "run_name": self.run_dir.path.name,
            "status": status,
            "error": error,
            "steps": counts["steps"],
            "policy_version": module.policy_version,
            "heldout": self._heldout(),
            "heldout_since": self._heldout_since,
            "responses": counts["responses"],
            "generated_tokens": counts["generated_tokens"],
            "grader_failure_ratio": {
                reason: round(count / counts["responses"], 6) for reason, count in self._failures.most_common()
            },
            "signal_ratio_mean": counts["prompts_with_signal"] / counts["prompts"] if counts["prompts"] else None,
            "seconds": {phase: round(seconds, 3) for phase, seconds in self._seconds().items()},
            "wall_s": round(self._wall_s(), 3),
            "peak_memory_gb": round(peak_kib * 1024 / 1e9 if sys.platform == "linux" else peak_kib / 1e9, 3),
        }

    def _heldout(self) -> dict[str, dict[str, float]]:
        """Each avg@k over the run, from its start, or from where its held-out prompts last changed.

        The file remembers what earlier sessions measured.
        """
        rows = {int(row["step"]): row for row in read_metrics(self.run_dir.metrics_csv)}
        rows = {version: row for version, row in rows.items() if version >= self._heldout_since}
        for version, metrics in self._evaluations.items():
            rows[version] = rows.get(version, {}) | metrics
        figures: dict[str, dict[str, float]] = {}
        for version, row in sorted(rows.items()):
            for key, value in row.items():
                if re.fullmatch(r"eval/avg_at_\d+", key):
                    entry = figures.setdefault(key, {"before": value, "before_policy_version": version})
                    entry |= {"after": value, "after_policy_version": version}
        return figures

    def _seconds(self) -> dict[str, float]:
        now: dict[str, float] = self._clock.total_seconds() if self._clock else {}
        phases = self._earlier_seconds.keys() | now.keys()
        return {phase: self._earlier_seconds.get(phase, 0.0) + now.get(phase, 0.0) for phase in sorted(phases)}

    def _wall_s(self) -> float:
        return self._earlier_wall_s + time.monotonic() - self._started_at

    def _closing_lines(self, trainer: Trainer, summary: Mapping[str, Any]) -> list[str]:
        length = f"({summary['steps']} steps, {duration(summary['wall_s'])})"
        lines = [
            f"held-out {key.removeprefix('eval/').replace('_at_', '@')}: "
            f"{figures['before']:.3f} -> {_after(figures, summary['policy_version'])} {length}"
            for key, figures in summary["heldout"].items()
        ]
        if not lines:
            lines = [f"no held-out evaluation {length}"]
        if summary["status"] != "finished":
            lines.insert(0, f"the run {summary['status']}")  # why is told when all parts are closed
        lines.append(f"run folder: {self.run_dir.path}")
        if summary["steps"]:
            lines.append(f"one page of it: {shlex.join([*start_of('report'), str(self.run_dir.path)])}")
        curves = [f"curves: {logger.how_to_open}" for logger in trainer.loggers if isinstance(logger, MLflowTracking)]
        lines += filter(is_new, curves)  # one store for all jobs of a sweep
        return lines


def _after(figures: Mapping[str, float], policy_version: int) -> str:
    """Spell the last held-out figure; of a run that was stopped since, of how many updates it is."""
    version, figure = figures["after_policy_version"], f"{figures['after']:.3f}"
    if version == policy_version:
        return figure
    return "not measured" if version == figures["before_policy_version"] else f"{figure} after {version:.0f} updates"
