"""TRL's rollout process with a memory: which response is drawn next, what is told of it, and which rows train."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import queue
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trl.experimental.async_grpo.async_rollout_worker import (
    AsyncRolloutWorker,
    RolloutGroup,
    RolloutSample,
    _AsyncRolloutLoop,
)

from ada_lightning.adapters.brain import Brain
from ada_lightning.adapters.brain_records import FinishedStep, Handout
from ada_lightning.adapters.trl.async_rows import Arrangement, filler
from ada_lightning.adapters.trl.rows import PromptRows
from ada_lightning.run.files import write_text

TRAINER = "TRL's AsyncGRPOTrainer"
POLL = 0.05
"""Seconds between looks at the policy version, of which nobody tells the rollout process."""
_NO_COLUMNS = frozenset({"prompt", "completion", "completion_ids"})
"""Names in a row that TRL hands to reward functions otherwise, or not at all."""
_seed: ContextVar[list[int]] = ContextVar("seed")
"""Of the response that a task draws, and its turn."""


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """What the rollout process is given besides TRL's own keywords; it travels by pickle."""

    method: str
    num_prompts: int
    seed: int
    open_steps: int
    id_column: str | None
    reward_timeout: float
    overrides: dict[str, Any]
    arrangement: Arrangement
    steps_per_version: int
    """Updates between two policy versions: ``weight_sync_steps``."""
    folder: Path
    """Where a state is written after each step."""
    state: dict[str, Any] | None = None
    """To go on from."""

    def brain(self, rows: PromptRows, max_tokens: int) -> Brain:
        """Make the memory of a run.

        Raises:
            ConfigError: the method cannot work, or not with this trainer.
        """
        return Brain(
            self.method,
            rows.texts(),
            num_prompts=self.num_prompts,
            max_tokens=max_tokens,
            seed=self.seed,
            open_steps=self.open_steps,
            trainer=TRAINER,
            **self.overrides,
        )


def state_file(folder: Path, step: int) -> Path:
    """Return the file with the state of so many steps."""
    return folder / f"ada-{step}.json"


