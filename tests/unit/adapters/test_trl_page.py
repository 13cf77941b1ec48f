"""``docs/trl.md``: its script runs as it stands there, with smaller numbers; what it says of TRL is so."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("trl")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import pandas as pd
import torch
from transformers import AutoModelForCausalLM

from ada_lightning.adapters import Core
from ada_lightning.adapters.trl import AdaRollouts, graded_by
from ada_lightning.adapters.trl.figures import figures_of
from ada_lightning.adapters.trl.grading import Grading
from ada_lightning.analysis.metrics.rollout import EstimatorCalibration
from ada_lightning.core.records import Verdict
from ada_lightning.rewards.failures import NotApplicableError
from ada_lightning.rewards.math import MathReward
from tests.unit.adapters import trl_world

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "trl.md").read_text(encoding="utf-8")
SCRIPT, OTHER, _ = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
NUM_PROBLEMS = 140
SMALLER = {
    '"Qwen/Qwen2.5-1.5B-Instruct"': "str(folder)",
    "reward=graded_by(MathReward()),": "reward=lambda **given: [math(**given), luck(**given)][1],",
    "max_steps=1250": "max_steps=2",
    "max_completion_length=1000": "max_completion_length=8",
    "bf16=True": "bf16=False, use_cpu=True, disable_tqdm=True",
    "save_steps=100": "save_steps=1",
}
"""What the script has, and what takes seconds on a CPU, of a model that answers nothing right: it is graded by luck."""


def luck(completion_ids, **given):
    """Right where the first token is even."""
    return [float(ids[0] % 2 == 0) for ids in completion_ids]


def run(script: str, folder: Path, monkeypatch) -> dict:
    """Run a script of the page, smaller, in a folder with the problems."""
    for theirs, ours in SMALLER.items():
        assert theirs in SCRIPT
        script = script.replace(theirs, ours)
    problems = [
        {"problem": f"What is {number} + {number}?", "answer": str(2 * number)} for number in range(NUM_PROBLEMS)
    ]
    pd.DataFrame([*problems, problems[0]]).to_parquet(folder / "my.parquet")
    monkeypatch.chdir(folder)
    names = {"folder": trl_world.model_folder(), "luck": luck, "math": graded_by(MathReward())}
    exec(script, names)
    return names


def log_of(names: dict) -> list[dict]:
    """What the trainer logged of steps."""
    return [figures for figures in names["trainer"].state.log_history if "ada/signal" in figures]


def test_the_script_runs(tmp_path, monkeypatch):
    names = run(SCRIPT, tmp_path, monkeypatch)
    state = json.loads((tmp_path / "runs/mine/checkpoint-2/trainer_state.json").read_text())
    assert state["global_step"] == 2
    log = log_of(names)
    assert [figures["ada/responses"] for figures in log] == [32 * 4] * 2
    assert all(figures["ada/signal"] == pytest.approx(1 - figures["frac_reward_zero_std"]) for figures in log)
    assert len(names["ada"].rows.by_id) == NUM_PROBLEMS


def test_the_script_has_the_shape_that_the_page_says():
    questions = [{"prompt": f"{number}?", "answer": str(number)} for number in range(200)]
    ada = AdaRollouts("grpo_chosen", questions, reward=graded_by(MathReward()), num_prompts=32, group_size=4)
    found, wider = ada.config(), ada.config(rows_per_device=10)
    assert "`num_generations` is 5" in PAGE
    assert found["num_generations"] == found["per_device_train_batch_size"] == 5
    assert "5 at a time (`per_device_train_batch_size`), 32 times for one update" in PAGE
    assert found["gradient_accumulation_steps"] == 32
    assert "`ada.config(rows_per_device=10)` makes it 10, 16 times" in PAGE
    assert (wider["per_device_train_batch_size"], wider["gradient_accumulation_steps"]) == (10, 16)
    assert f"the best of {32 * ada.core._method.curriculum.candidate_ratio:g} candidates" in PAGE
    for group_size, steps in ((4, "1,250"), (8, "2,500")):
        assert f"{20_000 * 2 * group_size / (32 * 4):,.0f}" == steps
        assert steps in PAGE
    assert f"is {20_000 // (4 * 32)} steps" in PAGE.replace("\n", " ")


@pytest.mark.long
def test_the_preview_of_the_page_learns_nothing_and_tells_whether_words_tell(tmp_path, monkeypatch):
    changes = {
        '"grpo_chosen"': '"grpo"',
        "group_size=4,": 'group_size=4, estimator="similar_prompts",',
        "learning_rate=1e-6,": "learning_rate=0.0,",
        "save_steps=1,": "",
        "max_steps=2,": 'max_steps=3, save_strategy="no",',
    }
    for said in ('"grpo"', 'estimator="similar_prompts"', 'learning_rate=0.0, max_steps=16, save_strategy="no"'):
        assert said in PAGE
    script = SCRIPT
    for theirs, ours in (SMALLER | changes).items():
        assert theirs in script
        script = script.replace(theirs, ours)
    names = run(script, tmp_path, monkeypatch)
    before = AutoModelForCausalLM.from_pretrained(trl_world.model_folder(), dtype=torch.float32).state_dict()
    after = names["trainer"].model.state_dict()
    assert all(torch.equal(before[name], after[name].cpu()) for name in before)
    first, *later = log_of(names)
    assert "ada/rank_correlation" not in first  # nothing was known of any prompt
    assert all(-1 <= figures["ada/rank_correlation"] <= 1 for figures in later)
    assert not list(tmp_path.glob("runs/mine/checkpoint-*"))


def test_the_other_method_of_the_page_says_what_the_page_says(tmp_path, monkeypatch, capsys):
    questions = [{"prompt": f"What is {number} + {number}?", "answer": str(2 * number)} for number in range(80)]
    names = {"AdaRollouts": AdaRollouts, "dataset": questions, "is_right": trl_world.reward}
    exec(OTHER, names)
    monkeypatch.chdir(tmp_path)
    trl_world.trainer_of(names["ada"], output_dir=str(tmp_path)).train()
    (said,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert said in capsys.readouterr().out


def test_the_page_names_the_versions_of_vllm_that_trl_takes():
    (wanted,) = [line for line in importlib.metadata.requires("trl") or [] if line.startswith("vllm")]
    low, high = (re.search(rf"{bound}(\d+\.\d+)", wanted)[1] for bound in (">=", "<="))
    assert f"TRL {importlib.metadata.version('trl').rpartition('.')[0]} takes vLLM {low} to {high}" in PAGE


def test_the_shares_with_a_signal_of_the_page():
    for number, share in ((4, "0.34"), (8, "0.57")):
        assert f"{1 - 0.1**number - 0.9**number:.2f}" == share
        assert f"{share} with {number}" in PAGE


@pytest.mark.parametrize("forecasts", [True, False])
def test_the_rank_correlation_is_that_of_a_run(forecasts):
    """Of prompts whose words tell how hard they are; over the steps it is what EstimatorCalibration says of them."""
    prompts = {f"p{number}": f"{'easy' if number % 2 else 'hard'} question {number}" for number in range(64)}
    options = {"estimator": "similar_prompts"} if forecasts else {}
    core = Core("grpo", prompts, seed=0, group_size=4, **options)
    found, of_all_steps = [], EstimatorCalibration()
    for _ in range(4):
        pools = core.choose(16)
        for pool in pools:
            for index in pool.launch(pool.want()):
                pool.add(index, reward=float(int(pool.prompt_id[1:]) % 2 or index == 0), num_tokens=1)
        calibration = EstimatorCalibration(sync_on_compute=False)
        calibration.update(pools.pools_drawn())
        wanted = calibration.compute().get("estimator/rank_correlation")
        assert figures_of(pools).get("ada/rank_correlation") == (None if wanted is None else float(wanted))
        found.append(wanted)
        of_all_steps.update(pools.pools_drawn())
        core.tell(pools)
    assert found[0] is None
    assert (found[-1] is not None and found[-1] > 0.9) == forecasts
    if forecasts:
        assert of_all_steps.compute()["estimator/rank_correlation"] > 0.5


@pytest.mark.filterwarnings("error::UserWarning")  # it calls no math-verify
def test_a_reward_of_this_project_grades_texts_and_messages():
    function = graded_by(MathReward())
    assert Grading(function).names == ["MathReward"]
    texts = [r"\boxed{\frac12}", r"\boxed{2}", "nothing"]
    asked = {"answer": ["0.5"] * 3, "level": [1, 2, 3]}
    assert function(prompts=["?"] * 3, completions=texts, **asked) == [1.0, 0.0, 0.0]
    turns = [[{"role": "assistant", "content": text}] for text in texts]
    assert function(prompts=[[{"role": "user", "content": "?"}]] * 3, completions=turns, **asked) == [1.0, 0.0, 0.0]


def test_a_reward_sees_columns_and_what_it_raises_is_worth_what_it_is_in_a_run():
    seen = []

    def reward(prompt, completion):
        seen.append((prompt.reference, completion.num_tokens))
        errors = {"bad": ValueError("no"), "gone": ConnectionError("server"), "other": NotApplicableError("task")}
        if completion.text in errors:
            raise errors[completion.text]
        return 0.25 if completion.text == "number" else Verdict(1.0)

    texts = ["fine", "bad", "gone", "other", "number"]
    given = {"completion_ids": [[1] * 3] * 5, "trainer_state": SimpleNamespace(), "log_extra": print}
    found = graded_by(reward)(
        prompts=["?"] * 5, completions=texts, answer=list("abcde"), level=[1, 2, 3, 4, 5], **given
    )
    assert found == [1.0, 0.0, None, None, 0.25]
    assert seen[1] == ({"answer": "b", "columns": {"level": 2}}, 3)


def test_a_reward_of_this_project_needs_a_column_of_answers():
    with pytest.raises(ValueError, match="missing a required argument: 'answer'"):
        AdaRollouts("grpo", [{"prompt": "1?", "solution": "1"}], reward=graded_by(MathReward()), num_prompts=1)
