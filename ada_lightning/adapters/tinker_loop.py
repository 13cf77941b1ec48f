"""A training loop on Tinker's public client. Any prompt goes on as soon as its own responses are there.

Tinker's loss ``importance_sampling`` is the sum over tokens of ratio times advantage. So it needs only a row's
advantage over the core's denominator. The update is exact if the weights that sample are those that train, up to the
ratio between the two. Tested with the types of tinker 0.38 against a service in this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ada_lightning.adapters.core import Core
from ada_lightning.adapters.pools import Pool, Pools
from ada_lightning.adapters.tested import check_version

check_version("tinker", (0, 38), (0, 39))

from tinker import types  # noqa: E402 - after the check, whose message is the better one

Grade = Callable[[str, Sequence[int]], float]
"""``(prompt id, completion ids) -> reward``."""


async def train(
    core: Core,
    training: Any,
    prompts: Mapping[str, Sequence[int]],
    grade: Grade,
    *,
    num_steps: int,
    num_prompts: int,
    max_tokens: int,
    adam: Any,
) -> None:
    """Train so many steps.

    Args:
        core: of the prompts' ids.
        training: a ``tinker.TrainingClient``.
        prompts: token ids by prompt id.
        grade: rewards responses.
        num_steps: optimiser steps, a rollout each.
        num_prompts: of a step.
        max_tokens: longest response.
        adam: ``tinker.types.AdamParams``.
    """
    for _ in range(num_steps):
        sampler = await training.save_weights_and_get_sampling_client()
        pools = core.choose(num_prompts)
        await draw(pools, sampler, prompts, grade, max_tokens=max_tokens)
        data = [
            datum(prompts[pool.prompt_id], row, core.denominator(max_tokens)) for pool in pools for row in pool.kept()
        ]
        if data:  # of a step without a signal there is nothing to learn
            gradient = training.forward_backward(data, "importance_sampling")
            step = training.optim_step(adam)
            await gradient
            await step
        core.tell(pools)


async def draw(
    pools: Pools, sampler: Any, prompts: Mapping[str, Sequence[int]], grade: Grade, *, max_tokens: int
) -> None:
    """Draw a step to its end; one request for each response, with a seed of its own."""
    flying: dict[asyncio.Future[Any], tuple[Pool, int]] = {}
    while not pools.is_complete:
        for pool in pools:
            for index in pool.launch(pool.want()):
                request = _sample(sampler, prompts[pool.prompt_id], pool.seed(index), max_tokens)
                flying[asyncio.ensure_future(request)] = pool, index
        done, _ = await asyncio.wait(flying, return_when=asyncio.FIRST_COMPLETED)
        for finished in done:
            pool, index = flying.pop(finished)
            sequence = finished.result().sequences[0]
            pool.add(
                index,
                grade(pool.prompt_id, sequence.tokens),
                num_tokens=len(sequence.tokens),
                payload=(sequence.tokens, sequence.logprobs),
                is_truncated=sequence.stop_reason == "length",
                logprobs=sequence.logprobs,
            )


def datum(prompt: Sequence[int], row: Any, denominator: float) -> Any:
    """Turn a row into what ``forward_backward`` takes: tokens that predict, predicted ones, and their factors."""
    completion, logprobs = row.payload
    tokens, before = [*prompt, *completion], [0.0] * (len(prompt) - 1)
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={
            "target_tokens": tokens[1:],
            "logprobs": [*before, *logprobs],
            "advantages": [*before, *[row.advantage / denominator] * len(completion)],
        },
    )


async def _sample(sampler: Any, prompt: Sequence[int], seed: int, max_tokens: int) -> Any:
    params = types.SamplingParams(max_tokens=max_tokens, seed=seed % 2**31, temperature=1.0)
    return await sampler.sample(prompt=types.ModelInput.from_ints(list(prompt)), num_samples=1, sampling_params=params)
