"""TRL's GRPOTrainer with adaptive rollouts: rows, gradient, two processes, resume, what is refused."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import random
import re
import runpy
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("trl")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import numpy as np
import pandas as pd
import torch
from trl import GRPOConfig, GRPOTrainer
from trl.rewards import accuracy_reward

from ada_lightning.adapters import tested
from ada_lightning.adapters.pools import Row
from ada_lightning.adapters.trl import AdaRollouts, arguments, check_installed, rollouts, sampling
from ada_lightning.adapters.trl.grading import Grading
from ada_lightning.adapters.trl.rows import Drawn, Rows
from ada_lightning.config.problems import ConfigError
from ada_lightning.core.options import use
from ada_lightning.methods.curriculum.trial import Mode
from ada_lightning.methods.hints import PrefixHints
from tests.tapes import world
from tests.unit.adapters import trl_world
from tests.unit.adapters.conformance import COMBINATIONS, WITH_OBJECTIVE, Played, assert_same, outcome, truth
from tests.unit.rewards.calls_math_verify import equal

ROOT = Path(__file__).resolve().parents[3]


# The conformance suite, with TRL's arithmetic in the place of its trainer.


class Trainer:
    """What a rollout function sees of GRPOTrainer."""

    def __init__(self, ada: AdaRollouts, tmp_path: Path) -> None:
        self.args = GRPOConfig(
            output_dir=str(tmp_path),
            use_cpu=True,
            bf16=False,
            max_completion_length=world.MAX_NEW_TOKENS,
            **ada.config(),
        )
        self.model = SimpleNamespace(training=True)
        self.accelerator = SimpleNamespace(process_index=0, num_processes=1, is_main_process=True)
        self.callback_handler = SimpleNamespace(callbacks=[ada.callback])
        self.train_dataset, self.reward_funcs = ada.dataset, [ada.advantages]
        self.num_generations, self.max_completion_length = self.args.num_generations, self.args.max_completion_length
        self.tools, self.environment_factories = [], None
        self.use_vllm = self.is_fsdp_enabled = self.is_deepspeed_enabled = False
        self.eos_token_ids, self.state = [0], SimpleNamespace(global_step=7)
        self.processing_class = SimpleNamespace(batch_decode=lambda ids, **options: [world.text_of(row) for row in ids])

    def _tokenize_prompts(self, prompts):
        return [list(world.prompt_tokens(world.TEXTS.index(prompt))) for prompt in prompts], None, {}


def play_trl(rule: str, objective: str, tmp_path: Path) -> list[Played]:
    """Steps of the world: what TRL makes of each row, by the name of the response that it is."""

    def draw(prompt_ids, seeds):
        return [(respond(ids[0], seed).token_ids, None) for ids, seed in zip(prompt_ids, seeds, strict=True)]

    def respond(number, seed):
        return world.respond(number, seed, ada.core.step, graded=False)

    def grade(completion_ids, **columns):
        verdicts = [world.grade(world.text_of(ids)) for ids in completion_ids]
        return [verdict.reward for verdict in verdicts]

    rows = [{"prompt": text, "name": f"p{number}"} for number, text in enumerate(world.TEXTS)]
    choice = {"objective": objective} if rule in WITH_OBJECTIVE else {}
    ada = AdaRollouts(
        rule, rows, reward=grade, num_prompts=world.PROMPTS_PER_STEP, id_column="name", sample=draw, **choice
    )
    trainer = Trainer(ada, tmp_path)
    size, stream, steps = trainer.num_generations, iter(ada.dataset), []
    for _ in range(world.NUM_STEPS):
        chosen = [next(stream) for _ in range(world.PROMPTS_PER_STEP)]
        output = ada.rollout([row["prompt"] for row in chosen for _ in range(size)], trainer)
        assert {len(column) for column in output.values() if column is not None} == {world.PROMPTS_PER_STEP * size}
        rewards = ada.advantages(completions=output["completion_ids"], ada=output["ada"])
        pools = ada._pools
        played = Played([row["name"] for row in chosen], [pool.num_drawn for pool in pools])
        for slot, pool in enumerate(pools):
            group = range(slot * size, (slot + 1) * size)
            mean = sum(rewards[row] for row in group) / size
            assert abs(mean) <= 1e-12 * max(map(abs, rewards))  # the absorber's doing: nothing is subtracted
            names = iter([row.index for row in pool.kept()])
            for row in group:
                if output["env_mask"][row][0]:
                    weight = (rewards[row] - mean) / (len(rewards) * world.MAX_NEW_TOKENS)
                    played.weights[f"{slot}/{next(names)}"] = weight
                else:
                    assert (output["completion_ids"][row], output["env_mask"][row]) == ([0], [0])
        steps.append(played)
        ada.learn()
    return steps


@pytest.mark.parametrize(("rule", "objective"), COMBINATIONS)
def test_rows_advantages_and_denominator_are_those_of_the_projects_own_loop(rule, objective, tmp_path):
    assert_same(play_trl(rule, objective, tmp_path), truth(rule, objective))


def test_the_scripted_policy_is_that_of_the_other_adapters():
    drawn = world.respond(3, 5, 0, graded=False)
    assert outcome("p3", 5, 0, graded=False)["num_tokens"] == len(drawn.token_ids)


# The real trainer on a tiny model.


@pytest.mark.parametrize(
    ("method", "options", "config"),
    [
        ("ada_seq_balance", {"n_max": 8}, {}),
        ("ada_seq_balance", {"n_max": 8}, {"per_device_train_batch_size": 10, "gradient_accumulation_steps": 2}),
        ("ada_seq_pos", {"n_max": 8, "objective": "linear"}, {}),
        ("ada", {}, {}),
        ("ada_seq_balance_official", {"n_max": 8}, {}),  # token_mean: another denominator, by the scale of the rows
    ],
)
def test_the_gradient_is_the_closed_form(method, options, config):
    found = trl_world.difference(method, config=config, **options)
    assert len(set(found["kept"])) > 1 or method == "ada"  # ragged
    assert found["norm"] > 1e-4
    assert found["relative"] < 1e-6


def lora():
    peft = pytest.importorskip("peft")
    return peft.LoraConfig(r=2, target_modules="all-linear", lora_dropout=0.0, task_type="CAUSAL_LM")


def test_with_peft_the_gradient_of_the_adapters_is_the_closed_form():
    found = trl_world.difference("ada_seq_balance", adapters=lora(), n_max=8)
    assert len(set(found["kept"])) > 1
    assert found["norm"] > 1e-4
    assert found["relative"] < 1e-6


def test_with_peft_adapters_alone_change(tmp_path):
    ada = trl_world.rollouts("ada_seq_balance", n_max=8)
    trainer = trl_world.trainer_of(ada, adapters=lora(), output_dir=str(tmp_path))
    before = {name: value.clone() for name, value in trainer.model.named_parameters()}
    trainer.train()
    changed = {name for name, value in trainer.model.named_parameters() if not torch.equal(value, before[name])}
    assert changed
    assert all("lora_" in name for name in changed)


def test_with_peft_responses_are_those_of_the_adapted_model(tmp_path, monkeypatch):
    seen = []

    def generate(trainer, prompt_ids, **how):
        drawn = sampling.generate(trainer, prompt_ids, **how)
        seen.extend(zip(prompt_ids, (each.completion_ids for each in drawn), strict=True))
        return drawn

    monkeypatch.setattr(rollouts, "generate", generate)
    ada = trl_world.rollouts("ada_seq_balance", sample=None, n_max=8)
    trl_world.trainer_of(ada, adapters=lora(), temperature=1e-4, output_dir=str(tmp_path)).train()
    adapted, plain = trl_world.most_likely(lora()), trl_world.most_likely(None)
    assert all(response[0] == adapted(prompt) for prompt, response in seen)
    assert any(response[0] != plain(prompt) for prompt, response in seen)


def test_under_another_loss_it_is_not_and_trl_says_approximate(capsys):
    found = trl_world.difference("ada_seq_balance", config={"loss_type": "dapo"}, n_max=8)
    assert found["relative"] > 0.1
    assert 'approximate: loss_type="dapo" divides by what was kept' in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.vllm  # what the programs are forked from has imported it
def test_two_processes_make_the_same_gradient(programs):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    started = [
        programs.start(
            "tests/unit/adapters/trl_world.py", "ada_seq_balance",
            environment=world | {"RANK": rank, "LOCAL_RANK": rank, "OMP_NUM_THREADS": "1"},
        )
        for rank in "01"
    ]  # fmt: skip
    first, second = (programs.wait(pid) for pid in started)
    assert [first.returncode, second.returncode] == [0, 0], first.stderr[-3000:]
    (line,) = [line for line in first.stdout.splitlines() if line.startswith("RESULT")]
    found = json.loads(line.removeprefix("RESULT"))
    assert len(set(found["kept"])) > 1
    assert found["relative"] < 1e-6


def _noted(ada: AdaRollouts) -> list:
    """Keep what every rollout returns."""
    steps, rollout = [], ada.rollout

    def noting(prompts, trainer):
        output = rollout(prompts, trainer)
        steps.append({name: output[name] for name in ("prompt_ids", "completion_ids", "ada")})
        return output

    ada.rollout = noting
    return steps


@pytest.mark.parametrize("method", ["ada", "auto"])
def test_a_run_that_is_stopped_goes_on_with_the_same_prompts_and_rows(tmp_path, method):
    whole = trl_world.rollouts(method)
    steps = _noted(whole)
    trl_world.trainer_of(whole, max_steps=4, save_strategy="steps", save_steps=2, output_dir=str(tmp_path)).train()
    assert len(steps) == 4
    assert len({str(step["prompt_ids"]) for step in steps}) == 4
    resumed = trl_world.rollouts(method)
    again = _noted(resumed)
    trainer = trl_world.trainer_of(resumed, max_steps=4, output_dir=str(tmp_path))
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert again == steps[2:]
    assert resumed.core.state_dict() == whole.core.state_dict()


def test_auto_decides_within_trl_by_what_was_generated_and_trained():
    """Of half of the prompts every other response is right, of the others none; the words say which."""
    rows = [{"prompt": f"{'zz' if number % 2 else 'aa'} {number}", "answer": "1"} for number in range(64)]
    letters = trl_world._letters()

    def sample(prompt_ids, seeds):
        draws = [
            letters["z"] in ids and random.Random(seed).random() < 0.5
            for ids, seed in zip(prompt_ids, seeds, strict=True)
        ]
        return [([letters["y" if is_right else "n"], letters["e"], trl_world.END], None) for is_right in draws]

    ada = AdaRollouts("auto", rows, reward=trl_world.reward, num_prompts=16, sample=sample, seed=3)
    trl_world.trainer_of(ada, max_steps=14).train()
    curriculum = ada.core._method.curriculum
    assert (curriculum.trial.mode, curriculum.trial.number) == (Mode.CHOSEN, 1)
    assert 0 < curriculum.trial.control.trained < curriculum.trial.control.generated
    assert curriculum.trial.gain > 1.2
    assert curriculum.used_cost_ratio == 1.0  # TRL's loop tells no seconds


def test_a_rollout_of_several_updates_is_learned_from_after_its_last(tmp_path):
    """And one that a checkpoint stands in the middle of is drawn anew: the same prompts and rows."""
    several = {"steps_per_generation": 2, "gradient_accumulation_steps": 1, "per_device_train_batch_size": 10}
    whole = trl_world.rollouts("ada")
    steps = _noted(whole)
    options = several | {"save_strategy": "steps", "save_steps": 1, "max_steps": 4, "output_dir": str(tmp_path)}
    trl_world.trainer_of(whole, **options).train()
    assert (len(steps), whole.core.step) == (2, 2)
    for saved, again in (("checkpoint-1", steps), ("checkpoint-2", steps[1:]), ("checkpoint-3", steps[1:])):
        resumed = trl_world.rollouts("ada")
        drawn = _noted(resumed)
        trl_world.trainer_of(resumed, **several, max_steps=4, output_dir=str(tmp_path / saved)).train(
            resume_from_checkpoint=str(tmp_path / saved)
        )
        assert drawn == again
        assert resumed.core.step == len(steps) - (saved != "checkpoint-2")  # the rollout drawn anew has a whole turn


def test_training_goes_on_after_an_interrupt_in_the_middle_of_a_rollout(tmp_path):
    whole = trl_world.rollouts("ada")
    steps = _noted(whole)
    trl_world.trainer_of(whole, max_steps=2).train()
    cut = trl_world.rollouts("ada")
    trainer = trl_world.trainer_of(cut, max_steps=2, save_strategy="steps", save_steps=1, output_dir=str(tmp_path))
    draw, calls = cut._sample, []

    def interrupted(prompt_ids, seeds):
        calls.append(cut.core.step)
        if calls.count(1) == 1:
            raise KeyboardInterrupt
        return draw(prompt_ids, seeds)

    cut._sample = interrupted
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    cut._grading.metrics["of_the_cut_rollout"] = [1.0]
    again = _noted(cut)
    trainer.rollout_func = cut.rollout
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    assert again == steps[1:]
    assert not any("of_the_cut_rollout" in log for log in trainer.state.log_history)


def test_responses_of_the_trainers_own_model(tmp_path):
    ada = trl_world.rollouts("ada_seq_pos", sample=None, n_max=8, eval_rows=trl_world.ROWS[:4])
    trainer = trl_world.trainer_of(ada, max_steps=2, per_device_eval_batch_size=5, output_dir=str(tmp_path))
    trainer.train()
    (*_, last) = [log for log in trainer.state.log_history if "ada/tokens" in log]
    assert last["ada/responses"] >= 4 * trl_world.NUM_PROMPTS
    assert ada.core.step == 2
    from datasets import Dataset

    figures = trainer.evaluate(Dataset.from_list(trl_world.ROWS[:2]))
    assert 0 <= figures["eval_reward"] <= 1
    with pytest.raises(ValueError, match="pass eval_rows"):
        trainer.evaluate(Dataset.from_list([{"prompt": "never seen"}]))


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (["--method", "ada_seq_balance", "--n-max", "8"], "as far as 8 responses can see"),
        ([], "rows as asked for (exact)"),
    ],
    ids=["ada_seq_balance", "grpo_chosen"],
)
def test_the_example_is_a_script_of_trls(method, said, tmp_path, monkeypatch, capsys):
    options = ["--model", str(trl_world.model_folder()), "--prompts", "2", "--output", str(tmp_path), "--steps", "1"]
    monkeypatch.setattr(sys, "argv", ["trl_ada.py", *options, *method])
    runpy.run_path(str(ROOT / "examples" / "trl_ada.py"), run_name="__main__")
    assert said in capsys.readouterr().out


@pytest.mark.long
def test_the_example_begins_with_its_own_words():
    """TRL warns of vLLM's version for each of its modules; the example generates without."""
    help_of = [sys.executable, str(ROOT / "examples" / "trl_ada.py"), "--help"]
    said = subprocess.run(
        help_of, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert said.stdout.startswith("usage: trl_ada.py")
    assert "vLLM" not in said.stderr


# Arguments.


def _anything(completions, **columns):
    return [1.0] * len(completions)


def _trainer(tmp_path, **changes):
    ada = trl_world.rollouts("ada_seq_balance")
    trainer = Trainer(ada, tmp_path)
    for name, value in changes.items():
        for owner in (trainer.args, trainer):
            if hasattr(owner, name):
                setattr(owner, name, value)
    return ada, trainer


def test_the_arguments_that_config_gives_are_exact(tmp_path):
    ada, trainer = _trainer(tmp_path)
    assert ada.check(trainer) == []
    assert "rows as asked for (exact)" in ada.statement()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"train_dataset": None}, "train_dataset must be ada.dataset"),
        ({"reward_funcs": [len]}, "must be only ada.advantages"),
        ({"reward_weights": [2.0]}, "AdaRollouts takes reward_weights"),
        ({"scale_rewards": "group"}, "would rescale"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "would rescale"),
        ({"num_generations": 4}, "less than the 4 rows"),
        ({"generation_batch_size": 10}, r"ada\.config\(\) has numbers that fit"),
        ({"gradient_accumulation_steps": 8}, "several rollouts for one update"),
        ({"gradient_accumulation_steps": 3}, "would take rows of two rollouts"),
        ({"shuffle_dataset": True}, "reorder the prompts"),
        ({"tools": [len]}, "on top of rows"),
        ({"mask_truncated_completions": True}, "which the core would not know"),
        ({"restore_callback_states_from_checkpoint": True}, "restores itself"),
        ({"ignore_data_skip": True}, "after a resume"),
        ({"is_fsdp_enabled": True}, "use vLLM"),
        ({"callback_handler": SimpleNamespace(callbacks=[])}, "must hold ada.callback"),
        ({"accelerator": SimpleNamespace(num_processes=8)}, "does not divide by 8"),
    ],
)
def test_arguments_with_which_rows_would_mean_something_else_are_refused(tmp_path, changes, said):
    ada, trainer = _trainer(tmp_path, **changes)
    with pytest.raises(ConfigError, match=said):
        ada.check(trainer)


