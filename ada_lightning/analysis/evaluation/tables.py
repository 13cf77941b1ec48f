"""Results and comparisons as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ada_lightning.analysis.evaluation.intervals import MIN_PROMPTS

Json = Mapping[str, Any]
AVERAGE = "weighted average"
INTERVALS = f"95 % intervals over prompts, none where a set has fewer than {MIN_PROMPTS}"


def results_text(results: Json) -> str:
    """Write ``results.md`` from ``results.json``: one table of the main figures, one for each figure over k."""
    plan, sampling = results["plan"], results["sampling"]
    num_samples = plan["num_samples"]
    lines = [
        f"# {results['name']}",
        "",
        f"Model: `{results['model']}`. {num_samples} responses per prompt, at most {sampling['max_new_tokens']} "
        f"tokens, temperature {sampling['temperature']}, top-p {sampling['top_p']}, top-k {sampling['top_k']}. "
        f"In brackets: {INTERVALS}. {_failures(results)}{_left_out(results)}",
        "",
    ]
    main = [f"{name}_at_{num_samples}" for name in ("avg", "pass", "maj")]
    columns = [*main, "response_tokens", "truncated_ratio"]
    sets = results["sets"]
    sizes = {name: [str(of_set["num_prompts"]), f"{of_set['weight']:g}"] for name, of_set in sets.items()}
    sizes[AVERAGE] = [str(sum(of_set["num_prompts"] for of_set in sets.values())), ""]
    rows = [[name, *sizes[name], *_cells(figures, columns)] for name, figures in figures_of_parts(results)]
    lines += _table(["set", "prompts", "weight", *map(_title, columns)], rows)
    for figure, title in (
        ("pass_at", "pass@k: the chance that one of k responses is right"),
        ("maj_at", "maj@k: a majority vote among k responses, ties broken at random"),
        ("all_correct_at", "Share of groups of n responses that are all correct"),
        ("all_wrong_at", "Share of groups of n responses that are all wrong"),
    ):
        lines += _over_k(results, figure, title, "n" if figure.startswith("all") else "k")
    return "\n".join(lines) + "\n"


def comparison_text(comparison: Json) -> str:
    """Write ``comparison.md`` from ``comparison.json``: a table per figure, and what was not matched."""
    lines = [
        f"# {comparison['second']} against {comparison['first']}",
        "",
        f"Differences on the same prompts, second minus first; in brackets: {INTERVALS}. "
        "p: two-sided sign-flip permutation test.",
        "",
        *_unlike(comparison.get("unlike", {})),
    ]
    parts = dict(comparison["sets"])
    if len(parts) > 1:
        num_prompts = sum(of_set["num_prompts"] for of_set in parts.values())
        parts[AVERAGE] = comparison["average"] | {"num_prompts": num_prompts}
    names = list(dict.fromkeys(name for part in parts.values() for name in part["figures"]))
    for name in names:
        rows = [
            [
                label,
                str(part["num_prompts"]),
                _number(name, figure["first"]),
                _number(name, figure["second"]),
                _estimate(name, figure["difference"], sign="+"),
                f"{figure['p_value']:.2g}",
            ]
            for label, part in parts.items()
            if (figure := part["figures"].get(name))
        ]
        lines += [f"## {_title(name)}", ""]
        lines += _table(["set", "prompts", "first", "second", "difference", "p"], rows)
    return "\n".join([*lines, *_unmatched(comparison["unmatched"])]).rstrip() + "\n"


def powers_of_two(largest: int) -> list[int]:
    """1, 2, 4, ... up to ``largest``, and ``largest`` itself.

    Example:
        >>> powers_of_two(6)
        [1, 2, 4, 6]
    """
    return sorted({1 << power for power in range(largest.bit_length()) if 1 << power <= largest} | {largest})


def figures_of_parts(results: Json) -> Iterator[tuple[str, Json]]:
    """Figures of each set by its name, and of their average where there are several."""
    yield from ((name, of_set["figures"]) for name, of_set in results["sets"].items())
    if len(results["sets"]) > 1:
        yield AVERAGE, results["average"]["figures"]


def _over_k(results: Json, figure: str, title: str, letter: str) -> list[str]:
    columns = [f"{figure}_{k}" for k in powers_of_two(results["plan"]["num_samples"])]
    rows = [[name, *_cells(figures, columns)] for name, figures in figures_of_parts(results) if columns[0] in figures]
    if not rows:
        return []
    heads = [f"{letter}={column.rpartition('_')[2]}" for column in columns]
    return [f"## {title}", "", *_table(["set", *heads], rows)]


def _cells(figures: Json, columns: Sequence[str]) -> list[str]:
    return [_estimate(column, figures[column]) if column in figures else "" for column in columns]


def _estimate(name: str, estimate: Json, sign: str = "") -> str:
    mean = _number(name, estimate["mean"], sign)
    if estimate["low"] is None:
        return f"{mean} [-]"
    return f"{mean} [{_number(name, estimate['low'], sign)}, {_number(name, estimate['high'], sign)}]"


def _number(name: str, value: float, sign: str = "") -> str:
    return f"{value:{sign}.{1 if name == 'response_tokens' else 3}f}"


def _title(name: str) -> str:
    return {"response_tokens": "tokens", "truncated_ratio": "truncated"}.get(name, name.replace("_at_", "@"))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines] + [""]


def _failures(results: Json) -> str:
    failed = {name: of_set["num_failed"] for name, of_set in results["sets"].items() if of_set["num_failed"]}
    if not failed:
        return "Every response was graded."
    counted = "count as wrong" if results["plan"]["grader_failure"] == "as_zero" else "count as wrong or are left out"
    return f"Responses whose grader failed {counted}: {', '.join(f'{n} of {name}' for name, n in failed.items())}."


def _left_out(results: Json) -> str:
    spelt = ", ".join(f"{number} of {name}" for name, number in results["left_out"].items() if number)
    return f" Prompts left out, too long or without an answer that can be graded: {spelt}." if spelt else ""


def _unmatched(unmatched: Json) -> list[str]:
    lines = []
    if unmatched["sets"]:
        lines.append(f"Sets in only one of the two: {', '.join(unmatched['sets'])}.")
    for side in ("first", "second"):
        numbers = unmatched[f"prompts_of_{side}"]
        if numbers:
            spelt = ", ".join(f"{number} of {name}" for name, number in numbers.items())
            lines.append(f"Prompts in the {side} only, not compared: {spelt}.")
    return lines or ["Every prompt was matched."]


def _unlike(settings: Json) -> list[str]:
    spelt = ", ".join(f"{key} {first} and {second}" for key, (first, second) in settings.items())
    return [f"**Not measured alike** (first and second): {spelt}.", ""] if spelt else []
