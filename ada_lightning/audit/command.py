"""``ada audit``: reads logs, prints what they say and writes the page."""

from __future__ import annotations

import argparse
import math
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from ada_lightning.audit.figures import Audit, RuleRow, audit
from ada_lightning.audit.intervals import number, percent
from ada_lightning.audit.page import write_page
from ada_lightning.audit.pass_rates import BINS
from ada_lightning.audit.readers.find import READERS, read_logs, tokenizer_of
from ada_lightning.audit.records import Cause, Options, Sampling
from ada_lightning.audit.sentences import LIMIT, about, about_intervals, about_rules, advice, facts, headline
from ada_lightning.audit.untrusted import GIB, Limits
from ada_lightning.run.terminal import until_nobody_reads

EXAMPLES = """
examples:
  ada audit trl_output/                      completions/*.parquet of TRL
  ada audit verl_rollouts/ --tokenizer model/tokenizer.json
  ada audit runs/grpo_n16-20261121-064238    a run of this project
  ada audit a/ b/ --output both.html         two logs, one below the other on one page
"""
_WIDTH = 110


@until_nobody_reads()
def main(argv: Sequence[str] | None = None) -> None:
    """Read, compute, print, write.

    Args:
        argv: arguments after the command's name; those of the process if left out.
    """
    arguments = _arguments(argv)
    try:
        options = _options(arguments)
        logs = read_logs(arguments.logs, options, arguments.format)
        sampling = Sampling(arguments.sampling) if arguments.sampling else None
        audits = [(name, audit(log, threshold=arguments.positive_above, sampling=sampling)) for name, log in logs]
        files = write_page(audits, arguments.output)
    except (ValueError, OSError) as error:
        sys.exit("\n".join(f"error: {line}" for line in str(error).splitlines()))
    print("\n\n".join(as_text(name, found) for name, found in audits))
    print(f"\npage: {files[0]} (numbers: {files[1].name})")


def _options(arguments: argparse.Namespace) -> Options:
    names = [name for name, _ in arguments.reward]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"--reward {repeated[0]} is given twice; give each name once, with its weight")
    options = Options(
        rewards=dict(arguments.reward),
        group_size=arguments.group_size,
        limits=Limits(max_bytes=int(arguments.max_gib * GIB)),
    )
    if arguments.tokenizer is None:
        return options
    return Options(options.rewards, options.group_size, tokenizer_of(arguments.tokenizer, options), options.limits)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="ada audit",
        description="Read the rollouts that a trainer has logged, and show where their tokens went: which gave no\n"
        "gradient and why, how hard the prompts are, and what other sampling rules would have cost on them.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("logs", nargs="+", type=Path, metavar="LOG", help="files, or folders that a trainer wrote")
    add("--output", type=_html, default=Path("audit.html"), help="page to write (default: audit.html), and .json")
    add("--format", choices=list(READERS), help="format of the logs (default: recognised by their content)")
    add(
        "--reward",
        action="append",
        type=_weighted,
        default=[],
        metavar="NAME[=WEIGHT]",
        help="a column that is part of the reward, and its weight (default: 1); may be repeated",
    )
    add(
        "--positive-above",
        type=_finite,
        help="rewards above this are right (default: as the log says, else middle of lowest and highest)",
    )
    add("--group-size", type=_whole, help="responses per prompt, for logs that do not mark groups (TRL)")
    add("--tokenizer", type=Path, help="a model's tokenizer.json, for logs without token counts")
    add(
        "--sampling",
        choices=[sampling.value for sampling in Sampling],
        help="uniform: the number of responses did not depend on their rewards; adaptive: it did (default: read from "
        "the log)",
    )
    add("--max-gib", type=_positive, default=4.0, help="largest file to read, in GiB, packed or unpacked (default: 4)")
    return parser.parse_args(argv)


def _html(text: str) -> Path:
    path = Path(text)
    if path.suffix not in (".html", ".htm"):
        raise argparse.ArgumentTypeError(f"{text} must end in .html: the numbers are named after it")
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder; name a file for the page")
    return path


def _weighted(text: str) -> tuple[str, float]:
    name, _, weight = text.partition("=")
    try:
        return name, _finite(weight or "1")
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text} must be NAME or NAME=WEIGHT with a finite number") from None


def _finite(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text} must be a finite number")
    return value


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} must be a whole number of at least 1")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text} must be a number above 0")
    return value


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
    lines += [""] + [f"{title}: {figure} ({meaning})" for title, figure, meaning in facts(audit)]
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
