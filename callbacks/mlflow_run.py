"""One run in an MLflow store: the only importer of ``mlflow``."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ada_lightning.run.credentials import whole
from ada_lightning.run.flat import flat
from ada_lightning.run.resume import OF_THE_SESSION

if TYPE_CHECKING:
    from mlflow import MlflowClient

Point = tuple[str, float, int, int]
"""Metric name, value, step, milliseconds since 1970."""
KEY_TAG = "ada_lightning.key"
"""Marks a run with a key from its folder: a run whose making was not confirmed is found again instead of made twice."""
SWEEP_TAG = "ada_lightning.run.sweep"
"""Marks the run that holds the runs of a sweep; its value is the sweep's name."""
MAX_TABLES = 50
"""Tables the UI lists for a run. MLflow keeps the list in one tag of at most 8,000 characters."""
SQLITE_ATTEMPTS = 3
"""Two processes that create the same SQLite file at once fail in one of them; it works the second time."""
SWEEP_TABLE = "runs.json"
"""Table of its runs in the artifacts of a sweep's run."""
BEST_TAG = "best_run"
"""Tag of a sweep's run: name of the job with the highest last held-out avg@k."""
MAX_SWEEP_RUNS = 1000
_REFUSALS = {"INVALID_PARAMETER_VALUE", "BAD_REQUEST", "MALFORMED_REQUEST", "RESOURCE_ALREADY_EXISTS"}
_REFUSED_UPLOADS = {400, 413, 422}
# mlflow's own defaults wait minutes for a server that is down, and report usage to a remote host. Whoever writes here
# repeats what failed, and knows better than mlflow's own repetition which requests may be made twice.
_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
}


