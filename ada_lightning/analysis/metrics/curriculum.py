"""What was believed of the prompts that a step trains on, before it."""

from __future__ import annotations

from collections.abc import Sequence

from ada_lightning.core.protocols import Curriculum
from ada_lightning.core.records import Belief


def curriculum_figures(curriculum: Curriculum, beliefs: Sequence[Belief]) -> dict[str, float]:
    """Figures of one step, keyed ``curriculum/name``.

    ``curriculum/mean_belief`` beside ``rollout/reward_first_round`` shows whether what is chosen is what was thought;
    ``curriculum/share_unseen`` how much of the step explores. The curriculum adds its own.

    Args:
        curriculum: who has chosen.
        beliefs: of the step's prompts, as they were remembered before the rollout.

    Example:
        >>> from ada_lightning.methods.curriculum import DifficultyBand
        >>> from ada_lightning.core.records import Belief
        >>> beliefs = [Belief(3, 1, is_seen=True), Belief(1, 3)]
        >>> curriculum_figures(DifficultyBand(), beliefs)
        {'curriculum/mean_belief': 0.5, 'curriculum/share_unseen': 0.5, 'curriculum/share_in_band': 0.5}
    """
    total = max(len(beliefs), 1)
    figures = {
        "mean_belief": sum(belief.mean for belief in beliefs) / total,
        "share_unseen": sum(not belief.is_seen for belief in beliefs) / total,
        **curriculum.figures(beliefs),
    }
    return {f"curriculum/{name}": value for name, value in figures.items()}
