"""Where the rollout and the policy meet: the tensors of one optimiser step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Microbatch:
    """Responses that pass through the policy together. Shape letters as in :mod:`ada_lightning.core.records`.

    Every response carries what its loss is made of, so any split into microbatches gives the same gradient.
    """

    input_ids_T: Tensor
    """The documents end to end, without padding: each a prompt, then one or more of its responses. int64."""
    position_ids_T: Tensor
    """Position of each token in its own conversation: every response continues where the prompt ended. int64."""
    document_lengths: tuple[tuple[int, ...], ...]
    """Per document the tokens of its prompt, then those of each response, in packed order: who may attend to whom
    follows from it. Plain numbers, because attention cuts by them and must not wait for a device."""
    predictor_K: Tensor
    """Index into T of the hidden state that predicts each response token. int64."""
    token_ids_K: Tensor
    """The response tokens that the model drew, end of sequence included. int64."""
    response_K: Tensor
    """Index into B of the response each token belongs to. int64."""
    sampling_logprobs_K: Tensor
    """The engine's log-probability of each response token. float32, nats."""
    old_logprobs_K: Tensor
    """The trainer's own, before the first update with this rollout; meaningful only if the batch says so. float32."""
    num_tokens_B: Tensor
    """Response tokens that the model drew. float32."""
    identity_B: Tensor
    """Names the response in its run: whatever is drawn for it in the update is a function of this. int64."""
    rewards_B: Tensor
    """float32."""
    is_positive_B: Tensor
    """bool."""
    advantage_B: Tensor
    """What each response weighs in the update, inverse probability included; 0 where none was assigned. float32."""
    inverse_probability_B: Tensor
    """1 / (probability that its prompt was sampled and selection kept it), 1 where nothing was left to chance. Part of
    the advantage already."""
    group_size_B: Tensor
    """Responses kept for its prompt. float32."""
    pool_weight_B: Tensor
    """``(N_s / m_s) (n / N)``: with it a mean over a prompt's n kept responses is about the mean over its pool of N.
    The weights of a group average 1, as long as something was kept of every class of its pool. float32."""
    is_filler: bool = False
    """Whether it only keeps its process busy while others compute theirs: its loss and its figures count nothing."""

    @property
    def num_computed_tokens(self) -> int:
        """Tokens that pass through the policy."""
        return self.input_ids_T.numel()

    @property
    def last_of_each(self) -> list[int]:
        """Index into T of the last token of every response, or of its prompt where it is empty; of prompts alone."""
        found, start = [], 0
        for prompt, *responses in self.document_lengths:
            ends = list(accumulate((prompt, *responses), initial=start))[1:]
            of_prompt = ends[0] - 1
            found += [end - 1 if n else of_prompt for end, n in zip(ends[1:], responses, strict=True)] or [of_prompt]
            start = ends[-1]
        return found

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Microbatch:
        """Copy every tensor to ``device``."""
        tensors: dict[str, Any] = {
            f.name: value for f in fields(self) if isinstance(value := getattr(self, f.name), Tensor)
        }
        moved = {name: tensor.to(device, non_blocking=non_blocking) for name, tensor in tensors.items()}
        return replace(self, **moved)


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """Denominators of the loss: of the whole rollout batch on all ranks, divided among its minibatches.

    Prompts without signal are counted although their responses are not computed, so the size of an update does not
    depend on how many prompts happened to carry a signal. Groups with a hint add to the sum and not to the counts, so
    that a step with hints does not shrink the others.
    """

    num_prompts: float
    """Prompts sampled."""
    num_responses: float
    """Responses kept, those of prompts without signal included."""
    num_response_tokens: float
    """Tokens of those responses that the model drew."""


@dataclass
class ComputedPart:
    """What of an update was computed before it begins."""

    microbatches: list[Microbatch] = field(default_factory=list)
    """On the policy's device."""


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """One optimiser step's worth of microbatches."""

    microbatches: tuple[Microbatch, ...]
    counts: BatchCounts
    policy_version: int
    """Updates behind the weights that sampled these responses."""
    update_index: int
    """Which of the updates with its rollout this is, from 0."""
    updates_since_rollout: int
    """0 for the first update with a rollout; only that one is on-policy. Differs from ``update_index`` after a
    resume between two minibatches, which draws the rest of the rollout anew."""
    has_old_logprobs: bool
    """Whether ``old_logprobs_K`` was computed; otherwise the trainer's current ones are the old ones."""
    lag: int | None = None
    """Updates between the weights that sampled and those before the first update with the rollout, where the engine
    samples from an older policy (``rollout.max_staleness``): 0 in the first step. None where it has the current one."""
    share_done: float = 0.0
    """Of the run, in [0, 1], when its rollout began: what the learning rate follows."""
    streamed: ComputedPart | None = None
    """What was computed while the rollout went on, and is not in ``microbatches``."""

    @property
    def all_microbatches(self) -> tuple[Microbatch, ...]:
        """Those that are to be computed, and those that were while the rollout went on."""
        return (*(self.streamed.microbatches if self.streamed else ()), *self.microbatches)

    def __iter__(self) -> Iterator[Microbatch]:
        return iter(self.microbatches)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> TrainingBatch:
        """Copy every tensor to ``device``. Lightning needs it: it cannot rebuild a frozen dataclass by itself."""
        return replace(
            self, microbatches=tuple(microbatch.to(device, non_blocking) for microbatch in self.microbatches)
        )
