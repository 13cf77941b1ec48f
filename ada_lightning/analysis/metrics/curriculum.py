"""What was believed of the prompts that a step trains on, before it."""

from __future__ import annotations

from collections.abc import Sequence

from ada_lightning.core.protocols import Curriculum
from ada_lightning.core.records import PromptHistory


def curriculum_figures(curriculum: Curriculum, histories: Sequence[PromptHistory]) -> dict[str, float]:
    """Figures of one step, keyed ``curriculum/name``.

    ``curriculum/mean_belief`` beside ``rollout/reward_first_round`` shows whether what is chosen is what was thought;
    ``curriculum/share_unseen`` how much of the step explores. The curriculum adds its own.

    Args:
        curriculum: who has chosen.
        histories: of the step's prompts, as they were remembered before the rollout.

    Example:
        >>> from ada_lightning.methods.curriculum import DifficultyBand
        >>> from ada_lightning.core.records import Belief
        >>> histories = [PromptHistory(Belief(3, 1), True), PromptHistory(Belief(1, 3), False)]
        >>> curriculum_figures(DifficultyBand(), histories)
        {'curriculum/mean_belief': 0.5, 'curriculum/share_unseen': 0.5, 'curriculum/share_in_band': 0.5}
    """
    total = max(len(histories), 1)
    figures = {
        "mean_belief": sum(history.belief.mean for history in histories) / total,
        "share_unseen": sum(not history.is_seen for history in histories) / total,
        **curriculum.figures(histories),
    }
    return {f"curriculum/{name}": value for name, value in figures.items()}
