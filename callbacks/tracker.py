"""The base of tracking tools: what they receive of a run. A failing tool never stops the run."""

from __future__ import annotations

import json
import logging
from abc import abstractmethod
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

from ada_lightning.run.files import write_text
from ada_lightning.run.run_dir import RunDir

from .objective_statement import FILE as OBJECTIVE

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

MAX_TABLE_ROWS = 1000
"""Responses of a file that go into a table, the first ones: more is nothing to look at in a browser."""


class Tracker(Logger):
    """Shows a run in a tracking tool, which cannot stop it: where the tool fails, one warning says so.

    The run folder has all that the tool is told.

    Args:
        run_dir: folder of the run.
        run_name: name of the run in the tool.

    Raises:
        ValueError: the tool's package is not installed.
    """

    tool: ClassVar[str]
    """What people call it."""
    option: ClassVar[str]
    """Its ``logger=<option>``, and the extra that installs it."""
    package: ClassVar[str]
    """What is imported."""

    def __init__(self, *, run_dir: str | Path, run_name: str) -> None:
        super().__init__()
        if not is_installed(self.package):
            raise ValueError(
                f"logger={self.option} needs the package {self.package}, which is not installed: "
                f"pip install 'ada-lightning[{self.option}]', or choose another logger"
            )
        self.run_dir = RunDir(run_dir)
        self.run_name = run_name
        self._is_open = False
        self._is_given_up = False
        self._has_warned = False

    @property
    def name(self) -> str:
        """Name of the run in the tool."""
        return self.run_name

    @property
    def version(self) -> str:
        """Empty: a run folder belongs to one run of the tool."""
        return ""

    @property
    @abstractmethod
    def how_to_open(self) -> str:
        """What a person does to see the run."""

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """Begin, with the settings; in the tool they have the names that they have on the command line."""
        self._begin(vars(params) if isinstance(params, Namespace) else params)

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Send figures of a policy update, and what is new in the run folder."""
        self._begin({})
        self.try_to(lambda: self.send({name: float(value) for name, value in metrics.items()}, step or 0))

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Send what is left, and end the run in the tool."""
        if self._is_open:
            self.try_to(lambda: self.end(status))
            self._is_open = False

    @abstractmethod
    def begin(self, settings: Mapping[str, Any]) -> None:
        """Begin a session: a run in the tool, or the next part of one."""

    @abstractmethod
    def send(self, metrics: Mapping[str, float], step: int) -> None:
        """Send figures of one policy update, some of which may be no numbers (NaN, infinite), and files."""

    @abstractmethod
    def end(self, status: str) -> None:
        """Send what is left and end the run as Lightning calls it: ``success``, ``finished``, ``failed``."""

    def try_to(self, write: Callable[[], None]) -> bool:
        """Do what may fail; whether it did not."""
        if self._is_given_up:
            return False
        try:
            write()
        except Exception as error:  # servers, disks and tools fail in every way; training must not
            self.warn(f"{type(error).__name__}: {error}")
            return False
        return True

    def warn(self, reason: str) -> None:
        """Say that the tool fails, the first time."""
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "%s failed (%s). Training goes on; every figure is in %s, and all else is in the same folder",
                self.tool,
                reason,
                self.run_dir.metrics_csv,
            )

    def _begin(self, settings: Mapping[str, Any]) -> None:
        """Begin, once a session; a tool that does not open is left alone until the next."""
        if not self._is_open and not self._is_given_up:
            self._is_open = self.try_to(lambda: self.begin(settings))
            self._is_given_up = not self._is_open


