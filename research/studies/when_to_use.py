"""When does adaptive sampling pay? The picture of ``docs/when_to_use.md``: ``python -m research.studies.when_to_use``.

Nothing is sampled here: the variance study's committed figures (``docs/studies/gradient_variance/``) say what a rule
spends, generated and trained, for a gradient of the same signal to noise. The cost ratio, what training a token costs
in generated ones, adds the two up. Writes ``docs/when_to_use.png``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from research import plotting
from research.benchmarks.report import DOCS, markdown
from research.studies.variance.files import load

PICTURE = DOCS / "when_to_use.png"
GRPO = ("GRPO, n = 4", "GRPO, n = 8", "GRPO, n = 16")
SHOWN = {
    "Seq-balance, 2+2 kept, official": "ada_seq_balance advantage=official",
    "Seq-pos, 2+2 kept, official": "ada_seq_pos advantage=official",
    "screen 4, then 20, RLOO (SPEED)": "speed_rl",
    "VIP": "vip",
    "4 responses, baseline from history and the others": "ada curriculum=uniform",
    "best quarter by history, 4 responses": "ada",
}
"""What to run, by the rule of the variance study that it follows.

History is idealised there: one earlier visit of 8 responses to every candidate, at the same policy, paid by nobody, and
the best quarter of them; ``ada`` remembers its own few responses and draws by them."""
RATIOS = (0.1, 1.0, 10.0)
"""Cost ratios of the table."""
_GRID = np.geomspace(0.05, 20, 61)
_COLORS = ("#c8553d", "#ef9b20", "#7a5195", "#6b8f3a", "#1f6f8b", "#1f6f8b")
_DASHED = "ada curriculum=uniform"


@dataclass(frozen=True)
class Case:
    """Prompts and a policy."""

    name: str
    spent: Mapping[str, tuple[float, float]]
    """By rule: generated and trained, in one unit, for the same signal to noise."""

    def cost(self, rule: str, ratio: float) -> float:
        """Return what a rule spends over what the cheapest group size of GRPO does at that cost ratio."""
        return self._total(rule, ratio) / min(self._total(name, ratio) for name in GRPO)

    def _total(self, rule: str, ratio: float) -> float:
        generated, trained = self.spent[rule]
        return generated + ratio * trained


def cases() -> list[Case]:
    """Return distributions of pass rates with scores of unit norm, then the default model with its own gradients."""
    rules, names = load("exact")["rules"], (*GRPO, *SHOWN)
    found = [
        Case(title, {name: (rules[name][key]["generated_cost"], rules[name][key]["trained_cost"]) for name in names})
        for key, title in (("step 50", "low and alike"), ("step 400", "as in Reinforce-Ada"), ("wide", "wide"))
    ]
    for checkpoint, figures in load("measured")["checkpoints"].items():
        share = figures["trained_over_generated"]
        costs = figures["rules"]
        title = "SmolLM2, untrained" if checkpoint == "base" else "SmolLM2, after 30 steps"
        # costs are over those of GRPO with n = 8, which trains that share of what it generates
        spent = {name: (costs[name]["generated"][0], share * costs[name]["trained"][0]) for name in names}
        found.append(Case(title, spent))
    return found


def draw(shown: Sequence[Case], path: Path = PICTURE) -> None:
    """Draw cost against the cost ratio, a panel for each case."""
    figure, panels = plotting.panels(1, len(shown), figsize=(2.9 * len(shown), 4.3), sharey=True)
    for axes, case in zip(panels, shown, strict=True):
        for (rule, label), color in zip(SHOWN.items(), _COLORS, strict=True):
            costs = [case.cost(rule, ratio) for ratio in _GRID]
            style = "--" if label == _DASHED else "-"
            axes.plot(_GRID, costs, color=color, linestyle=style, linewidth=2.2, label=label)
        axes.axhline(1.0, color="black", linewidth=1)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
        ticks = [0.25, 0.5, 1, 2, 4]
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.grid(alpha=0.25)
        axes.set_title(case.name, fontsize=11)
    panels[0].set_ylabel("cost over that of the best GRPO")
    label = "cost ratio: what training a token (a response, in the first three) costs in generated ones"
    figure.supxlabel(label, fontsize=10)
    figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, ncol=6, loc="outside upper center", fontsize=9)
    plotting.save(figure, path, 110)


def pays(case: Case, rule: str) -> str:
    """Return the cost ratios at which a rule costs less than the best GRPO, in words; from 0.01 to 1,000."""
    ratios = np.geomspace(0.01, 1000, 5001)
    below = np.array([case.cost(rule, ratio) < 1 for ratio in ratios])
    changes = np.flatnonzero(below[1:] != below[:-1])
    if len(changes) == 0:
        return "always" if below[0] else "never"
    bounds = [f"{ratios[change]:.2g}" for change in changes]
    starts = ("below " if below[0] else "above ") + bounds[0]
    return starts if len(changes) == 1 else f"{starts} to {bounds[1]}"


def table() -> str:
    """Return the costs at some cost ratios."""
    rows = [
        [case.name, f"`{label}`", *(f"{case.cost(rule, ratio):.2f}" for ratio in RATIOS), pays(case, rule)]
        for case in cases()
        for rule, label in SHOWN.items()
    ]
    ratios = (f"ratio {ratio:g}" for ratio in RATIOS)
    return markdown(["prompts and policy", "experiment", *ratios, "pays at ratios"], rows)


if __name__ == "__main__":
    draw(cases())
