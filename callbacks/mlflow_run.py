"""One run in an MLflow store: the only importer of ``mlflow``."""

from __future__ import annotations

import itertools
import json
import logging
import math
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ada_lightning.run.credentials import whole
from ada_lightning.run.flat import flat
from ada_lightning.run.metrics_file import TIME_COLUMN
from ada_lightning.run.resume import OF_THE_SESSION

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

log = logging.getLogger(__name__)

Cells = dict[str, str]
"""Cells of a row of ``metrics.csv`` by column, as they are written."""
KEY_TAG = "ada_lightning.key"
"""Marks a run with a key from its folder: a run whose making was not confirmed is found again instead of made twice."""
SWEEP_TAG = "ada_lightning.run.sweep"
"""Marks the run that holds the runs of a sweep; its value is the sweep's name."""
MAX_TABLES = 50
"""Tables the UI lists for a run. MLflow keeps the list in one tag of at most 8,000 characters."""
MAX_SWEEP_RUNS = 1000
SQLITE_ATTEMPTS = 3
"""Two processes that create the same SQLite file at once fail in one of them; it works the second time."""
_REFUSALS = {"INVALID_PARAMETER_VALUE", "BAD_REQUEST", "MALFORMED_REQUEST", "RESOURCE_ALREADY_EXISTS"}
_REFUSED_UPLOADS = {400, 413, 422}
# mlflow's own defaults wait minutes for a server that is down, and report usage to a remote host. Delivery repeats what
# failed, and knows better than mlflow's own repetition which requests may be made twice.
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
        run_id: run to continue; empty, or one that the store does not have, for the run with the target's ``key``, or
            else a new one.
        target: ``experiment_name``, made if it does not exist; ``run_name`` in the UI. ``parent`` is the name of the
            sweep this run belongs to, empty for a single run. ``key`` identifies a run whose id is not known yet.
            ``source`` is the program that trains. ``start_ms`` since 1970 is when a new run began, 0 for now.
    """

    def __init__(self, *, tracking_uri: str, run_id: str, target: Mapping[str, Any]) -> None:
        for variable, value in _ENVIRONMENT.items():
            os.environ.setdefault(variable, value)
        logging.getLogger("alembic").setLevel(logging.WARNING)
        self.client = _client(tracking_uri)
        self.run_id = run_id if run_id and self._has(run_id) else ""
        if not self.run_id:
            experiment_id = self._experiment_id(target["experiment_name"], tracking_uri)
            self.run_id = self._find(experiment_id, KEY_TAG, target["key"]) or self._create(experiment_id, target)
        elif (name := self._experiment_name()) != target["experiment_name"]:
            log.warning(
                "this run goes on in MLflow's experiment %s and not in %s: MLflow moves no run; resume with "
                "logger.mlflow.experiment_name=%s",
                *(name, target["experiment_name"], name),
            )

    def log_metrics(self, rows: Sequence[tuple[Cells, Cells]]) -> None:
        """Write cells of rows, in as few requests as MLflow allows. A point that the store has is stored once."""
        from mlflow.entities import Metric
        from mlflow.utils.validation import MAX_METRICS_PER_BATCH

        metrics = [
            Metric(metric_name(name), float(cell), int(row[TIME_COLUMN]), int(row["step"]))
            for row, cells in rows
            for name, cell in cells.items()
        ]
        for start in range(0, len(metrics), MAX_METRICS_PER_BATCH):
            self.client.log_batch(self.run_id, metrics=metrics[start : start + MAX_METRICS_PER_BATCH])

    def log_params(self, settings: Mapping[str, Any]) -> None:
        """Write nested settings under dotted names. MLflow's parameters are final: changed ones become tags.

        What says how to resume is none of them.
        """
        from mlflow.entities import Param, RunTag
        from mlflow.utils.validation import MAX_PARAM_VAL_LENGTH, MAX_PARAMS_TAGS_PER_BATCH

        old = self.client.get_run(self.run_id).data.params
        new = {metric_name(key): _text(value)[:MAX_PARAM_VAL_LENGTH] for key, value in flat(settings).items()}
        changed = [key for key, text in new.items() if key not in OF_THE_SESSION and old.get(key, text) != text]
        params = [Param(key, text) for key, text in new.items() if key not in old]
        tags = [RunTag(f"resumed.{key}"[:250], new[key]) for key in changed]
        for start in range(0, max(len(params), len(tags)), MAX_PARAMS_TAGS_PER_BATCH // 2):
            part = slice(start, start + MAX_PARAMS_TAGS_PER_BATCH // 2)  # of parameters and tags together
            self.client.log_batch(self.run_id, params=params[part], tags=tags[part])
        if changed:
            log.warning(
                "settings differ from the start of this run: %s; MLflow keeps the first values as parameters and shows "
                "the new ones as tags resumed.<name>",
                ", ".join(changed),
            )

    def set_tag(self, name: str, text: str) -> None:
        """Set a tag, replacing an earlier one of its name."""
        self.client.set_tag(self.run_id, metric_name(name), text)

    def set_status(self, status: str, end_ms: int | None) -> None:
        """Mark the run as ``RUNNING``, or as ``FINISHED``, ``FAILED`` or ``KILLED`` at a time."""
        if end_ms is None:
            self.client.update_run(self.run_id, status=status)
        else:
            self.client.set_terminated(self.run_id, status, end_ms)

    def log_table(self, artifact: str, rows: Sequence[Mapping[str, Any]], *, run_id: str = "") -> None:
        """Upload rows of equal columns as a JSON artifact that the UI shows as a table, of this run or another.

        ``MlflowClient.log_table`` would list and download artifacts each time, and fail at 8,000 characters of names.
        """
        from mlflow.utils.mlflow_tags import MLFLOW_LOGGED_ARTIFACTS

        run_id = run_id or self.run_id
        table = {"columns": list(rows[0]), "data": [list(row.values()) for row in rows]}
        self.client.log_dict(run_id, table, artifact)
        tables = json.loads(self.client.get_run(run_id).data.tags.get(MLFLOW_LOGGED_ARTIFACTS, "[]"))
        tables = [entry for entry in tables if entry["path"] != artifact] + [{"path": artifact, "type": "table"}]
        self.client.set_tag(run_id, MLFLOW_LOGGED_ARTIFACTS, json.dumps(tables[-MAX_TABLES:]))

    def update_sweep_table(self) -> None:
        """Give the sweep that this run belongs to ``runs.json``: what differs in its runs' settings, and results.

        The run with the highest last held-out avg@k stands in the tag ``best_run``, its figure in a metric. Runs that
        were evaluated with another k compare among themselves; the largest k counts.
        """
        from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

        run = self.client.get_run(self.run_id)
        if not (parent := run.data.tags.get(MLFLOW_PARENT_RUN_ID)):
            return
        children = f"tags.`{MLFLOW_PARENT_RUN_ID}` = '{parent}'"
        runs = self._search(run.info.experiment_id, children, max_results=MAX_SWEEP_RUNS)
        self.log_table("runs.json", _sweep_rows(runs), run_id=parent)
        keys = {key for run in runs for key in run.data.metrics if re.fullmatch(r"eval/avg_at_\d+", key)}
        key = max(keys, key=lambda name: int(name.rpartition("_")[2]), default="")
        measured = [run for run in runs if not math.isnan(run.data.metrics.get(key, math.nan))]
        if measured:
            best = max(measured, key=lambda run: run.data.metrics[key])
            self.client.set_tag(parent, "best_run", best.info.run_name)
            self.client.log_metric(parent, f"best/{key}", best.data.metrics[key])

    def _has(self, run_id: str) -> bool:
        """Whether the store has a run: it may be another store than before, or have been deleted since."""
        from mlflow.exceptions import MlflowException

        try:
            self.client.get_run(run_id)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return False
        return True

    def _experiment_name(self) -> str:
        experiment_id = self.client.get_run(self.run_id).info.experiment_id
        return str(self.client.get_experiment(experiment_id).name)

    def _experiment_id(self, name: str, tracking_uri: str) -> str:
        if experiment := self.client.get_experiment_by_name(name):
            if experiment.lifecycle_stage == "deleted":
                self.client.restore_experiment(experiment.experiment_id)
            return experiment.experiment_id
        artifacts = None  # a server has its own place for them
        if tracking_uri.startswith("sqlite:///"):  # mlflow's default is the working directory, wherever that is
            folder = Path(tracking_uri.removeprefix("sqlite:///")).resolve().parent / "mlruns"
            artifacts = (folder / re.sub(r"[^\w.-]", "_", name)).as_uri()
        return self.client.create_experiment(name, artifact_location=artifacts)

    def _create(self, experiment_id: str, target: Mapping[str, Any]) -> str:
        from mlflow.tracking.context.registry import resolve_tags
        from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_SOURCE_NAME

        # Delivered by another program, the state of the working tree is not that of the run any more.
        tags = resolve_tags() if os.path.abspath(sys.argv[0]) == os.path.abspath(target["source"]) else {}
        tags |= {KEY_TAG: target["key"], MLFLOW_SOURCE_NAME: target["source"]}
        if target["parent"]:
            tags[MLFLOW_PARENT_RUN_ID] = self._sweep_run_id(experiment_id, target["parent"])
        run = self.client.create_run(
            experiment_id, start_time=target["start_ms"] or None, run_name=target["run_name"], tags=tags
        )
        return run.info.run_id

    def _sweep_run_id(self, experiment_id: str, name: str) -> str:
        sweep = re.sub("['\"]", "_", name)  # a filter string cannot hold both kinds of quotes
        if found := self._find(experiment_id, SWEEP_TAG, sweep):
            return found
        run = self.client.create_run(experiment_id, run_name=name, tags={SWEEP_TAG: sweep})
        self.client.set_terminated(run.info.run_id, "FINISHED")  # it only holds others
        return self._find(experiment_id, SWEEP_TAG, sweep)  # where two jobs made one each, both take the older

    def _find(self, experiment_id: str, tag: str, value: str) -> str:
        runs = self._search(experiment_id, f"tags.`{tag}` = '{value}'", max_results=1)
        return runs[0].info.run_id if runs else ""

    def _search(self, experiment_id: str, condition: str, *, max_results: int) -> list[Run]:
        order = ["attributes.start_time ASC", "attributes.run_id ASC"]
        return list(self.client.search_runs([experiment_id], condition, max_results=max_results, order_by=order))


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


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _client(tracking_uri: str) -> MlflowClient:
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    for attempt in itertools.count(1):
        try:
            client = MlflowClient(whole(tracking_uri))
            client.search_experiments(max_results=1)
            break
        except MlflowException:
            if attempt >= SQLITE_ATTEMPTS or not tracking_uri.startswith("sqlite"):
                raise
            time.sleep(1)
    return client


def _sweep_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One row a run: name, status, parameters in which the runs differ, latest held-out and headline metrics."""
    names = sorted({name for run in runs for name in run.data.params} - {"run_name", "run_dir", "ckpt"})
    differing = [
        name
        for name in names
        if len({run.data.params.get(name) for run in runs}) > 1 and not name.endswith((".run_dir", ".run_name"))
    ]
    shown = {name for run in runs for name in run.data.metrics if name.startswith(("eval/", "rollout/reward"))}
    return [
        {"run": run.info.run_name, "status": run.info.status}
        | {name.replace(".", "/"): run.data.params.get(name) for name in differing}  # the UI leaves x.y empty
        | {name: run.data.metrics.get(name) for name in (*sorted(shown), "rollout/signal_ratio")}
        for run in runs
    ]
