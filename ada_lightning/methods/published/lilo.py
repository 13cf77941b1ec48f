"""LILO (NeurIPS 2025): prompts with the largest learnability p (1 - p).

Fidelity: after. Its authors measure p with fresh responses of a candidate set; here it is drawn from what an estimator
    remembers of each candidate, which costs no response.
"""

from __future__ import annotations

from ada_lightning.methods.recipe import Card, Comparison, Recipe, known

LILO = known(
    Recipe(
        name="lilo",
        card=Card(
            table="prompts",
            changes="picks prompts with the largest p (1 - p)",
            needs="an estimator that remembers",
            cost="4 per prompt",
            fidelity="after",
            departs="p comes from history. It is not measured on candidates.",
        ),
        checked=Comparison(
            rule="a candidate is chosen as often as it is the best",
            against="brute force",
            test="unit/methods/curriculum/test_posterior.py::test_a_candidate_is_chosen_as_often_as_it_is_the_best",
        ),
        text="""
            After LILO (NeurIPS 2025): picks prompts with the largest learnability p (1 - p). Its authors measure p with
            fresh responses of a candidate set. Here it is drawn from what is remembered of each candidate, which costs
            no response.
        """,
        curriculum="learnability",
        sampler="uniform",
        selection="all",
        advantage="rloo",
    )
)
