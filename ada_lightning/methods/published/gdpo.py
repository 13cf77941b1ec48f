"""GDPO, arXiv:2601.05242: each component of the reward is standardised in its group before they are added up.

Claim: standardising the sum lets different combinations of components collapse to one advantage, and the component with
the largest spread drown the others. Assumes components worth comparing within a group. Degenerate case: one component
of 0 and 1, where it is GRPO with whitening.

Fidelity: faithful. ``advantage.by_tokens=true`` whitens tokens as verl does.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ada_lightning.core.options import option
from ada_lightning.core.protocols import Advantage, Trait
from ada_lightning.core.records import Response, ResponseGroup
from ada_lightning.methods.checked import Check, Checked
from ada_lightning.methods.functional import centered, unbiased_std, whitened_groups
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.uniform import UniformSampler
from ada_lightning.methods.selection import AllSelection

_EPSILON = 1e-4
"""Added to standard deviations, those of groups and that of the rollout (NVlabs/GDPO)."""


@option("advantage", "gdpo")
@dataclass(kw_only=True, eq=False)
class GdpoAdvantage(Checked, Advantage):
    """GDPO: each component of the reward standardised within its group, added up, whitened over the rollout.

    The sum over components is of ``weight * (c - mean) / (std + 1e-4)`` within the kept group. Goes with
    ``reward=weighted``. Another component: ``+advantage.weights.short=1.0``; without one:
    ``~advantage.weights.format``.

    Groups whose rewards are all equal but whose components differ have a signal and train; groups in which no component
    differs have advantages of 0 (by tokens: that of the rollout's mean). Ragged groups: each component is standardised
    over the group's own responses, and a prompt with more of them moves mean and deviation of the rollout more.

    A component that no response of a group has does not apply to that prompt, and adds nothing to it. A response
    without any component whose reward is 0 was counted as 0 ungraded (``rollout.grader_failure=as_zero``,
    ``rollout.truncated=zero``): its components are 0 too.

    Source:
        arXiv:2601.05242; NVlabs/GDPO for 1e-4 and the unbiased deviation.
    """

    traits = frozenset({Trait.COMPARES_KEPT, Trait.TRAINS_EQUAL_REWARDS})

    weights: Mapping[str, float] = field(default_factory=lambda: {"correct": 1.0, "format": 1.0})
    """Of the standardised components, by their names in :attr:`~ada_lightning.core.records.Response.components`. The
    weights inside the reward decide what is positive, not what is trained. Alike, as long as nothing speaks for another
    ratio: form weighs as much as being correct, wherever its group differs in it."""
    by_tokens: bool = False
    """Whiten over tokens instead of responses, as verl does."""

    def __post_init__(self) -> None:
        self.weights = {str(name): weight for name, weight in self.weights.items()}
        super().__post_init__()

    def _checks(self) -> Iterator[Check]:
        for name, weight in self.weights.items():
            is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
            yield (
                is_number and math.isfinite(weight),
                f"advantage.weights.{name} must be a finite number; got {weight!r}",
            )
        yield (
            any(self.weights.values()),
            "advantage.weights needs a component whose weight is not 0, as {correct: 1.0, format: 1.0}",
        )

    def assign(self, groups: Sequence[ResponseGroup]) -> list[list[float]]:
        """Return the advantages, group by group.

        Raises:
            ValueError: a response lacks a component that others of its group have, or has none at all.
        """
        sums = [self._weighted_sum(group) for group in groups]
        self._warn_of_unknown(groups)
        return whitened_groups(groups, sums, by_tokens=self.by_tokens, epsilon=_EPSILON)

    def _weighted_sum(self, group: ResponseGroup) -> list[float]:
        responses = [kept.response for kept in group.kept]
        present = [name for name in self.weights if any(name in response.components for response in responses)]
        values = np.array([_values(response, present, list(self.weights)) for response in responses])
        total = np.zeros(len(responses))
        for name, column in zip(present, values.T, strict=True):
            total += self.weights[name] * centered(column) / (unbiased_std(column) + _EPSILON)
        return total.tolist()

    def _warn_of_unknown(self, groups: Sequence[ResponseGroup]) -> None:
        found = {name for group in groups for kept in group.kept for name in kept.response.components}
        missing = [name for name in self.weights if name not in found]
        if missing and any(group.kept for group in groups):
            warnings.warn(
                f"no response of this step has the component {', '.join(missing)} of advantage.weights: it adds "
                f"nothing; found: {', '.join(sorted(found)) or 'none'}. Check the name, or the reward.",
                RuntimeWarning,
                stacklevel=3,
            )


def _values(response: Response, present: Sequence[str], wanted: Sequence[str]) -> list[float]:
    """Take the components of one response in the order of ``present``."""
    components = response.components
    if not components and response.reward == 0.0:
        return [0.0] * len(present)
    missing = [name for name in present or wanted if name not in components]
    if missing:
        raise ValueError(
            f"advantage=gdpo: response {response.sample_index} of prompt {response.prompt_id} has no component "
            f"{', '.join(missing)}; it has {', '.join(components) or 'none'}. Use a reward that returns them with "
            "every response (reward=weighted, or a Verdict with components), or name others in advantage.weights"
        )
    return [components[name] for name in present]


GDPO = known(
    Recipe(
        name="gdpo",
        card=Card(
            table="update",
            changes="standardises each component of the reward, then whitens",
            needs="a reward with components",
            fidelity="faithful",
            departs="`by_tokens=true` whitens tokens, as verl does.",
        ),
        checked=Comparison(
            rule="the loop of the paper",
            against="their loop, rewritten",
            test="unit/methods/advantages/test_gdpo.py::test_it_is_the_loop_of_the_paper",
        ),
        text="""
            GDPO (arXiv:2601.05242): correctness and form are standardised separately. Groups that differ only in form
            train too. The system prompt asks for what the reward looks for.
        """,
        sampler=UniformSampler,
        selection=AllSelection,
        advantage=GdpoAdvantage,
        loss="grpo",
        options={"reward": "weighted"},
        settings={
            "data.source.system_prompt": "Give the result as <answer>result</answer>.",
            "loss.kl_coef": 0.0,
        },
    )
)
