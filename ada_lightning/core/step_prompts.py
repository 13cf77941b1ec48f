"""The prompts of a step that may grow, with what is believed of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ada_lightning.core.protocols import PassRateEstimator
from ada_lightning.core.records import Belief, Prompt

if TYPE_CHECKING:
    from torch import Tensor


class StepPrompts:
    """Draws a step's prompts in their order, each with the belief of before the step.

    An estimator learns from the prompts last predicted, so it is asked about the whole step whenever it grows; what
    the policy makes of a prompt is computed once.

    Args:
        first: the step's first so many prompts; fewer where there are no others.
        estimator: what pass rate to expect.
        represent: the policy's representation of prompts. Shape ``(P, H)``.
    """

    def __init__(
        self,
        first: Callable[[int], Sequence[Prompt]],
        estimator: PassRateEstimator,
        represent: Callable[[Sequence[Prompt]], Tensor],
    ) -> None:
        self._first = first
        self._estimator = estimator
        self._represent_anew = represent
        self._rows: dict[str, Tensor] = {}

    def draw(self, num_drawn: int, num_more: int) -> list[tuple[Prompt, Belief]]:
        """Return the prompts behind the first ``num_drawn``, at most ``num_more``; the same whenever asked."""
        prompts = list(self._first(num_drawn + num_more))
        if len(prompts) <= num_drawn:
            return []
        beliefs = self._estimator.predict(prompts, self._represent)
        return list(zip(prompts, beliefs, strict=True))[num_drawn:]

    def _represent(self, prompts: Sequence[Prompt]) -> Tensor:
        import torch

        new = list({prompt.prompt_id: prompt for prompt in prompts if prompt.prompt_id not in self._rows}.values())
        if new:
            self._rows |= zip([prompt.prompt_id for prompt in new], self._represent_anew(new), strict=True)
        return torch.stack([self._rows[prompt.prompt_id] for prompt in prompts])
