"""Pilot-Commit: a pilot for every candidate, the rest of the budget for those with spread rewards (arXiv:2605.26606).

Claim: group methods learn most where rewards vary, so a pilot that measures it pays. Assumption: the pilot's pass rate
is close to what a full group would find. Degenerate case: pilots that are all skipped or deferred leave a step without
an update; the pilots are paid for all the same.

Fidelity: after. The step's prompts are the candidates; deferred prompts come back in turn. It needs an estimator that
remembers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ada_lightning.core.options import option, use
from ada_lightning.core.protocols import Selection, Trait
from ada_lightning.core.records import KeptResponse, ResponsePool
from ada_lightning.core.stopping.rule import PilotRule
from ada_lightning.methods.advantages import GroupNormalizedAdvantage
from ada_lightning.methods.checked import Check, Checked, at_least
from ada_lightning.methods.curriculum import DifficultyBand
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.pilot import PilotSampler
from ada_lightning.methods.selection import AllSelection


@option("sampler", "pilot_commit")
@dataclass(kw_only=True, eq=False)
class PilotCommitSampler(PilotSampler):
    """Pilot-Commit: a pilot for every candidate, more where its pass rate lies in a band (arXiv:2605.26606).

    With ``selection=resolved``. Below the band, the prompt is too hard for now and *deferred*: it comes back when its
    turn comes, as in the authors' code, where it simply waits for the next epoch. Above it, it is *skipped*. Neither
    trains (``selection=resolved``). Whether mastered prompts come back is a matter of the curriculum, which sees the
    pilots through the estimator: their code evicts prompts whose pilot was all right, ``curriculum=difficulty_band``
    with ``low=0`` lets them come last.

    The candidates are the step's prompts: the authors draw three times as many as they train on, until enough passed,
    and keep what passed too much for up to four later steps. Here a step trains on what passed, on-policy.

    Source:
        Kim et al., arXiv:2605.26606; databricks/pilot-commit at 8ca7605: ``recipe/pc/pc_ray_trainer.py``
        (``filter_batch``, whose thresholds are inclusive) and ``train_scripts/pc_qwen3-4b_p16c48.sh``.

    Example:
        >>> sampler = PilotCommitSampler(num_pilot=4, num_commit=12, min_rate=0.125, max_rate=0.75, group_size=16)
        >>> sampler.rule.totals
        (4, 16, 16, 16, 4)
    """

    num_pilot: int = 16
    """Responses that decide (script: 16)."""
    num_commit: int = 48
    """Further responses of a prompt that passes (script: 48)."""
    min_rate: float = 0.125
    """Lowest pass rate of a pilot that passes; below, the prompt is deferred (script: 0.125)."""
    max_rate: float = 0.75
    """Highest; above, it is skipped (script: 1 - 0.25)."""
    group_size: int = 64

    def _checks(self) -> Iterator[Check]:
        yield from at_least(1, num_pilot=self.num_pilot, num_commit=self.num_commit)
        yield (
            0 <= self.min_rate <= self.max_rate <= 1,
            f"min_rate and max_rate must be 0 <= min_rate <= max_rate <= 1; got {self.min_rate} and {self.max_rate}",
        )
        yield (
            any(self._passes()),
            f"no pilot of {self.num_pilot} has a pass rate in [{self.min_rate}, {self.max_rate}]; widen the band or "
            "use a larger num_pilot",
        )
        yield self.keeps_at_most(self.num_pilot + self.num_commit)

    def make_rule(self) -> PilotRule:
        """Go on after pilots inside the band."""
        totals = (self.num_pilot + self.num_commit * passes for passes in self._passes())
        return PilotRule(tuple(totals), is_screen=True)

    def _passes(self) -> list[bool]:
        size = max(self.num_pilot, 1)
        return [self.min_rate <= positives / size <= self.max_rate for positives in range(self.num_pilot + 1)]


@option("selection", "resolved", selection=use(AllSelection))
@dataclass(kw_only=True, eq=False)
class ResolvedSelection(Checked, Selection):
    """Drops prompts that the sampler's pilot turned down, and leaves the others to another selection.

    What a pilot turned down has been paid for and does not train: Pilot-Commit drops those prompts although their
    pilots may differ. The weight that they would have had is lost, so no estimator is exact with it. A step that is
    filled up (``refill``) does not count them either: it goes on until enough pools have a signal and are resolved.

    Raises:
        ValueError: the other selection compares the pools of a step.
    """

    traits = frozenset({Trait.KEEPS_WHAT_THERE_IS})

    selection: Selection
    """What is kept of a pool that is not dropped."""

    def _checks(self) -> Iterator[Check]:
        yield (
            Trait.COMPARES_POOLS not in self.selection.traits,
            f"selection.selection: {type(self.selection).__name__} compares the pools of a step, and what "
            "ResolvedSelection leaves to it is one pool at a time; use a selection that looks at one, or "
            f"{type(self.selection).__name__} as the selection itself",
        )

    @property
    def within(self) -> Selection:
        """That of a resolved pool."""
        return self.selection.within

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return what the inner selection keeps, or nothing."""
        return self.selection.select(pool) if pool.is_resolved else ()

    def takes(self, pool: ResponsePool) -> bool:
        """Whether it is resolved, and the inner selection takes it."""
        return pool.is_resolved and self.selection.takes(pool)

    def caveat(self) -> str:
        """Say what the inner selection says."""
        return self.selection.caveat()


PILOT_COMMIT = known(
    Recipe(
        name="pilot_commit",
        card=Card(
            table="responses",
            changes="16 pilots, then 48 more if 1/8 <= p <= 3/4",
            needs="an estimator that remembers",
            cost="16 or 64; those with 64 train",
            fidelity="after",
            departs="The step's prompts are the candidates. Deferred prompts come back in turn.",
        ),
        checked=Comparison(
            rule="the paths of a pilot, and the expected update",
            against="enumeration",
            test=(
                "unit/analysis/statement/test_enumeration.py::test_exact_is_printed_where_the_sum_says_so_and_nowhere_else"
            ),
            also=("speed_rl",),
        ),
        text="""
            Pilot-Commit (arXiv:2605.26606): 16 pilots per candidate, and 48 more responses where 1/8 to 3/4 of the
            pilots are right. Only those prompts train. The step's prompts are the candidates; the authors draw three
            times as many as they train on. Deferred prompts come back in their turn (curriculum.low=0: no prompt is too
            hard to come back). Prompts that history says are mastered come last; the authors evict them. A prompt with
            all pilots right is believed to be above curriculum.high=0.9 (ours).
        """,
        curriculum=DifficultyBand,
        sampler=PilotCommitSampler,
        selection=ResolvedSelection,
        advantage=GroupNormalizedAdvantage,
        reduction="token_mean",
        settings={"curriculum.low": 0.0, "curriculum.high": 0.9},
    )
)
