"""Reinforce-Ada in SkyRL 0.4: a generator around SkyRL's own, an estimator, and a trainer that has both.

    trainer.algorithm.advantage_estimator=ada
    trainer.algorithm.loss_reduction=seq_mean_token_sum_norm
    trainer.algorithm.max_seq_len=LONGEST         generator.sampling_params.max_generate_length
    trainer.policy_mini_batch_size=PROMPTS        trainer.train_batch_size: one update for each rollout
    generator.n_samples_per_prompt=4

Use no dynamic sampling, no filter of groups without variance, no KL loss and no step-wise trajectories.

A prompt is drawn in rounds until its rule wants no more. Its rows are what the rule keeps of it and, up to
``n_samples_per_prompt``, rows of one masked token. SkyRL divides by rows times ``max_seq_len``. So the update is the
sum over all rows of advantage times log-probability, divided by prompts times longest response.

Never run with SkyRL's engines, which need accelerators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from ada_lightning.adapters.pools import Pool, Pools
from ada_lightning.adapters.prompt_steps import PromptSteps

ROWS = (
    "prompt_token_ids",
    "response_ids",
    "rewards",
    "loss_masks",
    "stop_reasons",
    "rollout_logprobs",
    "trajectory_ids",
)
"""Of what a generator returns: one entry for each row."""


class AdaGenerator:
    """Asks a generator for rounds of responses; for ``BasePPOExp.get_generator``.

    Args:
        inner: SkyRL's generator, with rewards of whole responses.
        steps: the method.
        max_tokens: longest response, as ``trainer.algorithm.max_seq_len``.
        eos_token_id: of rows that fill a group.
    """

    def __init__(self, inner: Any, steps: PromptSteps, *, max_tokens: int, eos_token_id: int) -> None:
        self._inner, self._steps, self._max_tokens, self._eos = inner, steps, max_tokens, eos_token_id

    async def generate(self, input_batch: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """Draw a step of training, and an evaluation as ``inner`` does."""
        about = input_batch["batch_metadata"]
        if about.training_phase == "eval":
            found: dict[str, Any] = await self._inner.generate(input_batch, **options)
            return found
        ids = input_batch["trajectory_ids"]
        groups = [list(rows) for _, rows in groupby(range(len(ids)), key=lambda row: ids[row].instance_id)]
        steps = [self._steps.begin(ids[rows[0]].instance_id, step=about.global_step) for rows in groups]
        pools: list[Pool] = [step[0] for step in steps]
        metrics: dict[str, Any] = {}
        prompts: dict[int, list[int]] = {}
        while launched := [(at, index) for at, pool in enumerate(pools) for index in pool.launch(pool.want())]:
            rows = [groups[at][0] for at, _ in launched]
            drawn = await self._inner.generate(_picked(input_batch, rows), **options)
            metrics |= drawn.get("rollout_metrics") or {}
            for row, (at, index) in enumerate(launched):
                prompts[at] = drawn["prompt_token_ids"][row]
                _tell(pools[at], index, {name: drawn[name][row] for name in ROWS if drawn.get(name) is not None})
        output: dict[str, list[Any]] = {name: [] for name in ROWS}
        for at, (rows, step) in enumerate(zip(groups, steps, strict=True)):
            self._add_group(output, step, prompts[at], [ids[row] for row in rows])
        figures = {"ada/responses": float(sum(pool.num_drawn for pool in pools))}
        logprobs = output.pop("rollout_logprobs")
        return {
            **output,
            "rollout_logprobs": logprobs if all(each is not None for each in logprobs) else None,
            "rollout_metrics": metrics | figures,
        }

    def _add_group(self, output: dict[str, list[Any]], step: Pools, prompt_ids: list[int], ids: Sequence[Any]) -> None:
        (pool,) = step
        kept = pool.kept()
        if len(kept) > len(ids):
            raise ValueError(f"a prompt keeps {len(kept)} rows; raise generator.n_samples_per_prompt = {len(ids)}")
        # SkyRL divides by rows, this project by prompts: rows are prompts times group size.
        scale = len(ids) * self._max_tokens / step.denominator(self._max_tokens)
        rows = [{**row.payload, "rewards": row.advantage * scale} for row in kept]
        filler = {"prompt_token_ids": prompt_ids, "response_ids": [self._eos], "rewards": 0.0, "loss_masks": [0]}
        rows += [filler | {"stop_reasons": "stop", "rollout_logprobs": [0.0]} for _ in range(len(ids) - len(rows))]
        for row, trajectory_id in zip(rows, ids, strict=True):
            for name in ROWS:
                output[name].append(trajectory_id if name == "trajectory_ids" else row.get(name))


def _picked(batch: Mapping[str, Any], rows: Sequence[int]) -> dict[str, Any]:
    """Rows of a generator's input, a row as often as it is named."""
    return {name: [value[row] for row in rows] if isinstance(value, list) else value for name, value in batch.items()}


def _tell(pool: Pool, index: int, row: dict[str, Any]) -> None:
    reward = row["rewards"]
    pool.add(
        index,
        float(sum(reward) if isinstance(reward, list) else reward),
        num_tokens=sum(row["loss_masks"]),
        payload=row,
        is_truncated=row.get("stop_reasons") == "length",
        logprobs=row.get("rollout_logprobs") or (),
    )


def advantage_is_the_reward(token_level_rewards: Any, response_mask: Any, **others: Any) -> tuple[Any, Any]:
    """Return each row's reward as the advantage of each of its tokens. Shapes ``(B, T)``."""
    advantages = token_level_rewards.sum(-1, keepdim=True) * response_mask
    return advantages, advantages


def register() -> None:
    """Make ``advantage_estimator=ada`` known, in the process that trains."""
    from skyrl.backends.skyrl_train.utils.ppo_utils import register_advantage_estimator

    register_advantage_estimator("ada")(advantage_is_the_reward)
