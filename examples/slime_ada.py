"""Reinforce-Ada in slime, by its path arguments; tested with the samples and the conversion of 624b824 (2026-08-21).

    --rollout-function-path examples.slime_ada.generate_rollout
    --custom-reward-post-process-path examples.slime_ada.advantages
    --custom-pg-loss-reducer-function-path examples.slime_ada.constant_reducer
    --advantage-estimator grpo --n-samples-per-prompt 4
    --global-batch-size ROWS              rollout_batch_size * n_samples_per_prompt: one update for each rollout

Use no dynamic sampling filter, no KL loss and no partial rollout.

A prompt is drawn until its rule wants no more. Its group is what the rule keeps of it and, up to
``n_samples_per_prompt``, removed samples. slime divides by that number of rows, and :func:`constant_reducer` by the
longest response. So the update is the sum over all rows of advantage times log-probability, divided by prompts times
longest response.

Never run with slime's engines, which need accelerators.
"""

from __future__ import annotations

import asyncio
import copy
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ada_lightning.adapters.prompt_steps import PromptSteps

METHOD, OPTIONS = "ada_seq_balance", {"n_max": 16}
MAX_RESPONSE_LEN = int(os.environ.get("ADA_MAX_RESPONSE_LEN", "8192"))
"""Set it to ``--rollout-max-response-len``: slime's reducer is not given the arguments."""
_steps = cache(lambda: PromptSteps(METHOD, **OPTIONS))


def generate_rollout(args: Any, rollout_id: int, data_source: Any, evaluation: bool = False) -> Any:
    """Draw a step: ``--rollout-function-path``."""
    from slime.rollout.base_types import RolloutFnTrainOutput
    from slime.rollout.sglang_rollout import generate_rollout as generate_as_slime_does
    from slime.utils.async_utils import run

    if evaluation:
        return generate_as_slime_does(args, rollout_id, data_source, evaluation=True)
    if args.rollout_max_response_len != MAX_RESPONSE_LEN:
        raise ValueError(
            f"set ADA_MAX_RESPONSE_LEN={args.rollout_max_response_len} in every process; it is {MAX_RESPONSE_LEN}"
        )
    return RolloutFnTrainOutput(samples=run(_draw_all(args, rollout_id, data_source)))


async def _draw_all(args: Any, rollout_id: int, data_source: Any) -> list[list[Any]]:
    groups = data_source.get_samples(args.rollout_batch_size)
    return await asyncio.gather(*(_draw(args, rollout_id, group) for group in groups))


async def _draw(args: Any, rollout_id: int, group: Sequence[Any]) -> list[Any]:
    """Draw one prompt to its end; its samples come back in the order they were begun."""
    from slime.rollout.sglang_rollout import GenerateState, generate_and_rm

    pools = _steps().begin(str(group[0].group_index), step=rollout_id)
    (pool,) = pools
    flying: dict[asyncio.Task[Any], int] = {}
    while not pools.is_complete:
        for index in pool.launch(pool.want()):
            sample = copy.deepcopy(group[0])
            response = generate_and_rm(args, sample, GenerateState(args).sampling_params.copy())
            flying[asyncio.create_task(response)] = index
        done, _ = await asyncio.wait(flying, return_when=asyncio.FIRST_COMPLETED)
        for finished in done:
            sample = finished.result()
            failed = "" if sample.reward is not None else sample.status.value
            pool.add(
                flying.pop(finished),
                None if failed else sample.get_reward_value(args),
                failed=failed,
                num_tokens=sample.response_length,
                payload=sample,
                is_truncated=sample.status is type(sample).Status.TRUNCATED,
            )
    # slime's mean is over rows, this project's over prompts: rows are prompts times group size.
    scale = args.n_samples_per_prompt * MAX_RESPONSE_LEN / pools.denominator(MAX_RESPONSE_LEN)
    rows = [_marked(row.payload, row.advantage * scale) for row in pool.kept()]
    if len(rows) > args.n_samples_per_prompt:
        raise ValueError(f"a prompt keeps {len(rows)} rows; raise --n-samples-per-prompt")
    return _as_group(rows or [_removed(sample)], group)


def _as_group(rows: list[Any], group: Sequence[Any]) -> list[Any]:
    """Fill up, and give every row an index of its own among those that slime has numbered."""
    rows += [_removed(rows[0]) for _ in range(len(group) - len(rows))]
    for row, numbered in zip(rows, group, strict=True):
        row.index = numbered.index
    return rows


def _marked(sample: Any, advantage: float) -> Any:
    sample.metadata = {**(sample.metadata or {}), "raw_reward": sample.reward, "ada_advantage": advantage}
    return sample


def _removed(sample: Any) -> Any:
    filler = _marked(copy.deepcopy(sample), 0.0)
    filler.remove_sample = True
    return filler


def advantages(args: Any, samples: Sequence[Any]) -> tuple[list[float], list[float]]:
    """Return raw rewards, and advantages as rewards: ``--custom-reward-post-process-path``."""
    raw = [float(sample.metadata["raw_reward"] or 0.0) for sample in samples]
    return raw, [sample.metadata["ada_advantage"] for sample in samples]


def constant_reducer(
    total_lengths: list[int], response_lengths: list[int], loss_masks: list[Any], calculate_per_token_loss: bool = False
) -> Callable[[Any], Any]:
    """Sum over tokens by the longest response: ``--custom-pg-loss-reducer-function-path``."""
    if calculate_per_token_loss:
        raise ValueError("--calculate-per-token-loss divides by the tokens of the batch; leave it out")
    lengths = list(response_lengths)
    return lambda loss: (
        sum((part * mask.to(part)).sum() for part, mask in zip(loss.split(lengths), loss_masks, strict=True))
        / MAX_RESPONSE_LEN
    )
