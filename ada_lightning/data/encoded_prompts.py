"""The prompts of a run: read from their source, encoded for a model, without those that cannot be graded."""

from __future__ import annotations

import hashlib
import warnings
from array import array
from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lightning.pytorch import LightningDataModule

from ada_lightning.core.hint import SOLUTION
from ada_lightning.core.prompt_columns import PromptTable, ids_of, num_distinct
from ada_lightning.core.protocols import FollowUp, PromptSource
from ada_lightning.core.records import Prompt
from ada_lightning.data.encoded_table import EncodedTable
from ada_lightning.data.encoder import PromptEncoder, RefusedPromptError
from ada_lightning.data.formats import PromptFormat
from ada_lightning.data.layouts import TEMPLATE_ARGUMENTS
from ada_lightning.data.prompt_stream import PromptStream
from ada_lightning.data.prompts import place_of
from ada_lightning.data.report import DataReport
from ada_lightning.data.solutions import with_levels
from ada_lightning.data.stored_prompts import StoredPrompts
from ada_lightning.data.streaming import StreamingSource
from ada_lightning.methods.curriculum.uniform import MOST_BY_PYTHON
from ada_lightning.rewards.hints import ungradable_prompts
from ada_lightning.rewards.pool import RewardPool

_MOST_TOKENISED = 1000
"""Training prompts of a large data set whose tokens the checksum is of."""
_SELECTED = "selected.parquet"


class OnlyPrompts:
    """A list of prompt ids from a file, read and checked at construction.

    Args:
        path: folder that ``prepare.py`` wrote, or a parquet file with a column ``prompt_id``, such as a part of its
            ``prompts.parquet``.

    Raises:
        ValueError: there is no such file, it cannot be read, or it holds no prompt id.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.prompt_ids = frozenset(_read(self.path / _SELECTED if self.path.is_dir() else self.path))

    def check(self, prompts: Sequence[Prompt]) -> None:
        """Compare with the training prompts.

        Raises:
            ValueError: none of them is in the file.
        """
        if self.prompt_ids.isdisjoint(ids_of(prompts)):
            raise ValueError(
                f"data.only = {self.path} has {len(self.prompt_ids)} prompts and none of the {len(prompts)} training "
                "prompts is among them: it was made from other data; give it the data settings it was prepared with "
                "(its config.yaml has them), or leave it out: data.only=null"
            )

    def keep(self, prompts: Sequence[Prompt]) -> Sequence[Prompt]:
        """Return the prompts that are in the file, in their order; warns of ids that none of them has.

        Raises:
            ValueError: none of them is in the file.
        """
        self.check(prompts)
        kept: Sequence[Prompt]
        if isinstance(prompts, StoredPrompts):
            kept = prompts.only(np.array([prompt_id in self.prompt_ids for prompt_id in prompts.ids]))
        else:
            kept = [prompt for prompt in prompts if prompt.prompt_id in self.prompt_ids]
        num_missing = len(self.prompt_ids) - num_distinct(kept)
        if num_missing:
            warnings.warn(
                f"{num_missing} of the {len(self.prompt_ids)} prompts of data.only = {self.path} are not among the "
                "training prompts",
                stacklevel=2,
            )
        return kept


def _read(file: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    way_out = "give a folder that prepare.py has finished, or a parquet file with a column prompt_id"
    if not file.is_file():
        raise ValueError(f"data.only: there is no file {file}; {way_out}")
    try:
        has_column = "prompt_id" in pq.read_schema(file).names
        table = pq.read_table(file, columns=["prompt_id"] if has_column else [], partitioning=None)
    except (OSError, pa.ArrowInvalid) as error:
        raise ValueError(f"data.only: {file} cannot be read as parquet ({error}); {way_out}") from error
    if not has_column:
        raise ValueError(f"data.only: {file} has no column prompt_id; {way_out}")
    prompt_ids = [value for value in table["prompt_id"].to_pylist() if isinstance(value, str)]
    if not prompt_ids:
        raise ValueError(f"data.only: {file} has no prompt; widen the band that selected it")
    return prompt_ids


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Checksums of the encoded prompts of a run, in their order: a few bytes, however many prompts there are."""

    num_train: int
    train: str
    """Of the ids of the training prompts, which are made of their texts and answers."""
    heldout: str
    """The same of the held-out prompts."""
    tokens: str
    """Of what the model is shown of both."""

    @classmethod
    def of(cls, train: Sequence[Prompt], heldout: Sequence[Prompt]) -> Fingerprint:
        """Return that of some prompts."""
        tokens = hashlib.sha256()
        is_large = isinstance(train, PromptTable)
        for prompt in (*(train[:_MOST_TOKENISED] if is_large else train), *heldout):
            tokens.update(array("q", (len(prompt.prompt_ids), *prompt.prompt_ids)).tobytes())
        mark = f"{_MOST_TOKENISED}:" if is_large else ""
        return cls(len(train), _of_ids(train), _of_ids(heldout), mark + tokens.hexdigest()[:16])

    def as_dict(self) -> dict[str, Any]:
        """Return it as a checkpoint keeps it."""
        return asdict(self)

    def difference(self, earlier: Mapping[str, Any]) -> str:
        """Return in words how an earlier one differs; nothing where it does not."""
        found = []
        if self.train != earlier["train"]:
            found.append(
                f"{self.num_train} training prompts, {earlier['num_train']} then; rows were added, removed, changed or "
                "put in another order"
            )
        if self.heldout != earlier["heldout"]:
            found.append("different held-out prompts, so evaluations before and after cannot be compared")
        is_kept_alike = self.tokens.count(":") == earlier["tokens"].count(":")
        if not found and not is_kept_alike and self.num_train > MOST_BY_PYTHON:
            found.append(
                f"the same prompts, and of more than {MOST_BY_PYTHON} an epoch had another order in the version that "
                "wrote the checkpoint: some come again in this epoch, and others do not come"
            )
        elif not found and is_kept_alike and self.tokens != earlier["tokens"]:
            found.append(
                "the same texts become different tokens, because of another template or one that prints the date"
            )
        return "; ".join(found)


