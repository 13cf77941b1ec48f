"""What the terminal and the page say in words."""

from __future__ import annotations

from ada_lightning.audit.figures import Audit
from ada_lightning.audit.records import Sampling
from ada_lightning.audit.spelling import number, percent


def headline(audit: Audit) -> str:
    """Return the one sentence to remember."""
    unit = audit.gathered.unit.value
    if not audit.gathered.tells_gradient:
        return f"One response a prompt and no advantages: this log cannot tell which {unit} gave no gradient."
    return f"{percent(audit.figures['no_gradient'])} of all {unit} gave no gradient."


def about(audit: Audit) -> str:
    """Return what the log is of."""
    first, last, count = audit.steps
    gathered = audit.gathered
    num_responses = sum(group.num_responses for group in gathered.groups)
    sizes = sorted({group.num_responses for group in gathered.groups})
    size = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    steps = f"step {first}" if count == 1 else f"{count} steps ({first} to {last})"
    prompts = f"{gathered.num_prompts:,} prompts" if gathered.knows_prompts else "prompts without a name"
    return (
        f"{audit.log.format}, {steps}: {num_responses:,} responses, {size} for each of {len(gathered.groups):,} "
        f"groups; {prompts}. Rewards above {gathered.threshold:g} count as right."
    )


def facts(audit: Audit) -> list[tuple[str, str, str]]:
    """Return (name, figure, meaning) of what has no table of its own."""
    figures, unit = audit.figures, audit.gathered.unit.value
    rows = [("pass rate", percent(figures["pass_rate"]), "mean over prompt visits")]
    if not audit.gathered.tells_gradient:
        return rows
    rows = [
        ("groups with a signal", percent(figures["signal"]), "share of prompt visits whose rewards differ"),
        *rows,
        (
            "concentration of the signal",
            percent_plain(audit.mixture.signal_share(0.1)),
            "of all p (1 - p) lies in the tenth of the prompts that has the most; by the fitted distribution",
        ),
        (
            f"right minus wrong, {unit}",
            number(figures["length_gap"]),
            "mean difference of length within a prompt; below 0: right responses are shorter",
        ),
    ]
    if "truncated" in figures:
        rows.append(("cut by the length limit", percent(figures["truncated"]), "share of responses"))
    if "gain" in figures:
        rows += [
            (
                "change between visits",
                number(figures["change"]),
                "mean squared change of a prompt's pass rate, chance taken out, after "
                f"{number(figures['steps_between'])} steps; between prompts the variance is "
                f"{number(figures['spread'])}",
            ),
            (
                "half-life of history",
                _half_life(audit),
                "steps until a prompt has moved as far as prompts differ",
            ),
            (
                "history foretells",
                number(figures["gain"]),
                "a prompt's own counts against the mean of all prompts: gain in log-likelihood, nats a response",
            ),
        ]
    return rows


def _half_life(audit: Audit) -> str:
    """Steps; unknown where the change of pass rates may be none."""
    change = audit.figures["change"]
    if change.value <= 0 or (change.low is not None and change.low <= 0):
        return "no change seen"
    return number(audit.figures["half_life"])


def percent_plain(share: float) -> str:
    """Spell a share without an interval."""
    return f"{100 * share:.0f} %"


def about_intervals(audit: Audit) -> str:
    """Return what the brackets mean, or why there are none."""
    if not audit.has_intervals:
        return (
            f"Only {audit.num_signal_prompts} prompts have a signal: too few for intervals, so take every figure as "
            "an anecdote."
        )
    return (
        "In brackets: 95 % intervals by resampling prompts (BCa, 2,000 times), all visits of a prompt together. "
        "They say how far other prompts of the same kind would differ, in this run; another seed may differ by "
        "more."
    )


def about_rules(audit: Audit) -> str:
    """Return how the table of rules came about."""
    if audit.why_no_rules:
        return f"No other rule was tried: {audit.why_no_rules}."
    basis = (
        "the responses of each group, averaged over every order in which they could have come: exact, no model"
        if audit.gathered.sampling is Sampling.UNIFORM
        else "the first block of each group, which no rule had chosen: exact, no model"
    )
    return (
        f"Each rule is tried on {basis}. A rule that draws more than the log has goes on with pass rates of the "
        "fitted distribution: such rows are marked extrapolated, and their interval holds only as far as the fit "
        "does."
    )
