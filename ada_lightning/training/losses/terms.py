"""The base class of every policy loss, its input, and what it reports of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from ada_lightning.training.batch import BatchCounts, Microbatch

TensorAndSums = tuple[Tensor, dict[str, Tensor]]
"""What a loss or an objective gives: its value, and sums over tokens for logging."""
POOL_WEIGHTED = frozenset({"kl", "entropy"})
"""Logged sums whose tokens weigh as in the pool they were selected from; ``pool_weight`` sums those weights."""


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


class LossReduction:
    """How per-token terms become one number: see :mod:`ada_lightning.training.losses.reductions`."""

    def token_weights(self, microbatch: Microbatch, counts: BatchCounts) -> Tensor:
        """Weight of every token of each response, from global counts only. Shape ``(B,)``."""
        raise NotImplementedError

    def caveat(self) -> str:
        """Say in one line how it turns the update from the gradient of its objective; empty where it does not."""
        return f"{type(self).__name__} is not the constant reduction; what it does to the update is not known"


class PolicyLoss:
    """How advantages become a gradient. Chosen by ``loss=...``.

    A loss may bring parameters that train with the policy's, by deriving from :class:`torch.nn.Module` first and from
    this class second, with ``has_parameters = True``, a ``learning_rate`` and :meth:`build`.
    :class:`~ada_lightning.training.policy.PolicyModule` does the rest:

    - gives the parameters a group of their own in the run's optimiser, with ``learning_rate`` and every other setting,
      the warm-up too, as the policy's;
    - clips their gradient apart from the policy's, to the same ``policy.max_grad_norm``: an error of the loss's own
      model, large at first, must not shorten the policy's step. It is logged as ``train/loss_grad_norm``. If either
      gradient is not finite, neither is applied;
    - keeps them in ``trainer.ckpt``, where the policy's weights are left out on purpose;
    - never sends them to the engine.

    Nothing in a loss may be random beyond the run's seed: a dropout mask, say, is drawn by
    :func:`~ada_lightning.training.seeded_tensors.seeded_uniform`, so that neither a resume nor the split into
    microbatches changes it.
    """

    reduction: LossReduction
    needs_reference: bool = False
    """Whether a frozen reference must be loaded; its log-probabilities then stand in ``reference_logprobs_K``."""
    needs_groups_without_signal: bool = False
    """Whether responses of groups whose rewards are all equal contribute, as through KL, entropy or a target that is
    no advantage."""
    needs_entropy_gradient: bool = False
    """Whether the gradient flows through ``entropy_K``."""
    needs_hidden: bool = False
    """Whether it reads ``hidden_TH``."""
    is_scaled_by_reduction: ClassVar[bool] = False
    """Whether all of it is proportional to the token weights of ``reduction``, so that its gradient can be divided by
    the counts of a rollout afterwards."""
    has_parameters: bool = False
    """Whether it brings parameters of its own."""
    learning_rate: float = 0.0
    """Of its parameters; the policy has that of the optimiser."""

    def __call__(
        self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch, counts: BatchCounts
    ) -> TensorAndSums:
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
        raise NotImplementedError

    def caveats(self) -> list[str]:
        """Return one line for each way in which it turns the update from the gradient of its objective."""
        raise NotImplementedError

    def reuse_caveat(self) -> str:
        """Say what becomes of the later updates with a rollout, in half a sentence."""
        raise NotImplementedError

    def follows(self) -> list[str]:
        """Return what the update follows, of a loss that goes for something else than a function of the pass rate.

        Returns:
            A first line that starts with ``update:``, and indented ones below it; none where the advantage says it.
        """
        return []

    def build(self, hidden_size: int) -> None:
        """Make the parameters, once, when the policy is loaded; ``hidden_size`` is H of ``hidden_TH``."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yield its own parameters."""
        yield from ()

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        return {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> object:
        """Restore :meth:`state_dict`."""


def negative_errors(**values: float) -> list[str]:
    """One line for each argument of a loss that must not be negative and is."""
    return [f"loss.{name} must not be negative; got {value}" for name, value in values.items() if not value >= 0]


def clip_errors(*, clip_low: float, clip_high: float) -> list[str]:
    """One line for each clip that is out of range."""
    errors = negative_errors(clip_high=clip_high)
    if not 0 <= clip_low <= 1:
        errors.append(f"loss.clip_low must be in [0, 1]; got {clip_low}")
    return errors