def _of_ids(prompts: Sequence[Prompt]) -> str:
    return hashlib.sha256("\n".join(ids_of(prompts)).encode()).hexdigest()[:16]


class EncodedPrompts(LightningDataModule):
    """Training and held-out prompts with their tokens; :class:`~.datamodule.RolloutDataModule` makes steps of them.

    Args:
        source: where prompts come from.
        max_prompt_tokens: longer prompts are dropped, counted and warned about.
        format: how chat turns become tokens; None chooses by the tokenizer.
        only: the prompts to train on; None: all.
    """

    _fingerprint: Fingerprint | None = None
    _encoder: PromptEncoder | None = None
    stream: PromptStream | None = None
    """What gives training prompts, in the process that has them; None where they are all known."""

    def __init__(
        self, *, source: PromptSource, max_prompt_tokens: int, format: PromptFormat | None, only: OnlyPrompts | None
    ) -> None:
        super().__init__()
        if only is not None and isinstance(source, StreamingSource):
            raise ValueError(
                f"data.only = {only.path} selects from a list of prompts, and a stream has none; use data.only=null, "
                "or data.source.filters, which look at the columns of a row"
            )
        self.source, self.max_prompt_tokens, self.format, self.only = source, max_prompt_tokens, format, only
        self.report = DataReport()
        """What became of the prompts on their way here; complete once :meth:`encode_prompts` ran."""
        self.train_prompts: Sequence[Prompt] = []
        """Those of one epoch: a source that mixes may repeat some. Of a large data set an
        :class:`~ada_lightning.data.encoded_table.EncodedTable`, of which some may turn out to be of no use. Of a stream
        its first ones; of a run that goes on the first one and those whose steps are not done."""
        self.heldout_prompts: list[Prompt] = []

    def check(self) -> None:
        """Compare ``only`` with the training prompts. No model is needed for it.

        Raises:
            ValueError: it has none of them.
        """
        if self.only:
            self.only.check(self.source.train_prompts())

    @property
    def listed_prompts(self) -> Sequence[Prompt]:
        """The training prompts, those of a large data set without tokens: to choose from, and to look at many."""
        return self.train_prompts.stored if isinstance(self.train_prompts, EncodedTable) else self.train_prompts

    @property
    def num_first(self) -> int:
        """Prompts of a stream that are read before the first step, at least."""
        return self.source.num_first if isinstance(self.source, StreamingSource) else 0

    def distinct_prompts(self) -> list[Prompt]:
        """Return every training prompt that can be used, once; of a large data set all are looked at for it.

        Raises:
            ValueError: they come from a stream.
        """
        if isinstance(self.source, StreamingSource):
            self.source.train_prompts()
        if isinstance(self.train_prompts, EncodedTable):
            return self.train_prompts.all_usable()
        return list({prompt.prompt_id: prompt for prompt in self.train_prompts}.values())

    def finish_report(self) -> None:
        """End looking ahead, and enter what was found in the report."""
        if not isinstance(table := self.train_prompts, EncodedTable):
            return
        table.stop()
        self._enter(table)

    def _enter(self, table: EncodedTable) -> None:
        self.report.dropped["train"] = []
        by_reason: dict[str, list[tuple[Prompt, str]]] = {}
        places = sorted(table.reasons)
        for place, prompt in zip(places, table.stored.at(places), strict=True):
            reason, detail = table.reasons[place]
            by_reason.setdefault(reason, []).append((prompt, detail))
        for reason, prompts in by_reason.items():
            self.report.drop("train", reason, prompts)
        self.report.keep_counts("train", table.stored.tasks(), table.num_looked_at)

    def encode_prompts(self, tokenizer: Any, grader: RewardPool | None = None) -> None:
        """Tokenise both splits; needed before training, evaluation or preview.

        Of a large data set some training prompts are looked at, and the others when a step takes them.

        Args:
            tokenizer: of the model.
            grader: whose reward says of a large data set's prompts which it cannot grade; None: all may be graded.

        Raises:
            ValueError: no training prompt is left.
        """
        encoder = PromptEncoder(tokenizer, max_prompt_tokens=self.max_prompt_tokens, prompt_format=self.format)
        self._encoder = encoder
        self.report = DataReport(getattr(self.source, "reports", ()), notes=getattr(self.source, "notes", ()))
        if isinstance(self.source, StreamingSource):
            self._open_stream(self.source, encoder, grader)
            self._encode([("heldout", self.source.heldout_prompts())], encoder)
            return
        listed = self.source.train_prompts()
        if self.only:
            num_all, listed = len(listed), self.only.keep(listed)
            note = f"data.only = {self.only.path} leaves {len(listed)} of {num_all} prompts to train on"
            self.report.notes.append(note)
        both: list[tuple[str, Sequence[Prompt]]] = [("heldout", self.source.heldout_prompts())]
        if isinstance(listed, StoredPrompts):
            self._encode_later(listed, encoder, grader)
        else:
            both.insert(0, ("train", listed))
        self._encode(both, encoder)

    def _encode(self, both: Sequence[tuple[str, Sequence[Prompt]]], encoder: PromptEncoder) -> None:
        for name, count in encoder.unread_arguments([prompt for _, prompts in both for prompt in prompts]).items():
            self.report.notes.append(
                f"{count} prompts set {name!r} in {TEMPLATE_ARGUMENTS}, and the chat template does not read it"
            )
        for split, prompts in both:
            try:
                encoded = encoder.encode(prompts)
            except RefusedPromptError as error:
                raise ValueError(f"{place_of(self.source, error.prompt.prompt_id)}: {error.reason}") from error
            kept = {prompt.prompt_id for prompt in encoded}
            too_long = [prompt for prompt in prompts if prompt.prompt_id not in kept]
            limit = f"more than data.max_prompt_tokens = {self.max_prompt_tokens}"
            self.report.drop(split, "too long", [(prompt, limit) for prompt in too_long])
            self._set_prompts(split, encoded)

    def _open_stream(self, source: StreamingSource, encoder: PromptEncoder, grader: RewardPool | None) -> None:
        check = None if grader is None else grader.check_references
        self._fingerprint = None
        self.stream = PromptStream(source, encoder, check=check, num_first=self.num_first)
        self.train_prompts = self.stream.known
        self.report.keep_stream(self.stream.by_task)

    def _encode_later(self, stored: StoredPrompts, encoder: PromptEncoder, grader: RewardPool | None) -> None:
        has_check = grader is not None and callable(getattr(grader.reward, "check_prompt", None))
        checks = (grader.check_references, grader.checks_beside) if grader is not None and has_check else (None, None)
        settings = (encoder.settings(), grader.settings() if grader is not None and has_check else None)
        table = EncodedTable(stored, encoder, file=stored.file_of(settings), check=checks[0], check_beside=checks[1])
        try:
            table.look_at_some()
        except RefusedPromptError as error:
            raise ValueError(f"{place_of(self.source, error.prompt.prompt_id)}: {error.reason}") from error
        self._fingerprint, self.train_prompts = None, table
        self._enter(table)
        self.report.epoch_counts(stored.tasks())

    def read(self, tokenizer: Any, grader: RewardPool) -> None:
        """Encode the prompts and leave out those that cannot be graded, whose workers may be running afterwards.

        Raises:
            ValueError: no training prompt is left.
        """
        self.encode_prompts(tokenizer, grader)
        is_checked = self.stream is not None or isinstance(self.train_prompts, EncodedTable)
        train = {} if is_checked else ungradable_prompts(grader, self.train_prompts, "training")
        self.drop_prompts(train | ungradable_prompts(grader, self.heldout_prompts, "held-out"))

    def connect_hints(self, hints: FollowUp) -> None:
        """Have requests for hints, and prompts with one, encoded as the prompts were; a line of the report counts them.

        Args:
            hints: that the policy writes.

        Raises:
            RuntimeError: no prompt was encoded.
        """
        if self._encoder is None:
            raise RuntimeError("hints are encoded as the prompts are: call encode_prompts(tokenizer) first")
        encoder = copy(self._encoder)
        encoder.tokenizer = deepcopy(encoder.tokenizer)  # sampling may have a thread, and one is not for two
        hints.connect(encoder.token_ids, has_turns=encoder.prompt_format.reads(encoder.tokenizer, "messages"))
        listed = {prompt.prompt_id: prompt for prompt in self.listed_prompts}
        number = sum(isinstance(prompt.reference.get(SOLUTION), str) for prompt in listed.values())
        self.report.notes.append(
            f"hints: {number} of {len(listed)} training prompts have a solution to write a hint from"
        )

    def cut_solutions(self, tokenizer: Any, grader: RewardPool, *, num_levels: int, positive_threshold: float) -> None:
        """Give training prompts the beginnings of their worked solutions, for hints; a line of the report counts them.

        Arguments are those of :func:`~ada_lightning.data.solutions.with_levels`.
        """
        is_listed = self.stream is None and not isinstance(self.train_prompts, EncodedTable)
        self.train_prompts, line = with_levels(
            self.train_prompts if is_listed else self.distinct_prompts(),  # every prompt is encoded and looked at
            tokenizer,
            grader,
            num_levels=num_levels,
            positive_threshold=positive_threshold,
        )
        self.report.notes.append(line)

    def drop_prompts(self, reasons: Mapping[str, str]) -> None:
        """Leave prompts out of both splits and enter them in the report, by reasons for prompt ids.

        Ids that this run does not have are passed over.

        Raises:
            ValueError: no training prompt would be left.
        """
        for split, prompts in (("train", self.train_prompts), ("heldout", self.heldout_prompts)):
            if isinstance(prompts, EncodedTable) or (self.stream is not None and split == "train"):
                continue
            distinct = list({prompt.prompt_id: prompt for prompt in prompts}.values())
            dropped = {prompt.prompt_id: prompt for prompt in distinct if prompt.prompt_id in reasons}
            if not dropped:
                continue
            if split == "train" and len(dropped) == len(distinct):
                first = next(iter(dropped))
                raise ValueError(
                    f"none of the {len(distinct)} training prompts has an answer that the reward can use; the first, "
                    f"{first}: {reasons[first]}"
                )
            self.report.drop(split, "unusable answer", [(prompt, reasons[key]) for key, prompt in dropped.items()])
            self._set_prompts(split, [prompt for prompt in distinct if prompt.prompt_id not in dropped])

    def _set_prompts(self, split: str, prompts: Sequence[Prompt]) -> None:
        """Keep the usable prompts of a split: those to train on as often as the source shows them in an epoch."""
        self._fingerprint = None
        self.report.keep(split, prompts)
        if split == "heldout":
            self.heldout_prompts = list(prompts)
        else:
            repeat = getattr(self.source, "epoch", list)
            self.train_prompts = repeat(prompts)
            self.report.epoch(self.train_prompts)

    @property
    def _prompts_now(self) -> Fingerprint:
        """What tells whether a run goes on with the prompts that it began with."""
        train = self.train_prompts if self.stream is None else ()
        self._fingerprint = self._fingerprint or Fingerprint.of(train, self.heldout_prompts)
        return self._fingerprint
