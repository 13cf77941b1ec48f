"""The loop on Tinker's client against a bandit in this process, with the client's own types."""

from __future__ import annotations

import asyncio
import importlib
import random

import pytest

from ada_lightning.adapters import Core
from tests.tapes import world
from tests.unit.adapters.conformance import COMBINATIONS, PROMPTS, WITH_OBJECTIVE

types = pytest.importorskip("tinker").types
train = importlib.import_module("ada_lightning.adapters.tinker_loop").train
TOKENS = {prompt_id: world.prompt_tokens(int(prompt_id[1:])) for prompt_id in PROMPTS}


class Service:
    """A training client and its samplers: the scripted policy, answering in any order."""

    def __init__(self, core: Core) -> None:
        self.core, self.version, self.data = core, -1, []
        self.generator = random.Random(1)

    async def save_weights_and_get_sampling_client(self):
        self.version, self.data = self.version + 1, []
        return self

    async def sample(self, *, prompt, num_samples, sampling_params):
        assert (num_samples, sampling_params.max_tokens, sampling_params.temperature) == (1, world.MAX_NEW_TOKENS, 1.0)
        for _ in range(self.generator.randrange(5)):
            await asyncio.sleep(0)
        drawn = self.drawn(prompt.to_ints(), sampling_params.seed)
        return types.SampleResponse(
            sequences=[
                types.SampledSequence(
                    stop_reason="length" if drawn.is_truncated else "stop",
                    sequence_id="",
                    _tokens_list=list(drawn.token_ids),
                    _logprobs_list=list(drawn.logprobs),
                )
            ]
        )

    def drawn(self, prompt, seed):
        """Seeds of 31 bits here: the response is that of the whole seed, which the pool knows."""
        (whole,) = {
            pool.seed(index)
            for pool in self.core._open[0]
            for index in pool._launched
            if pool.seed(index) % 2**31 == seed and TOKENS[pool.prompt_id] == tuple(prompt)
        }
        return world.respond(prompt[0], whole, self.version, graded=False)

    def forward_backward(self, data, loss_fn):
        assert loss_fn == "importance_sampling"
        self.data = data
        return asyncio.sleep(0)

    def optim_step(self, adam):
        assert adam == "adam"
        return asyncio.sleep(0)


def grade(prompt_id, completion):
    verdict = world.grade(world.text_of(completion))
    return 0.0 if verdict.reward is None else verdict.reward


@pytest.mark.parametrize(("rule", "objective"), COMBINATIONS)
def test_rows_advantages_and_denominator(rule, objective):
    """As a core that is driven in order: what fails is 0 here, so the tapes are not the measure."""
    choice = {"objective": objective} if rule in WITH_OBJECTIVE else {}
    core, plain = (Core(rule, prompts=PROMPTS, seed=0, **choice) for _ in range(2))
    service = Service(core)
    for step in range(3):
        asyncio.run(
            train(
                core, service, TOKENS, grade, num_steps=1, num_prompts=5, max_tokens=world.MAX_NEW_TOKENS, adam="adam"
            )
        )
        pools = plain.choose(5)
        while not pools.is_complete:
            for pool in pools:
                for index in pool.launch(pool.want()):
                    drawn = world.respond(int(pool.prompt_id[1:]), pool.seed(index), step, graded=False)
                    pool.add(
                        index, grade(pool.prompt_id, drawn.token_ids), num_tokens=len(drawn.token_ids), payload=drawn
                    )
        wanted = []
        for pool in pools:
            for row in pool.kept():
                prompt, completion = list(TOKENS[pool.prompt_id]), list(row.payload.token_ids)
                weight = row.advantage / plain.denominator(world.MAX_NEW_TOKENS)
                wanted.append((prompt + completion, len(prompt) - 1, list(row.payload.logprobs), weight))
        plain.tell(pools)
        assert len(service.data) == len(wanted)
        for found, (tokens, before, logprobs, weight) in zip(service.data, wanted, strict=True):
            inputs = {name: value.data for name, value in found.loss_fn_inputs.items()}
            assert [*found.model_input.to_ints(), inputs["target_tokens"][-1]] == tokens
            assert inputs["target_tokens"] == tokens[1:]
            assert inputs["advantages"] == pytest.approx([0.0] * before + [weight] * len(logprobs), rel=1e-6)
            assert inputs["logprobs"] == pytest.approx([0.0] * before + logprobs, rel=1e-6)
