"""TRL's own code for advantages, and its loss, asked for batches of groups.

Advantages are made inside of a long method. So the statements that make them are taken out of its syntax tree, and run
with a stand-in for the trainer; nothing of them is written down here.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import functools
import inspect
import itertools
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from ada_lightning.objective.batch import Group
from ada_lightning.objective.readers.trl import LOSS_TYPES, SCALES
from research.objective.check import Combination
from research.objective.rows import WIDTH, mask_of, one_a_row, rewards_of, split

SIZE = 3


def combinations() -> list[Combination]:
    """Every loss with every scale, and with masked truncated responses; and the sum of normalised rewards."""
    scaled = itertools.product(LOSS_TYPES, SCALES, ("sum_then_normalize",))
    summed = itertools.product(LOSS_TYPES, ("group",), ("normalize_then_sum",))
    return [_combination(*each) for each in itertools.chain(scaled, summed)]


def _combination(loss_type: str, scale: str, aggregation: str) -> Combination:
    settings = {
        "num_generations": SIZE,
        "loss_type": loss_type,
        "scale_rewards": scale,
        "multi_objective_aggregation": aggregation,
    }
    return Combination(settings, Functions(loss_type, scale, aggregation))


def options() -> Mapping[str, Any]:
    """Return every field that the command ``trl grpo`` reads, with its default."""
    import trl
    from trl.scripts.grpo import GRPOScriptArguments
    from trl.scripts.utils import DatasetMixtureConfig

    classes = (trl.GRPOConfig, GRPOScriptArguments, trl.ModelConfig, DatasetMixtureConfig)
    return {field.name: field.default for kind in classes for field in dataclasses.fields(kind)} | dict.fromkeys(
        ("config", "env")
    )


@functools.cache
def _advantage_code() -> Any:
    """The statements from ``unscorable_mask = ...`` to the line that sets NaN to 0, compiled."""
    from trl import GRPOTrainer

    source = textwrap.dedent(inspect.getsource(GRPOTrainer._generate_and_score_completions))
    body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
    names = [ast.unparse(statement.targets[0]) if isinstance(statement, ast.Assign) else "" for statement in body]
    first = names.index("unscorable_mask")
    return compile(ast.Module(body[first : first + 3], []), "grpo_trainer.py", "exec")


@dataclass(frozen=True)
class Functions:
    """The code behind one combination."""

    loss_type: str
    scale: str
    aggregation: str

    def advantages(self, groups: Sequence[Group]) -> list[list[float]]:
        """Return the advantage of each response; groups of one size."""
        import torch

        return split(self._advantages(groups, torch.float64).tolist(), groups)

    def factors(self, groups: Sequence[Group]) -> list[list[float]]:
        """Return minus the gradient of the real loss by the log-probability of each token."""
        import torch
        from trl import GRPOTrainer

        adv = self._advantages(groups, torch.float64)
        mask = mask_of(groups, torch.float64)
        logprobs = torch.zeros(len(adv), WIDTH, dtype=torch.float64, requires_grad=True)
        ids = torch.zeros(len(adv), WIDTH, dtype=torch.long)
        inputs = {
            "prompt_ids": ids[:, :1],
            "prompt_mask": torch.ones_like(ids[:, :1]),
            "completion_ids": ids,
            "completion_mask": mask,
            "advantages": adv,
            "num_items_in_batch": mask.sum(),
        }
        loss = GRPOTrainer._compute_loss(self._trainer(logprobs), None, inputs)
        loss.backward()
        return split(one_a_row(logprobs.grad, mask), groups)

    def rounding(self, group: Group) -> float:
        """Return the largest advantage in float32."""
        import torch

        if self.scale == "batch" or self.aggregation == "normalize_then_sum":
            return 0.0
        return float(self._advantages([group], torch.float32).abs().max())

    def _advantages(self, groups: Sequence[Group], dtype: Any) -> Any:
        import torch
        from trl.trainer.utils import nanstd

        trainer = SimpleNamespace(
            multi_objective_aggregation=self.aggregation,
            scale_rewards=self.scale,
            reward_weights=torch.ones(1, dtype=dtype),
            reward_funcs=[None],
        )
        space = {
            "torch": torch,
            "nanstd": nanstd,
            "self": trainer,
            "rewards_per_func": rewards_of(groups, dtype)[:, None],
            "num_generations": len(groups[0].rewards),
            "device": "cpu",
        }
        exec(_advantage_code(), space)
        return space["advantages"]

    def _trainer(self, logprobs: Any) -> Any:
        """A stand-in with what the loss reads of a trainer."""
        import torch
        from trl import GRPOTrainer

        arguments = SimpleNamespace(
            delta=None,
            steps_per_generation=1,
            use_bias_correction_kl=True,
            sapo_temperature_pos=1.0,
            sapo_temperature_neg=1.05,
            vespo_k_pos=2.0,
            vespo_lambda_pos=3.0,
            vespo_k_neg=3.0,
            vespo_lambda_neg=2.0,
        )
        accelerator = SimpleNamespace(
            num_processes=1,
            sync_gradients=True,
            gather=lambda x: x,
            gather_for_metrics=lambda x: x,
            reduce=lambda x, **options: x,
        )
        return SimpleNamespace(
            _get_per_token_logps_and_entropies=lambda *a, **k: (logprobs, torch.ones_like(logprobs), None),
            aux_loss_enabled=False,
            top_entropy_quantile=1.0,
            off_policy_mask_threshold=None,
            beta=0.0,
            importance_sampling_level="token",
            loss_type=self.loss_type,
            epsilon_low=0.2,
            epsilon_high=0.2,
            args=arguments,
            use_vllm=False,
            vllm_importance_sampling_correction=False,
            model=SimpleNamespace(training=True),
            current_gradient_accumulation_steps=1,
            max_completion_length=WIDTH,
            _entropy_bonus_enabled=False,
            accelerator=accelerator,
            _metrics={"train": collections.defaultdict(list)},
            get_gamma_weights=GRPOTrainer.get_gamma_weights,
        )
