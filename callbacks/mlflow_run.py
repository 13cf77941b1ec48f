"""One run in an MLflow store: the only importer of ``mlflow``."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow import MlflowClient

SWEEP_TAG = "ada_lightning.sweep"
"""Marks the run that holds the runs of a sweep; its value is the sweep's name."""
MAX_TABLES = 50
"""Tables the UI lists for a run. MLflow keeps the list in one tag of at most 8,000 characters."""
SQLITE_ATTEMPTS = 3
"""Two processes that create the same SQLite file at once fail in one of them; it works the second time."""
# mlflow's own defaults wait minutes for a server that is down, and report usage to a remote host.
_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
}


class MlflowRun:
    """Creates or continues a run and writes to it. Every method may raise whatever ``mlflow`` raises.

    Args:
        tracking_uri: store or server.
        experiment_name: made where it does not exist.
        run_name: name of the run in the UI.
        run_id: run to continue; empty makes a new one.
        parent: name of the sweep this run belongs to; empty for a run of its own.
    """

    def __init__(self, *, tracking_uri: str, experiment_name: str, run_name: str, run_id: str, parent: str) -> None:
        for variable, value in _ENVIRONMENT.items():
            os.environ.setdefault(variable, value)
        logging.getLogger("alembic").setLevel(logging.WARNING)
        self._experiment_name = experiment_name
        self._client = _client(tracking_uri)
        if run_id:
            self.run_id = run_id
            self._client.update_run(run_id, status="RUNNING")
        else:
            self.run_id = self._create(experiment_id=self._experiment_id(tracking_uri), name=run_name, parent=parent)

    def log_metrics(self, points: Sequence[tuple[str, float, int, int]]) -> None:
        """Write ``(name, value, step, milliseconds since 1970)`` points, as few requests as MLflow allows."""
        from mlflow.entities import Metric
        from mlflow.utils.validation import MAX_METRICS_PER_BATCH

        metrics = [Metric(metric_name(name), value, timestamp, step) for name, value, step, timestamp in points]
        for chunk in _chunks(metrics, MAX_METRICS_PER_BATCH):
            self._client.log_batch(self.run_id, metrics=chunk)

    def log_params(self, params: Mapping[str, Any]) -> list[str]:
        """Write nested settings under dotted names. MLflow's parameters are final: changed ones become tags.

        Returns:
            Names of parameters that have another value in the store, which an earlier session wrote.
        """
        from mlflow.entities import Param, RunTag
        from mlflow.utils.validation import MAX_PARAM_VAL_LENGTH, MAX_PARAMS_TAGS_PER_BATCH

        old = self._client.get_run(self.run_id).data.params
        new = [Param(metric_name(key), text[:MAX_PARAM_VAL_LENGTH]) for key, text in _flatten(params)]
        changed = [param for param in new if old.get(param.key, param.value) != param.value]
        for params_chunk in _chunks([param for param in new if param.key not in old], MAX_PARAMS_TAGS_PER_BATCH):
            self._client.log_batch(self.run_id, params=params_chunk)
        tags = [RunTag(f"resumed.{param.key}"[:250], param.value) for param in changed]
        for tags_chunk in _chunks(tags, MAX_PARAMS_TAGS_PER_BATCH):
            self._client.log_batch(self.run_id, tags=tags_chunk)
        return [param.key for param in changed]

    def log_file(self, path: Path) -> None:
        """Upload a file to the top of the run's artifacts, replacing an earlier version."""
        self._client.log_artifact(self.run_id, str(path))

    def log_table(self, artifact: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Upload rows of equal columns as a JSON artifact that the UI shows as a table.

        ``MlflowClient.log_table`` would list and download artifacts each time, and fail at 8,000 characters of names.
        """
        from mlflow.utils.mlflow_tags import MLFLOW_LOGGED_ARTIFACTS

        table = {"columns": list(rows[0]), "data": [list(row.values()) for row in rows]}
        self._client.log_dict(self.run_id, table, artifact)
        tables = json.loads(self._client.get_run(self.run_id).data.tags.get(MLFLOW_LOGGED_ARTIFACTS, "[]"))
        tables = [entry for entry in tables if entry["path"] != artifact] + [{"path": artifact, "type": "table"}]
        self._client.set_tag(self.run_id, MLFLOW_LOGGED_ARTIFACTS, json.dumps(tables[-MAX_TABLES:]))

    def finish(self, status: str) -> None:
        """End the run as ``FINISHED``, ``FAILED`` or ``KILLED``."""
        self._client.set_terminated(self.run_id, status)

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

    def _create(self, *, experiment_id: str, name: str, parent: str) -> str:
        from mlflow.tracking.context.registry import resolve_tags
        from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

        tags = {MLFLOW_PARENT_RUN_ID: self._sweep_run_id(experiment_id, parent)} if parent else {}
        run = self._client.create_run(experiment_id, run_name=name, tags=resolve_tags(tags))
        return run.info.run_id

    def _sweep_run_id(self, experiment_id: str, name: str) -> str:
        sweep = re.sub("['\"]", "_", name)  # a filter string cannot hold both kinds of quotes
        if found := self._find_sweep(experiment_id, sweep):
            return found
        run = self._client.create_run(experiment_id, run_name=name, tags={SWEEP_TAG: sweep})
        self._client.set_terminated(run.info.run_id, "FINISHED")  # it only holds others
        return self._find_sweep(experiment_id, sweep)  # where two jobs made one each, both take the older

    def _find_sweep(self, experiment_id: str, sweep: str) -> str:
        runs = self._client.search_runs(
            [experiment_id],
            filter_string=f"tags.`{SWEEP_TAG}` = '{sweep}'",
            order_by=["attributes.start_time ASC", "attributes.run_id ASC"],
            max_results=1,
        )
        return runs[0].info.run_id if runs else ""


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
            client = MlflowClient(tracking_uri)
            client.search_experiments(max_results=1)
            return client
        except MlflowException:
            if not attempts_left:
                raise
            time.sleep(1)


def _flatten(params: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in params.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value, default=str)


def _chunks(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
