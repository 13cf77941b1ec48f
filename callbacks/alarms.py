"""Alarms for runs that have collapsed: without them such a run goes on and learns nothing."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch import LightningModule, Trainer

from ada_lightning.core.checks import similar
from ada_lightning.run.run_dir import RunDir
from ada_lightning.run.stopping import RunStoppedError

from .rollout_listener import RolloutListener

log = logging.getLogger(__name__)

_WHY_MISSING = " (held-out figures are not watched, and a step that trains nothing has no figures of an update)"
_FILE = "alarms.json"
STEPS_UNTIL_MISSED = 5
"""Rollout steps after which a figure that none of them had is taken for one that never comes."""


class Alarms(RolloutListener):
    """Watches figures of each rollout step: a warning, ``alarm/<name>`` = 1 in the metrics, a tag in MLflow.

    The alarm ends with the first step in which its figure is in order again. A resumed run goes on counting where the
    checkpoint was. An alarm whose figure no step had is warned of once: its name may be misspelt. Belongs behind the
    callbacks that log, and before the checkpoint, so that a run which an alarm stops keeps the checkpoint before it.

    Args:
        bounds: by name of the alarm.
        run_dir: folder of the run, where ``alarms.json`` says how each alarm that was ever raised stands.
    """

    def __init__(self, *, bounds: Mapping[str, AlarmBound], run_dir: str | Path | None = None) -> None:
        self.bounds = dict(bounds)
        self._num_out = dict.fromkeys(self.bounds, 0)
        self._num_steps = 0
        self._names: set[str] = set()
        self._texts: dict[str, str] = {}
        self._run_dir = None if run_dir is None else RunDir(run_dir)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Let the file say how alarms stand where a resume goes on: what was raised behind the checkpoint is over."""
        if self._run_dir is None or not trainer.is_global_zero:
            return
        file = self._run_dir.path / _FILE
        in_file = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        self._texts = dict.fromkeys(in_file, "over") | self._texts
        if self._texts != in_file:
            self._run_dir.write_json(_FILE, self._texts)

    def on_step_end(self, trainer: Trainer, pl_module: LightningModule, figures: Mapping[str, float]) -> None:
        """Look at the figures of a rollout step.

        Raises:
            RunStoppedError: an alarm that stops was raised.
        """
        policy: Any = pl_module
        self._warn_of_missing(figures)
        seen = {name: bound for name, bound in self.bounds.items() if bound.metric in figures}
        raised = {
            f"alarm/{name}": float(self._note(trainer, name, bound, figures[bound.metric]))
            for name, bound in seen.items()
        }
        for logger in trainer.loggers:
            logger.log_metrics(raised, step=policy.policy_version - 1)
        for name, bound in seen.items():
            if bound.stops and self._num_out[name] >= bound.num_steps:
                raise RunStoppedError(
                    f"alarm {name}: {self._text(name, bound, figures[bound.metric])}. To go on anyway: "
                    f"callbacks.alarms.bounds.{name}.stops=false"
                )

    def state_dict(self) -> dict[str, Any]:
        """How long each figure has been out of bounds."""
        return {"num_out": dict(self._num_out), "texts": dict(self._texts)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`; alarms that are new start at 0."""
        self._num_out |= {name: count for name, count in state_dict["num_out"].items() if name in self.bounds}
        self._texts = dict(state_dict["texts"])

    def _warn_of_missing(self, metrics: Mapping[str, float]) -> None:
        """Say which alarms watch nothing; some figures are not there in every step, so not at once."""
        self._num_steps += 1
        self._names.update(metrics)
        if self._num_steps != STEPS_UNTIL_MISSED:
            return
        for name, bound in self.bounds.items():
            if bound.metric not in self._names:
                near = similar(bound.metric, sorted(self._names), cutoff=0.85)
                log.warning(
                    "alarm %s watches nothing: no step has had a figure %s%s",
                    name,
                    bound.metric,
                    f"; did you mean {near[0]}?" if near else _WHY_MISSING,
                )

    def _note(self, trainer: Trainer, name: str, bound: AlarmBound, value: float) -> bool:
        """Count a value; whether the alarm is on."""
        was_on = self._num_out[name] >= bound.num_steps
        self._num_out[name] = 0 if bound.is_met(value) else self._num_out[name] + 1
        is_on = self._num_out[name] >= bound.num_steps
        if is_on and not was_on:
            log.warning("alarm %s: %s", name, self._text(name, bound, value))
        elif was_on and not is_on:
            log.warning("alarm %s is over: %s = %.4g", name, bound.metric, value)
        if is_on != was_on:
            self._texts[name] = self._text(name, bound, value) if is_on else "over"
            if self._run_dir is not None and trainer.is_global_zero:
                self._run_dir.write_json(_FILE, self._texts)
        return is_on

    def _text(self, name: str, bound: AlarmBound, value: float) -> str:
        return (
            f"{bound.metric} = {value:.4g} is outside of [{bound.low:g}, {bound.high:g}] for "
            f"{self._num_out[name]} steps in a row"
        )


class AlarmBound:
    """Raises an alarm where a figure stays out of bounds for several steps, and may stop the run.

    Args:
        metric: name of a figure of the rollout or its updates (``rollout/``, ``train/``, ``reward/``, ``grader/``,
            ``sync/``, ``time/``), as in ``metrics.csv``.
        low: smallest value that is in order; ``-inf`` for none.
        high: largest value that is in order; ``inf`` for none.
        num_steps: rollout steps in a row, out of bounds, at which the alarm is raised. A step without the figure
            counts neither way; a figure that no step has is warned of once.
        stops: whether the run then stops.

    Raises:
        ValueError: bounds that nothing or everything meets, or fewer than one step; all in one message.
    """

    def __init__(
        self,
        metric: str,
        *,
        low: float = -math.inf,
        high: float = math.inf,
        num_steps: int = 5,
        stops: bool = False,
    ) -> None:
        errors = []
        if not metric:
            errors.append("metric is empty; give a column of metrics.csv")
        if not low < high:
            errors.append(f"low must be below high; got {low} and {high}")
        if low == -math.inf and high == math.inf:
            errors.append("give low or high; without them every value is in bounds")
        if num_steps < 1:
            errors.append(f"num_steps must be at least 1; got {num_steps}")
        if errors:
            raise ValueError(f"alarm on {metric or '?'}: " + "; ".join(errors))
        self.metric = metric
        self.low = low
        self.high = high
        self.num_steps = num_steps
        self.stops = stops

    def is_met(self, value: float) -> bool:
        """Whether a value is in order. One that is not a number is not."""
        return self.low <= value <= self.high