@pytest.mark.parametrize(
    "changes",
    [
        {"loss_type": "grpo"},
        {"num_iterations": 2},
        {"steps_per_generation": 8},
        {"beta": 0.1},
        {"importance_sampling_level": "sequence"},
        {"off_policy_mask_threshold": 0.5},
        {"top_entropy_quantile": 0.2},
        {"entropy_coef": 0.1},
        {"use_liger_kernel": True},
        {"top_p": 0.9},
        {"generation_kwargs": {"seed": 1}},
        {"use_vllm": True, "vllm_importance_sampling_mode": "sequence_mask"},
        {"use_vllm": True, "vllm_importance_sampling_correction": False},
        {"use_vllm": True},
    ],
)
def test_arguments_that_bend_the_update_are_named(tmp_path, changes):
    ada, trainer = _trainer(tmp_path, **changes)
    (reason,) = ada.check(trainer)
    assert f"  approximate: {reason}" in ada.statement()


def test_every_argument_that_is_looked_at_is_one_of_trls():
    known = set(GRPOConfig.__dataclass_fields__)
    source = (ROOT / "ada_lightning/adapters/trl/arguments.py").read_text()
    read = set(re.findall(r"args\.(\w+)", source)) | set(arguments._NEUTRAL)
    assert len(read) > 20
    assert read <= known


