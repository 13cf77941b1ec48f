"""What pass rate to expect of a prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ada_lightning.core.protocols.part import Part
from ada_lightning.core.records import Belief, Prompt, ResponsePool

if TYPE_CHECKING:  # torch stays out of reward workers
    from torch import Tensor

    from ada_lightning.core.protocols.policy_view import PolicyView

Represent = Callable[[Sequence[Prompt]], "Tensor"]
"""The policy's representation of prompts, shape ``(P, H)``, float32; costs a forward pass."""


class PassRateEstimator(Part):
    """What pass rate to expect of a prompt before it is sampled, remembered across steps.

    One that can be asked about any prompt overrides :meth:`recall`; one that needs the policy, or the step as a whole,
    overrides :meth:`predict`. Its state is keyed by prompt id, and may hold tensors.
    """

    @property
    def remembers_prompts(self) -> bool:
        """Whether it can be asked about any prompt without a forward pass, as a curriculum needs it."""
        return type(self).recall is not PassRateEstimator.recall

    def check(self) -> None:
        """Raise ValueError for what can be found wrong before any model loads, such as an encoder that is missing."""

    def check_prompts(self, prompts: Sequence[Prompt]) -> None:
        """Compare what is known beforehand with the encoded training prompts; called once, before a model loads.

        Raises:
            ValueError: it is about other prompts.
        """

    def connect(self, policy: PolicyView) -> None:
        """Remember whom to ask about the policy; called once, before the first rollout."""

    def predict(self, prompts: Sequence[Prompt], represent: Represent) -> Sequence[Belief]:
        """Return one belief per prompt; nothing is learned from being asked.

        Args:
            prompts: encoded prompts of a step.
            represent: asks the policy; only an estimator that needs it calls it.
        """
        return self.recall(prompts)

    def recall(self, prompts: Sequence[Prompt]) -> Sequence[Belief]:
        """Return what is remembered of each prompt, as a belief; nothing is learned from being asked."""
        raise NotImplementedError(f"{type(self).__name__} keeps nothing by prompt")

    def update(self, pools: Sequence[ResponsePool]) -> None:
        """Learn from the pools of a finished rollout step, whose prompts were the last ones predicted.

        The policy has been updated with them.
        """

    def history_counts(self) -> Mapping[str, tuple[float, float]]:
        """(positives, responses) by prompt id for a later run to start from; empty where none are kept by prompt."""
        return {}


class PromptEmbedding:
    """Where a prompt lies among others, so that what is seen of one says something about its neighbours."""

    rows_are_independent: bool = False
    """Whether a row is the same to the last bit whatever prompts it is made with, so that many can be made at once and
    a resumed run still finds the same."""
    needs_policy: bool = False
    """Whether it calls ``represent``, so that it cannot be asked where there is no policy."""

    def check(self) -> None:
        """Raise ValueError for what can be found wrong before any model loads."""

    def fit(self, prompts: Sequence[Prompt]) -> None:
        """Learn from all training prompts; called once, before any is embedded."""

    def __call__(self, prompts: Sequence[Prompt], represent: Represent) -> Tensor:
        """Return one row per prompt, always of the same size. Shape ``(P, H)``, float32, on the CPU.

        There is at least one prompt, and all are encoded.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method __call__(prompts, represent)")
