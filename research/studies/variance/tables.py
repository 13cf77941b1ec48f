"""The tables of ``docs/studies/gradient_variance.md``, from the study's JSON files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from research.benchmarks.report import markdown
from research.studies.variance.chosen import BASE, HISTORY_SHOWN, LENGTHS_SHOWN, MIX_NAMES, SHOWN, load
from research.studies.variance.exact import LENGTHS, by_name


def bounds() -> str:
    """Return the least costs of each mix, over that of GRPO with n = 8."""
    found = load("exact")
    base = by_name(found)[BASE]["by_mix"]
    rows = []
    for name, least in found["bounds"].items():
        generated, trained = base[name]["generated_cost"], base[name]["trained_cost"]
        parts = [least[key] / generated for key in ("known_p", "neyman", "best 0.5", "best 0.25", "best 0.1")]
        rows.append([name, f"{generated:.2f}", *(f"{part:.2f}" for part in parts), f"{least['trained'] / trained:.2f}"])
    head = [
        "pass rates",
        "GRPO, n = 8",
        "p known, all alike",
        "Neyman",
        "best half",
        "best quarter",
        "best tenth",
        "rarer class, per trained response",
    ]
    return markdown(head, rows)


def rules() -> str:
    """Return the costs of the rules without a memory."""
    found = load("exact")
    known = by_name(found)
    return _costs({label: known[name]["by_mix"] for name, label in SHOWN.items()}, known[BASE]["by_mix"])


def history() -> str:
    """Return the costs of the rules that know one visit."""
    found = load("exact")
    return _costs(
        {label: found["history"][name] for name, label in HISTORY_SHOWN.items()}, by_name(found)[BASE]["by_mix"]
    )


def by_rate() -> str:
    """Return variance times responses over the prompt's own bound: generated, in brackets trained."""
    found = load("exact")
    known, rates = by_name(found), found["pass_rates"]
    shown = [rates.index(rate) for rate in (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)]
    rows = []
    for name, label in SHOWN.items():
        figures = known[name]["by_rate"]
        cells = [
            f"{figures['generated_over_bound'][place]:.2f} ({figures['trained_over_bound'][place]:.2f})"
            for place in shown
        ]
        rows.append([label, *cells])
    return markdown(["rule", *(f"p = {rates[place]:g}" for place in shown)], rows)


def lengths() -> str:
    """Return generated costs over GRPO's, by the length of Delta beside a score."""
    found = load("exact")
    rules = {name: row["by_mix"] for name, row in by_name(found).items()} | dict(found["history"])
    rows = []
    for name, label in LENGTHS_SHOWN.items():
        cells = []
        for mix in ("step 400", "wide"):
            own, base = rules[name][mix], rules[BASE][mix]
            pairs = [
                (own["generated_cost"], base["generated_cost"]),
                *zip(own["at_lengths"], base["at_lengths"], strict=True),
            ]
            cells += [f"{cost / of_base:.2f}" for cost, of_base in pairs]
        rows.append([label, *cells])
    head = ["rule", *(f"{mix}: {length:g}" for mix in ("step 400", "wide") for length in (0, *LENGTHS))]
    return markdown(head, rows)


def sizes() -> str:
    """Return quotas, blocks and largest numbers of Seq-balance: generated cost, in brackets trained cost."""
    found = load("exact")
    known = by_name(found)
    base = known[BASE]["by_mix"]
    samplers = [name for name in dict.fromkeys(row["sampler"] for row in found["rules"]) if "Seq-balance" in name]
    rows = []
    for sampler in samplers:
        groups = [row for row in found["rules"] if row["sampler"] == sampler]
        small = next(row["kept"] for row in groups if "+" in row["kept"])
        cells = []
        for kept, estimator in (
            (small, "official"),
            (small, "exact log p"),
            ("all", "exact log p"),
            ("all", "exact p"),
        ):
            by_mix = known[f"{sampler} / {kept} / {estimator}"]["by_mix"]
            cells += [_pair(by_mix[mix], base[mix]) for mix in ("step 400", "wide")]
        rows.append([sampler.removeprefix("Seq-balance "), *cells])
    kinds = ("half and half, official", "half and half, exact log p", "all, exact log p", "all, exact p")
    return markdown(["Seq-balance", *(f"{kind}: {mix}" for kind in kinds for mix in ("step 400", "wide"))], rows)


