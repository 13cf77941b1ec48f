"""Prompts of a run, and the stream of its on-policy batches: a rollout begins when its first update asks for it.

The rollouts themselves are those of ``rollout/loop.py``, whose :meth:`~ada_lightning.rollout.loop.Loop.updates` is
streamed here; what an update does with a batch says ``training/policy.py``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ada_lightning.core.checks import refuse
from ada_lightning.core.named_state import load_named_state, named_state
from ada_lightning.core.prompt_columns import ids_of, num_distinct
from ada_lightning.core.prompt_queue import PromptQueue, QueuePosition
from ada_lightning.core.protocols import Curriculum, PromptSource, Recall
from ada_lightning.core.records import Belief, Prompt, ResponseGroup
from ada_lightning.data.encoded_prompts import EncodedPrompts, OnlyPrompts
from ada_lightning.data.encoded_table import EncodedTable
from ada_lightning.data.formats import PromptFormat
from ada_lightning.data.old_logprobs import OldLogprobs
from ada_lightning.data.streaming import StreamingSource
from ada_lightning.methods.curriculum.uniform import UniformCurriculum
from ada_lightning.rewards.pool import RewardPool
from ada_lightning.run.stopping import RunStoppedError
from ada_lightning.training.batch import TrainingBatch
from ada_lightning.training.packing import pack_for_replicas, pack_groups

_UPDATES = ("num_minibatches", "epochs_per_rollout")
"""What the number of updates with a rollout is made of, and the place of an update in it."""


class Rollouts(Protocol):
    """What fills the stream: the :class:`~ada_lightning.rollout.loop.Loop` of the run."""

    def updates(self, num_done: int) -> Iterator[TrainingBatch]:
        """Yield the batches of the run, behind the first ``num_done`` updates."""
        ...


class RolloutDataModule(EncodedPrompts):
    """Draws prompts, asks the connected callback to roll them out, and packs what comes back.

    Args:
        source: where prompts come from.
        prompts_per_step: prompts of one rollout step (P).
        max_prompt_tokens: longer prompts are dropped at start, counted and warned about.
        num_steps: rollout steps of the run.
        seed: of the order of prompts.
        num_minibatches: parts of a rollout, an optimiser step each.
        epochs_per_rollout: passes over those parts; above 1 every response trains as often.
        max_tokens_per_microbatch: tokens that pass through the policy at once; sets peak memory.
        share_prompts: compute a prompt once for all its responses.
        skip_groups_without_signal: leave out of the update what cannot change it: groups whose rewards are all equal,
            unless a term of the loss (KL, entropy) needs them. False computes every group, for the same gradient.
        curriculum: which prompts a step trains on; None is
            :class:`~ada_lightning.methods.curriculum.UniformCurriculum`.
        format: how chat turns become tokens; None chooses by the tokenizer.
        only: train on the prompts of this file alone (:class:`~ada_lightning.data.encoded_prompts.OnlyPrompts`): a
            folder of ``prepare.py``, or a parquet file with prompt ids; None trains on all. Held-out prompts stay as
            they are.

    Raises:
        ValueError: a size below 1, more minibatches than prompts in a step, or a file of prompts that cannot be used;
            all in one message.
    """

    num_updates_done = 0
    """Optimiser steps of earlier sessions and this one."""
    heldout_changed = False
    """Whether the run that is continued was evaluated on other held-out prompts."""
    # Until :meth:`connect` is called, and before the first step is chosen:
    _rollouts: Rollouts | None = None
    _recall: Recall | None = None
    _max_staleness = 0
    _is_leader = True
    _queue: PromptQueue | None = None
    _old_logprobs: OldLogprobs | None = None
    """Of the step under way, where a resume draws the same rollout again."""
    _ends_at: tuple[int, int] | None = None
    """Of a stream that has ended: the step that it has too few prompts for, and how many it has."""

    def __init__(
        self,
        *,
        source: PromptSource,
        prompts_per_step: int = 32,
        max_prompt_tokens: int = 256,
        num_steps: int = 30,
        seed: int = 0,
        num_minibatches: int = 1,
        epochs_per_rollout: int = 1,
        max_tokens_per_microbatch: int = 1024,
        share_prompts: bool = True,
        skip_groups_without_signal: bool = True,
        curriculum: Curriculum | None = None,
        format: PromptFormat | None = None,
        only: str | None = None,
    ) -> None:
        sizes = {
            "prompts_per_step": prompts_per_step,
            "max_prompt_tokens": max_prompt_tokens,
            "num_steps": num_steps,
            "num_minibatches": num_minibatches,
            "epochs_per_rollout": epochs_per_rollout,
            "max_tokens_per_microbatch": max_tokens_per_microbatch,
        }
        errors = [f"data.{name} must be at least 1; got {value}" for name, value in sizes.items() if value < 1]
        if num_minibatches > prompts_per_step >= 1:
            errors.append(
                f"data.num_minibatches = {num_minibatches} exceeds data.prompts_per_step = {prompts_per_step}: "
                f"a minibatch holds whole prompts; use data.num_minibatches={prompts_per_step} or fewer"
            )
        chosen = None
        try:
            chosen = None if only is None else OnlyPrompts(only)
        except ValueError as error:
            errors.append(str(error))
        refuse(*errors)
        super().__init__(source=source, max_prompt_tokens=max_prompt_tokens, format=format, only=chosen)
        self.prompts_per_step = prompts_per_step
        self.num_steps = num_steps
        self.num_minibatches = num_minibatches
        self.epochs_per_rollout = epochs_per_rollout
        self.max_tokens_per_microbatch = max_tokens_per_microbatch
        self.seed = seed
        self.share_prompts = share_prompts
        self.skip_groups_without_signal = skip_groups_without_signal
        self.curriculum: Curriculum = curriculum or UniformCurriculum()
        self._when_complete: Callable[[], object] = lambda: None
        self._handed_out: dict[int, list[Prompt]] = {}
        """Prompts of a stream, by the step that they were given to and that is not done."""

    @property
    def num_first(self) -> int:
        """Prompts of a stream that are read before the first step, at least: those that it chooses from, too."""
        return max(super().num_first, self.curriculum.num_candidates(self.prompts_per_step) or 0)

    def encode_prompts(self, tokenizer: Any, grader: RewardPool | None = None) -> None:
        """Tokenise both splits; needed before training, evaluation or preview.

        Raises:
            ValueError: as in the class above; or a stream does not go with the curriculum, or has too few prompts.
        """
        is_stream = isinstance(self.source, StreamingSource)
        if is_stream and self.curriculum.num_candidates(self.prompts_per_step) is None:
            raise ValueError(needs_all_prompts(type(self.curriculum).__name__))
        super().encode_prompts(tokenizer, grader)
        if self.stream is not None and len(self.train_prompts) < self.prompts_per_step:
            raise ValueError(
                f"the stream {self.stream.source.reader.origin} has {len(self.train_prompts)} usable prompts, fewer "
                f"than data.prompts_per_step = {self.prompts_per_step}; use fewer in a step, or bring more data:\n"
                + self.report.text()
            )

    @property
    def updates_per_rollout(self) -> int:
        """Optimiser steps made of one rollout."""
        return self.num_minibatches * self.epochs_per_rollout

    def connect(
        self,
        rollouts: Rollouts,
        *,
        recall: Recall | None = None,
        max_staleness: int = 0,
        is_leader: bool = True,
        when_complete: Callable[[], object] = lambda: None,
    ) -> None:
        """Take what only a running trainer can provide. Called from a callback's ``setup``.

        Args:
            rollouts: fill the stream.
            recall: what the estimator remembers of prompts; None where it keeps nothing by prompt.
            max_staleness: by how many steps the policy that samples lags behind. Steps are then prepared, and their
                prompts asked for, so many steps ahead of their turn.
            is_leader: whether this process has the prompts.
            when_complete: called, in every process, where a resumed run has no update left: Lightning then starts no
                training. What this module and the policy know has been restored by then, under any strategy.
        """
        self._rollouts, self._recall = rollouts, recall
        self._max_staleness, self._is_leader, self._when_complete = max_staleness, is_leader, when_complete

    def note_updates_done(self, num_done: int) -> None:
        """Say how many optimiser steps the run has made: there it continues after a checkpoint."""
        self.num_updates_done = num_done
        first = num_done // self.updates_per_rollout
        self._handed_out = {step: prompts for step, prompts in self._handed_out.items() if step >= first}

    def train_dataloader(self) -> RolloutStream:
        """Return the stream.

        It has a length: Lightning prefetches one batch from a loader that has none, and so every rollout would come
        from a policy that is one update old.
        """
        stream = RolloutStream(self)
        if len(stream) == 0:
            self._when_complete()
        return stream

    def step_prompts(self, step: int) -> list[Prompt]:
        """Return the prompts of a rollout step, as the curriculum chooses them.

        A function of the step and of what was remembered before it: what its own rollout teaches is learned when the
        step is done, so a resume between two of its minibatches finds the same history. Where a refill made steps take
        more prompts than these, :class:`~ada_lightning.core.prompt_queue.PromptQueue` says where the next one begins.

        Raises:
            RuntimeError: the curriculum needs what is remembered of prompts, and nothing that remembers is connected.
        """
        return self.first_prompts(step, self.prompts_per_step)

    def first_prompts(self, step: int, num_prompts: int) -> list[Prompt]:
        """Return the first prompts of a step that may take another number than ``prompts_per_step``; repeatable.

        Beyond ``prompts_per_step`` none comes twice in a step, so there can be fewer than asked for.

        Raises:
            RuntimeError: as in :meth:`step_prompts`.
            RunStoppedError: a stream cannot be read.
        """
        if self.stream is None:
            return self._queue_at(step).first(num_prompts)
        try:
            found = self._queue_at(step).first(num_prompts)
        except ValueError as error:  # a row of it, at any time of the run
            raise RunStoppedError(str(error)) from error
        if len(found) < min(num_prompts, self.prompts_per_step):
            self._ends_at = self._ends_at or (step, len(found))
        self._handed_out[step] = max(found, self._handed_out.get(step, []), key=len)
        return found

    def is_over(self, step: int) -> bool:
        """Whether a stream has ended before a step; the prompts of that step are then taken, where it has not.

        To be asked of steps in their order.

        Raises:
            RunStoppedError: the stream cannot be read.
        """
        if self.stream is None:
            return False
        if self._ends_at is None and (self._queue is None or self._queue.position.step <= step):
            self.step_prompts(step)
        return self._ends_at is not None and step >= self._ends_at[0]

    def said_of_end(self) -> str:
        """Say of a stream that has ended after how many prompts and steps."""
        assert self.stream is not None
        assert self._ends_at is not None
        return self.stream.ended_after(*self._ends_at, self.prompts_per_step)

    def note_used(self, step: int, num_prompts: int) -> None:
        """Say how many of its prompts a step took; the next one begins behind them."""
        self._queue_at(step).num_used = num_prompts

    def _queue_at(self, step: int) -> PromptQueue:
        self._queue = self._queue or self._queue_from(QueuePosition(step, step))
        self._queue.go_to(step)
        return self._queue

    def _queue_from(self, position: QueuePosition) -> PromptQueue:
        return PromptQueue(
            stretch=self._stretch,
            num_plain=self.prompts_per_step,
            num_distinct=num_distinct(self.train_prompts) if self.stream is None else sys.maxsize,
            position=position,
        )

    def _stretch(self, number: int) -> list[Prompt]:
        """Let the curriculum choose."""
        if self.curriculum.needs_history and self._recall is None:
            raise RuntimeError(
                f"{type(self.curriculum).__name__} chooses by what is remembered of each prompt, and nothing that "
                "remembers is connected: add callbacks.adaptive_sampling with estimator=beta_history or estimator=ema, "
                "or use curriculum=uniform"
            )
        given: dict[str, Any] = {"step": number, "seed": self.seed, "recall": self._recall or _remember_nothing}
        if self.stream is not None:
            most = self.curriculum.num_candidates(self.prompts_per_step) or 0
            candidates = self.stream.take(most, {prompt.prompt_id for prompt in self._at_hand()})
            num_prompts = min(self.prompts_per_step, len(candidates))
            chosen = self.curriculum.choose(candidates, num_prompts, **given) if candidates else []
            self.stream.note_not_chosen(len(candidates) - len(chosen))
            return chosen
        chosen = self.curriculum.choose(self.listed_prompts, self.prompts_per_step, **given)
        if not isinstance(table := self.train_prompts, EncodedTable):
            return chosen
        if self.num_updates_done:  # the first step has the cores for itself
            table.look_ahead()
        return table.usable(chosen)

    def _at_hand(self) -> list[Prompt]:
        """Prompts of a stream whose steps are not done, or that wait for one."""
        waiting = () if self._queue is None else self._queue.now().waiting
        given = (prompt for prompts in self._handed_out.values() for prompt in prompts)
        return list({prompt.prompt_id: prompt for prompt in (*given, *waiting)}.values())

    def pack(
        self,
        groups: Sequence[ResponseGroup],
        *,
        step: int,
        policy_version: int,
        num_replicas: int = 1,
        keep_all: bool = False,
        computed: Sequence[ResponseGroup] = (),
    ) -> list[list[TrainingBatch]]:
        """Cut a rollout into minibatches, a list for each replica, and pack each into microbatches.

        Args:
            groups: what trains of the step, with advantages.
            step: part of the seed that deals prompts to minibatches.
            policy_version: that sampled them.
            num_replicas: parts that each minibatch is cut into.
            keep_all: whether the update needs groups without a signal, too.
            computed: groups whose gradients are there already; they are only counted.
        """
        pools = {id(group.pool) for group in computed}
        return pack_for_replicas(
            groups,
            num_replicas=num_replicas,
            num_minibatches=self.num_minibatches,
            policy_version=policy_version,
            shuffle_seed=self.seed * 1_000_003 + step,
            is_computed=lambda group: id(group.pool) in pools,
            **self._packing(keep_all),
        )

    def pack_part(self, groups: Sequence[ResponseGroup], *, keep_all: bool) -> TrainingBatch:
        """Pack a part of a rollout that goes on, in one batch with the counts of that part."""
        (batch,) = pack_groups(groups, num_minibatches=1, policy_version=0, shuffle_seed=0, **self._packing(keep_all))
        return batch

    def _packing(self, keep_all: bool) -> dict[str, Any]:
        return {
            "max_tokens_per_microbatch": self.max_tokens_per_microbatch,
            "keep_groups_without_signal": keep_all or not self.skip_groups_without_signal,
            "share_prompts": self.share_prompts,
        }

    def with_old_of_before(self, step: int, batches: list[TrainingBatch]) -> list[TrainingBatch]:
        """Keep the old log-probabilities of a step for a resume; after one, put those of before it into the batches.

        For a rollout that a resume draws again from an older policy: the one that scored it first is gone.
        """
        known = self._old_logprobs
        if known is not None and known.step == step:
            filled, num_others = zip(*map(known.put_into, batches), strict=True)
            batches = list(filled)
            if num_new := sum(num_others):
                warnings.warn(
                    f"{num_new} responses of step {step} differ from those that were drawn before the run was stopped; "
                    "their ratios start at the present policy. reproducible=true repeats responses bit by bit",
                    RuntimeWarning,
                    stacklevel=2,
                )
        self._old_logprobs = OldLogprobs.of(step, batches)
        return batches

    def state_dict(self) -> dict[str, Any]:
        """Position in the data: optimiser steps finished. Everything else follows from it, the seed and the history.

        A step under way keeps its prompts, whatever a resume with other settings would choose. So does a step that does
        not begin where its number alone says, because an earlier step took more or fewer prompts than
        ``prompts_per_step``. Where an older policy samples, a rollout between two of its updates keeps its old
        log-probabilities: the policy that gave them is gone. A stream adds its place, and the prompts that it gave to
        steps which are not done.
        """
        state: dict[str, Any] = {"num_updates_done": self.num_updates_done}
        state |= {name: getattr(self, name) for name in _UPDATES}
        if self.train_prompts:
            state["prompts"] = self._prompts_now.as_dict()
        position = self._position()
        if position is not None and not position.is_plain:
            state["chosen"] = position.to_plain()
        if self.stream is not None:
            state["stream"] = self.stream.state_dict(self._at_hand())
            state["handed_out"] = [[step, list(ids_of(prompts))] for step, prompts in self._handed_out.items()]
        if self.curriculum.learns:
            state["curriculum"] = named_state(self.curriculum)
        step, update = divmod(self.num_updates_done, self.updates_per_rollout)
        if update and self._old_logprobs is not None and self._old_logprobs.step == step:
            state["old_logprobs"] = self._old_logprobs.state_dict()
        return state

    @property
    def _next_choice(self) -> int:
        """Step whose prompts a resumed run asks for first; those of steps that were prepared it has."""
        step = self.num_updates_done // self.updates_per_rollout + self._max_staleness
        return step if self._ends_at is None else min(step, self._ends_at[0])

    def _position(self) -> QueuePosition | None:
        """Where the step begins whose prompts a resumed run asks for first; None where that follows from its number."""
        step = self._next_choice
        if self._queue is None or step - self._queue.position.step not in (0, 1):
            return None
        if step > self._queue.position.step:
            return self._queue.after()
        is_choice = self.stream is not None or self.curriculum.needs_history or self.curriculum.learns
        return self._queue.now() if is_choice else self._queue.position

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`.

        Raises:
            ValueError: the position, or what the curriculum remembers, cannot be continued with these settings.
        """
        check_same_updates(self, state_dict)
        began = state_dict.get("prompts")
        if self.train_prompts and began and (said := self._prompts_now.difference(began)):
            self.heldout_changed = self._prompts_now.heldout != began["heldout"]
            warnings.warn(f"this run continues with different prompts than it began with: {said}", stacklevel=2)
        self.num_updates_done = int(state_dict["num_updates_done"])
        if self.num_updates_done > self.num_steps * self.updates_per_rollout:  # equal: only the end of the run is owed
            raise ValueError(
                f"this run is complete: {self.num_updates_done // self.updates_per_rollout} of num_steps = "
                f"{self.num_steps} steps are done; raise num_steps to continue it"
            )
        if self.curriculum.learns:
            load_named_state(self.curriculum, state_dict.get("curriculum", {}), setting="curriculum")
        if self.stream is not None and "stream" in state_dict:
            at_hand = self.stream.load_state_dict(state_dict["stream"])
            self.train_prompts = [self.stream.first, *at_hand]
            by_id = {prompt.prompt_id: prompt for prompt in self.train_prompts}
            self._handed_out = {step: [by_id[i] for i in ids] for step, ids in state_dict["handed_out"]}
        self._queue = self._restored(state_dict.get("chosen"))
        old = state_dict.get("old_logprobs")
        self._old_logprobs = None if old is None else OldLogprobs.restored(old)
        if self._max_staleness and old is None and self.num_updates_done % self.updates_per_rollout:
            warnings.warn(
                "this checkpoint was saved between two updates of a rollout, by a version of the program that did not "
                "save old log-probabilities; in the updates left of that rollout, ratios begin at the policy of now",
                stacklevel=2,
            )

    def _restored(self, chosen: Mapping[str, Any] | None) -> PromptQueue | None:
        """Return where the step begins whose prompts are asked for first, if its number alone does not say it."""
        if not self._is_leader or chosen is None:
            return None
        if chosen["step"] != self._next_choice and self.stream is None:  # a stream has no other place to go on at
            return None
        return self._queue_from(QueuePosition.from_plain(chosen, prompts=self.train_prompts))


