"""What parts see of the policy while it samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from ada_lightning.core.records import ResponseGroup, ResponsePool

if TYPE_CHECKING:  # torch stays out of reward workers
    from torch import Tensor


class PolicyView(Protocol):
    """What can be read of the policy while a rollout is drawn: the weights that draw it."""

    model: Any
    """The causal language model."""
    temperature: float
    """Divides the logits, as the engine's."""
    clock: Any
    """A :class:`~ada_lightning.run.phase_clock.PhaseClock`."""
    interrupt_check: Callable[[], None]
    """May raise to stop at a point where nothing is lost."""

    def forward_context(self) -> AbstractContextManager[None]:
        """Return the precision of the run's forward passes."""
        ...

    def packed(self, *groups: ResponseGroup) -> Any:
        """Return what is kept of groups as one :class:`~ada_lightning.training.batch.Microbatch`, on the device."""
        ...

    def hidden_states(self, model: Any, microbatch: Any) -> Tensor:
        """Last hidden state of every packed token. Shape ``(T, H)``."""
        ...

    def token_logprobs(self, model: Any, microbatch: Any) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy at every response token. Shapes ``(K,)``, float32, nats."""
        ...


class GradientNorm:
    """How long the gradients of a prompt's right answers are."""

    def connect(self, policy: PolicyView) -> None:
        """Remember whom to ask; called once, before the first rollout and before the model is loaded."""

    def measure(self, pools: Sequence[ResponsePool]) -> Sequence[float]:
        """Return, for each pool, the mean over its positives of ``|grad log pi(response)|``; 0 where it has none."""
        raise NotImplementedError(f"{type(self).__name__} needs a method measure(pools)")
