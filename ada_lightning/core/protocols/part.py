"""The base of all parts of a method, and their view of the policy while it samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

from ada_lightning.core.records import ResponseGroup, ResponsePool

if TYPE_CHECKING:  # torch stays out of reward workers
    from torch import Tensor


class Trait(Enum):
    """What one part must know of another: rules about parts that do not go together ask for these."""

    SHARES_EVIDENCE = auto()
    """An estimator whose beliefs rest on more than their prompt's own responses, and do not say how many those are."""
    GIVES_REWARDS = auto()
    """A sampler that replaces the graders' rewards, as a majority vote without references does."""
    READS_ANSWERS = auto()
    """A sampler that compares the answers of responses, so that a reward has to tell them."""
    LEAVES_OUT_PROMPTS = auto()
    """A sampler that leaves it to chance whether a prompt is sampled at all."""
    CUTS_RESPONSES = auto()
    """A sampler that leaves it to chance whether a long response is drawn to its end."""
    RANKS_BY_ADVANTAGE = auto()
    """A selection that takes advantages over the whole pool, so they must not be those of what it kept."""
    MAY_DROP_A_CLASS = auto()
    """A selection that may keep positives alone or negatives alone of a pool that has both."""
    KEEPS_WHAT_THERE_IS = auto()
    """A selection that keeps what there is of a pool, so nobody would keep to a sampler's group size."""
    PRUNES_RESPONSES = auto()
    """A selection that leaves out responses by chance and weighs the others, so that the expected update stays."""
    PRUNES_PROMPTS = auto()
    """The same for all responses of a prompt at once."""
    COMPARES_POOLS = auto()
    """A selection that looks at all pools of a step before it keeps anything."""

    NEEDS_BOTH_CLASSES = auto()
    """An advantage that follows its objective only if positives and negatives are kept of every pool that has both."""
    COMPARES_DRAWN = auto()
    """An advantage whose baseline is made of the responses drawn for the prompt in the step: one alone has none."""
    COMPARES_KEPT = auto()
    """An advantage whose baseline is made of the responses that train: one alone has none."""
    IS_UNCENTRED = auto()
    """An advantage whose sum over a group need not be 0: what its baseline is wrong by counts for the whole group, and
    cancels only where scores of what trains average to 0."""
    TRAINS_EQUAL_REWARDS = auto()
    """An advantage that may differ from 0 in a group whose rewards are all equal."""


class Part:
    """A part of a method. What most of them do not need is here, with nothing done."""

    traits: frozenset[Trait] = frozenset()

    def caveat(self) -> str:
        """Return one line on what it does to the run's objective; empty where it does nothing."""
        return ""

    def state_dict(self) -> dict[str, Any]:
        """What outlives a step, as primitives."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""


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