def check_same_updates(now: object, before: Mapping[str, Any]) -> None:
    """Compare how many updates a rollout has with those of the run that is to be continued.

    Args:
        now: has the settings of this run by their names.
        before: :meth:`RolloutDataModule.state_dict` of the checkpoint.

    Raises:
        ValueError: it is another number.
    """
    for name in _UPDATES:
        value, earlier = getattr(now, name), before[name]
        if value != earlier:
            raise ValueError(
                f"data.{name} = {value}, but this run has counted its updates with {earlier}; "
                f"continue with data.{name}={earlier} or start a new run"
            )


def needs_all_prompts(curriculum: str) -> str:
    """Say that a curriculum does not go with a stream."""
    return (
        f"curriculum: {curriculum} chooses among all training prompts, and a stream has no list of them. Use "
        "curriculum=uniform, or curriculum=expected or auto with estimator=similar_prompts"
    )


def _remember_nothing(prompts: Sequence[Prompt]) -> list[Belief]:
    raise RuntimeError("a curriculum with needs_history = False has asked what is remembered of prompts")


@dataclass(frozen=True, slots=True)
class RolloutStream:
    """A sized iterable of batches for Lightning, one per optimiser step of the whole run."""

    datamodule: RolloutDataModule

    def __len__(self) -> int:
        """Optimiser steps that are left."""
        data = self.datamodule
        return data.num_steps * data.updates_per_rollout - data.num_updates_done

    def __iter__(self) -> Iterator[TrainingBatch]:
        """Continue after the last finished optimiser step.

        Raises:
            RuntimeError: no callback called :meth:`RolloutDataModule.connect`.
        """
        data = self.datamodule
        if data._rollouts is None:
            raise RuntimeError("no rollout is connected: add callbacks.adaptive_sampling to the trainer's callbacks")
        return data._rollouts.updates(data.num_updates_done)