class AdaRolloutLoop(_AsyncRolloutLoop):
    """Draws what a :class:`~ada_lightning.adapters.brain.Brain` wants, and hands a step's rows over once it is whole.

    TRL's loops stay as they are. A group of TRL's is one response here. Which response it is shows when there is one
    to draw, so the loop never has to wait for an answer.

    A step begins when the policy is at most ``open_steps - 1`` updates behind it. So no row is too old by the time it
    trains, and the slow prompts of a step train with the others.

    Args:
        ada: settings.
        drops: queue of group ids whose rows the trainer found too old.
        dataset: rows with ``prompt`` and the columns that rewards ask for.
        dataset_start_index: TRL's place in the data set after a resume; the state has it here.
        **given: what TRL gives its own loop.
    """

    def __init__(
        self, *, ada: LoopSettings, drops: Any, dataset: Any, dataset_start_index: int = 0, **given: Any
    ) -> None:
        super().__init__(dataset=dataset, **given)
        rows = PromptRows(dataset, ada.id_column)
        self._ada, self._drops, self._by_id = ada, drops, rows.by_id
        self._brain = ada.brain(rows, self.max_tokens)
        if ada.state is not None:
            self._brain.load_state_dict(ada.state)
        self._first_step, self._first_version = self._brain.step, self.model_version
        self._drawn: dict[int, tuple[Handout, int]] = {}
        self._turn = asyncio.Lock()
        self._news = asyncio.Event()

    def _repeat_iterator(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for place in itertools.count():
            yield place, {"prompt": []}

    async def _generate_one(self, prompt: Any, tool_dict: Any, tools: Any, group_id: int = 0) -> Any:
        handout = await self._next()
        if handout is None:
            return [], [], [], 0, 0, None
        self._drawn[group_id] = handout, self.model_version
        _seed.set([handout.seeds[0], -1])
        row = self._by_id[handout.prompt_id]
        return await super()._generate_one(row["prompt"], tool_dict=tool_dict, tools=tools, group_id=group_id)

    async def _next(self) -> Handout | None:
        """Wait for a response that is to be drawn; None once the loop is to stop."""
        async with self._turn:  # they are handed out in the order of asking
            while not self._stop_event.is_set():
                versions = self.model_version - self._first_version
                begun = self._first_step + versions * self._ada.steps_per_version + self._ada.open_steps
                if (handout := self._brain.hand_out(most=1, before=begun)) is not None:
                    return handout
                self._news.clear()
                try:
                    await asyncio.wait_for(self._news.wait(), POLL)
                except TimeoutError:
                    continue
        return None

    async def _generate_one_turn(self, prompt_ids: list[int]) -> tuple[list[int], list[float]]:
        _seed.get()[1] += 1
        found: tuple[list[int], list[float]] = await super()._generate_one_turn(prompt_ids)
        return found

    async def _post(self, path: str, payload: dict[str, Any], timeout: float, max_retries: int = 3) -> Any:
        if "seed" in payload:
            first, turn = _seed.get()
            payload = payload | {"seed": (first + turn) % 2**63}
        return await super()._post(path, payload, timeout, max_retries)

    async def _score_group(self, group: RolloutGroup) -> list[RolloutSample]:
        """Grade what has come back, tell the core, and return the rows of the steps that became whole."""
        groups = [known for known in [group, *self._come_back()] if known.group_id in self._drawn]
        drawn = [self._drawn.pop(known.group_id) for known in groups]
        rows = [self._by_id[handout.prompt_id] for handout, _ in drawn]
        samples, failed = await self._graded(groups, rows)
        for known, (handout, version), own in zip(groups, drawn, samples, strict=True):
            self._tell(known, handout, version, own, failed)
        self._name_drops()
        found: list[RolloutSample] = []
        while (finished := self._brain.finish(version=self._version_of(self._brain.step))) is not None:
            found += self._rows_of(finished)
            self._push_metrics({f"ada/{name}": value for name, value in finished.figures.items()})
            self._save()
        self._news.set()
        return found

    def _come_back(self) -> Iterator[RolloutGroup]:
        while not self._groups_to_score.empty():
            if (group := self._groups_to_score.get_nowait()) is None:
                self._groups_to_score.put_nowait(None)  # the end, for the loop that waits for it
                return
            yield group

    async def _graded(
        self, groups: Sequence[RolloutGroup], rows: Sequence[dict[str, Any]]
    ) -> tuple[list[list[RolloutSample]], str]:
        """Let TRL grade responses of several prompts in one call.

        Returns:
            The rows of each response, with the reward among their metrics; and why there is none, if the time ran out.
        """
        if not groups:
            return [], ""
        together = RolloutGroup(
            prompts=[row["prompt"] for row in rows],
            reward_kwargs={name: [row[name] for row in rows] for name in rows[0] if name not in _NO_COLUMNS},
            completions=[group.completions[0] for group in groups],
            completions_ids=[group.completions_ids[0] for group in groups],
            completions_sequences=[group.completions_sequences[0] for group in groups],
            tool_call_counts=[group.tool_call_counts[0] for group in groups],
            tool_failure_counts=[group.tool_failure_counts[0] for group in groups],
            model_version=0,
            group_id=0,
            env_rewards=[None] * len(groups),
            rollout_rewards=[None] * len(groups),
        )
        try:
            flat = iter(await asyncio.wait_for(super()._score_group(together), self._ada.reward_timeout))
        except TimeoutError:
            return [[] for _ in groups], "timeout"
        return [list(itertools.islice(flat, len(group.completions_sequences[0]))) for group in groups], ""

    def _tell(
        self, group: RolloutGroup, handout: Handout, version: int, samples: Sequence[RolloutSample], failed: str
    ) -> None:
        ids, sequences = group.completions_ids[0], group.completions_sequences[0]
        reward = samples[0].metrics["reward"] if samples else math.nan
        if math.isnan(reward):
            failed = failed or ("no reward" if samples else "no tokens")
        trained = [sequence for sequence in sequences if any(sequence.completion_mask)]
        told: dict[str, Any] = {
            "failed": failed,
            "reward": None if failed else reward,
            "num_tokens": sum(sum(sequence.completion_mask) for sequence in trained),
            "is_truncated": bool(ids) and ids[-1] not in (*self.eos_token_ids, self.tokenizer.pad_token_id),
            "logprobs": [
                value
                for sequence in trained
                for value, trains in zip(sequence.old_log_probs, sequence.completion_mask, strict=True)
                if trains
            ],
            "payload": [replace(sample, model_version=version) for sample in samples],
        }
        self._brain.add(handout.step, handout.slot, {handout.indices[0]: told}, version=version)

    def _rows_of(self, finished: FinishedStep) -> list[RolloutSample]:
        first = finished.step * self._ada.num_prompts
        kept = [
            replace(sample, advantage=row.weight, group_id=first + row.slot, metrics=_logged(sample.metrics))
            for row in finished.rows
            for sample in row.payload
        ]
        blank = filler(int(self.eos_token_ids[0]), self._version_of(finished.step), first)
        return self._ada.arrangement.arrange(kept, blank)

    def _version_of(self, step: int) -> int:
        """Return the policy version that a step trains."""
        return self._first_version + (step - self._first_step) // self._ada.steps_per_version

    def _name_drops(self) -> None:
        while True:
            try:
                self._drops.get_nowait()
            except queue.Empty:
                return
            self._brain.drop("stale", 1)

    def _save(self) -> None:
        """Write the state before any row of the step can train, and forget those that no checkpoint needs any more."""
        step = self._brain.step
        write_text(state_file(self._ada.folder, step), json.dumps(self._brain.state_dict()))
        state_file(self._ada.folder, step - self._ada.open_steps - 2).unlink(missing_ok=True)


class AdaRolloutWorker(AsyncRolloutWorker):
    """TRL's side of the rollout process in the trainer, which notices a process that was killed.

    TRL's own waits for its heartbeat to be old. It then waits for ever, in an event for which the dead process waited.
    """

    def check_health(self, stale_after_s: float) -> None:
        """Raise if the process is gone or hangs.

        Raises:
            RuntimeError: it is.
        """
        if self._process is not None and not self._process.is_alive() and not self._failed_event.is_set():
            raise RuntimeError(
                f"TRL's rollout process has ended (exit code {self._process.exitcode}). Resume from the last "
                "checkpoint: what it had drawn since then is drawn again, with the same prompts and seeds"
            )
        super().check_health(stale_after_s)

    def stop(self) -> None:
        """Stop the process, if there is one."""
        if self._process is not None and not self._process.is_alive():
            self._process = None
        super().stop()


def _logged(metrics: dict[str, float]) -> dict[str, float]:
    """Leave out what TRL reckons over a call of the reward functions, which is no group of a prompt here."""
    return {name: value for name, value in metrics.items() if name != "reward_std"}
