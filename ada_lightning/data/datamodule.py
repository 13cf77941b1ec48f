"""Streams on-policy batches: each rollout is collected when its first optimiser step asks for it, not earlier."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lightning.pytorch import LightningDataModule

from ada_lightning.core.checks import refuse
from ada_lightning.core.named_state import load_named_state, named_state
from ada_lightning.core.prompt_queue import PromptQueue, QueuePosition
from ada_lightning.core.protocols import Curriculum, PromptSource, Recall
from ada_lightning.core.records import Belief, Prompt, ResponseGroup
from ada_lightning.data.encoder import PromptEncoder, RefusedPromptError
from ada_lightning.data.fingerprint import Fingerprint
from ada_lightning.data.formats import PromptFormat
from ada_lightning.data.layouts import TEMPLATE_ARGUMENTS
from ada_lightning.data.old_logprobs import OldLogprobs
from ada_lightning.data.only import OnlyPrompts
from ada_lightning.data.prompts import place_of
from ada_lightning.data.report import DataReport
from ada_lightning.methods.curriculum.uniform import UniformCurriculum
from ada_lightning.parallel.ranks import Ranks
from ada_lightning.rewards.hints import ungradable_prompts
from ada_lightning.rewards.pool import RewardPool
from ada_lightning.training.batch import TrainingBatch
from ada_lightning.training.packing import pack_for_replicas, pack_groups
from ada_lightning.training.streamed import StreamedGradients

Collect = Callable[[int, Sequence[Prompt]], tuple[Sequence[ResponseGroup], int]]
"""``(step, prompts) -> (groups, policy version)``: runs a rollout with the current policy, or with an older one on
prompts that were chosen earlier; none are given then."""
ScoreOld = Callable[[TrainingBatch], TrainingBatch]
"""Fills ``old_logprobs_K`` with the current policy's log-probabilities."""
_UPDATES = ("num_minibatches", "epochs_per_rollout")
"""What the number of updates with a rollout is made of, and the place of an update in it."""
_SIZES = ("prompts_per_step", "max_prompt_tokens", "num_steps", *_UPDATES, "max_tokens_per_microbatch")