def test_config_has_numbers_that_divide(tmp_path):
    ada = trl_world.rollouts("ada_seq_balance")
    assert ada.config()["num_generations"] == 5
    assert ada.config(num_processes=2, rows_per_device=5)["gradient_accumulation_steps"] == 2
    for wrong in ({"num_processes": 3}, {"rows_per_device": 7}):
        with pytest.raises(ValueError, match="must divide"):
            ada.config(**wrong)


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("rollout_bandits", "learns from the update's figures"),
        ("dapo", "join a step"),
        ("optpo", "goes by answers"),
    ],
)
def test_methods_that_need_more_than_trl_gives_are_refused(method, said):
    with pytest.raises(ConfigError, match=said):
        trl_world.rollouts(method)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "no rows"),
        ([{"prompt": "a"}, {"prompt": ""}], "row 1 of the data set has no prompt"),
        ([{"prompt": "a", "answer": 1}, {"prompt": "a", "answer": 2}], "has the prompt of an earlier one"),
        ([{"prompt": "a", "name": 1}, {"prompt": "b", "name": 1}], "has the name of an earlier one, '1'"),
    ],
)
def test_a_data_set_in_which_references_cannot_be_told_apart_is_refused(rows, said):
    with pytest.raises(ValueError, match=said):
        AdaRollouts("grpo", rows, reward=_anything, num_prompts=1, id_column="name" if "name" in str(rows) else None)


