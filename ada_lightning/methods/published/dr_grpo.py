"""Dr. GRPO (arXiv:2503.20783): no standard deviation, a constant length instead of each response's own. Faithful."""

from __future__ import annotations

from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling import UniformSampler

DR_GRPO = known(
    Recipe(
        name="dr_grpo",
        text="Dr. GRPO (arXiv:2503.20783): a fixed group, reward minus its mean, token sums over a constant length.",
        sampler=UniformSampler,
        selection="all",
        advantage="dr_grpo",
        loss="dr_grpo",
        card=Card(
            table="update",
            changes="no standard deviation, and a constant length",
            needs="groups of equal size",
            fidelity="faithful",
        ),
        checked=Comparison(
            "the advantage of a group", "by hand", "unit/methods/advantages/test_group_rules.py::test_by_hand"
        ),
    )
)