class RolloutDataModule(LightningDataModule):
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
        only: train on the prompts of this file alone (:class:`~ada_lightning.data.only.OnlyPrompts`): a folder of
            ``prepare.py``, or a parquet file with prompt ids; None trains on all. Held-out prompts stay as they are.

    Raises:
        ValueError: a size below 1, more minibatches than prompts in a step, or a file of prompts that cannot be used;
            all in one message.
    """

    num_updates_done = 0
    """Optimiser steps of earlier sessions and this one."""
    # Until :meth:`connect` is called, and before the first step is chosen:
    _collect: Collect | None = None
    _score_old: ScoreOld | None = None
    _recall: Recall | None = None
    _keep_groups_without_signal = False
    _max_staleness = 0
    streamed: StreamedGradients | None = None
    """What computes gradients while a rollout goes on, if anything does."""
    _queue: PromptQueue | None = None
    _fingerprint: Fingerprint | None = None
    _old_logprobs: OldLogprobs | None = None
    """Of the step under way, where a resume draws the same rollout again."""

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
        super().__init__()
        self.prompts_per_step = prompts_per_step
        self.max_prompt_tokens = max_prompt_tokens
        self.num_steps = num_steps
        self.num_minibatches = num_minibatches
        self.epochs_per_rollout = epochs_per_rollout
        self.max_tokens_per_microbatch = max_tokens_per_microbatch
        sizes = {name: getattr(self, name) for name in _SIZES}
        errors = [f"data.{name} must be at least 1; got {value}" for name, value in sizes.items() if value < 1]
        if num_minibatches > prompts_per_step:
            errors.append(
                f"data.num_minibatches = {num_minibatches} exceeds data.prompts_per_step = {prompts_per_step}: "
                f"a minibatch holds whole prompts; use data.num_minibatches={prompts_per_step} or fewer"
            )
        try:
            self.only = None if only is None else OnlyPrompts(only)
        except ValueError as error:
            errors.append(str(error))
        refuse(*errors)
        self.source = source
        self.seed = seed
        self.share_prompts = share_prompts
        self.skip_groups_without_signal = skip_groups_without_signal
        self.curriculum: Curriculum = curriculum or UniformCurriculum()
        self.format = format
        self.report = DataReport()
        """What became of the prompts on their way here; complete once :meth:`encode_prompts` ran."""
        self.train_prompts: list[Prompt] = []
        """Those of one epoch: a source that mixes may repeat some."""
        self.heldout_prompts: list[Prompt] = []
        self.when_complete: Callable[[], object] = lambda: None
        """Called, in every process, where a resumed run has no update left: Lightning then starts no training. What
        this module and the policy know has been restored by then, under any strategy."""
        self._ranks = Ranks()

    @property
    def updates_per_rollout(self) -> int:
        """Optimiser steps made of one rollout."""
        return self.num_minibatches * self.epochs_per_rollout

    def check(self) -> None:
        """Compare ``only`` with the training prompts. No model is needed for it.

        Raises:
            ValueError: it has none of them.
        """
        if self.only:
            self.only.check(self.source.train_prompts())

    def encode_prompts(self, tokenizer: Any) -> None:
        """Tokenise both splits; needed before training, evaluation or preview.

        Raises:
            ValueError: no training prompt is left.
        """
        encoder = PromptEncoder(tokenizer, max_prompt_tokens=self.max_prompt_tokens, prompt_format=self.format)
        self.report = DataReport(getattr(self.source, "reports", ()), notes=getattr(self.source, "notes", ()))
        listed = self.source.train_prompts()
        if self.only:
            num_all, listed = len(listed), self.only.keep(listed)
            note = f"data.only = {self.only.path} leaves {len(listed)} of {num_all} prompts to train on"
            self.report.notes.append(note)
        both = (("train", listed), ("heldout", self.source.heldout_prompts()))
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

    def read(self, tokenizer: Any, grader: RewardPool) -> None:
        """Encode the prompts and leave out those that cannot be graded, whose workers may be running afterwards.

        Raises:
            ValueError: no training prompt is left.
        """
        self.encode_prompts(tokenizer)
        train = ungradable_prompts(grader, self.train_prompts, "training")
        self.drop_prompts(train | ungradable_prompts(grader, self.heldout_prompts, "held-out"))

    def drop_prompts(self, reasons: Mapping[str, str]) -> None:
        """Leave prompts out of both splits and enter them in the report, by reasons for prompt ids.

        Ids that this run does not have are passed over.

        Raises:
            ValueError: no training prompt would be left.
        """
        for split, prompts in (("train", self.train_prompts), ("heldout", self.heldout_prompts)):
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

    def connect(
        self,
        *,
        collect: Collect,
        score_old: ScoreOld,
        keep_groups_without_signal: bool,
        recall: Recall | None = None,
        ranks: Ranks | None = None,
        share_spent: Callable[[], float] = lambda: 0.0,
        max_staleness: int = 0,
    ) -> None:
        """Wire in what only a running trainer can provide. Called from a callback's ``setup``.

        ``recall`` is None where the estimator keeps nothing by prompt; ``ranks`` is None where there is one process.
        ``share_spent`` says how much of a budget that may end the run before its last step is spent, in [0, 1].
        ``max_staleness`` is by how many steps the policy that samples lags behind: steps are then prepared, and their
        prompts asked for, so many steps ahead of their turn.
        """
        self._ranks = ranks or Ranks()
        self._share_spent = share_spent
        self._collect = collect
        self._score_old = score_old
        self._recall = recall
        self._keep_groups_without_signal = keep_groups_without_signal
        self._max_staleness = max_staleness

    def train_dataloader(self) -> RolloutStream:
        """Return the stream.

        It has a length: Lightning prefetches one batch from a loader that has none, and so every rollout would come
        from a policy that is one update old.
        """
        stream = RolloutStream(self)
        if len(stream) == 0:
            self.when_complete()
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
        """
        return self._queue_at(step).first(num_prompts)

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
            num_distinct=len({prompt.prompt_id for prompt in self.train_prompts}),
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
        return self.curriculum.choose(
            self.train_prompts,
            self.prompts_per_step,
            step=number,
            seed=self.seed,
            recall=self._recall or _remember_nothing,
        )

    def rollout_batches(self, step: int) -> list[TrainingBatch]:
        """Collect one rollout step now and cut it into optimiser steps: those of this process's replica.

        Further epochs train on the same minibatches in the same order, as verl's ``ppo_epochs`` and TRL's
        ``num_iterations`` do, measured against the log-probabilities from before the first of them.

        Only the leading process has prompts and rolls them out; the others get their batches from it.

        Raises:
            RuntimeError: no callback called :meth:`connect`.
        """
        if self._collect is None or self._score_old is None:
            raise RuntimeError("no rollout is connected: add callbacks.adaptive_sampling to the trainer's callbacks")
        batches = self._ranks.scatter(self._ranks.lead(lambda: self._packed_rollout(step)))
        if self.updates_per_rollout == 1:
            return batches  # on-policy: the current log-probabilities are the old ones
        scored = [replace(self._score_old(batch), has_old_logprobs=True) for batch in batches]
        if self._max_staleness:  # the same rollout again after a resume: its old policy is not the one of now
            scored = self._with_old_of_before(step, scored)
            self._old_logprobs = OldLogprobs.of(step, scored)
        return [replace(batch, update_index=index) for index, batch in enumerate(scored * self.epochs_per_rollout)]

    def _with_old_of_before(self, step: int, batches: list[TrainingBatch]) -> list[TrainingBatch]:
        known = self._old_logprobs
        if known is None or known.step != step:
            return batches
        filled, num_others = zip(*map(known.put_into, batches), strict=True)
        if num_new := sum(num_others):
            warnings.warn(
                f"{num_new} responses of step {step} differ from those that were drawn before the run was stopped; "
                "their ratios begin at the policy of now. reproducible=true repeats responses bit by bit",
                RuntimeWarning,
                stacklevel=2,
            )
        return list(filled)

    def _packed_rollout(self, step: int) -> list[list[TrainingBatch]]:
        assert self._collect is not None
        share_done = max(step / self.num_steps, self._share_spent())
        groups, policy_version = self._collect(step, [] if self._max_staleness else self.step_prompts(step))
        streamed = self.streamed.take(groups) if self.streamed is not None else None
        computed = {id(group.pool) for group in streamed.groups} if streamed is not None else set()
        replicas = pack_for_replicas(
            groups,
            num_replicas=self._ranks.num_replicas,
            num_minibatches=self.num_minibatches,
            policy_version=policy_version,
            shuffle_seed=self.seed * 1_000_003 + step,
            is_computed=lambda group: id(group.pool) in computed,
            **self._packing,
        )
        return [
            [replace(batch, share_done=share_done, lag=self.lag(step), streamed=streamed) for batch in batches]
            for batches in replicas
        ]

    def lag(self, step: int) -> int | None:
        """Return by how many updates the policy that samples a step is older than the one that trains on it.

        None where the engine samples from the current one in every step.
        """
        return min(step, self._max_staleness) * self.updates_per_rollout if self._max_staleness else None

    def pack_part(self, groups: Sequence[ResponseGroup]) -> TrainingBatch:
        """Pack a part of a rollout that goes on, in one batch with the counts of that part."""
        (batch,) = pack_groups(groups, num_minibatches=1, policy_version=0, shuffle_seed=0, **self._packing)
        return batch

    @property
    def _packing(self) -> dict[str, Any]:
        return {
            "max_tokens_per_microbatch": self.max_tokens_per_microbatch,
            "keep_groups_without_signal": self._keep_groups_without_signal or not self.skip_groups_without_signal,
            "share_prompts": self.share_prompts,
        }

    def state_dict(self) -> dict[str, Any]:
        """Position in the data: optimiser steps finished. Everything else follows from it, the seed and the history.

        A step that is under way keeps its prompts, whatever a resume with other settings would choose; so does one
        that does not begin where its number alone says, because a step before it took more or fewer prompts than
        ``prompts_per_step``. Where an older policy samples, a rollout between two of its updates keeps its old
        log-probabilities: the policy that gave them is gone.
        """
        state: dict[str, Any] = {"num_updates_done": self.num_updates_done}
        state |= {name: getattr(self, name) for name in _UPDATES}
        if self.train_prompts:
            state["prompts"] = self._prompts_now.as_dict()
        position = self._position()
        if position is not None and not position.is_plain:
            state["chosen"] = {
                "step": position.step,
                "prompt_ids": [prompt.prompt_id for prompt in position.waiting],
                "next_stretch": position.next_stretch,
            }
        if self.curriculum.learns:
            state["curriculum"] = named_state(self.curriculum)
        step, update = divmod(self.num_updates_done, self.updates_per_rollout)
        if update and self._old_logprobs is not None and self._old_logprobs.step == step:
            state["old_logprobs"] = self._old_logprobs.state_dict()
        return state

    @property
    def _prompts_now(self) -> Fingerprint:
        self._fingerprint = self._fingerprint or Fingerprint.of(self.train_prompts, self.heldout_prompts)
        return self._fingerprint

    @property
    def _next_choice(self) -> int:
        """Step whose prompts a resumed run asks for first; those of steps that were prepared it has."""
        return self.num_updates_done // self.updates_per_rollout + self._max_staleness

    def _position(self) -> QueuePosition | None:
        """Where the step begins whose prompts a resumed run asks for first; None where that follows from its number."""
        step = self._next_choice
        if self._queue is None or step - self._queue.position.step not in (0, 1):
            return None
        if step > self._queue.position.step:
            return self._queue.after()
        is_choice = self.curriculum.needs_history or self.curriculum.learns
        return self._queue.now() if is_choice else self._queue.position

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`.

        Raises:
            ValueError: the position, or what the curriculum remembers, cannot be continued with these settings.
        """
        for name in _UPDATES:
            now, earlier = getattr(self, name), state_dict[name]
            if now != earlier:
                raise ValueError(
                    f"data.{name} = {now}, but this run has counted its updates with {earlier}; "
                    f"continue with data.{name}={earlier} or start a new run"
                )
        began = state_dict.get("prompts")
        if self.train_prompts and began and (said := self._prompts_now.difference(began)):
            warnings.warn(f"this run goes on with other prompts than it began with: {said}", stacklevel=2)
        self.num_updates_done = int(state_dict["num_updates_done"])
        if self.num_updates_done > self.num_steps * self.updates_per_rollout:  # equal: only the end of the run is owed
            raise ValueError(
                f"this run is complete: {self.num_updates_done // self.updates_per_rollout} of num_steps = "
                f"{self.num_steps} steps are done; raise num_steps to continue it"
            )
        if self.curriculum.learns:
            load_named_state(self.curriculum, state_dict.get("curriculum", {}), setting="curriculum")
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
        step = self._next_choice
        if not self._ranks.is_leader or chosen is None or chosen["step"] != step:
            return None
        by_id = {prompt.prompt_id: prompt for prompt in self.train_prompts}
        missing = [prompt_id for prompt_id in chosen["prompt_ids"] if prompt_id not in by_id]
        if missing:
            raise ValueError(
                f"step {step} of this run has {len(missing)} prompts that are not among the training prompts "
                f"({missing[0]}, for one); continue with the data of the run or start a new one"
            )
        waiting = tuple(by_id[prompt_id] for prompt_id in chosen["prompt_ids"])
        return self._queue_from(QueuePosition(step, chosen["next_stretch"], waiting))


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

        A run interrupted between two updates with a rollout draws the rest of that rollout anew, from the policy it
        has then; where an older policy samples, it is the same rollout again, and goes on where it was.
        """
        data = self.datamodule
        first_step, first_update = divmod(data.num_updates_done, data.updates_per_rollout)
        for step in range(first_step, data.num_steps):
            left = data.rollout_batches(step)[first_update:]
            since = first_update if left and left[0].lag is not None else 0
            yield from (replace(batch, updates_since_rollout=index) for index, batch in enumerate(left, start=since))
            first_update = 0
