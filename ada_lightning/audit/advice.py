"""What to change, by what a log shows; and never more than it shows."""

from __future__ import annotations

from ada_lightning.audit.figures import Audit, RuleRow
from ada_lightning.audit.intervals import Estimate
from ada_lightning.audit.records import Cause
from ada_lightning.audit.spelling import number, percent

LIMIT = (
    "These are costs and signals with the policy and the prompts as they were recorded. Whether a run would have "
    "learned faster is not in a log."
)
_MANY = 0.1
_FEW = 0.05
_TRUNCATED = 0.05


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
            "Record several responses a prompt: one shows neither what gave no gradient nor what a rule would cost."
        ]
    found = [*_of_rules(audit), *_of_causes(audit), *_of_history(audit), *_of_length(audit)]
    return found or [
        "Nothing stands out: no rule that the log can judge is surely cheaper, and few tokens lack a gradient."
    ]


def _of_rules(audit: Audit) -> list[str]:
    best = best_rule(audit)
    if best is None or best.versus_logged is None:
        return []
    unit = audit.gathered.unit.value
    return [
        f"Draw {best.name}: by this log {number(best.versus_logged)} times as many comparisons of right with wrong "
        f"responses per 1,000 {unit} as it was drawn, with {number(best.responses)} responses a prompt on average."
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
                f"By the fitted distribution only {never} of the prompts are solved less than once in 50: most of those"
            )
            text += " groups were unlucky, so stop early where the first responses agree, rather than drop prompts."
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
            f"{audit.gathered.unit.value} were of responses that could have had a gradient by their rewards, or "
            "that have no reward."
        )
    return found


def _of_history(audit: Audit) -> list[str]:
    gain = audit.figures.get("gain")
    if gain is None or gain.low is None or gain.low <= 0:
        return []
    text = (
        "Choose prompts by their own counts: what earlier steps drew of a prompt foretells its next group by "
        f"{number(gain)} nats a response better than the mean of all."
    )
    ratio = audit.figures["chosen_versus_returning"]
    if ratio.low is not None and ratio.low > 1.0:
        text += (
            f" The half of the returning prompts that promised most had {number(ratio)} times as many comparisons "
            f"per 1,000 {audit.gathered.unit.value} as all that returned."
        )
    return [text]


def _of_length(audit: Audit) -> list[str]:
    truncated = audit.figures.get("truncated")
    if truncated is None or truncated.value < _TRUNCATED:
        return []
    return [
        f"The length limit cut {percent(truncated)} of the responses: allow more tokens, or ask for shorter answers."
    ]
