"""The sentences and the advice of the terminal and the page."""

from __future__ import annotations

from ada_lightning.audit.figures import Audit, RuleRow
from ada_lightning.audit.intervals import Estimate, number, percent
from ada_lightning.audit.records import Cause, Sampling

LIMIT = (
    "These are costs and signals with the policy and the prompts as they were recorded. Whether a run would have "
    "learned faster is not in a log."
)
_MANY = 0.1
_FEW = 0.05
_TRUNCATED = 0.05


def headline(audit: Audit) -> str:
    """Return the one sentence to remember."""
    unit = audit.gathered.unit.value
    if not audit.gathered.tells_gradient:
        return (
            f"This log has one response per prompt and no advantages, so it cannot show which {unit} gave no gradient."
        )
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
    right = f"Rewards above {gathered.threshold:g} count as right."
    if gathered.is_own:
        how = "" if audit.log.threshold is None else f": rewards above {gathered.threshold:g}"
        right = f"Right is what the run counted as right{how}."
    return (
        f"{audit.log.format}, {steps}: {num_responses:,} responses, {size} for each of {len(gathered.groups):,} "
        f"groups; {prompts}. {right}"
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
            "of all p (1 - p) is in the best tenth of the prompts, by the fitted distribution",
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
                "mean squared change of a prompt's pass rate, without chance, after "
                f"{number(figures['steps_between'])} steps; between prompts the variance is "
                f"{number(figures['spread'])}",
            ),
            (
                "half-life of history",
                _half_life(audit),
                "steps until a prompt has moved as far as prompts differ",
            ),
            (
                "history predicts",
                number(figures["gain"]),
                "gain in log-likelihood from a prompt's own counts over the mean of all prompts, nats per response",
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
            f"Only {audit.num_signal_prompts} prompts have a signal: too few for intervals, so take every number as "
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


def best_rule(audit: Audit) -> RuleRow | None:
    """Return the exact rule with the most comparisons per length, if its interval lies above the log's."""
    better = [
        row
        for row in audit.rules
        if not row.is_extrapolated
        and row.versus_logged is not None
        and row.versus_logged.low is not None
        and row.versus_logged.low > 1.0
    ]
    return max(better, key=lambda row: row.comparisons_per_1k.value, default=None)


def advice(audit: Audit) -> list[str]:
    """Return sentences, the weightiest first; one that says so where nothing stands out."""
    if not audit.gathered.tells_gradient:
        return [
            "Record several responses per prompt: one shows neither what gave no gradient nor what a rule would cost."
        ]
    found = [*_of_rules(audit), *_of_causes(audit), *_of_history(audit), *_of_length(audit)]
    return found or ["Nothing stands out: no rule is surely cheaper by this log, and few tokens lack a gradient."]


def _of_rules(audit: Audit) -> list[str]:
    best = best_rule(audit)
    if best is None or best.versus_logged is None:
        return []
    unit = audit.gathered.unit.value
    return [
        f"Draw {best.name}. By this log that gives {number(best.versus_logged)} times as many comparisons of right "
        f"with wrong responses per 1,000 {unit} as the rule of the log, with {number(best.responses)} responses "
        "per prompt on average."
    ]


def _of_causes(audit: Audit) -> list[str]:
    right, wrong = (audit.figures[f"lost:{cause.name}"] for cause in (Cause.ALL_RIGHT, Cause.ALL_WRONG))
    shares = audit.mixture.shares()
    found = []
    if wrong.value >= _MANY:
        text = f"Groups without a right response took {percent(wrong)} of all {audit.gathered.unit.value}. "
        never = percent(Estimate(shares[0]))
        if shares[0] < _FEW:
            text += (
                f"By the fitted distribution only {never} of the prompts are solved less than once in 50. Most of those"
            )
            text += " groups were unlucky, so do not drop prompts; stop early if the first responses agree."
        else:
            text += (
                f"Ask fewer prompts that are too hard now: by the fitted distribution {never} are solved less than once"
            )
            text += " in 50."
        found.append(text)
    if right.value >= _MANY:
        found.append(
            f"Ask fewer prompts that are too easy now: groups that were right throughout took {percent(right)} of "
            f"all {audit.gathered.unit.value}. By the fitted distribution {percent(Estimate(shares[-1]))} of the "
            "prompts are solved more than 49 times in 50."
        )
    other = sum(
        audit.figures[f"lost:{cause.name}"].value for cause in Cause if cause not in (Cause.ALL_RIGHT, Cause.ALL_WRONG)
    )
    if other >= _MANY:
        found.append(
            f"Look at what is drawn and then left out: {percent(Estimate(other))} of all "
            f"{audit.gathered.unit.value} belong to responses that could have had a gradient by their rewards, or "
            "that have no reward."
        )
    return found


def _of_history(audit: Audit) -> list[str]:
    gain = audit.figures.get("gain")
    if gain is None or gain.low is None or gain.low <= 0:
        return []
    text = (
        "Choose prompts by their own counts: earlier responses to a prompt predict its next group by "
        f"{number(gain)} nats per response better than the mean of all prompts."
    )
    ratio = audit.figures["chosen_versus_returning"]
    if ratio.low is not None and ratio.low > 1.0:
        text += (
            f" The better half of the returning prompts, by their counts, had {number(ratio)} times as many "
            f"comparisons per 1,000 {audit.gathered.unit.value} as all that returned."
        )
    return [text]


def _of_length(audit: Audit) -> list[str]:
    truncated = audit.figures.get("truncated")
    if truncated is None or truncated.value < _TRUNCATED:
        return []
    return [
        f"The length limit cut {percent(truncated)} of the responses: allow more tokens, or ask for shorter answers."
    ]
