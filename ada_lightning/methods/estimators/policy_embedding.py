"""Embeds prompts by what the policy makes of them: no further model is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ada_lightning.core.protocols import PromptEmbedding, Represent
from ada_lightning.core.records import Prompt

if TYPE_CHECKING:
    from torch import Tensor


class PolicyEmbedding(PromptEmbedding):
    """The policy's last hidden state after a prompt's last token, as it is when the prompt is first met.

    Whoever keeps it has it frozen, but from the policy of that moment: prompts of a run's first epoch are embedded by
    policies that differ by the updates between them. A sentence encoder does not move
    (:class:`~ada_lightning.methods.estimators.sentence_encoder.SentenceEncoder`).
    """

    needs_policy = True

    def __call__(self, prompts: Sequence[Prompt], represent: Represent) -> Tensor:
        """Ask the policy. Shape ``(P, H)``, float32."""
        return represent(prompts)
