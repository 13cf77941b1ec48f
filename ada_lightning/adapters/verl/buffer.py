"""verl's replay buffer with a memory: it tells what came of a step, and gives back what trains, as rewards."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import filterfalse
from typing import Any

import numpy as np
import torch

from ada_lightning.adapters.verl.arguments import memory_refusals
from ada_lightning.adapters.verl.memory import Memory, without_collector
from ada_lightning.adapters.verl.tokens import end_ids
from ada_lightning.config.problems import ConfigError

# isort: split
import transfer_queue
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.utils.fs import copy_to_local
from verl.utils.model import get_generation_config

_TRAIN = "train"


@dataclass(frozen=True, slots=True)
class _Session:
    """One response of a prompt as it lies in the queue, in one row or, of several turns, in more."""

    keys: tuple[str, ...]
    mask_lengths: tuple[int, ...]
    """Positions of each row's response, those that do not train included."""
    told: Mapping[str, Any]
    """Keywords of the brain's ``add``."""


class AdaReplayBuffer(ReplayBuffer):
    """For ``trainer.v1.sampler.custom_sampler``: the training batches of verl's synchronous trainer, by a method.

    It waits until every prompt of the step is complete, and no longer than ``custom.ada.timeout_s`` seconds without any
    news. What has no reward by then is ungraded. Meanwhile it reads and tells the prompts that are complete already, so
    that little is left to do behind the last one. Then the brain learns, and what trains gets its weight for a reward.
    The rest is taken out of the queue. Held-out batches are verl's own.

    Raises:
        ConfigError: verl did not hand over its trainer, there is no method, or data set and trainer do not fit.
    """

    def __init__(self, *arguments: Any, refill_fn: Any = None, **options: Any) -> None:
        super().__init__(*arguments, refill_fn=refill_fn, **options)
        self._trainer: Any = getattr(refill_fn, "__self__", None)
        config: Any = getattr(self._trainer, "config", None)
        if config is None:
            raise ConfigError(
                ["AdaReplayBuffer finds the configuration by verl's trainer, whose refill_fn it was not given"]
            )
        if problems := list(memory_refusals(config)):
            raise ConfigError(problems)
        self.memory = Memory(config)
        self._end_ids: frozenset[int] | None = None
        self._sessions: dict[tuple[int, int], _Session] = {}
        """Read so far of the step under way, by slot and index."""
        self._read: set[str] = set()
        """Keys of rows that were looked at."""

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, Any]]:
        """Return what trains of the step, and the figures of :meth:`ada_lightning.adapters.brain.Brain.finish`.

        Raises:
            RuntimeError: no response of the step has a reward, or the memory is of another step than verl.
        """
        if partition_id != _TRAIN:
            batch: tuple[Any, dict[str, Any]] = super().sample(global_steps, partition_id, batch_size)
            return batch
        memory, brain = self.memory, self.memory.brain
        if brain is None or memory.step != global_steps - 1:
            raise RuntimeError(
                f"verl is at step {global_steps}, and the memory has learned from {memory.step} steps: the checkpoint "
                "was written without it. Start from its weights (trainer.resume_mode=disable), or without a memory"
            )
        self._sessions, self._read = {}, set()
        lost = self._wait(batch_size)
        with without_collector():
            return self._finish(lost, global_steps)

    def _finish(self, lost: set[str], global_steps: int) -> tuple[Any, dict[str, Any]]:
        """Read what is left, let the brain learn, and put the weights into the queue."""
        memory, brain = self.memory, self.memory.brain
        self._hear(None)
        sessions = self._sessions
        for (step, slot), indices in brain.waiting(memory.step).items():
            found = {index: sessions[slot, index].told for index in indices if (slot, index) in sessions}
            if found:
                brain.add(step, slot, found)
        brain.give_up("timeout" if lost else "failed", memory.step, for_good=True)
        finished = brain.finish()
        assert finished is not None  # nothing is open any more
        memory.step += 1
        weights = {(row.slot, row.index): row.weight for row in finished.rows if (row.slot, row.index) in sessions}
        if not weights and sessions:  # verl cannot train on nothing
            weights = {min(sessions, key=lambda place: sum(sessions[place].mask_lengths)): 0.0}
        if not weights:
            self._keep(())
            raise RuntimeError(f"no response of step {global_steps} has a reward: verl's log says why sessions failed")
        self._put([(sessions[place], weight) for place, weight in weights.items()])
        keys = [key for place in weights for key in sessions[place].keys]
        tags = [self.partitions[_TRAIN][key] for key in keys]
        self._keep(keys)
        return KVBatchMeta(partition_id=_TRAIN, keys=keys, tags=tags), {
            f"ada/{name}": value for name, value in finished.figures.items()
        }

    def _wait(self, batch_size: int) -> set[str]:
        """Wait for every prompt of the step; return those that were given up."""
        news: tuple[int, int] = (-1, -1)
        heard = shown = time.time()
        while True:
            self._sync_metadata_from_transfer_queue()
            with without_collector():
                self._hear(self.finished_keys[_TRAIN] | self.failure_keys[_TRAIN])
            running = self.pending_keys[_TRAIN] | self.running_keys[_TRAIN]
            num_done = len(self.finished_keys[_TRAIN]) + len(self.failure_keys[_TRAIN])
            if not running and num_done >= batch_size:
                return set()
            if news != (news := (num_done, len(self.partitions[_TRAIN]))):
                heard = time.time()
            elif time.time() - heard > self.memory.timeout_s:
                return running
            shown = self._wait_for_next_poll(_TRAIN, shown)

    def _hear(self, prompts: Collection[str] | None) -> None:
        """Read the rows of these prompts, which are complete, or all; tell the brain where no worker does."""
        tags = self.partitions[_TRAIN]
        keys = [key for key in filterfalse(self._read.__contains__, tags) if "seq_len" in tags[key]]
        if prompts is not None:
            keys = [key for key in keys if key.split("_")[0] in prompts]
        if not keys:
            return
        self._read.update(keys)
        found = self._sessions_of(keys)
        self._sessions |= found
        if not self.memory.workers_tell:
            told: dict[int, dict[int, Mapping[str, Any]]] = {}
            for (slot, index), session in found.items():
                told.setdefault(slot, {})[index] = session.told
            for slot, results in told.items():
                self.memory.brain.add(self.memory.step, slot, results)

    def _sessions_of(self, keys: Sequence[str]) -> dict[tuple[int, int], _Session]:
        """Return what lies there of the step under way, by slot and index."""
        fields = ["ada_step", "ada_slot", "rm_scores", "response_mask", "responses"]
        if self.memory.needs_logprobs:
            fields.append("rollout_log_probs")
        data = transfer_queue.kv_batch_get(keys=list(keys), partition_id=_TRAIN, select_fields=fields)
        steps, slots = _plain(data["ada_step"]), _plain(data["ada_slot"])
        rewards, masks, responses = (_Ragged.of(data[name]) for name in ("rm_scores", "response_mask", "responses"))
        logprobs = _Ragged.of(data["rollout_log_probs"]) if self.memory.needs_logprobs else None
        reward, num_tokens = rewards.sums().tolist(), masks.sums().astype(int).tolist()
        lengths, is_truncated = masks.lengths().tolist(), self._are_truncated(responses)
        rows: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for place, key in enumerate(keys):
            if steps[place] == self.memory.step:
                _, session, turn = key.split("_")
                rows.setdefault((int(slots[place]), int(session)), []).append((int(turn), place))
        found = {}
        for where, turns in rows.items():
            places = [place for _, place in sorted(turns)]
            last = places[-1]
            told: dict[str, Any] = {
                "reward": reward[last],
                "num_tokens": sum([num_tokens[place] for place in places]),
                "is_truncated": is_truncated[last],
            }
            if logprobs is not None:
                own = [logprobs.row(place)[masks.row(place) > 0].tolist() for place in places]
                told["logprobs"] = [value for values in own for value in values]
            found[where] = _Session(
                tuple([keys[place] for place in places]), tuple([lengths[place] for place in places]), told
            )
        return found

    def _are_truncated(self, responses: _Ragged) -> list[bool]:
        is_long = responses.lengths() >= self.memory.max_tokens
        if not is_long.any():
            return list(is_long.tolist())
        if self._end_ids is None:
            self._end_ids = end_ids(getattr(self._trainer, "tokenizer", None), _generation_config(self.memory.config))
        last = responses.values[responses.ends[1:] - 1]
        return list((is_long & ~np.isin(last, list(self._end_ids))).tolist())

    def _put(self, weights: Sequence[tuple[_Session, float]]) -> None:
        """Write weights as rewards, on the last position of every row."""
        keys = [key for session, _ in weights for key in session.keys]
        lengths = [length for session, _ in weights for length in session.mask_lengths]
        ends = np.cumsum(lengths)
        scores = torch.zeros(int(ends[-1]))
        own = [weight for session, weight in weights for _ in session.keys]
        scores[torch.as_tensor(ends - 1)] = torch.tensor(own, dtype=scores.dtype)
        offsets = torch.as_tensor(np.concatenate([[0], ends]))
        nested = torch.nested.nested_tensor_from_jagged(scores, offsets)
        fields = TensorDict({"rm_scores": nested}, [len(keys)])
        transfer_queue.kv_batch_put(keys=keys, partition_id=_TRAIN, fields=fields)

    def _keep(self, keys: Sequence[str]) -> None:
        """Take everything else out of the queue: prompts, surplus, and what late sessions of earlier steps stored."""
        others = {*self.partitions[_TRAIN], *self.prompt_global_steps[_TRAIN]}.difference(keys)
        if others:
            transfer_queue.kv_clear(keys=sorted(others), partition_id=_TRAIN)


