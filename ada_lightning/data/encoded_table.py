"""Prompts of a large data set, encoded and checked when a step takes them, and in the background ahead of that.

A prompt that cannot be used is replaced by the next one of the data that can. So the prompts of a step are a function
of the data, the seed and the step, however much was looked at before.
"""

from __future__ import annotations

import copy
import json
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.prompt_columns import PromptTable
from ada_lightning.core.records import Prompt
from ada_lightning.data.encoder import PromptEncoder, RefusedPromptError
from ada_lightning.data.stored_prompts import StoredPrompts

Check = Callable[[Sequence[Prompt]], Mapping[int, str]]
"""Says of prompts which of them the reward can never grade, and why, by position."""

_UNKNOWN, _USABLE, _UNUSABLE = 0, 1, 2
_SAMPLED = 512
"""Prompts, evenly spread, that are looked at before a run begins."""
_AT_ONCE = 256
_MOST_KEPT = 4096
_SHARE = 0.25
"""Of the time, that looking ahead may take of this process."""
TOO_LONG, NO_ANSWER = "too long", "unusable answer"


class EncodedTable(PromptTable):
    """Stored prompts with their tokens.

    Args:
        stored: the prompts.
        encoder: makes tokens of them.
        check: says which cannot be graded; None where the reward has no opinion.
        check_beside: makes the same for the thread that looks ahead; what ``check`` asks is not for two threads.
        file: of what is known of them, read now and written when all are looked at.
    """

    def __init__(
        self,
        stored: StoredPrompts,
        encoder: PromptEncoder,
        *,
        file: Path,
        check: Check | None = None,
        check_beside: Callable[[], AbstractContextManager[Check]] | None = None,
    ) -> None:
        self.stored = stored
        self.reasons: dict[int, tuple[str, str]] = {}
        """What a prompt is counted as that cannot be used, and what is to be said of it, by place."""
        self._encoder, self._file = encoder, file
        self._check, self._check_beside = check, check_beside
        self._state: NDArray[np.uint8] = np.zeros(len(stored), dtype=np.uint8)
        self._kept: OrderedDict[int, Prompt] = OrderedDict()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._refused: RefusedPromptError | None = None
        self._load()

    @property
    def ids(self) -> Sequence[str]:
        """Ids of all, in order."""
        return self.stored.ids

    @property
    def num_looked_at(self) -> int:
        """Prompts of which it is known whether they can be used."""
        return int(np.count_nonzero(self._state))

    def positions(self, prompt_ids: Sequence[str]) -> NDArray[np.int64]:
        """Return where prompts stand; -1 for those that are not here."""
        return self.stored.positions(prompt_ids)

    def __len__(self) -> int:
        """Prompts there are, those included that cannot be used."""
        return len(self.stored)

    @overload
    def __getitem__(self, place: int) -> Prompt: ...
    @overload
    def __getitem__(self, place: slice) -> list[Prompt]: ...
    def __getitem__(self, place: int | slice) -> Prompt | list[Prompt]:
        """Return one prompt, or a list of them, with tokens."""
        if isinstance(place, slice):
            return [self[index] for index in range(*place.indices(len(self)))]
        place = range(len(self))[place]
        with self._lock:
            found = self._kept.get(place)
        if found is None:
            prompt = self.stored[place]
            found = replace(prompt, prompt_ids=self._encoder.token_ids(prompt))
            with self._lock:
                self._kept[place] = found
                while len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
        return found

    def usable(self, chosen: Sequence[Prompt]) -> list[Prompt]:
        """Return prompts with tokens; in place of one that cannot be used the next one that can.

        Raises:
            RefusedPromptError: the chat template does not take one.
            ValueError: no prompt can be used.
        """
        if self._refused is not None:
            raise self._refused
        places = self.positions([prompt.prompt_id for prompt in chosen]).tolist()
        self._look_at(places)
        taken = set(places)
        for index, place in enumerate(places):
            if self._state[place] == _UNUSABLE:
                places[index] = self._next_usable(place, taken)
                taken.add(places[index])
        return [self[place] for place in places]

    def all_usable(self) -> list[Prompt]:
        """Look at all prompts, and return those that can be used."""
        for start in range(0, len(self), _AT_ONCE):
            self._look_at(range(start, min(start + _AT_ONCE, len(self))))
        return [self[place] for place in np.flatnonzero(self._state == _USABLE).tolist()]

    def look_at_some(self) -> None:
        """Look at prompts that are evenly spread.

        Raises:
            ValueError: none of them can be used.
        """
        places = range(0, len(self), max(1, len(self) // _SAMPLED))
        self._look_at(places)
        if all(self._state[place] == _UNUSABLE for place in places):
            kind, detail = self.reasons[0]
            raise ValueError(
                f"none of {len(places)} prompts that are evenly spread over {len(self)} can be used; the first, "
                f"{self.ids[0]}, is {kind}: {detail}"
            )

    def look_ahead(self) -> None:
        """Look at all prompts in a thread that leaves most of the time to others. Idempotent."""
        if self._thread is None and self.num_looked_at < len(self):
            self._thread = threading.Thread(target=self._run_ahead, name="data-ahead", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _next_usable(self, place: int, taken: set[int]) -> int:
        for step in range(1, len(self)):
            following = (place + step) % len(self)
            if following not in taken:
                self._look_at([following])
                if self._state[following] == _USABLE:
                    return following
        raise ValueError(f"none of the {len(self)} training prompts can be used: {self.reasons[place][1]}")

    def _look_at(self, places: Iterable[int]) -> None:
        unknown = [place for place in dict.fromkeys(places) if self._state[place] == _UNKNOWN]
        self._judge(unknown, self._encoder, self._check)

    def _judge(self, places: Sequence[int], encoder: PromptEncoder, check: Check | None) -> None:
        if not places:
            return
        prompts = self.stored.at(places)
        limit = encoder.max_prompt_tokens
        lengths = [len(encoder.token_ids(prompt)) for prompt in prompts]
        errors = {} if check is None else check(prompts)
        for index, (place, length) in enumerate(zip(places, lengths, strict=True)):
            if length > limit:
                self.reasons[place] = TOO_LONG, f"more than data.max_prompt_tokens = {limit}"
            elif index in errors:
                self.reasons[place] = NO_ANSWER, errors[index]
            self._state[place] = _UNUSABLE if place in self.reasons else _USABLE

    def _run_ahead(self) -> None:
        encoder = copy.copy(self._encoder)
        encoder.tokenizer = copy.deepcopy(self._encoder.tokenizer)  # one is not for two threads
        try:
            with self._check_beside() if self._check_beside else nullcontext() as check:
                for start in range(0, len(self), _AT_ONCE):
                    begin = time.thread_time()
                    block = range(start, min(start + _AT_ONCE, len(self)))
                    self._judge([place for place in block if self._state[place] == _UNKNOWN], encoder, check)
                    if self._stop.wait((time.thread_time() - begin) * (1 / _SHARE - 1)):
                        return
            self._save()
        except RefusedPromptError as error:
            self._refused = error
        except (OSError, RuntimeError) as error:
            warnings.warn(f"prompts are looked at when a step takes them, and not ahead of it: {error}", stacklevel=2)

    def _load(self) -> None:
        try:
            known = np.load(self._file)
            reasons = json.loads(self._file.with_suffix(".json").read_text(encoding="utf-8"))
        except (OSError, ValueError, EOFError):
            return
        if known.shape == self._state.shape:
            self._state = known
            self.reasons = {int(place): (kind, detail) for place, (kind, detail) in reasons.items()}

    def _save(self) -> None:
        """Keep what is known; the reasons first, so that a file of states has its own."""
        for file, write in (
            (self._file.with_suffix(".json"), lambda path: path.write_text(json.dumps(self.reasons), encoding="utf-8")),
            (self._file, lambda path: np.save(path, self._state)),
        ):
            part = file.with_name(f".{threading.get_native_id()}.{file.name}")
            write(part)
            part.replace(file)
