"""``examples/slime_ada.py`` on a hand-made engine, and what of slime needs none."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import random
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ada_lightning.adapters.prompt_steps import PromptSteps
from ada_lightning.core.step_records import StepSettings
from examples import slime_ada
from tests.tapes import world
from tests.unit.adapters.conformance import COMBINATIONS, WITH_OBJECTIVE, Played, assert_same, truth

torch = pytest.importorskip("torch")
ON_ONE_PROMPT = [pair for pair in COMBINATIONS if pair[0] in ("grpo", "ada_seq_balance", "ada_seq_pos")]
GROUP = 4


def respond(step, slot, prompt_id, index):
    """The scripted response, and its reward: None where grading failed."""
    seed = StepSettings(seed=world.RUN_SEED).request_seed("train", step, slot, prompt_id, index)
    drawn = world.respond(int(prompt_id[1:]), seed, step, graded=False)
    return drawn, world.grade(world.text_of(drawn.token_ids)).reward


@cache
def steps_of(rule, objective):
    """Steps do not know of each other, so one of each serves all."""
    return PromptSteps(rule, **({"objective": objective} if rule in WITH_OBJECTIVE else {}))


# slime: its samples, and how its driver turns them into training data.


@pytest.mark.parametrize(("rule", "objective"), ON_ONE_PROMPT)
def test_slime_rows_advantages_and_denominator(rule, objective, monkeypatch):
    sglang = pytest.importorskip("slime.rollout.sglang_rollout")
    from slime.utils.types import Sample

    monkeypatch.setattr(slime_ada, "_steps", lambda: steps_of(rule, objective))
    monkeypatch.setattr(slime_ada, "MAX_RESPONSE_LEN", world.MAX_NEW_TOKENS)
    monkeypatch.setattr(sglang, "GenerateState", lambda args: SimpleNamespace(sampling_params={}))
    generator, found = random.Random(2), []
    for step, wanted in enumerate(truth(rule, objective)):
        drawn_of: dict[int, int] = {}

        async def generate_and_rm(args, sample, params, step=step, wanted=wanted, drawn_of=drawn_of):
            slot = sample.group_index
            index = drawn_of[slot] = drawn_of.get(slot, -1) + 1
            for _ in range(generator.randrange(5)):
                await asyncio.sleep(0)
            drawn, reward = respond(step, slot, wanted.prompts[slot], index)
            sample.tokens, sample.response_length = [1, *drawn.token_ids], len(drawn.token_ids)
            sample.reward = reward
            sample.status = Sample.Status.TRUNCATED if drawn.is_truncated else Sample.Status.COMPLETED
            sample.metadata = {"name": f"{slot}/{index}"}
            return sample

        monkeypatch.setattr(sglang, "generate_and_rm", generate_and_rm)
        args = SimpleNamespace(
            rollout_max_response_len=world.MAX_NEW_TOKENS, rollout_batch_size=len(wanted.prompts),
            n_samples_per_prompt=GROUP, reward_key=None, advantage_estimator="grpo", rewards_normalization=True,
        )  # fmt: skip
        source = SimpleNamespace(
            get_samples=lambda number: [
                [Sample(group_index=slot, index=slot * GROUP + copy) for copy in range(GROUP)] for slot in range(number)
            ]
        )
        output = slime_ada.generate_rollout(args, step, source)
        samples = [sample for group in output.samples for sample in group]
        assert [sample.index for sample in samples] == list(range(GROUP * len(wanted.prompts)))
        data = _train_data(args, samples)
        lengths = data["response_lengths"]
        loss = torch.ones(sum(lengths), requires_grad=True)
        masks = [torch.tensor(mask) for mask in data["loss_masks"]]
        reducer = slime_ada.constant_reducer([0] * len(lengths), lengths, masks)
        signed = torch.cat([torch.full((n,), r) for n, r in zip(lengths, data["rewards"], strict=True)])
        (reducer(loss * signed) / len(samples)).backward()  # slime divides by the step's number of rows
        played = Played(wanted.prompts, [drawn_of[slot] + 1 for slot in range(len(wanted.prompts))])
        for sample, gradient in zip(samples, loss.grad.split(lengths), strict=True):
            if not sample.remove_sample:
                (weight,) = set(gradient.tolist())
                played.weights[sample.metadata["name"]] = weight
            else:
                assert gradient.abs().sum() == 0
        found.append(played)
    wanted_steps = [
        Played(step.prompts, mine.drawn, step.weights) for step, mine in zip(truth(rule, objective), found, strict=True)
    ]
    assert all(
        mine >= theirs
        for a, b in zip(found, truth(rule, objective), strict=True)
        for mine, theirs in zip(a.drawn, b.drawn, strict=True)
    )
    assert_same(found, wanted_steps)


def _train_data(args, samples):
    """How slime's driver makes training data, its methods taken from their source: the module wants SGLang."""
    from slime.utils.types import Sample

    found = importlib.util.find_spec("slime")
    tree = ast.parse((Path(found.submodule_search_locations[0]) / "ray" / "rollout.py").read_text(encoding="utf-8"))
    wanted = ("_post_process_rewards", "_convert_samples_to_train_data")
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in wanted]
    assert len(functions) == len(wanted)
    names: dict[str, Any] = {"torch": torch, "Sample": Sample, "get_source": lambda sample: ""}
    exec(compile(ast.Module(functions, []), "rollout.py", "exec"), names)
    me = SimpleNamespace(
        args=args, custom_reward_post_process_func=slime_ada.advantages, custom_convert_samples_to_train_data_func=None
    )
    me._post_process_rewards = lambda given: names["_post_process_rewards"](me, given)
    return names["_convert_samples_to_train_data"](me, samples)


def test_slimes_reducer_is_not_that_of_tokens():
    with pytest.raises(ValueError, match="leave it out"):
        slime_ada.constant_reducer([2], [1], [torch.ones(1)], True)