class Dashboard(Tracker):
    """Shows figures, settings, plots, sampled responses, and what the update optimises, while the run waits for it.

    Figures go out as they are logged, by policy update. Everything else is a file of the run folder, which goes out
    when the folder has a new version of it. ``<tool>.json`` in the folder remembers which ones did, so that a resume
    continues the same run of the tool and repeats no file. Steps that a resume repeats are sent once more.

    Args:
        run_dir: folder of the run.
        run_name: name of the run in the tool.

    Raises:
        ValueError: the tool's package is not installed.
    """

    def __init__(self, *, run_dir: str | Path, run_name: str) -> None:
        super().__init__(run_dir=run_dir, run_name=run_name)
        self._memory_file = self.run_dir.path / f"{self.option}.json"
        self.memory: dict[str, Any] = {"files": {}}
        """What a resume has to know; plain values."""
        self._not_sent: dict[str, str] = {}
        """Versions of files that could not be sent, by name: tried again at the end of the session, and in the next."""
        self._step = 0

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Open the tool's run, with what an earlier session remembered of it."""
        is_resumed = self._memory_file.exists()
        if is_resumed:
            self.memory |= json.loads(self._memory_file.read_text(encoding="utf-8"))
        self.run_dir.path.mkdir(parents=True, exist_ok=True)
        self.open(settings, is_resumed=is_resumed)
        self._remember()

    def send(self, metrics: Mapping[str, float], step: int) -> None:
        """Send figures, and files that are new or have changed."""
        self._step = step
        self.try_to(lambda: self.write_metrics(metrics, step))
        self._send_files()

    def end(self, status: str) -> None:
        """Send what is left, end the run in the tool, and say how to look at it."""
        self._not_sent = {}
        self.try_to(self._send_files)
        self.close(is_failed=status not in ("success", "finished"))
        if not self._has_warned:
            print(f"{self.tool}: {self.how_to_open}", flush=True)

    @abstractmethod
    def open(self, settings: Mapping[str, Any], *, is_resumed: bool) -> None:
        """Begin a run in the tool, or go on with the one of an earlier session."""

    @abstractmethod
    def write_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        """Send figures of one policy update, some of which may be no numbers (NaN, infinite)."""

    @abstractmethod
    def write_picture(self, name: str, path: Path, step: int) -> None:
        """Send a PNG file; ``name`` stays the same over the run."""

    @abstractmethod
    def write_responses(self, name: str, responses: pd.DataFrame, step: int) -> None:
        """Send sampled responses, with the columns that :func:`~.response_log.read_responses` explains."""

    @abstractmethod
    def write_text(self, name: str, text: str, step: int) -> None:
        """Send lines that are to be shown as they are."""

    @abstractmethod
    def close(self, *, is_failed: bool) -> None:
        """End the run in the tool."""

    def write_page(self, name: str, path: Path, step: int) -> None:
        """Send an HTML page, where the tool shows such."""

    def _remember(self) -> None:
        write_text(self._memory_file, json.dumps(self.memory, indent=1) + "\n")

    def _send_files(self) -> None:
        sent, has_news = self.memory["files"], False
        for name, path, send in self._files():
            version = file_version(path)
            if version in (sent.get(name), self._not_sent.get(name)):
                continue
            if self.try_to(partial(send, path)):
                sent[name], has_news = version, True
            else:  # not every step again
                self._not_sent[name] = version
        if has_news:
            self._remember()

    def _files(self) -> Iterator[tuple[str, Path, Callable[[Path], None]]]:
        """Name in the folder, place, and what sends it."""
        folder = self.run_dir.path
        if (folder / OBJECTIVE).is_file():
            yield OBJECTIVE, folder / OBJECTIVE, self._send_text
        for path in sorted(folder.glob("[!.]*.png")):
            yield path.name, path, lambda path: self.write_picture(path.stem, path, self._step)
        for path in sorted(folder.glob("[!.]*.html")):
            yield path.name, path, lambda path: self.write_page(path.stem, path, self._step)
        for path in sorted(folder.glob("responses/*/step_*.parquet")):
            yield str(path.relative_to(folder)), path, self._send_responses

    def _send_text(self, path: Path) -> None:
        self.write_text(path.stem, path.read_text(encoding="utf-8"), self._step)

    def _send_responses(self, path: Path) -> None:
        import pandas as pd

        responses = pd.read_parquet(path)
        step = int(responses["policy_version"].iloc[0])
        self.write_responses(f"responses/{path.parent.name}", responses.head(MAX_TABLE_ROWS), step)


def file_version(path: Path) -> str:
    """Tell a file from an earlier one of its name."""
    facts = path.stat()
    return f"{facts.st_mtime_ns}:{facts.st_size}"


def is_installed(package: str) -> bool:
    """Whether a package can be imported; a folder of its name, as ``wandb`` leaves one where it ran, is none."""
    spec = find_spec(package)
    return spec is not None and spec.origin is not None