def _generation_config(config: Any) -> Any:
    """Return the model's, as verl's workers find it."""
    model = config.actor_rollout_ref.get("model") or {}
    path = model.get("hf_config_path") or model.get("path")
    return None if path is None else get_generation_config(copy_to_local(path))


def _plain(column: Any) -> list[Any]:
    """Return a column of numbers: a tensor, or a stack of plain values."""
    return column.tolist() if isinstance(column, torch.Tensor) else [getattr(each, "data", each) for each in column]


@dataclass(frozen=True, slots=True)
class _Ragged:
    """Rows of different length, one behind the other."""

    values: Any
    """Shape ``(sum of lengths,)``."""
    ends: Any
    """Behind each row. Shape ``(rows + 1,)``, the first one 0."""

    @classmethod
    def of(cls, column: Any) -> _Ragged:
        """Read a nested tensor, or a plain one of rows of one length."""
        if column.is_nested:
            return cls(column.values().numpy(), column.offsets().numpy())
        rows, width = column.shape
        return cls(column.reshape(-1).numpy(), np.arange(rows + 1) * width)

    def lengths(self) -> Any:
        """Return the length of each row. Shape ``(rows,)``."""
        return np.diff(self.ends)

    def row(self, row: int) -> Any:
        return self.values[self.ends[row] : self.ends[row + 1]]

    def sums(self) -> Any:
        """Add up each row; none is empty. Shape ``(rows,)``, float64."""
        return np.add.reduceat(self.values, self.ends[:-1], dtype=np.float64)
