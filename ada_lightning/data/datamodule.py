"""Streams on-policy batches: each rollout is collected when its first optimiser step asks for it, not earlier."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lightning.pytorch import LightningDataModule

from ada_lightning.batch import TrainingBatch
from ada_lightning.data.encoder import PromptEncoder
from ada_lightning.data.only import OnlyPrompts
from ada_lightning.data.packing import pack_groups
from ada_lightning.protocols import PromptSource
from ada_lightning.types import Prompt, ResponseGroup

Collect = Callable[[int, Sequence[Prompt]], tuple[Sequence[ResponseGroup], int]]
"""``(step, prompts) -> (groups, policy version)``: runs a rollout with the current policy."""
ScoreOld = Callable[[TrainingBatch], TrainingBatch]
"""Fills ``old_logprobs_K`` with the current policy's log-probabilities."""


class RolloutDataModule(LightningDataModule):
    """Draws prompts, asks the connected callback to roll them out, and packs what comes back.

    Args:
        source: where prompts come from.
        prompts_per_step: prompts of one rollout step (P).
        max_prompt_tokens: longer prompts are dropped at start, counted and warned about.
        num_steps: rollout steps of the run.
        seed: of the order of prompts.
        num_minibatches: optimiser steps made of one rollout.
        max_tokens_per_microbatch: tokens that pass through the policy at once; sets peak memory.
        share_prompts: compute a prompt once for all its responses, where the attention backend can.
        skip_groups_without_signal: leave out of the update what cannot change it: groups whose rewards are all equal,
            unless a term of the loss (KL, entropy) needs them. False computes every group, for the same gradient.
        only: train on the prompts of this file alone (:class:`~ada_lightning.data.only.OnlyPrompts`): a folder of
            ``prepare.py``, or a parquet file with prompt ids; None trains on all. Held-out prompts stay as they are.

    Raises:
        ValueError: a size below 1, more minibatches than prompts in a step, a switch that is not true or false, or
            a file of prompts that cannot be used; all in one message.
    """

    def __init__(
        self,
        *,
        source: PromptSource,
        prompts_per_step: int,
        max_prompt_tokens: int,
        num_steps: int,
        seed: int,
        num_minibatches: int = 1,
        max_tokens_per_microbatch: int = 1024,
        share_prompts: bool = True,
        skip_groups_without_signal: bool = True,
        only: str | None = None,
    ) -> None:
        super().__init__()
        errors = [
            f"data.{name} must be at least 1; got {value}"
            for name, value in (
                ("prompts_per_step", prompts_per_step),
                ("max_prompt_tokens", max_prompt_tokens),
                ("num_steps", num_steps),
                ("num_minibatches", num_minibatches),
                ("max_tokens_per_microbatch", max_tokens_per_microbatch),
            )
            if value < 1
        ]
        if num_minibatches > prompts_per_step:
            errors.append(
                f"data.num_minibatches = {num_minibatches} exceeds data.prompts_per_step = {prompts_per_step}: "
                "a minibatch holds whole prompts"
            )
        if not isinstance(skip_groups_without_signal, bool):  # a word would count as true
            errors.append(f"data.skip_groups_without_signal must be true or false; got {skip_groups_without_signal!r}")
        try:
            self.only = None if only is None else OnlyPrompts(only)
        except ValueError as error:
            errors.append(str(error))
        if errors:
            raise ValueError("; ".join(errors))
        self.source = source
        self.prompts_per_step = prompts_per_step
        self.max_prompt_tokens = max_prompt_tokens
        self.num_steps = num_steps
        self.seed = seed
        self.num_minibatches = num_minibatches
        self.max_tokens_per_microbatch = max_tokens_per_microbatch
        self.share_prompts = share_prompts
        self.skip_groups_without_signal = skip_groups_without_signal
        self.train_prompts: list[Prompt] = []
        self.heldout_prompts: list[Prompt] = []
        self.num_updates_done = 0
        self._collect: Collect | None = None
        self._score_old: ScoreOld | None = None
        self._keep_groups_without_signal = False

    def check(self) -> None:
        """Compare ``only`` with the training prompts. No model is needed for it.

        Raises:
            ValueError: it has none of them.
        """
        if self.only:
            self._chosen_prompts()

    def encode_prompts(self, tokenizer: Any) -> None:
        """Tokenise both splits; needed before training, evaluation or preview.

        Raises:
            ValueError: no training prompt is left.
        """
        encoder = PromptEncoder(tokenizer, max_prompt_tokens=self.max_prompt_tokens)
        self.train_prompts, _ = encoder.encode(self._chosen_prompts())
        self.heldout_prompts, _ = encoder.encode(self.source.heldout_prompts())

    def _chosen_prompts(self) -> Sequence[Prompt]:
        return self.only.keep(self.source.train_prompts()) if self.only else self.source.train_prompts()

    def connect(self, *, collect: Collect, score_old: ScoreOld, keep_groups_without_signal: bool) -> None:
        """Wire in what only a running trainer can provide. Called from a callback's ``setup``."""
        self._collect = collect
        self._score_old = score_old
        self._keep_groups_without_signal = keep_groups_without_signal

    def train_dataloader(self) -> RolloutStream:
        """Return the stream.

        It has a length: Lightning prefetches one batch from a loader that has none, and so every rollout would come
        from a policy that is one update old.
        """
        return RolloutStream(self)

    def step_prompts(self, step: int) -> list[Prompt]:
        """Return the prompts of a rollout step: a seeded shuffle of the training prompts per epoch, cut in order.

        A function of the step alone, so a resumed run continues with the right prompts without any iterator state.
        """
        size, total = self.prompts_per_step, len(self.train_prompts)
        prompts: list[Prompt] = []
        position = step * size
        while len(prompts) < size:
            epoch, offset = divmod(position, total)
            order = list(range(total))
            random.Random(f"{self.seed}/{epoch}").shuffle(order)
            taken = order[offset : offset + size - len(prompts)]
            prompts += [self.train_prompts[index] for index in taken]
            position += len(taken)
        return prompts

    def rollout_batches(self, step: int) -> list[TrainingBatch]:
        """Collect one rollout step now and cut it into optimiser steps.

        Raises:
            RuntimeError: no callback called :meth:`connect`.
        """
        if self._collect is None or self._score_old is None:
            raise RuntimeError("no rollout is connected: add callbacks.adaptive_sampling to the trainer's callbacks")
        groups, policy_version = self._collect(step, self.step_prompts(step))
        batches = pack_groups(
            groups,
            num_minibatches=self.num_minibatches,
            max_tokens_per_microbatch=self.max_tokens_per_microbatch,
            policy_version=policy_version,
            shuffle_seed=self.seed * 1_000_003 + step,
            keep_groups_without_signal=self._keep_groups_without_signal or not self.skip_groups_without_signal,
            share_prompts=self.share_prompts,
        )
        if self.num_minibatches == 1:
            return batches  # on-policy: the current log-probabilities are the old ones
        return [replace(self._score_old(batch), has_old_logprobs=True) for batch in batches]

    def state_dict(self) -> dict[str, Any]:
        """Position in the data: optimiser steps finished. Everything else follows from it and the seed."""
        return {"num_updates_done": self.num_updates_done, "num_minibatches": self.num_minibatches}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`.

        Raises:
            ValueError: the position cannot be continued with these settings.
        """
        earlier = state_dict["num_minibatches"]
        if earlier != self.num_minibatches:
            raise ValueError(
                f"data.num_minibatches = {self.num_minibatches}, but this run has counted its updates with {earlier}; "
                f"continue with data.num_minibatches={earlier} or start a new run"
            )
        self.num_updates_done = int(state_dict["num_updates_done"])
        if self.num_updates_done >= self.num_steps * self.num_minibatches:
            raise ValueError(
                f"this run is complete: {self.num_updates_done // self.num_minibatches} of num_steps = "
                f"{self.num_steps} steps are done; raise num_steps to continue it"
            )


class RolloutStream:
    """A sized iterable of batches for Lightning, one per optimiser step of the whole run."""

    def __init__(self, datamodule: RolloutDataModule) -> None:
        self._datamodule = datamodule

    def __len__(self) -> int:
        """Optimiser steps that are left."""
        data = self._datamodule
        return data.num_steps * data.num_minibatches - data.num_updates_done

    def __iter__(self) -> Iterator[TrainingBatch]:
        """Continue after the last finished optimiser step.

        A run interrupted between two minibatches of a rollout draws the rest of that rollout anew, from the policy it
        has then.
        """
        data = self._datamodule
        first_step, first_minibatch = divmod(data.num_updates_done, data.num_minibatches)
        for step in range(first_step, data.num_steps):
            left = data.rollout_batches(step)[first_minibatch:]
            yield from (replace(batch, updates_since_rollout=index) for index, batch in enumerate(left))
            first_minibatch = 0