def _costs(figures: Mapping[str, Any], base: Mapping[str, Any]) -> str:
    rows = [
        [label, *(cell for mix in MIX_NAMES for cell in _cells(by_mix[mix], base[mix]))]
        for label, by_mix in figures.items()
    ]
    kinds = ("generated", "trained")
    return markdown(["rule", *(f"{mix}: {kind}" for mix in MIX_NAMES for kind in kinds)], rows)


def _cells(own: Mapping[str, float], base: Mapping[str, float]) -> Iterator[str]:
    for kind in ("generated", "trained"):
        cost = own[f"{kind}_cost"] / base[f"{kind}_cost"]
        yield f"{cost:.2f} ({own[f'{kind}_over_bound']:.2f})"


def _pair(own: Mapping[str, float], base: Mapping[str, float]) -> str:
    generated, trained = (own[f"{kind}_cost"] / base[f"{kind}_cost"] for kind in ("generated", "trained"))
    return f"{generated:.2f} ({trained:.2f})"


def scores() -> str:
    """Return how the scores of each checkpoint compare with unit ones, by third of the prompts."""
    rows = []
    for checkpoint, figures in _measured().items():
        for third, row in figures["scores"].items():
            rows.append(
                [
                    checkpoint,
                    third,
                    f"{row['pass_rate']:.2f}",
                    f"{row['positive_tokens']:.0f}, {row['negative_tokens']:.0f}",
                    f"{row['mean_square']:,.0f}",
                    _within(row["square_ratio"]),
                    _within(row["delta_share"]),
                ]
            )
    head = [
        "checkpoint",
        "prompts",
        "pass rate",
        "tokens, right and wrong",
        "mean square",
        "right over wrong",
        "length of Delta",
    ]
    return markdown(head, rows)


def alignments() -> str:
    """Return the cosines between gradients of different prompts."""
    found = _measured()
    kinds = list(next(iter(found.values()))["alignment"])
    return markdown(
        ["gradients of different prompts", *found],
        [[kind, *(_within(figures["alignment"][kind]) for figures in found.values())] for kind in kinds],
    )


def on_model() -> str:
    """Return the costs of the rules with each checkpoint's own moments, in tokens, beside those of unit scores."""
    found = _measured()
    labels = SHOWN | HISTORY_SHOWN
    rows = []
    for name in next(iter(found.values()))["rules"]:
        cells = []
        for figures in found.values():
            row = figures["rules"][name]
            for kind in ("generated", "trained"):
                cells += [_within(row[kind]), f"{row[f'unit_{kind}']:.2f}"]
        rows.append([labels[name], *cells])
    head = [
        f"{checkpoint}: {part}"
        for checkpoint in found
        for part in ("generated", "unit scores", "trained", "unit scores")
    ]
    return markdown(["rule", *head], rows)


def noise_scales() -> str:
    """Return what the prompts' gradients have in common under GRPO with n = 8, and the noise scale that follows."""
    rows = []
    for checkpoint, figures in _measured().items():
        scale = figures["noise_scale"]
        share, _, most = scale["share"]
        per_prompt = scale["generated"][0] / scale["prompts"][0]
        least = 1.0 / most - 1.0
        rows.append(
            [
                checkpoint,
                f"{figures['never']:.0%}, {figures['always']:.0%}",
                _within(scale["share"], "{:.4f}"),
                f"{scale['prompts'][0]:,.0f}" if share > 0 else "",
                f"{least:,.0f}",
                f"{least * per_prompt:,.0f}",
            ]
        )
    head = [
        "checkpoint",
        "never, always right in 16",
        "common to all prompts",
        "noise scale, prompts",
        "at least",
        "at least, in generated tokens",
    ]
    return markdown(head, rows)


def _measured() -> dict[str, Any]:
    found: dict[str, Any] = load("measured")["checkpoints"]
    return found


def _within(interval: Sequence[float], form: str = "{:.2f}") -> str:
    value, low, high = (form.format(number) for number in interval)
    return f"{value} ({low} to {high})"


TABLES: dict[str, Callable[[], str]] = {
    "variance_bounds": bounds,
    "variance_rules": rules,
    "variance_history": history,
    "variance_by_rate": by_rate,
    "variance_lengths": lengths,
    "variance_sizes": sizes,
    "variance_scores": scores,
    "variance_alignment": alignments,
    "variance_on_model": on_model,
    "variance_noise_scale": noise_scales,
}
