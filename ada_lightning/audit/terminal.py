"""The audit as text."""

from __future__ import annotations

import textwrap

from ada_lightning.audit.advice import LIMIT, advice
from ada_lightning.audit.figures import Audit, RuleRow
from ada_lightning.audit.pass_rates import BINS
from ada_lightning.audit.records import Cause
from ada_lightning.audit.sentences import about, about_intervals, about_rules, facts, headline
from ada_lightning.audit.spelling import number, percent

_WIDTH = 110


def as_text(name: str, audit: Audit) -> str:
    """Spell everything that the page says, without its pictures."""
    unit = audit.gathered.unit.value
    lines = [name, *_wrapped(about(audit), "  "), *(f"  note: {remark}" for remark in audit.log.remarks), ""]
    lines += [headline(audit)]
    lines += [
        f"  {percent(audit.figures[f'lost:{cause.name}']):>18}  {cause.value}"
        for cause in Cause
        if audit.figures[f"lost:{cause.name}"].value > 0
    ]
    lines += ["", "How often prompts are solved    " + "  ".join(f"{name:>6}" for name in BINS)]
    for title, shares in (("fitted, chance taken out", audit.mixture.shares()), ("raw shares of groups", audit.raw)):
        lines.append(f"  {title:<30}" + "  ".join(f"{100 * share:>4.0f} %" for share in shares))
    lines += [""] + [f"{title}: {figure} {meaning}" for title, figure, meaning in facts(audit)]
    lines += ["", f"What other rules would have cost, per prompt ({unit})", *_wrapped(about_rules(audit), "  ")]
    if len(audit.rules) > 1:
        width = max(len(row.name) for row in audit.rules)
        lines.append(
            f"  {'rule':<{width}}  {'responses':>9}  {unit:>9}  {'signal':>6}  {'comparisons per 1,000':<22}  "
            "against the log"
        )
        lines += [_rule(row, width) for row in audit.rules]
    lines += ["", "What to change"] + [line for text in advice(audit) for line in _wrapped(text, "  - ")]
    lines += _wrapped(LIMIT, "  ")
    lines += ["", "What the log does not say"]
    for hole in audit.holes:
        text = f"{hole.what}: {hole.consequence}." + (f" To close: {hole.setting}" if hole.setting else "")
        lines += _wrapped(text, "  - ")
    return "\n".join([*lines, "", *_wrapped(about_intervals(audit), "")])


def _rule(row: RuleRow, width: int) -> str:
    versus = number(row.versus_logged) + " times" if row.versus_logged else ""
    mark = f"  extrapolated ({100 * row.responses_beyond:.0f} % of responses)" if row.is_extrapolated else ""
    return (
        f"  {row.name:<{width}}  {row.responses.value:>9.1f}  {row.length.value:>9,.0f}  "
        f"{100 * row.signal.value:>4.0f} %  {number(row.comparisons_per_1k):<22}  {versus}{mark}"
    ).rstrip()


def _wrapped(text: str, begin: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=begin, subsequent_indent=" " * len(begin))
