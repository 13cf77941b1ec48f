"""Numbers by prompt id in columns: for millions of prompts, where a dictionary of objects takes too much memory.

Ids are 16 hexadecimal digits wherever a data set is read, and then cost 8 bytes; others are kept as they are.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.records import Belief, Prompt

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_HEX = re.compile("[0-9a-f]{16}")
_LEAST_TAIL = 4096


class PromptTable(Sequence[Prompt]):
    """Prompts that are made when they are asked for; each id occurs once.

    What needs ids alone takes them from here, and makes no prompt.
    """

    @property
    @abstractmethod
    def ids(self) -> Sequence[str]:
        """Ids of all, in order."""

    @abstractmethod
    def positions(self, prompt_ids: Sequence[str]) -> NDArray[np.int64]:
        """Return where prompts stand; -1 for those that are not here."""


def ids_of(prompts: Sequence[Prompt]) -> Sequence[str]:
    """Return the ids of prompts, in order."""
    return prompts.ids if isinstance(prompts, PromptTable) else [prompt.prompt_id for prompt in prompts]


def num_distinct(prompts: Sequence[Prompt]) -> int:
    """Return how many different prompts there are; a mixture lists some several times."""
    return len(prompts) if isinstance(prompts, PromptTable) else len(set(ids_of(prompts)))


def found_by_id(prompts: Sequence[Prompt], prompt_ids: Sequence[str]) -> dict[str, Prompt]:
    """Return those of some prompts that are there, by id; in the order of the ids."""
    if isinstance(prompts, PromptTable):
        places = prompts.positions(prompt_ids).tolist()
        return {id_: prompts[place] for id_, place in zip(prompt_ids, places, strict=True) if place >= 0}
    wanted = set(prompt_ids)
    there = {prompt.prompt_id: prompt for prompt in prompts if prompt.prompt_id in wanted}
    return {id_: there[id_] for id_ in prompt_ids if id_ in there}


class BeliefColumns(Sequence[Belief]):
    """Beliefs about many prompts, in columns; each is made when it is asked for.

    Args:
        alpha_P: as in :class:`~ada_lightning.core.records.Belief`. Shape ``(P,)``, as of the others.
        beta_P: the same.
        num_seen_P: the same.
        num_seen_positive_P: the same.
        is_seen_P: the same.
    """

    def __init__(
        self, alpha_P: Floats, beta_P: Floats, num_seen_P: Floats, num_seen_positive_P: Floats, is_seen_P: Flags
    ) -> None:
        self.alpha_P, self.beta_P, self.is_seen_P = alpha_P, beta_P, is_seen_P
        self._num_seen_P, self._num_seen_positive_P = num_seen_P, num_seen_positive_P

    @classmethod
    def of(cls, beliefs: Sequence[Belief]) -> BeliefColumns:
        """Return beliefs in columns, as they are where they are so already."""
        if isinstance(beliefs, cls):
            return beliefs
        names = ("alpha", "beta", "num_seen", "num_seen_positive")
        columns = [np.array([getattr(belief, name) for belief in beliefs], dtype=float) for name in names]
        alpha_P, beta_P, num_seen_P, num_positive_P = columns
        is_seen_P = np.array([belief.is_seen for belief in beliefs], dtype=bool)
        return cls(alpha_P, beta_P, num_seen_P, num_positive_P, is_seen_P)

    def __len__(self) -> int:
        """Beliefs there are."""
        return len(self.alpha_P)

    @overload
    def __getitem__(self, place: int) -> Belief: ...
    @overload
    def __getitem__(self, place: slice) -> list[Belief]: ...
    def __getitem__(self, place: int | slice) -> Belief | list[Belief]:
        """Make one belief, or a list of them."""
        if isinstance(place, slice):
            return [self[index] for index in range(*place.indices(len(self)))]
        return Belief(
            float(self.alpha_P[place]),
            float(self.beta_P[place]),
            float(self._num_seen_P[place]),
            float(self._num_seen_positive_P[place]),
            bool(self.is_seen_P[place]),
        )


class IdIndex:
    """Numbers ids in the order in which they are added, from 0: 16 bytes an id, where it is 16 hexadecimal digits.

    Example:
        >>> index = IdIndex()
        >>> index.add("58b1b1285ea86c00"), index.add("any"), index.find("58b1b1285ea86c00"), index.find("other")
        (0, 1, 0, None)
    """

    def __init__(self) -> None:
        self._keys = np.empty(0, dtype=np.uint64)
        """Sorted, with the row of each."""
        self._rows = np.empty(0, dtype=np.int64)
        self._tail: dict[int, int] = {}
        """Of ids that are not sorted in yet."""
        self._others: dict[str, int] = {}
        self._num = 0

    def __len__(self) -> int:
        """Ids added."""
        return self._num

    def find(self, prompt_id: str) -> int | None:
        """Return an id's number; None where it was not added."""
        if _HEX.fullmatch(prompt_id) is None:
            return self._others.get(prompt_id)
        key = int(prompt_id, 16)
        if (row := self._tail.get(key)) is not None:
            return row
        place = int(np.searchsorted(self._keys, np.uint64(key)))
        if place < len(self._keys) and int(self._keys[place]) == key:
            return int(self._rows[place])
        return None

    def add(self, prompt_id: str) -> int:
        """Return an id's number, a new one where it has none."""
        if (row := self.find(prompt_id)) is not None:
            return row
        row, self._num = self._num, self._num + 1
        if _HEX.fullmatch(prompt_id) is None:
            self._others[prompt_id] = row
            return row
        self._tail[int(prompt_id, 16)] = row
        if len(self._tail) > max(_LEAST_TAIL, len(self._keys) // 8):
            self._sort_in()
        return row

    def extend(self, prompt_ids: Iterable[str]) -> None:
        """Add ids that are not there, each once."""
        for prompt_id in prompt_ids:
            self.add(prompt_id)

    def ids(self) -> list[str]:
        """Return all ids, by number."""
        self._sort_in()
        found = np.empty(self._num, dtype=object)
        found[self._rows] = ids_of_keys(self._keys)
        for prompt_id, row in self._others.items():
            found[row] = prompt_id
        return found.tolist()

    def _sort_in(self) -> None:
        keys = np.concatenate([self._keys, np.fromiter(self._tail, np.uint64, len(self._tail))])
        rows = np.concatenate([self._rows, np.fromiter(self._tail.values(), np.int64, len(self._tail))])
        order = np.argsort(keys)
        self._keys, self._rows = keys[order], rows[order]
        self._tail.clear()


class PromptNumbers(MutableMapping[str, tuple[float, ...]]):
    """So many numbers for each prompt id, as a mapping; 24 bytes of a checkpoint for a prompt with two of them.

    Args:
        known: to begin with.
        width: numbers of a prompt.
        unknown: what :meth:`columns` has where a prompt has none.

    Example:
        >>> numbers = PromptNumbers({"58b1b1285ea86c00": (1.0, 3.0)})
        >>> numbers["58b1b1285ea86c00"], numbers.get("other")
        ((1.0, 3.0), None)
    """

    def __init__(
        self, known: Mapping[str, Sequence[float]] = {}, *, width: int = 2, unknown: float | Sequence[float] = 0.0
    ) -> None:
        self.width, self._unknown = width, unknown
        self._index = IdIndex()
        self._numbers_NW: NDArray[np.float64] = np.empty((0, width))
        self._changed: set[str] = set()
        self._view: tuple[PromptTable, NDArray[np.float64], NDArray[np.bool_]] | None = None
        for prompt_id, numbers in known.items():
            self[prompt_id] = tuple(numbers)

    def __getitem__(self, prompt_id: str) -> tuple[float, ...]:
        """Return the numbers of a prompt. KeyError where it has none."""
        if (row := self._index.find(prompt_id)) is None:
            raise KeyError(prompt_id)
        return tuple(self._numbers_NW[row].tolist())

    def __setitem__(self, prompt_id: str, numbers: Sequence[float]) -> None:
        """Put numbers in the place of those before."""
        row = self._index.add(prompt_id)
        if row >= len(self._numbers_NW):
            more = np.empty((max(1024, len(self._numbers_NW) // 2), self.width))
            self._numbers_NW = np.concatenate([self._numbers_NW, more])
        self._numbers_NW[row] = numbers
        if self._view is not None:
            self._changed.add(prompt_id)

    def __delitem__(self, prompt_id: str) -> None:
        """Nothing is ever forgotten here."""
        raise TypeError("what is remembered of prompts is not deleted")

    def __contains__(self, prompt_id: object) -> bool:
        """Whether a prompt has numbers."""
        return isinstance(prompt_id, str) and self._index.find(prompt_id) is not None

    def __iter__(self) -> Iterator[str]:
        """Go through the ids in the order in which they came."""
        return iter(self._index.ids())

    def __len__(self) -> int:
        """Prompts that have numbers."""
        return len(self._index)

    def columns(self, prompts: PromptTable) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the numbers of all prompts of a table, and which have some.

        Only what has changed since the last call for the same table is looked up.

        Returns:
            Shapes ``(P, W)`` and ``(P,)``; not to be changed.
        """
        if self._view is None or self._view[0] is not prompts:
            numbers_PW = np.empty((len(prompts), self.width), order="F")  # whoever asks takes columns
            numbers_PW[:] = self._unknown
            self._view = prompts, numbers_PW, np.zeros(len(prompts), dtype=bool)
            self._changed = set(self)
        _, numbers_PW, is_known_P = self._view
        if self._changed:
            changed = list(self._changed)
            places = prompts.positions(changed)
            rows = np.array([self._index.find(prompt_id) for prompt_id in changed])
            is_here = places >= 0
            numbers_PW[places[is_here]] = self._numbers_NW[rows[is_here]]
            is_known_P[places[is_here]] = True
            self._changed = set()
        return numbers_PW, is_known_P

    def state(self) -> dict[str, Any]:
        """Return ids and numbers as tensors; nothing where there are none."""
        import torch

        if not self:
            return {}

        numbers = torch.from_numpy(self._numbers_NW[: len(self)].copy())
        return {"ids": packed_ids(self._index.ids()), "numbers": numbers}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], *, width: int = 2) -> PromptNumbers:
        """Restore :meth:`state`; or numbers by id, as earlier checkpoints have them."""
        if set(state) != {"ids", "numbers"}:
            return cls(state, width=width)
        found = cls(width=width)
        found._index.extend(unpacked_ids(state["ids"]))
        found._numbers_NW = state["numbers"].numpy().astype(np.float64).reshape(-1, width)
        return found


def packed_ids(prompt_ids: Sequence[str]) -> Tensor | list[str]:
    """Return ids as a checkpoint holds them: 8 bytes each where all are 16 hexadecimal digits, else as they are."""
    import torch

    if not all(map(_HEX.fullmatch, prompt_ids)):
        return list(prompt_ids)
    return torch.from_numpy(np.frombuffer(bytes.fromhex("".join(prompt_ids)), dtype=np.uint8).reshape(-1, 8).copy())


def unpacked_ids(packed: Tensor | Sequence[str]) -> list[str]:
    """Restore what :func:`packed_ids` gave."""
    if isinstance(packed, Sequence):
        return list(packed)
    return ids_of_keys(packed.numpy().view(">u8").reshape(-1))


def keys_of_ids(prompt_ids: Sequence[str]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return the numbers that ids write with 16 hexadecimal digits, and which ids do; 0 for the others.

    Returns:
        Both of shape ``(N,)``.

    Example:
        >>> keys_of_ids(["0000000000000007", "no-hexadecimals!"])[0].tolist()
        [7, 0]
    """
    is_key = np.array([_HEX.fullmatch(prompt_id) is not None for prompt_id in prompt_ids], dtype=bool)
    keys = [int(prompt_id, 16) if found else 0 for prompt_id, found in zip(prompt_ids, is_key, strict=True)]
    return np.array(keys, dtype=np.uint64), is_key


def ids_of_keys(keys: NDArray[np.uint64]) -> list[str]:
    """Return the ids whose 16 hexadecimal digits are these numbers.

    Example:
        >>> ids_of_keys(np.array([7], dtype=np.uint64))
        ['0000000000000007']
    """
    text = keys.astype(">u8").tobytes().hex()
    return [text[start : start + 16] for start in range(0, len(text), 16)]