def test_prompts_are_known_again_however_their_messages_are_spelt():
    ada = AdaRollouts("grpo", [{"prompt": [{"role": "user", "content": "hi"}]}], reward=_anything, num_prompts=1)
    assert ada.rows.id_of([{"content": "hi", "role": "user", "tool_calls": None}]) == next(iter(ada.rows.by_id))
    assert ada.rows.id_of([{"content": "ho", "role": "user"}]) is None


def test_several_reward_functions_add_up_as_trl_adds_them_up(tmp_path):
    """TRL's own trainer on the same responses: its logged rewards and advantages are those of the sums made here."""

    def length(completion_ids, level, **columns):
        return [None if ids[0] % 3 == 0 else len(ids) + add for ids, add in zip(completion_ids, level, strict=True)]

    def parity(completion_ids, **columns):
        return [math.nan if ids[0] % 2 else 1.0 for ids in completion_ids]

    first = [6, 4, 9, 5, 3, 3, 8, 2]  # 9 and the threes: nobody has a reward for them
    ids = [[start, *range(10, 10 + at % 3)] for at, start in enumerate(first)]
    rows = [{"prompt": f"Question {number}", "level": 10 * number} for number in (0, 1)]
    drawn = {"prompt_ids": [[5]] * 8, "completion_ids": ids, "logprobs": None}
    trainer = trl_world.plain_trainer(
        rows,
        [length, parity],
        rollout_func=lambda prompts, trainer: drawn,
        num_generations=4,
        reward_weights=[1.0, 10.0],
        output_dir=str(tmp_path),
    )
    trainer.train()
    of_rows = [next(row for row in rows if row["prompt"] == prompt) for prompt in trainer._logs["prompt"]]
    found = Grading([length, parity], [1.0, 10.0])(of_rows, [""] * 8, ids)
    logged = zip(*(trainer._logs["rewards"][name] for name in ("length", "parity")), strict=True)
    assert [list(verdict.components.values()) for verdict, _ in found] == [[v for v in row if v == v] for row in logged]
    rewards = np.array([math.nan if verdict.reward is None else verdict.reward for verdict, _ in found])
    assert np.isnan(rewards).tolist() == [start in (9, 3) for start in first]
    means = np.nanmean(rewards.reshape(2, 4), axis=1).repeat(4)
    assert list(trainer._logs["advantages"]) == pytest.approx(np.nan_to_num(rewards - means).tolist(), abs=1e-5)


