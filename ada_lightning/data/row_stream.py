"""Rows that come one after another, counted, and the place among them that a checkpoint keeps."""

from __future__ import annotations

import json
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import xxhash

from ada_lightning.data.text_files import Row

_END = object()


class Place(Protocol):
    """Knows where in its rows it stands: a ``datasets.IterableDataset``, or an iterator of the user's."""

    def state_dict(self) -> Any:
        """Where it stands, as JSON holds it."""
        ...

    def load_state_dict(self, state: Any, /) -> object:
        """Go there: who iterates again gets the next row."""
        ...


class RowStream:
    """Hands out rows in their order, and finds its place again.

    A place is a state of the source and the number of rows behind that state, or without such a state the number of
    rows behind the first. Those rows are read again to go there, and compared by a checksum.

    Args:
        rows: mappings of columns. Iterated over once, and again after a state was loaded.
        origin: what they are called in messages.
        place: what has the state; None where rows are counted alone.

    Raises:
        ValueError: the state cannot be written as JSON.
    """

    def __init__(self, rows: Iterable[Any], origin: str, place: Place | None = None) -> None:
        self.origin = origin
        self.num_taken = 0
        self._rows, self._place = rows, place
        self._state = self._state_now()
        self._num_since = 0
        """Rows behind that state; behind the first one where there is none."""
        self._checksum = 0
        """Of those rows."""
        self._head: deque[Any] = deque()
        self._is_read_out = False
        self._iterator = self._opened()

    @property
    def has_ended(self) -> bool:
        """Whether no row is left, as far as one was asked for."""
        return self._is_read_out and not self._head

    def head(self, number: int) -> list[Row]:
        """Return the next rows without taking them; fewer where there are no more.

        Raises:
            ValueError: one cannot be read, or is no row.
        """
        while len(self._head) < number and not self._is_read_out:
            if (columns := self._read(self.num_taken + len(self._head))) is not None:
                self._head.append(columns)
        return [(self._where(self.num_taken + index), columns) for index, columns in enumerate(self._head)][:number]

    def take(self) -> Row | None:
        """Take the next row; None at the end.

        Raises:
            ValueError: it cannot be read, or is no row.
        """
        columns = self._head.popleft() if self._head else self._read(self.num_taken)
        if columns is None:
            return None
        where = self._where(self.num_taken)
        self.num_taken += 1
        self._num_since += 1
        self._checksum = _checksum(columns, self._checksum)
        return where, columns

    def note_place(self) -> None:
        """Ask the source for its state, so that a resume reads no row again that was taken before."""
        if self._place is not None and not self._head:
            self._state, self._num_since, self._checksum = self._state_now(), 0, 0

    def state_dict(self) -> dict[str, Any]:
        """Where it stands, as primitives."""
        return {
            "num_taken": self.num_taken,
            "state": self._state,
            "num_since": self._num_since,
            "checksum": f"{self._checksum:016x}",
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go where :meth:`state_dict` was taken, and warn where the rows on the way are others than before.

        Raises:
            ValueError: that place was kept in another way, or lies before rows that are taken already.
        """
        if (state["state"] is None) != (self._place is None):
            ways = ("by counting rows", "as a state of the source")
            before, now = ways[state["state"] is not None], ways[self._place is not None]
            raise ValueError(
                f"the place of this run in {self.origin} was kept {before}, and is to be kept {now}; continue with the "
                "data.source of the run, or start a new one"
            )
        if self._place is not None:
            self._place.load_state_dict(json.loads(state["state"]))
            self._iterator = self._opened()
            self._head.clear()
            self._state, self._num_since, self._checksum = state["state"], 0, 0
            self.num_taken = state["num_taken"] - state["num_since"]
            self._is_read_out = False
        if self.num_taken > state["num_taken"]:
            raise ValueError(
                f"this run has taken {state['num_taken']} rows of {self.origin}, and {self.num_taken} are read at its "
                "start now; continue with data.source.num_first and num_heldout of the run, or start a new one"
            )
        while self.num_taken < state["num_taken"] and self.take() is not None:
            pass
        if self.num_taken < state["num_taken"]:
            self._warn(f"it ended after {self.num_taken} of the {state['num_taken']} rows that this run has taken")
        elif f"{self._checksum:016x}" != state["checksum"]:
            self._warn(
                f"of the {state['num_taken']} rows that this run has taken, the last {state['num_since']} were read "
                "again and differ from those of then. Rows may come twice or be left out"
            )

    def _warn(self, what: str) -> None:
        warnings.warn(f"{self.origin} gives other rows than before: {what}", RuntimeWarning, stacklevel=3)

    def _where(self, index: int) -> str:
        return f"{self.origin}, row {index}"

    def _state_now(self) -> str | None:
        if self._place is None:
            return None
        try:
            return json.dumps(self._place.state_dict())
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{self.origin}: its state_dict() must return what JSON can hold, for checkpoints: {error}"
            ) from error

    def _opened(self) -> Iterator[Any]:
        try:
            return iter(self._rows)
        except Exception as error:  # of the user's own, or of a data set elsewhere: of any kind
            raise ValueError(f"{self.origin} cannot be read: {type(error).__name__}: {error}") from error

    def _read(self, index: int) -> dict[str, Any] | None:
        try:
            columns = next(self._iterator, _END)
        except Exception as error:  # as above
            raise ValueError(f"{self._where(index)} cannot be read: {type(error).__name__}: {error}") from error
        if columns is _END:
            self._is_read_out = True
            return None
        if not isinstance(columns, Mapping):
            raise ValueError(
                f"{self._where(index)}: a mapping with columns is needed, such as "
                f"{{'prompt': ..., 'answer': ...}}; found {type(columns).__name__}"
            )
        return dict(columns)


def _checksum(columns: Mapping[str, Any], before: int) -> int:
    """Return a checksum of a row and of all before it. What JSON does not have counts by its type alone."""
    text = json.dumps(columns, default=lambda value: type(value).__name__, skipkeys=True)
    return xxhash.xxh3_64_intdigest(text.encode(), seed=before)


def has_place(rows: object) -> bool:
    """Whether an iterator of the user's keeps its place itself."""
    return all(callable(getattr(rows, name, None)) for name in ("state_dict", "load_state_dict"))
