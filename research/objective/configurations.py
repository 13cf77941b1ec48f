"""Twelve common configurations and what they optimise: ``python -m research.objective.configurations``.

Writes ``docs/objective/configurations.json`` and a picture; ``python -m research.benchmarks.tables`` makes the tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ada_lightning.objective import objective_card
from ada_lightning.objective.page import draw_weights
from ada_lightning.objective.sentences import digits
from ada_lightning.objective.weights import PASS_RATES
from ada_lightning.run.files import write_text
from research.benchmarks.report import DOCS, markdown
from research.objective.check import CHECKED

RESULTS = DOCS / "objective" / "configurations.json"
PICTURE = DOCS / "objective" / "weights.png"
DRAWN = ("TRL, Dr. GRPO", "TRL, defaults", "verl, DAPO's recipe")
_ACTOR, _N = "actor_rollout_ref.actor.", "actor_rollout_ref.rollout.n"
CONFIGURATIONS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "TRL, defaults": (
        {"num_generations": 8},
        "the loss is dapo, not GRPO's; no KL",
    ),
    "TRL, GRPO's formula": (
        {"num_generations": 8, "loss_type": "grpo", "beta": 0.04},
        "long wrong responses are pushed down less per token",
    ),
    "open-r1's demo, with TRL 1.16": (
        {"num_generations": 7, "use_vllm": True, "max_completion_length": 1024},
        "three keys are gone in TRL 1.16; its unnamed loss is dapo",
    ),
    "TRL, Dr. GRPO": (
        {"num_generations": 8, "loss_type": "dr_grpo", "scale_rewards": "none"},
        "nothing: this is the mean pass rate",
    ),
    "TRL, scale by batch": (
        {"num_generations": 8, "scale_rewards": "batch"},
        "the mean is still the group's; only large batches weigh prompts alike",
    ),
    "TRL, GSPO": (
        {"num_generations": 8, "loss_type": "grpo", "importance_sampling_level": "sequence"},
        "on policy it is GRPO",
    ),
    "TRL, CISPO with default bounds": (
        {"num_generations": 8, "loss_type": "cispo"},
        "a fifth of the gradient: ratios are cut at 0.2",
    ),
    "verl, its GRPO example": (
        {"algorithm.adv_estimator": "grpo", _N: 5, _ACTOR + "use_kl_loss": True},
        "KL moves groups without a signal, too",
    ),
    "verl, DAPO's recipe": (
        {"algorithm.adv_estimator": "grpo", _N: 16, "algorithm.filter_groups.enable": True},
        "filtering changes costs, no weights; 16 responses weigh extremes more than 8",
    ),
    "verl, RLOO": (
        {"algorithm.adv_estimator": "rloo", _N: 8},
        "weights of the mean pass rate; a group of one trains on its raw reward",
    ),
    "verl, REINFORCE++ with baseline": (
        {"algorithm.adv_estimator": "reinforce_plus_plus_baseline", _N: 8},
        "which prompts share a batch matters",
    ),
    "verl, pass@k": (
        {"algorithm.adv_estimator": "grpo_passk", _N: 8},
        "only groups with exactly one right response train",
    ),
}
"""Settings, and what surprises."""


def main() -> None:
    """Compute and write."""
    rows = []
    for name, (settings, surprise) in CONFIGURATIONS.items():
        card = objective_card(settings, name=name)
        rows.append(
            {
                "name": name,
                "settings": dict(settings),
                "weights": card.weights,
                "weights_beside": card.weights_beside,
                "at_half": card.weight_at_half,
                "nearest": card.nearest[0].name,
                "off": card.nearest[0].off,
                "surprise": surprise,
            }
        )
    drawn = [objective_card(CONFIGURATIONS[name][0], name=name) for name in DRAWN]
    if drawing := draw_weights(drawn, names=True):
        PICTURE.write_bytes(drawing.png)
    write_text(RESULTS, json.dumps({"rows": rows}, indent=1) + "\n")


def table() -> str:
    """Return Markdown of weights by configuration."""
    rows = json.loads(RESULTS.read_text())["rows"]
    heads = ["configuration", *(f"p = {rate:g}" for rate in PASS_RATES), "at p = 0.5", "nearest", "what surprises"]
    lines = [
        [
            row["name"],
            *map(digits, row["weights"]),
            digits(row["at_half"]),
            row["nearest"] + ("" if row["off"] < 1.0005 else f", off by {digits(row['off'])}"),
            row["surprise"],
        ]
        for row in rows
    ]
    return markdown(heads, lines)


def checked() -> str:
    """Return Markdown of what was held against the trainers' own functions."""
    found = json.loads(CHECKED.read_text())
    lines = [
        [
            f"`{each['package']}`",
            str(len(each["combinations"])),
            str(each["batches"]),
            f"{max(max(row['tokens'], row['weights'], row['special']) for row in each['combinations']):.0e}",
        ]
        for each in found.values()
    ]
    return markdown(["package", "combinations", "batches of each", "largest relative error"], lines)


TABLES = {"objective_configurations": table, "objective_checked": checked}

if __name__ == "__main__":
    main()