def test_a_function_that_judges_some_responses_leaves_the_others_to_the_next():
    def maths(task, **columns):
        return [1.0 if name == "maths" else None for name in task]

    def code(task, **columns):
        return [0.5 if name == "code" else float("nan") for name in task]

    rows = [{"prompt": name, "task": name} for name in ("maths", "code", "poem")]
    found = Grading([maths, code])(rows, ["x"] * 3, [[1]] * 3)
    told = [(verdict.reward, verdict.components) for verdict, _ in found]
    assert told == [(1.0, {"maths": 1.0}), (0.5, {"code": 0.5}), (None, {})]
    assert Grading([maths, code])([], [], []) == []


def test_functions_of_one_name_have_a_part_each():
    functions = [lambda value=value, **columns: [value] for value in (1.0, 2.0)] + [partial(len_of, 3.0)] * 2
    ((found, _),) = Grading(functions)([{"prompt": "a"}], ["x"], [[1]])
    assert found.components == {"<lambda>": 1.0, "<lambda>#2": 2.0, "len_of": 3.0, "len_of#2": 3.0}


def len_of(value, completion_ids, **columns):
    return [value] * len(completion_ids)


def test_a_step_of_which_no_response_has_a_reward_is_warned_of(tmp_path):
    ada = trl_world.rollouts("grpo", reward=lambda completions, **columns: [None] * len(completions))
    with pytest.warns(RuntimeWarning, match="no response of step 0 has a reward: every reward function returned None"):
        trl_world.trainer_of(ada, output_dir=str(tmp_path)).train()


