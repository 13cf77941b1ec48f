"""What a policy loss is given, and what it promises: every loss and every token mask follows these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor, nn
from torch.optim import Optimizer

from ada_lightning.core.batch import BatchCounts, Microbatch

POOL_WEIGHTED = frozenset({"kl", "entropy"})
"""Logged sums whose tokens weigh as in the pool they were selected from; ``pool_weight`` sums those weights."""


class LossReduction(Protocol):
    """See :mod:`ada_lightning.training.losses.reductions`."""

    def token_weights(self, microbatch: Microbatch, counts: BatchCounts) -> Tensor:
        """Weight of every token of each response. Shape ``(B,)``."""
        ...


@dataclass(frozen=True, slots=True)
class TokenTerms:
    """Per response token of a microbatch, flattened. Shapes ``(K,)``."""

    logprobs_K: Tensor
    """Current policy, with gradient."""
    old_logprobs_K: Tensor
    """The trainer's, before the first update with this rollout, no gradient. With one update per rollout they are the
    current ones, detached, so that every ratio to them is 1; with several they are scored before the first."""
    sampling_logprobs_K: Tensor
    """The engine's."""
    reference_logprobs_K: Tensor
    """The frozen reference's; equal to the old ones where no reference is used."""
    entropy_K: Tensor
    response_K: Tensor
    """Response of the microbatch each token belongs to. int64."""
    mask_K: Tensor
    """Weight of each token in the policy-gradient part, without gradient: 1 trains, 0 leaves it out. float32."""
    hidden_TH: Tensor | None = None
    """The policy's last hidden states of all packed tokens, prompts included, with gradient; only where the loss or a
    token mask has ``needs_hidden``."""


class ImportanceCorrection(Protocol):
    """See :mod:`ada_lightning.training.losses.importance`."""

    def __call__(self, terms: TokenTerms, num_responses: int, *, cap: float) -> Tensor:
        """Weight of each token that makes up for the engine's own probabilities. Shape ``(K,)``, no gradient.

        Args:
            terms: per token; the trainer's probabilities are the old ones.
            num_responses: B.
            cap: largest weight or ratio.
        """
        ...

    def check(self, cap: float) -> list[str]:
        """Say what is wrong with the part and a cap, in one line each; none where they go together."""
        ...

    def bend(self, cap: float) -> str:
        """Say in one line what it does to the update."""
        ...


class PolicyLoss(Protocol):
    """How advantages become a gradient. Chosen by ``loss=...``."""

    reduction: LossReduction
    needs_reference: bool
    """Whether a frozen reference must be loaded; its log-probabilities then stand in ``reference_logprobs_K``."""
    needs_groups_without_signal: bool
    """Whether responses of groups whose rewards are all equal contribute, as through KL, entropy or a target that is
    no advantage."""
    needs_entropy_gradient: bool
    """Whether the gradient flows through ``entropy_K``."""
    needs_hidden: bool
    """Whether it reads ``hidden_TH``."""

    def __call__(
        self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch, counts: BatchCounts
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss of one microbatch, already divided by the global counts, so that microbatch losses add up.

        Args:
            terms: per token.
            advantages_B: weight included. Shape ``(B,)``.
            microbatch: where the tokens come from.
            counts: global denominators.

        Returns:
            The scalar loss, and sums over tokens for logging, without gradient, float32: keys ending in ``_max`` are
            maxima, those named in ``POOL_WEIGHTED`` are divided by the sum ``pool_weight``, all others by the tokens.
        """
        ...

    def bends(self) -> list[str]:
        """Return one line for each way in which it turns the update from the gradient of its objective."""
        ...

    def reuse_bend(self) -> str:
        """Say what becomes of the later updates with a rollout, in half a sentence."""
        ...


@runtime_checkable
class TargetLoss(Protocol):
    """A policy loss that goes for something else than a function of the pass rate, whatever the advantage."""

    def follows(self) -> list[str]:
        """Return what the update follows: a first line that starts with ``update:``, and indented ones below it."""
        ...


class TokenMask(Protocol):
    """Which tokens train. Several may be listed; their masks multiply."""

    name: str
    """``train/<name>_kept`` is the share of tokens to which it gives any weight."""
    needs_hidden: bool
    """Whether it reads ``hidden_TH``."""

    def __call__(self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch) -> Tensor:
        """Return a weight per token, without gradient: 1 trains, 0 leaves out. Shape ``(K,)``, float32."""
        ...

    def bend(self) -> str:
        """Say in one line how it turns the update from the gradient of its objective."""
        ...


@dataclass(frozen=True, slots=True)
class HeadUpdate:
    """What is known of an update of the output embedding before its gradient is."""

    head: nn.Linear
    """Hidden states to logits."""
    optimizer: Optimizer
    """With its moments, if it has any."""
    temperature: float
    """Divides the logits."""
    reduction: LossReduction
    """The loss's."""
    counts: BatchCounts
    """Global denominators of the update."""


@runtime_checkable
class ForesightedMask(Protocol):
    """A token mask that looks at what the coming update will do to the output embedding."""

    def begin_update(self, update: HeadUpdate) -> None:
        """Take what is known; called before the first microbatch of every update, on every rank."""
        ...
