"""What pass rate to expect of a prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ada_lightning.core.records import Belief, Prompt, PromptHistory, ResponsePool

if TYPE_CHECKING:  # torch stays out of reward workers
    from torch import Tensor


@runtime_checkable
class PassRateEstimator(Protocol):
    """What pass rate to expect of a prompt before it is sampled, remembered across steps."""

    def check_prompts(self, prompts: Sequence[Prompt]) -> None:
        """Compare what is known beforehand with the encoded training prompts; called once, before a model loads.

        Raises:
            ValueError: it is about other prompts.
        """
        ...

    def predict(self, prompts: Sequence[Prompt], represent: Callable[[Sequence[Prompt]], Tensor]) -> Sequence[Belief]:
        """Return one belief per prompt; nothing is learned from being asked.

        Args:
            prompts: encoded prompts of a step.
            represent: the policy's representation of prompts, shape ``(P, H)``, float32; costs a forward pass, so only
                an estimator that needs it calls it.
        """
        ...

    def update(self, pools: Sequence[ResponsePool]) -> None:
        """Learn from the pools of a finished rollout step, whose prompts were the last ones predicted."""
        ...

    def history_counts(self) -> Mapping[str, tuple[float, float]]:
        """(positives, responses) by prompt id for a later run to start from; empty where none are kept by prompt."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What outlives a step, as primitives and tensors, keyed by prompt id."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        ...


@runtime_checkable
class RememberingEstimator(PassRateEstimator, Protocol):
    """An estimator that keeps counts by prompt, and can be asked about any prompt without a forward pass.

    It may define ``beliefs_have_counts = False``: its beliefs rest on more than their prompt's own responses, and do
    not say how many those are (``Belief.num_seen``).
    """

    def recall(self, prompts: Sequence[Prompt]) -> Sequence[PromptHistory]:
        """Return what is remembered of each prompt; nothing is learned from being asked."""
        ...


@runtime_checkable
class PromptEmbedding(Protocol):
    """Where a prompt lies among others, so that what is seen of one says something about its neighbours.

    It may also define ``check() -> None``: raise ValueError for what can be found wrong before any model loads; and
    ``fit(prompts) -> None``, which is called once with all training prompts before any is embedded. Where
    ``rows_are_independent`` is True a row is the same to the last bit whatever prompts it is made with, so that many
    can be made at once and a resumed run still finds the same.
    """

    def __call__(self, prompts: Sequence[Prompt], represent: Callable[[Sequence[Prompt]], Tensor]) -> Tensor:
        """Return one row per prompt, always of the same size. Shape ``(P, H)``, float32, on the CPU.

        Args:
            prompts: encoded prompts, at least one.
            represent: as in :meth:`PassRateEstimator.predict`.
        """
        ...