def test_what_trl_offers_reward_functions_is_there_and_reaches_its_logs(tmp_path):
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(def record.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names: dict = {}
    exec(code, names)

    def right(completions, answer, log_metric, **columns):
        log_metric("letters", float(len(completions[0])))
        return trl_world.reward(completions, answer)

    def plain(prompts, completions, completion_ids, answer, prompt_id):  # takes nothing of what TRL offers beside
        return [0.0] * len(completions)

    rows = [row | {"prompt_id": f"p{number}"} for number, row in enumerate(trl_world.ROWS)]
    ada = AdaRollouts(
        "ada_seq_balance", rows, reward=[right, names["record"], plain], num_prompts=4, seed=3, n_max=8,
        sample=trl_world.sample,
    )  # fmt: skip
    steps = _noted(ada)
    trainer = trl_world.trainer_of(ada, max_steps=2, log_completions=True, output_dir=str(tmp_path))
    trainer.train()
    table = pd.read_parquet(tmp_path / "completions" / "completions_00002.parquet")
    kept = table[table["num_tokens"].notna()]
    assert len(kept) == sum(len(ids) > 1 for ids in steps[-1]["completion_ids"])  # the others fill groups up
    assert set(kept["policy_version"]) == {1}
    names_of = {row["prompt"]: row["prompt_id"] for row in rows}
    assert [names_of[prompt] for prompt in kept["prompt"]] == list(kept["prompt_id"])
    assert list(kept["num_tokens"]) == [len(text) + 1 for text in kept["completion"]]
    assert all(log["letters"] > 0 for log in trainer.state.log_history if "ada/reward" in log)


@pytest.mark.parametrize(("asks", "row"), [("environments", {}), ("level", {}), ("completion", {"completion": "x"})])
def test_a_function_that_asks_for_what_is_not_there_is_refused_before_anything_is_drawn(asks, row):
    names: dict = {}
    exec(f"def strict(completions, {asks}, log_extra=None, **columns): return []", names)
    said = f"strict cannot be called: missing a required argument: '{asks}'. It gets completion_ids, completions"
    with pytest.raises(ValueError, match=said):
        AdaRollouts("grpo", [{"prompt": "a"} | row], reward=names["strict"], num_prompts=1)


def test_a_function_that_has_no_parameter_for_what_it_gets_is_refused_before_anything_is_drawn():
    def short(prompts, completions, completion_ids):
        return []

    AdaRollouts("grpo", [{"prompt": "a"}], reward=short, num_prompts=1)
    with pytest.raises(
        ValueError, match=r"short cannot be called: .* argument 'level'.*or let the function take \*\*col"
    ):
        AdaRollouts("grpo", [{"prompt": "a", "level": 1}], reward=short, num_prompts=1)


def test_a_column_that_some_rows_lack_is_none_there():
    def of_level(level, **columns):
        return level

    ada = AdaRollouts("grpo", [{"prompt": "a"}, {"prompt": "b", "level": 2.0}], reward=of_level, num_prompts=1)
    for row, reward in zip(ada.rows.by_id.values(), (None, 2.0), strict=True):
        ((verdict, _),) = Grading(of_level)([row], ["x"], [[1]])
        assert verdict.reward == reward


def test_messages_are_answered_by_a_message():
    seen = []
    Grading(lambda completions, **columns: seen.extend(completions) or [1.0])(
        [{"prompt": [{"role": "user", "content": "hi"}]}], ["ho"], [[1]]
    )
    assert seen == [[{"role": "assistant", "content": "ho"}]]


async def _later(**columns):
    return []


class Later:
    async def __call__(self, **columns):
        return []


@pytest.mark.parametrize("function", [_later, Later(), partial(Later(), 1), torch.nn.Linear(1, 1), "a name"])
def test_what_cannot_grade_is_refused(function):
    for given in ([function], function):
        with pytest.raises(TypeError, match=rf"neither models nor async, not {re.escape(repr(function))}: wrap it in"):
            Grading(given)


@pytest.mark.parametrize(("functions", "weights"), [([], None), ([len], [1.0, 2.0])])
def test_another_number_of_weights_is_refused(functions, weights):
    with pytest.raises(ValueError, match="reward functions and"):
        Grading(functions, weights)


def test_functions_that_call_math_verify_are_told_of_its_percentages():
    with pytest.warns(UserWarning, match=r"^equal, equal#2, accuracy_reward: math-verify .* takes 50\\% for 50"):
        Grading([equal, partial(equal), _anything, accuracy_reward])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (1.0, "judge gave 1.0 for 1 responses: it must give a list"),
        (None, "judge gave None for 1 responses"),
        (["right"], "judge gave a response the reward 'right': it must be a finite number, None or NaN"),
        ([{"score": 1.0}], "the reward {'score': 1.0}"),
        ([math.inf], "the reward inf"),
        (np.ones((1, 2)), "the reward array"),
    ],
)
def test_what_is_no_reward_is_refused_by_the_name_of_its_function(given, said):
    def judge(completions, **columns):
        return given

    with pytest.raises(ValueError, match=re.escape(said)):
        Grading(judge)([{"prompt": "a"}], ["x"], [[1]])