class MlflowRun:
    """Creates or continues a run and writes to it. Every method may raise whatever ``mlflow`` raises.

    Args:
        tracking_uri: store or server.
        run_id: run to continue; empty for the run with the target's ``key``, or else a new one.
        target: ``experiment_name``, made where it does not exist; ``run_name`` in the UI; ``parent``, name of the sweep
            this run belongs to, empty for a run of its own; ``key``, which identifies a run whose id is not known yet;
            ``source``, the program that trains; ``start_ms`` since 1970 at which a new run began, 0 for now.
    """

    def __init__(self, *, tracking_uri: str, run_id: str, target: Mapping[str, Any]) -> None:
        for variable, value in _ENVIRONMENT.items():
            os.environ.setdefault(variable, value)
        logging.getLogger("alembic").setLevel(logging.WARNING)
        self._experiment_name = target["experiment_name"]
        self._client = _client(tracking_uri)
        self.run_id = run_id
        if not run_id:
            experiment_id = self._experiment_id(tracking_uri)
            self.run_id = self._find(experiment_id, KEY_TAG, target["key"]) or self._create(experiment_id, target)

    def resume(self) -> None:
        """Mark the run as running."""
        self._client.update_run(self.run_id, status="RUNNING")

    def log_metrics(self, points: Sequence[Point]) -> None:
        """Write points, in as few requests as MLflow allows. A point that the store has is stored once."""
        from mlflow.entities import Metric
        from mlflow.utils.validation import MAX_METRICS_PER_BATCH

        metrics = [Metric(metric_name(name), value, timestamp, step) for name, value, step, timestamp in points]
        for chunk in _chunks(metrics, MAX_METRICS_PER_BATCH):
            self._client.log_batch(self.run_id, metrics=chunk)

    def log_params(self, params: Mapping[str, Any]) -> list[str]:
        """Write nested settings under dotted names. MLflow's parameters are final: changed ones become tags.

        Returns:
            Names of parameters that have another value in the store, which an earlier session wrote; not of those that
            say how to resume.
        """
        from mlflow.entities import Param, RunTag
        from mlflow.utils.validation import MAX_PARAM_VAL_LENGTH, MAX_PARAMS_TAGS_PER_BATCH

        old = self._client.get_run(self.run_id).data.params
        new = [Param(metric_name(key), _text(value)[:MAX_PARAM_VAL_LENGTH]) for key, value in flat(params).items()]
        compared = [param for param in new if param.key not in OF_THE_SESSION]
        changed = [param for param in compared if old.get(param.key, param.value) != param.value]
        for params_chunk in _chunks([param for param in new if param.key not in old], MAX_PARAMS_TAGS_PER_BATCH):
            self._client.log_batch(self.run_id, params=params_chunk)
        tags = [RunTag(f"resumed.{param.key}"[:250], param.value) for param in changed]
        for tags_chunk in _chunks(tags, MAX_PARAMS_TAGS_PER_BATCH):
            self._client.log_batch(self.run_id, tags=tags_chunk)
        return [param.key for param in changed]

    def log_tag(self, name: str, text: str) -> None:
        """Set a tag, replacing an earlier one of its name."""
        self._client.set_tag(self.run_id, metric_name(name), text)

    def log_file(self, path: Path, folder: str = "") -> None:
        """Upload a file into a folder of the run's artifacts, replacing an earlier version."""
        self._client.log_artifact(self.run_id, str(path), folder or None)

    def log_table(self, artifact: str, rows: Sequence[Mapping[str, Any]], *, run_id: str = "") -> None:
        """Upload rows of equal columns as a JSON artifact that the UI shows as a table, of this run or another.

        ``MlflowClient.log_table`` would list and download artifacts each time, and fail at 8,000 characters of names.
        """
        from mlflow.utils.mlflow_tags import MLFLOW_LOGGED_ARTIFACTS

        run_id = run_id or self.run_id
        table = {"columns": list(rows[0]), "data": [list(row.values()) for row in rows]}
        self._client.log_dict(run_id, table, artifact)
        tables = json.loads(self._client.get_run(run_id).data.tags.get(MLFLOW_LOGGED_ARTIFACTS, "[]"))
        tables = [entry for entry in tables if entry["path"] != artifact] + [{"path": artifact, "type": "table"}]
        self._client.set_tag(run_id, MLFLOW_LOGGED_ARTIFACTS, json.dumps(tables[-MAX_TABLES:]))

    def update_sweep_table(self) -> None:
        """Give the sweep that this run belongs to a table of its runs: what differs in their settings, and results.

        The run with the highest held-out avg@k stands in a tag of the sweep, its figure in a metric.
        """
        from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

        run = self._client.get_run(self.run_id)
        if not (parent := run.data.tags.get(MLFLOW_PARENT_RUN_ID)):
            return
        runs = self._client.search_runs(
            [run.info.experiment_id],
            filter_string=f"tags.`{MLFLOW_PARENT_RUN_ID}` = '{parent}'",
            order_by=["attributes.start_time ASC"],
            max_results=MAX_SWEEP_RUNS,
        )
        self.log_table(SWEEP_TABLE, _sweep_rows(runs), run_id=parent)
        if best := _best(runs):
            run, key = best
            self._client.set_tag(parent, BEST_TAG, run.info.run_name)
            self._client.log_metric(parent, f"best/{key}", run.data.metrics[key])

    def finish(self, status: str, end_ms: int) -> None:
        """End the run as ``FINISHED``, ``FAILED`` or ``KILLED``, at a time."""
        self._client.set_terminated(self.run_id, status, end_ms)

    def _experiment_id(self, tracking_uri: str) -> str:
        if experiment := self._client.get_experiment_by_name(self._experiment_name):
            if experiment.lifecycle_stage == "deleted":
                self._client.restore_experiment(experiment.experiment_id)
            return experiment.experiment_id
        artifacts = None  # a server has its own place for them
        if tracking_uri.startswith("sqlite:///"):  # mlflow's default is the working directory, wherever that is
            folder = Path(tracking_uri.removeprefix("sqlite:///")).resolve().parent / "mlruns"
            artifacts = (folder / re.sub(r"[^\w.-]", "_", self._experiment_name)).as_uri()
        return self._client.create_experiment(self._experiment_name, artifact_location=artifacts)

    def _create(self, experiment_id: str, target: Mapping[str, Any]) -> str:
        from mlflow.tracking.context.registry import resolve_tags
        from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_SOURCE_NAME

        # Delivered by another program, the state of the working tree is not that of the run any more.
        tags = resolve_tags() if os.path.abspath(sys.argv[0]) == os.path.abspath(target["source"]) else {}
        tags |= {KEY_TAG: target["key"], MLFLOW_SOURCE_NAME: target["source"]}
        if target["parent"]:
            tags[MLFLOW_PARENT_RUN_ID] = self._sweep_run_id(experiment_id, target["parent"])
        run = self._client.create_run(
            experiment_id, start_time=target["start_ms"] or None, run_name=target["run_name"], tags=tags
        )
        return run.info.run_id

    def _sweep_run_id(self, experiment_id: str, name: str) -> str:
        sweep = re.sub("['\"]", "_", name)  # a filter string cannot hold both kinds of quotes
        if found := self._find(experiment_id, SWEEP_TAG, sweep):
            return found
        run = self._client.create_run(experiment_id, run_name=name, tags={SWEEP_TAG: sweep})
        self._client.set_terminated(run.info.run_id, "FINISHED")  # it only holds others
        return self._find(experiment_id, SWEEP_TAG, sweep)  # where two jobs made one each, both take the older

    def _find(self, experiment_id: str, tag: str, value: str) -> str:
        runs = self._client.search_runs(
            [experiment_id],
            filter_string=f"tags.`{tag}` = '{value}'",
            order_by=["attributes.start_time ASC", "attributes.run_id ASC"],
            max_results=1,
        )
        return runs[0].info.run_id if runs else ""


