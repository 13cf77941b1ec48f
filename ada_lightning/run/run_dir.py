"""The folder of one run: who may write to it, and the files that every run leaves there."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

from ada_lightning.run.checkpoints import CheckpointStore
from ada_lightning.run.files import is_disk_full, write_text
from ada_lightning.run.resume import of_the_run
from ada_lightning.run.run_lock import MOST_TRIES, RunLock
from ada_lightning.run.scratch import is_alive

RUNS = Path("runs")
"""Where the folders of runs are, which ``run_name`` names; see conf/train.yaml."""
_TEMPORARY = re.compile(r"\..+\.tmp(\d+)")
"""Names of files that are being written, with the number of the process."""


def name_problem(run_name: str) -> str:
    """Say why a run cannot have this name; an empty text where it can. A job of a sweep is named ``<sweep>/0``.

    Example:
        >>> name_problem("mine/0")
        ''
    """
    parts = run_name.split("/")
    if run_name.isprintable() and all(part.strip() not in ("", ".", "..") for part in parts):
        return ""
    return (
        f"run_name = {run_name!r} must name a folder inside {RUNS}/; a run that is to lie elsewhere says so with "
        "run_dir=<folder>"
    )


class RunCompleteError(ValueError):
    """A run that was to be continued has all of its steps; ``average`` is its last held-out avg@k, if there is one."""

    def __init__(self, text: str, average: float | None) -> None:
        super().__init__(text)
        self.average = average


class RunDir:
    """A named folder that belongs to one run, from its fresh start through every resume; :meth:`claim` makes it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = RunLock(self.path)
        self._made: list[Path] = []

    @property
    def option(self) -> str:
        """What leads to this folder on the command line; the folder of a job is named with that of its sweep."""
        inside = self._below_runs()
        return f"run_name={inside}" if inside else f"run_dir={self.path}"

    @property
    def title(self) -> str:
        """What to call the run above a picture; the folder of a job, a number, is named with that of its sweep."""
        return str(self._below_runs() or self.path.name)

    def _below_runs(self) -> Path | None:
        folder, runs = self.path.resolve(), RUNS.resolve()
        inside = folder != runs and folder.is_relative_to(runs)
        return folder.relative_to(runs) if inside else None

    @property
    def metrics_csv(self) -> Path:
        """One row of metrics per step."""
        return self.path / "metrics.csv"

    @property
    def prompts_csv(self) -> Path:
        """One row for each prompt of each step: what it cost and gave."""
        return self.path / "prompts.csv"

    @property
    def checkpoints(self) -> Path:
        """Holds ``step_<n>`` for each checkpoint, and ``last``."""
        return self.path / "checkpoints"

    def claim(self, *, resume: bool, or_start: bool = False) -> None:
        """Make the folder, or refuse it, before anything is written; until :meth:`release` no other process may.

        Args:
            resume: continue the run of this folder.
            or_start: start it where it left no checkpoint, whatever else it left.

        Raises:
            ValueError: a fresh start in a used folder or in that of a sweep, a resume without a checkpoint to continue
                from, another process that is at work in the folder, or a folder that this user may not write to.
        """
        parts = (self.path / "config.yaml", self.metrics_csv, self.checkpoints)
        used = [] if resume else [part.name for part in parts if part.exists()]
        if used:
            raise ValueError(
                f"the run folder {self.path} is in use (it has {', '.join(used)}); to continue that run: "
                f"its own options and ckpt=last {self.option}; to start anew choose another name: run_name=<new name>"
            )
        if (self.path / "multirun.yaml").exists() and not self.has_checkpoint():
            raise ValueError(
                f"the run folder {self.path} is that of a sweep; to continue it: its own options, -m and ckpt=auto "
                f"{self.option}; to start a run choose another name: run_name=<new name>"
            )
        if resume and not or_start:
            self.last_checkpoint()
        self._made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        try:
            for _ in range(MOST_TRIES - 1):
                make_private(self.path)
                with suppress(FileNotFoundError):  # whoever made the folder has given it up just now
                    self._lock.acquire()
                    break
            self._lock.acquire()  # nothing where it is held; else the error is the answer
        except PermissionError as error:
            raise ValueError(_not_writable(self.path, error)) from error
        except OSError as error:
            raise ValueError(
                f"the run folder {self.path} cannot be written ({error}); choose another place: run_dir=<folder>"
            ) from error
        for file in self.path.rglob(".*.tmp*"):
            if (match := _TEMPORARY.fullmatch(file.name)) and not is_alive(int(match[1])):
                file.unlink(missing_ok=True)  # of a process that was killed while it wrote

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Have the folder for the logs of something that is no run; they are gone afterwards unless it broke.

        An empty folder goes, too: Hydra makes those of a sweep's jobs.
        """
        before = set(self.path.iterdir()) if self.path.exists() else set()
        make_private(self.path)
        yield
        for path in set(self.path.iterdir()) - before:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        with suppress(OSError):  # something was there
            self.path.rmdir()

    def release(self) -> None:
        """Let another process claim the folder. Safe to call twice."""
        self._lock.release()

    def give_up(self) -> None:
        """Release a folder in which nothing was done; delete it where :meth:`claim` made it."""
        if self._made and self._lock.is_held:
            self._lock.path.unlink(missing_ok=True)
        self.release()
        with suppress(OSError):  # something is in it
            for folder in self._made:
                folder.rmdir()

    def write_config(self, cfg: DictConfig, command: str = "") -> Path:
        """Keep the settings the run was started with; a resume with other settings adds ``config-resumed-<n>.yaml``.

        What only says how to resume, as ``ckpt`` does, makes no difference. The command that made it is a comment on
        the first line.

        Returns:
            The file that holds this configuration, every interpolation resolved.
        """
        first = self.path / "config.yaml"
        head = f"# {command}\n" if command and command.isprintable() else ""
        target, text = first, head + OmegaConf.to_yaml(cfg, resolve=True)
        if first.exists():
            newest = self.newest_config()
            if of_the_run(yaml.safe_load(newest.read_text(encoding="utf-8"))) == of_the_run(yaml.safe_load(text)):
                return newest
            target = self.path / f"config-resumed-{_last_number(newest) + 1}.yaml"
        write_text(target, text)
        return target

    def stored_config(self) -> dict[str, Any]:
        """Settings that the run was started or last continued with, resolved; empty where it has none."""
        newest = self.newest_config()
        return dict(yaml.safe_load(newest.read_text(encoding="utf-8")) or {}) if newest.exists() else {}

    def stored_command(self) -> str:
        """Command that made :meth:`stored_config`, without what names and continues the run; empty where unknown."""
        newest = self.newest_config()
        first, _, _ = newest.read_text(encoding="utf-8").partition("\n") if newest.exists() else ("", "", "")
        return first.removeprefix("# ") if first.startswith(("# python ", "# ada ")) else ""

    def newest_config(self) -> Path:
        """File with the settings that the run was started or last continued with; it may not be there."""
        return max((self.path / "config.yaml", *self.path.glob("config-resumed-*.yaml")), key=_last_number)

    def has_checkpoint(self) -> bool:
        """Whether there is something to continue from."""
        try:
            self.last_checkpoint()
        except ValueError:
            return False
        return True

    def last_checkpoint(self) -> Path:
        """Return what ``checkpoints/last`` points to, else the complete checkpoint with the highest step.

        A checkpoint that is being written has ``.tmp`` in its name and does not count.

        Raises:
            ValueError: there is no complete checkpoint.
        """
        candidates = CheckpointStore(self.checkpoints).candidates()
        if not candidates:
            raise ValueError(
                f"nothing to continue from: {self.checkpoints} has no complete checkpoint; leave out ckpt=last and "
                "start under another name: run_name=<new name>, or use ckpt=auto, which starts where there is none"
            )
        return candidates[0]

    def good_checkpoint(self) -> Path:
        """Return the newest checkpoint whose files are as they were written; damaged ones are set aside, with a notice.

        Raises:
            ValueError: there is none.
        """
        self.last_checkpoint()
        store = CheckpointStore(self.checkpoints)
        good, damaged = store.newest_good()
        listed = "; ".join(f"{path.name}: {wrong}" for path, wrong in damaged.items())
        if good is None:
            raise ValueError(
                f"no checkpoint in {self.checkpoints} can be read ({listed}); restore one from a copy, or start under "
                "another name: run_name=<new name>"
            )
        for path in damaged:
            moved = store.set_aside(path)
            print(f"damaged checkpoint set aside as {moved}: {damaged[path]}; continuing from {good.name}", flush=True)
        return good

    def check_not_complete(self, num_steps: int) -> None:
        """Look whether anything is left to do; a run that was killed after its last update still owes its end.

        Raises:
            RunCompleteError: the run finished, with all of its steps.
        """
        try:
            summary = json.loads((self.path / "summary.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return
        if summary.get("status") == "finished" and summary.get("steps", 0) >= num_steps:
            raise RunCompleteError(
                f"this run is complete: {summary['steps']} of num_steps = {num_steps} steps are done; raise num_steps "
                "to continue it",
                _last_average(summary),
            )

    def how_to_go_on(self) -> str:
        """What there is to continue from, and how, for the end of a message."""
        options = f"with the same options and: ckpt=auto {self.option}"
        if not self.has_checkpoint():
            return f"no checkpoint was written, so nothing can be continued; once the cause is mended, start {options}"
        return f"the last checkpoint is {self.last_checkpoint().name}; continue {options}"

    def explain(self, error: OSError) -> str:
        """Say why a run could not go on writing, and how it continues. After :meth:`release`.

        Returns:
            An empty text where the error has nothing to do with files.
        """
        if is_disk_full(error):
            free_gb = shutil.disk_usage(self.path).free / 1e9
            return (
                f"the disk of {self.path} is full ({error}; {free_gb:.3f} GB are free). Every file is whole. Make "
                f"room: {self.how_to_go_on()}"
            )
        if error.errno == errno.EMFILE:
            limit = "raise the limit in this shell, ulimit -n 4096"
            return f"too many open files ({error}): {limit}; {self.how_to_go_on()}"
        if self._lock.is_lost:
            saved = f"nothing of it is left; start anew: run_name={self.path.name}"
            if self.has_checkpoint():
                saved = f"the policy was saved anew: {self.how_to_go_on()}"
            return f"the run folder {self.path} was deleted or moved while the run went on ({error}); {saved}"
        if self.path.absolute() in Path(str(error.filename or "")).absolute().parents:
            return f"the run folder {self.path} cannot be written any more ({error}); {self.how_to_go_on()}"
        return ""

    def write_summary(self, summary: Mapping[str, Any]) -> Path:
        """Write ``summary.json``, whole or not at all."""
        return self.write_json("summary.json", summary)

    def write_json(self, name: str, content: Mapping[str, Any]) -> Path:
        """Write a file of the folder, whole or not at all."""
        target = self.path / name
        write_text(target, json.dumps(content, indent=2) + "\n")
        return target

    @property
    def mlflow_run_id(self) -> str:
        """Run in the MLflow store that this folder belongs to; empty before the first start."""
        file = self.path / "mlflow_run_id"
        return file.read_text(encoding="utf-8").strip() if file.exists() else ""

    def write_mlflow_run_id(self, run_id: str) -> None:
        """Remember the MLflow run, so that a resume continues its curves."""
        write_text(self.path / "mlflow_run_id", run_id + "\n")


def make_private(folder: Path, *, beside: Collection[str] = ()) -> None:
    """Make a folder that its owner alone may read: prompts, responses and settings may be nobody else's business.

    One that has something in it keeps the rights that it has, and so does one of somebody else.

    Args:
        folder: it and its parents are made where they are not there.
        beside: names that do not count as something: of what Hydra makes before anything else runs.

    Raises:
        PermissionError: this user may not make it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not {path.name for path in folder.iterdir()} - set(beside):
        with suppress(PermissionError):
            folder.chmod(0o700)


def _last_average(summary: Mapping[str, Any]) -> float | None:
    """Read the newest held-out avg@k of a summary: there is one for each k that the run was evaluated with."""
    figures = summary.get("heldout", {}).values()
    newest = max(figures, key=lambda of_k: of_k["after_policy_version"], default=None)
    return newest["after"] if newest else None


def _not_writable(folder: Path, error: PermissionError) -> str:
    """Say who may not write where. In a container the usual cause is a mounted folder that Docker made, as root."""
    return (
        f"user {os.getuid()} may not write to the run folder {folder} ({error}); make its parent yours, or choose "
        "another place: run_dir=<folder>. In a container: make the folder that is mounted there before the start "
        '(mkdir -p runs) and give docker run --user "$(id -u):$(id -g)"'
    )


def _last_number(path: Path) -> int:
    return int((re.findall(r"\d+", path.name) or ["0"])[-1])
