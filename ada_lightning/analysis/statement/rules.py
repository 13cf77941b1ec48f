"""Which stopping rules a sampler uses for its prompts, found out before any response is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ada_lightning.core.protocols import Advantage, Sampler, Selection, Trait
from ada_lightning.core.records import Belief, Prompt, Response, ResponsePool
from ada_lightning.core.stopping.rule import FixedRule, StoppingRule
from ada_lightning.methods.published.pilot_commit import ResolvedSelection
from ada_lightning.methods.published.raft import AcceptedAdvantage
from ada_lightning.methods.selection import AllSelection, SeenSelection

_STRENGTH = 20.0
"""Responses that the beliefs of :func:`rules_by_pass_rate` are worth: as much as a history that has been seen often."""
_LONGEST_WALK = 128
"""Responses after which :func:`contradiction` looks no further: a rule of blocks has shown by then what it does."""

_ONE_OF_EACH = [Response("alone", 0, 0, (0,), (0.0,), "", False, float(right), right, 0) for right in (False, True)]
"""A wrong response and a right one."""
PASS_RATES = (0.02, 0.1, 0.5, 0.9)
"""Where figures are given: a hard prompt, a difficult one, an even one, a nearly solved one."""


def mean_over_prompts(formula: str) -> str:
    """Spell what an update increases: ``f(p)``, averaged over prompts."""
    return f"the mean over prompts of f(p) = {formula} (p: pass rate)"


def rule_alone(sampler: Sampler, *, is_seen: bool = False) -> StoppingRule | None:
    """Return the rule of a prompt alone in its step, of unknown pass rate; None if not its counts decide.

    Args:
        sampler: asked to plan, as before every step.
        is_seen: whether the prompt came before: some samplers draw more at a first visit.
    """
    return sampler.end(_planned_alone(sampler, is_seen=is_seen)).rule


def draws_anew(sampler: Sampler) -> bool:
    """Whether it asks for more in the place of responses that are no evidence."""
    pool = _planned_alone(sampler)
    pool.num_drawn = sampler.num_to_draw(pool)
    return sampler.num_to_draw(pool) > 0


def contradiction(sampler: Sampler) -> str:
    """Say at which counts a sampler and the rule that it names end a prompt differently; empty where they agree.

    A rule is asked after every single response, a sampler between its blocks: one whose rule holds inside a block goes
    on to ends that no path of the rule leads to.
    """
    pool = _planned_alone(sampler)
    rule, first_block = sampler.end(pool).rule, sampler.num_to_draw(pool)
    if rule is None:
        return ""
    points: list[tuple[bool, ...]] = [()]
    known = set()
    for outcomes in points:  # grows while it is walked through
        pool.responses = [_ONE_OF_EACH[is_right] for is_right in outcomes]
        pool.num_positive, pool.num_drawn = sum(outcomes), len(outcomes)
        wanted = sampler.num_to_draw(pool)
        if problem := _disagreement(rule, outcomes, wanted):
            return f"{type(sampler).__name__} {problem}"
        for right in range(wanted + 1) if wanted > 0 and len(outcomes) < _LONGEST_WALK else ():
            following = (*outcomes, *_block(right, wanted))
            place = sum(following[:first_block]), sum(following), len(following)  # some rules remember how it began
            if place not in known:
                known.add(place)
                points.append(following)
    return ""


def _disagreement(rule: StoppingRule, outcomes: tuple[bool, ...], wanted: int) -> str:
    """What is wrong with drawing so many responses after these."""
    if outcomes and rule.has_ended(outcomes) == (wanted > 0):
        end, other = ("goes on", "stops") if wanted > 0 else ("stops", "goes on")
        return f"{end} at {_spelled(outcomes)}, where its rule {other}"
    num_positive, num_negative = sum(outcomes), len(outcomes) - sum(outcomes)
    for size in range(1, wanted):
        for right in range(size + 1):
            if rule.branches():
                is_over = rule.has_ended((*outcomes, *_block(right, size)))
            else:
                is_over = rule.stops(num_positive + right, num_negative + size - right)
            if is_over:
                inside = _spelled((*outcomes, *_block(right, size)))
                return f"draws {wanted} responses at once, and its rule already stops inside of them, at {inside}"
    return ""


def _block(num_positive: int, size: int) -> tuple[bool, ...]:
    return (True,) * num_positive + (False,) * (size - num_positive)


def _spelled(outcomes: tuple[bool, ...]) -> str:
    return f"{sum(outcomes)} right and {len(outcomes) - sum(outcomes)} wrong"


def _planned_alone(sampler: Sampler, *, is_seen: bool = False) -> ResponsePool:
    pool = ResponsePool(Prompt("alone", ()), slot=0, belief=Belief(is_seen=is_seen))
    sampler.plan([pool])
    return pool


def rules_by_pass_rate(sampler: Sampler, pass_rates: Sequence[float]) -> list[StoppingRule | None]:
    """Return the rule of each prompt of a step that holds one prompt of each pass rate, all well known."""
    pools = [
        ResponsePool(
            Prompt(f"p{slot}", ()),
            slot,
            belief=Belief(_STRENGTH * rate, _STRENGTH * (1 - rate), _STRENGTH, _STRENGTH * rate, is_seen=True),
        )
        for slot, rate in enumerate(pass_rates)
    ]
    sampler.plan(pools)
    return [sampler.end(pool).rule for pool in pools]


def draws_equal(sampler: Sampler, selection: Selection) -> bool:
    """Whether every prompt that trains gets the same number of responses, whatever they are."""
    rules = rules_by_pass_rate(sampler, PASS_RATES)
    first_visit = _planned_alone(sampler)
    if selection.takes(first_visit):
        rules.append(sampler.end(first_visit).rule)
    return isinstance(rules[0], FixedRule) and len(set(rules)) == 1


def draws_at_once(sampler: Sampler) -> bool:
    """Whether every prompt's number of responses is fixed before its first one."""
    return all(isinstance(rule, FixedRule) for rule in rules_by_pass_rate(sampler, PASS_RATES))


