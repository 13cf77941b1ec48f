"""trl-cgrpo's own trainer, asked for batches of groups: which responses it draws, and what trains of them.

Its methods run as they are. The base class is replaced where it would ask a model: responses are scripted, and rewards
given. Advantages and losses are TRL's own code (``trl.py``).
"""

from __future__ import annotations

import collections
import dataclasses
import inspect
import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ada_lightning.objective.batch import Group
from ada_lightning.objective.readers.trl import SCALES
from ada_lightning.objective.readers.trl_cgrpo import LOSS_TYPES, SCORES, drawn
from research.objective import trl
from research.objective.check import Combination
from research.objective.rows import WIDTH, one_a_row, rewards_of, split

SIZE = 3
ONE = (SIZE,)
RULES: Sequence[tuple[str, tuple[int, ...], tuple[float, ...]]] = (
    *((score, (2, 3), thresholds) for score in SCORES for thresholds in ((1.0, 1.0), (0.5, 0.5))),
    *((score, (1, 2, 3), (1.0, 0.5, 1.0)) for score in SCORES if score != "aps"),
    *((score, (1, 2, 3), (0.5, 1.0, 1.0)) for score in SCORES if score != "aps"),
    ("aps", ONE, (1.0,)),
)
"""Score, budgets and thresholds. With ``aps`` and a budget of 1 nothing trains."""
SUMMED = "sum_then_normalize"


def combinations() -> list[Combination]:
    """Every score with budgets, thresholds and every scale; every loss, with and without a level."""
    first = RULES[2]
    return [
        *(_combination(rule, scale) for rule in RULES for scale in SCALES),
        *(_combination(rule, "group", aggregation="normalize_then_sum") for rule in RULES),
        *(
            _combination(first, "group", loss_type=loss_type, delta=delta)
            for loss_type, delta in itertools.product(LOSS_TYPES, (None, 0.1, 0.9))
        ),
    ]


def _combination(
    rule: tuple[str, tuple[int, ...], tuple[float, ...]],
    scale: str,
    *,
    aggregation: str = SUMMED,
    loss_type: str = "dapo",
    delta: float | None = None,
) -> Combination:
    score, grid, thresholds = rule
    settings: dict[str, Any] = {
        "score": score,
        "budget_grid": list(grid),
        "scale_rewards": scale,
        "multi_objective_aggregation": aggregation,
        "loss_type": loss_type,
        "delta": delta,
    }
    settings |= {"qhats": list(thresholds)} if grid != ONE else {}
    real = Functions(score, grid, thresholds, delta, trl.Functions(loss_type, scale, aggregation))
    return Combination(
        settings, real, lambda rewards: drawn(score, grid, thresholds, [reward == 1 for reward in rewards])
    )


def options() -> Mapping[str, Any]:
    """Return every field of ``CGRPOConfig`` and every argument of ``CGRPOTrainer`` with its default."""
    from trl_cgrpo import CGRPOConfig, CGRPOTrainer

    fields = {
        field.name: field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        for field in dataclasses.fields(CGRPOConfig)
    }
    arguments = [name for name in inspect.signature(CGRPOTrainer.__init__).parameters if name not in ("self", "kwargs")]
    return dict.fromkeys((*arguments, "qhats")) | fields  # qhats: what the trainer keeps and logs


@dataclass(frozen=True)
class Functions:
    """The code behind one combination."""

    score: str
    grid: tuple[int, ...]
    thresholds: tuple[float, ...]
    delta: float | None
    base: trl.Functions

    def drawn(self, rewards: Sequence[float]) -> int:
        """Return how many of these responses are drawn."""
        output = self._output([Group(tuple(rewards))])
        return int((output["completion_mask"].sum(1) > 0).sum())

    def advantages(self, groups: Sequence[Group]) -> list[list[float]]:
        """Return the advantage of each response; 0 where the loss gives it no gradient."""
        wide = [Group((*group.rewards, *[0.0] * (SIZE - len(group.rewards)))) for group in groups]
        output = self._output(wide)
        values = output["advantages"]
        if self.delta is not None:
            values = values * (self._gradient(output).abs().sum(1) > 0)
        rows = split(values.tolist(), wide)
        return [row[: len(group.rewards)] for row, group in zip(rows, groups, strict=True)]

    def factors(self, groups: Sequence[Group]) -> list[list[float]]:
        """Return minus the gradient of the real loss by the log-probability of each token."""
        output = self._output(groups)
        return split(one_a_row(self._gradient(output), output["completion_mask"]), groups)

    def rounding(self, group: Group) -> float:
        """Return the largest advantage in float32."""
        return self.base.rounding(group)

    def _gradient(self, output: Mapping[str, Any]) -> Any:
        return self.base.gradient(
            output["advantages"], output["completion_mask"], output["num_items_in_batch"], delta=self.delta
        )

    def _output(self, groups: Sequence[Group]) -> dict[str, Any]:
        """Let the real trainer generate, grade and mask a batch."""
        import torch
        from trl import GRPOTrainer
        from trl_cgrpo import CGRPOTrainer

        rewards = rewards_of(groups, torch.float64)
        lengths = [int(count) for group in groups for count in group.token_counts]
        asked = [0] * len(groups)

        def generate(self: Any, prompt_ids: Any, *more: Any, **named: Any) -> tuple[list[list[int]], None]:
            found = []
            for (number,) in prompt_ids:
                row = number * SIZE + asked[number]
                asked[number] += 1
                found.append([int(rewards[row] == 1)] * lengths[row])
            return found, None

        def score(self: Any, inputs: Any) -> dict[str, Any]:
            ids, _ = self._generate_single_turn([[row // SIZE] for row in range(len(rewards))], None, {}, SIZE, False)
            found = self._calculate_rewards(inputs, None, None, ids)
            mask = torch.zeros(len(ids), WIDTH, dtype=torch.float64)
            for row, tokens in zip(mask, ids, strict=True):
                row[: len(tokens)] = 1.0
            advantages = base.scaled(found, SIZE)
            return {"completion_mask": mask, "advantages": advantages, "num_items_in_batch": mask.sum()}

        base = self.base
        trl.advantage_code()  # read of the method that is replaced next
        scripted: Any = {
            "_generate_single_turn": generate,
            "_calculate_rewards": lambda self, *more: rewards[:, None].clone(),
            "_generate_and_score_completions": score,
        }
        with mock.patch.multiple(GRPOTrainer, **scripted):
            output: dict[str, Any] = self._trainer(CGRPOTrainer)._generate_and_score_completions(
                [{"prompt": str(row)} for row in range(len(rewards))]
            )
        return output

    def _trainer(self, kind: Any) -> Any:
        """A trainer that was not initialised, with what its methods read."""
        trainer = object.__new__(kind)
        trainer.args = SimpleNamespace(score=self.score, recalibrate_every=0)
        trainer.model = SimpleNamespace(training=True)
        trainer.use_vllm = False
        trainer.num_generations = SIZE
        trainer.budget_grid = sorted(self.grid)
        trainer.qhats = dict(zip(self.grid, self.thresholds, strict=True))
        trainer._rng = random.Random(0)
        trainer._tokenizer = SimpleNamespace(
            batch_decode=lambda ids, **options: ["ny"[tokens[0]] for tokens in ids], eos_token_id=0, pad_token_id=0
        )
        trainer.answer_extractor = str
        trainer.verifier = lambda completions, **columns: [text == "y" for text in completions]
        trainer._metrics = {"train": collections.defaultdict(list)}
        return trainer
