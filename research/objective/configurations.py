"""Twelve common configurations and what they optimise: ``python -m research.objective.configurations``.

Writes ``docs/objective/configurations.json`` and a picture; ``python -m research.benchmarks.tables`` makes the tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ada_lightning.cli.objective import composed_settings
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
CONFIGURATIONS: Mapping[str, tuple[Mapping[str, Any], str, str]] = {
    "TRL, defaults": (
        {"num_generations": 8},
        "`grpo_config.py`, 1.16.0",
        "the loss is dapo, not GRPO's; no KL",
    ),
    "open-r1's demo": (
        {"num_generations": 7, "use_vllm": True, "max_completion_length": 1024},
        "its demo YAML, read by TRL 1.16.0",
        "three keys are gone in TRL 1.16; its unnamed loss is dapo",
    ),
    "TRL, Dr. GRPO": (
        {"num_generations": 8, "loss_type": "dr_grpo", "scale_rewards": "none"},
        "`grpo_config.py`, 1.16.0",
        "nothing: this is the mean pass rate",
    ),
    "TRL, CISPO with default bounds": (
        {"num_generations": 8, "loss_type": "cispo"},
        "`grpo_config.py`, 1.16.0",
        "a fifth of the gradient: ratios are cut at 0.2",
    ),
    "verl, its GRPO example": (
        {"algorithm.adv_estimator": "grpo", _N: 5, _ACTOR + "use_kl_loss": True},
        "`examples/grpo_trainer`, 0.9.1",
        "KL moves groups without a signal, too",
    ),
    "verl, DAPO's recipe": (
        {"algorithm.adv_estimator": "grpo", _N: 16, "algorithm.filter_groups.enable": True},
        "its recipe, read by 0.9.1",
        "filtering changes costs, no weights; 16 responses weigh extremes more than 8",
    ),
    "OpenRLHF, REINFORCE++ baseline": (
        {"algo.advantage.estimator": "reinforce_baseline", "rollout.n_samples_per_prompt": 8},
        "its arguments, 0.11.2",
        "which prompts share a batch matters",
    ),
    "prime-rl, its Wordle example": (
        {"orchestrator.group_size": 16, "orchestrator.batch_size": 512},
        "`examples/basic/wordle/rl.toml`, 559b447",
        "without group_size it is 1, and nothing trains",
    ),
    "SkyRL, defaults": (
        {"trainer.algorithm.advantage_estimator": "grpo"},
        "`train/config/config.py`, 0.3.0",
        "a KL is on; four updates of a rollout, one of them on policy",
    ),
    "NeMo-RL, its 1B recipe": (
        {"grpo.num_generations_per_prompt": 16},
        "`grpo_math_1B.yaml`, 7ea279a",
        "mean and deviation of the others: a lone winner has advantage 1, undivided",
    ),
    "slime, its Qwen3-4B script": (
        {"advantage-estimator": "grpo", "n-samples-per-prompt": 8, "use-kl-loss": True},
        "`scripts/run-qwen3-4B.sh`, 624b824",
        "each response divided by its length; a KL of coefficient 0",
    ),
    "ours, `ada_seq_balance`": (
        composed_settings(["+experiment=ada_seq_balance"]),
        "`+experiment=ada_seq_balance`",
        "log p on purpose: hard prompts weigh more, and draw more responses",
    ),
}
"""Settings, where they stand, and what surprises."""


def main() -> None:
    """Compute and write."""
    rows = []
    for name, (settings, source, surprise) in CONFIGURATIONS.items():
        card = objective_card(settings, name=name)
        rows.append(
            {
                "name": name,
                "trainer": f"{card.trainer.name} {card.trainer.version}",
                "evidence": card.trainer.evidence.name,
                "settings": {} if card.trainer.name == "ada" else dict(settings),
                "source": source,
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
    heads = [
        "configuration",
        *(f"p = {rate:g}" for rate in PASS_RATES),
        "at p = 0.5",
        "nearest",
        "source",
        "what surprises",
    ]
    lines = [
        [
            row["name"],
            *map(digits, row["weights"]),
            digits(row["at_half"]),
            row["nearest"] + ("" if row["off"] < 1.0005 else f", off by {digits(row['off'])}"),
            row["source"],
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