def of_whole_pools(selection: Selection, advantage: Advantage, sampler: Sampler) -> Selection:
    """Return the selection whose expected update this one has: of whole pools, where nothing is lost in expectation.

    Whole prompts that are left out by chance are made up for, and so are responses, unless a baseline is made of those
    that are left. Which prompts were seen before is no matter of this step's responses. A fixed number of them resolves
    every pool.
    """
    traits = selection.traits
    makes_up = Trait.PRUNES_RESPONSES in traits and (
        Trait.COMPARES_DRAWN in advantage.traits or isinstance(advantage, AcceptedAdvantage)
    )
    if makes_up or Trait.PRUNES_PROMPTS in traits or isinstance(selection, SeenSelection):
        return AllSelection()
    if isinstance(selection, ResolvedSelection) and draws_at_once(sampler):
        return of_whole_pools(selection.selection, advantage, sampler)
    return selection


def table_lines(rows: Mapping[str, Sequence[float]]) -> list[str]:
    r"""Lay out one row of figures per name under a row of the pass rates, three digits each.

    Example:
        >>> print(*table_lines({"wanted": [50.0, 10.0, 2.0, 1 / 0.9]}), sep="\n")
          p         0.02     0.1     0.5     0.9
          wanted      50      10       2    1.11
    """
    width = max(map(len, rows))
    return [
        f"  {name:<{width}}" + "".join(f"{value:>8.3g}" for value in values)
        for name, values in ({"p": PASS_RATES} | dict(rows)).items()
    ]


def differ(ones: Sequence[float], others: Sequence[float]) -> bool:
    """Whether some pair differs by more than a hundredth of the first."""
    return any(abs(one - other) > 0.01 * abs(one) for one, other in zip(ones, others, strict=True))