def is_refused(error: Exception) -> bool:
    """Whether MLflow understood a request and will never take it, instead of being unable to take it now."""
    status = getattr(getattr(error, "response", None), "status_code", 0)  # of an upload
    return getattr(error, "error_code", "") in _REFUSALS or status in _REFUSED_UPLOADS


def metric_name(name: str) -> str:
    """Spell a name with the characters that MLflow accepts.

    Example:
        >>> metric_name("eval/avg@4")
        'eval/avg_at_4'
    """
    return re.sub(r"[^\w./ :-]", "_", name.replace("@", "_at_"))[:250]


def _client(tracking_uri: str) -> MlflowClient:
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    attempts_left = SQLITE_ATTEMPTS if tracking_uri.startswith("sqlite") else 1
    while True:
        attempts_left -= 1
        try:
            client = MlflowClient(whole(tracking_uri))
            client.search_experiments(max_results=1)
            return client
        except MlflowException:
            if not attempts_left:
                raise
            time.sleep(1)


def _sweep_rows(runs: Sequence[Any]) -> list[dict[str, Any]]:
    """One row a run: name, status, parameters in which the runs differ, latest held-out and headline metrics."""
    names = sorted({name for run in runs for name in run.data.params} - {"run_name", "run_dir", "ckpt"})
    differing = [
        name
        for name in names
        if len({run.data.params.get(name) for run in runs}) > 1 and not name.endswith((".run_dir", ".run_name"))
    ]
    metrics = sorted(
        {name for run in runs for name in run.data.metrics if name.startswith(("eval/", "rollout/reward"))}
    )
    return [
        {"run": run.info.run_name, "status": run.info.status}
        | {name.replace(".", "/"): run.data.params.get(name) for name in differing}  # the UI leaves x.y empty
        | {name: run.data.metrics.get(name) for name in (*metrics, "rollout/signal_ratio")}
        for run in runs
    ]


def _best(runs: Sequence[Any]) -> tuple[Any, str] | None:
    """Return the run with the highest last held-out avg@k, the first of equals, and the metric; None without any.

    Runs that were evaluated with another k compare among themselves; the largest k counts.
    """
    keys = {key for run in runs for key in run.data.metrics if re.fullmatch(r"eval/avg_at_\d+", key)}
    if not keys:
        return None
    key = max(keys, key=lambda name: int(name.rpartition("_")[2]))
    measured = [run for run in runs if not math.isnan(run.data.metrics.get(key, math.nan))]
    return (max(measured, key=lambda run: run.data.metrics[key]), key) if measured else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _chunks(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
