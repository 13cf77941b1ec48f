"""LILO (NeurIPS 2025): prompts with the largest learnability p (1 - p).

Fidelity: after. Its authors measure p with fresh responses of a candidate set; here it is drawn from what an estimator
    remembers of each candidate, which costs no response.
"""

from __future__ import annotations

from ada_lightning.methods.recipe import Recipe, known

LILO = known(
    Recipe(
        name="lilo",
        text="After LILO (NeurIPS 2025): prompts with the largest learnability p (1 - p). Its authors measure p with "
        "fresh responses of a candidate set; here it is drawn from what is remembered of each candidate, which "
        "costs no response.",
        curriculum="learnability",
        sampler="uniform",
        selection="all",
        advantage="rloo",
    )
)