def test_nothing_and_scalars_of_arrays_are_rewards():
    def judge(completions, **columns):
        return [None, math.nan, torch.tensor(math.nan), np.float32(0.5), torch.tensor([0.5]), True]

    found = Grading(judge)([{"prompt": "a"}] * 6, ["x"] * 6, [[1]] * 6)
    assert [verdict.reward for verdict, _ in found] == [None, None, None, 0.5, 0.5, 1.0]


def test_a_column_of_answers_that_nothing_reads_is_refused():
    with pytest.raises(ValueError, match="nothing here reads answers"):
        AdaRollouts("grpo", [{"prompt": "a", "answer": "1"}], reward=_anything, num_prompts=1, answer_column="answer")


def test_a_reward_for_every_response():
    with pytest.raises(ValueError, match="<lambda> has 0 values for 1 responses"):
        Grading(lambda **columns: [])([{"prompt": "a"}], ["b"], [[1]])
    with pytest.raises(ValueError, match=r"log_extra\('note'\) has 2 values for 1 responses"):
        Grading(lambda log_extra, **columns: log_extra("note", [1, 2]))([{"prompt": "a"}], ["b"], [[1]])


# Generation by contract: the colocated engine is local, a server wants all processes with as many prompts.


class Engine:
    use_vllm, vllm_mode = True, "server"
    accelerator, args = SimpleNamespace(num_processes=2), SimpleNamespace(vllm_tensor_parallel_size=1)

    def __init__(self) -> None:
        self.calls: list[int] = []

    def _generate_single_turn(self, prompt_ids, images, fields, num_generations):
        assert (images, fields, num_generations) == (None, {}, 1)
        self.calls.append(len(prompt_ids))
        return [[*ids, 9] for ids in prompt_ids], [[-0.5] for _ in prompt_ids]


@pytest.mark.parametrize("own", [0, 1, 3])
def test_processes_that_generate_together_make_as_many_calls_of_one_size(monkeypatch, own):
    engine = Engine()
    monkeypatch.setattr(sampling, "gather_object", lambda mine: [*mine, (3, [[7]])])
    drawn = sampling.generate(engine, [[5]] * own, at_once=2)
    assert engine.calls == [2, 1]
    assert [(one.completion_ids, one.logprobs) for one in drawn] == [([5, 9], [-0.5])] * own


class Colocated:
    """What stands in the place of vLLM in the trainer's process: it draws from the trainer's own model."""

    def __init__(self, trainer) -> None:
        self.trainer, self.num_syncs = trainer, 0

    def sync_weights(self):
        self.num_syncs += 1

    @torch.no_grad()
    def generate(self, prompts, images, num_generations, profiler):
        assert (images, num_generations) == (None, 1)
        completions, logprobs = [], []
        for prompt in prompts:
            tokens, chances = list(prompt), []
            for _ in range(3):
                row = self.trainer.model(torch.tensor([tokens])).logits[0, -1].log_softmax(-1)
                token = int(torch.multinomial(row.exp(), 1))
                tokens.append(token)
                chances.append([float(row[token])])
            completions.append(tokens[len(prompt) :])
            logprobs.append(chances)
        return prompts, completions, logprobs, None


def test_the_trainers_path_through_an_engine_in_its_process(tmp_path):
    ada = trl_world.rollouts(
        "ada_seq_balance",
        sample=None,
        n_max=8,
        reward=lambda completion_ids, **columns: [float(ids[0] % 2) for ids in completion_ids],
    )
    trainer = trl_world.trainer_of(ada, max_steps=2, output_dir=str(tmp_path))
    trainer.use_vllm, trainer._last_loaded_step = True, -1  # after the engine would have been started
    trainer.vllm_generation = engine = Colocated(trainer)
    trainer.train()
    figures = [log for log in trainer.state.log_history if "ada/signal" in log]
    assert len(figures) == engine.num_syncs == 2
    for log in figures:
        assert log["ada/signal"] > 0
        for name in ("min", "mean", "max"):  # engine and trainer are one model: what is corrected is rounding
            assert log[f"sampling/importance_sampling_ratio/{name}"] == pytest.approx(1.0, abs=1e-4)
    assert ["token_truncate" in reason for reason in ada.reasons] == [True]


