"""``examples/slime_ada.py`` and ``examples/skyrl_ada.py`` on hand-made engines, and what of both needs none."""

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
from examples import skyrl_ada, slime_ada
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


# SkyRL: its wheel wants Python 3.12, so what is compared with is read from its source.


class Generator:
    """What SkyRL's own returns, for prompts that are there once or many times."""

    def __init__(self, step, slots, eval_output=None):
        self.step, self.slots, self.drawn, self.eval_output = step, slots, {}, eval_output

    async def generate(self, batch, disable_tqdm=False):
        if self.eval_output is not None:
            return self.eval_output
        rows = []
        for trajectory_id, prompt in zip(batch["trajectory_ids"], batch["prompts"], strict=True):
            prompt_id = trajectory_id.instance_id
            index = self.drawn[prompt_id] = self.drawn.get(prompt_id, -1) + 1
            drawn, reward = respond(self.step, self.slots[prompt_id], prompt_id, index)
            rows.append((prompt, drawn, reward or 0.0))
        return {
            "prompt_token_ids": [[ord(letter) for letter in prompt] for prompt, _, _ in rows],
            "response_ids": [list(drawn.token_ids) for _, drawn, _ in rows],
            "rewards": [[0.0] * (len(drawn.token_ids) - 1) + [reward] for _, drawn, reward in rows],
            "loss_masks": [[1] * len(drawn.token_ids) for _, drawn, _ in rows],
            "stop_reasons": ["length" if drawn.is_truncated else "stop" for _, drawn, _ in rows],
            "rollout_logprobs": [list(drawn.logprobs) for _, drawn, _ in rows],
            "rollout_metrics": {"generate/avg": 1.0},
        }


def skyrl_batch(step, prompts, phase="train"):
    ids = [SimpleNamespace(instance_id=name, repetition_id=copy) for name in prompts for copy in range(GROUP)]
    return {
        "prompts": [each.instance_id for each in ids],
        "env_classes": ["x"] * len(ids),
        "env_extras": None,
        "sampling_params": {"temperature": 1.0},
        "trajectory_ids": ids,
        "batch_metadata": SimpleNamespace(global_step=step, training_phase=phase),
    }


def skyrl_weights(output, reduced):
    rows = len(output["rewards"])
    mask = torch.zeros(rows, world.MAX_NEW_TOKENS)
    rewards = torch.zeros(rows, world.MAX_NEW_TOKENS)
    for row, (own, reward) in enumerate(zip(output["loss_masks"], output["rewards"], strict=True)):
        mask[row, : len(own)] = torch.tensor(own, dtype=torch.float)
        rewards[row, len(own) - 1] = reward
    advantages, returns = skyrl_ada.advantage_is_the_reward(rewards, mask, index=None, config=None)
    assert returns is advantages
    return reduced(
        advantages=advantages,
        loss_mask=mask,
        loss_reduction="seq_mean_token_sum_norm",
        micro_batch_size=rows,
        max_seq_len=world.MAX_NEW_TOKENS,
    )


def skyrl_source(file):
    found = importlib.util.find_spec("skyrl")
    if found is None or not found.submodule_search_locations:
        pytest.skip("skyrl is not installed")
    return ast.parse((Path(found.submodule_search_locations[0]) / file).read_text(encoding="utf-8"))


def plain_reduction(advantages, max_seq_len, **others):
    """What SkyRL's is for this one; a test holds them equal."""
    return advantages / (len(advantages) * max_seq_len)


@pytest.mark.parametrize(("rule", "objective"), ON_ONE_PROMPT)
def test_skyrl_rows_advantages_and_denominator(rule, objective):
    """Rewards that are not there are 0 in SkyRL, so a core is the measure, told the same."""
    for step, wanted in enumerate(truth(rule, objective)):
        slots = {name: slot for slot, name in enumerate(wanted.prompts)}
        inner = Generator(step, slots)
        made = skyrl_ada.AdaGenerator(inner, steps_of(rule, objective), max_tokens=world.MAX_NEW_TOKENS, eos_token_id=0)
        output = asyncio.run(made.generate(skyrl_batch(step, wanted.prompts)))
        assert {len(output[name]) for name in skyrl_ada.ROWS} == {GROUP * len(wanted.prompts)}
        assert [each.instance_id for each in output["trajectory_ids"]] == [
            n for n in wanted.prompts for _ in range(GROUP)
        ]
        weights = skyrl_weights(output, plain_reduction)
        found, expected = [], []
        for slot, name in enumerate(wanted.prompts):
            pools = steps_of(rule, objective).begin(name, step=step)
            (pool,) = pools
            while not pools.is_complete:
                for index in pool.launch(pool.want()):
                    drawn, reward = respond(step, slot, name, index)
                    pool.add(index, reward or 0.0, num_tokens=len(drawn.token_ids), is_truncated=drawn.is_truncated,
                             payload=list(drawn.token_ids))  # fmt: skip
            assert inner.drawn[name] + 1 == pool.num_drawn
            denominator = pools.denominator(world.MAX_NEW_TOKENS) * len(wanted.prompts)
            expected += [(row.payload, row.advantage / denominator) for row in pool.kept()]
            for row in range(slot * GROUP, (slot + 1) * GROUP):
                if output["loss_masks"][row] != [0]:
                    found.append((output["response_ids"][row], weights[row, 0].item()))
                else:
                    assert weights[row].abs().sum() == 0
        assert [ids for ids, _ in found] == [ids for ids, _ in expected]
        assert [w for _, w in found] == pytest.approx([w for _, w in expected], rel=1e-6)
        assert output["rollout_metrics"]["generate/avg"] == 1.0


def test_skyrl_evaluates_with_its_own_generator():
    made = skyrl_ada.AdaGenerator(
        Generator(0, {}, {"rewards": [1.0]}), steps_of("grpo", "log"), max_tokens=3, eos_token_id=0
    )
    assert asyncio.run(made.generate(skyrl_batch(0, ["p1"], "eval"))) == {"rewards": [1.0]}


def test_what_is_returned_are_names_of_skyrls_output():
    (output,) = (
        node for node in skyrl_source("train/generators/base.py").body
        if isinstance(node, ast.ClassDef) and node.name == "GeneratorOutput"
    )  # fmt: skip
    names = {node.target.id for node in output.body if isinstance(node, ast.AnnAssign)}
    assert {*skyrl_ada.ROWS, "rollout_metrics"} <= names


def test_skyrls_reduction_is_the_constant_one():
    source = skyrl_source("backends/skyrl_train/utils/ppo_utils.py")
    wanted = "apply_loss_reduction_to_advantages_minibatch"
    (function,) = (node for node in source.body if isinstance(node, ast.FunctionDef) and node.name == wanted)
    names = {"torch": torch, "Optional": Any, "List": list, "Tuple": tuple}
    exec(
        compile(ast.Module([function], []), "ppo_utils.py", "exec"),
        {**names, "Optional": list, "List": list, "Tuple": tuple},
        names,
    )
    advantages, mask = torch.rand(6, 4), torch.ones(6, 4)
    given = {"loss_mask": mask, "loss_reduction": "seq_mean_token_sum_norm", "micro_batch_size": 6, "max_seq_len": 9}
    assert torch.equal(names[wanted](advantages=advantages, **given), plain_reduction(advantages, max_seq_len=9))
    assert any(isinstance(n, ast.FunctionDef) and n.name == "register_advantage_estimator" for n in source.body)


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