def test_an_engine_in_its_own_process_draws_what_is_wanted_and_no_more():
    engine = Engine()
    engine.vllm_mode = "colocate"
    assert [len(sampling.generate(engine, [[5]] * number, at_once=8)) for number in (3, 0)] == [3, 0]
    assert engine.calls == [3]


def test_engine_logprobs_reach_trl_and_fillers_have_one():
    rows = Rows()
    kept = [Row(0, Drawn([4, 0], [-0.1, -0.2]), 1.0, 0.5)]
    rows.add_group([([1], kept)], scale=2.0, group_size=3, eos_token_id=0)
    output = rows.output(with_logprobs=True)
    assert output["logprobs"] == [[-0.1, -0.2], [0.0], [0.0]]
    assert output["ada"] == [1.0, -0.5, -0.5]
    assert output["env_mask"] == [[1, 1], [0], [0]]
    rows.add_group([([1], [Row(0, Drawn([4], None), 1.0, 0.5)])], scale=1.0, group_size=2, eos_token_id=0)
    with pytest.raises(ValueError, match="a response has none"):
        rows.output(with_logprobs=True)
    with pytest.raises(ValueError, match="raise num_generations"):
        rows.add_group([([1], kept * 2)], scale=1.0, group_size=2, eos_token_id=0)


def test_a_hinted_group_stands_in_the_rows_of_its_prompt(tmp_path):
    rows = [{"prompt": f"question {n}", "answer": "7", "how": "2 * 3 = 6\n6 + 1 = 7\n#### 7"} for n in range(4)]
    seen = []

    def grade(completions, answer, **columns):
        seen.extend(completions)
        return [float(text.startswith("2 * 3 = 6\n") and text.endswith("1")) for text in completions]

    def draw(prompt_ids, seeds):
        return [([seed % 2 if len(ids) > 1 else 1, 0], None) for ids, seed in zip(prompt_ids, seeds, strict=True)]

    class Processing:
        def __call__(self, text, add_special_tokens):
            return {"input_ids": [100 + len(text)]}

        def batch_decode(self, ids, **options):
            return [str(row[0]) for row in ids]

    ada = AdaRollouts(
        "grpo", rows, reward=grade, num_prompts=4, sample=draw, solution_column="how", answer_column="answer",
        hints=use(PrefixHints, p_min=0.5, doubt=0.99), group_size=4, **{"loss/reduction": "constant"},
    )  # fmt: skip
    trainer = Trainer(ada, tmp_path)
    trainer.processing_class = Processing()
    trainer._tokenize_prompts = lambda prompts: ([[int(prompt[-1])] for prompt in prompts], None, {})
    assert trainer.num_generations == 9  # four, four with a hint, and one that balances them
    for _ in range(6):
        prompts = [row["prompt"] for row in (ada.rows.by_id[i] for i in ada.core.picked(ada.core.step, 4))]
        output = ada.rollout([prompt for prompt in prompts for _ in range(9)], trainer)
        hinted = [at for at, ids in enumerate(output["prompt_ids"]) if len(ids) > 1]
        trained = [at for at, mask in enumerate(output["env_mask"]) if mask[0]]
        assert [ids[0] for ids in output["prompt_ids"]] == [int(p[-1]) for p in prompts for _ in range(9)]
        assert trained == hinted  # nobody is right without
        assert all(output["prompt_ids"][at][1:] == [100 + len("2 * 3 = 6\n")] for at in hinted)
        if hinted:
            assert sum(output["ada"]) == pytest.approx(0.0)
            # TRL divides by rows times tokens: of 4 prompts and not of 5
            assert max(output["ada"]) == pytest.approx(9 * max(row.advantage for p in ada._pools for row in p.kept()))
            assert ada.figures["ada/hinted"] == 4
            assert ada.figures["ada/reward"] == 0.0
        ada.learn()
        if hinted and len(seen) > 60:
            break
    assert hinted
    assert any(text.startswith("2 * 3 = 6\n") for text in seen)
    assert set(ada.core._method.estimator.history_counts()) <= set(ada.rows.by_id)


# The installed version.


@pytest.mark.parametrize("found", ["1.15.2", "1.17.0", "2.0.0"])
def test_another_version_is_refused_in_one_line(monkeypatch, found):
    monkeypatch.setattr(tested, "version", lambda name: found)
    with pytest.raises(ImportError, match=r"tested with trl>=1.16,<1.17, but") as caught:
        check_installed()
    assert "\n" not in str(caught.value)


def test_no_trl_and_a_name_that_is_gone_are_refused_in_one_line(monkeypatch):
    monkeypatch.delattr(GRPOTrainer, "_tokenize_prompts")
    with pytest.raises(ImportError, match=r"has no GRPOTrainer\._tokenize_prompts"):
        check_installed()

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(tested, "version", missing)
    with pytest.raises(ImportError, match=r"pip install -e '\.\[trl\]'"):
        check_installed()
