"""What the data and reward configurations that ship make of a user's files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hydra.utils import instantiate

from ada_lightning.config.check import ConfigError, check_config, override_errors
from ada_lightning.core.records import Prompt
from ada_lightning.programs.start import CONFIG_DIR as CONF
from tests.unit.config.composing import composed as compose_train


def composed(*overrides: str):
    assert override_errors(list(overrides), CONF, "train") == []
    return compose_train("model=tiny", *overrides)


def write(path: Path, rows) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


@pytest.fixture
def file(tmp_path):
    return write(tmp_path / "a.jsonl", [{"question": f"{i}", "answer": f"so\n#### {i}", "level": i} for i in range(9)])


def test_a_data_set_with_patterns_filters_and_a_format(file):
    cfg = composed(
        "data=dataset",
        f"data.source.path={file}",
        "data.source.num_heldout=1",
        'data.source.answer_pattern="#### (.*)"',
        "data.source.filters=[{_target_: ada_lightning.data.filters.ColumnRange, column: level, minimum: 4}]",
        "data.source.keep_columns=[level]",
        "data/format=chat",
        "+data.format.arguments.enable_thinking=false",
        "reward=exact_match",
    )
    check_config(cfg)
    data = instantiate(cfg.data)
    assert data.format.arguments == {"enable_thinking": False}
    prompts = data.source.train_prompts()
    assert len(prompts) == 4
    assert {p.messages[0]["content"]: p.reference for p in prompts}.items() <= {
        f"{i}": {"answer": f"{i}", "solution": f"so\n#### {i}", "columns": {"level": i}} for i in range(4, 9)
    }.items()


def test_problems_of_the_data_are_found_by_the_check(file):
    with pytest.raises(ConfigError, match=r"data\.source: .*a\.jsonl, line 1: no column 'text'; columns found: answer"):
        check_config(composed("data=dataset", f"data.source.path={file}", "data.source.prompt_column=text"))
    own = "[{_target_: ada_lightning.data.filters.ColumnIn, values: [1]}]"
    with pytest.raises(ConfigError, match=r"1\. data\.source\.filters\.0: .*'column'"):
        check_config(composed("data=dataset", f"data.source.path={file}", f"data.source.filters={own}"))
    with pytest.raises(ConfigError, match=r"data\.source: data\.source\.sources is empty; name each source"):
        check_config(composed("data=mixture"))
    with pytest.raises(ConfigError, match=r"data\.format: cannot read data\.format\.template_file = none\.jinja"):
        check_config(
            composed(
                "data=dataset", f"data.source.path={file}", "data.source.num_heldout=1", "data/format=chat",
                "data.format.template_file=none.jinja", "reward=exact_match",
            )
        )  # fmt: skip


def test_a_mixture_with_a_reward_for_each_source(file):
    sums = "{chain_sum: {}}"
    gym = "_target_: ada_lightning.data.reasoning_gym.ReasoningGymSource, num_train: 8, num_heldout: 2, seed: 0"
    texts = f"_target_: ada_lightning.data.dataset.DatasetSource, path: {file}, num_heldout: 1, seed: 0"
    box = "extraction: {_target_: ada_lightning.rewards.extraction.LastBoxed}"
    number = "extraction: {_target_: ada_lightning.rewards.extraction.LastNumber}"
    gym_reward = "_target_: ada_lightning.rewards.reasoning_gym.ReasoningGymReward, binary: true"
    cfg = composed(
        "data=mixture",
        f"+data.source.sources.sums={{weight: 3, source: {{{gym}, tasks: {sums}}}}}",
        f"+data.source.sources.texts={{source: {{{texts}}}}}",
        "reward=by_task",
        f"+reward.reward.rewards.sums={{{gym_reward}, {number}}}",
        f"+reward.reward.rewards.texts={{_target_: ada_lightning.rewards.exact_match.ExactMatchReward, {box}}}",
    )
    check_config(cfg)
    source = instantiate(cfg.data).source
    epoch = source.epoch(source.train_prompts())
    assert sum(prompt.task == "sums" for prompt in epoch) == 24
    assert len(epoch) == 32
    cfg.reward.reward.rewards.sums.binary = False
    with pytest.raises(ConfigError, match=r"reward\.reward\.rewards\.sums\.binary = false gives partial credit"):
        check_config(cfg)
    reward = instantiate(cfg.reward).reward
    reward.check_prompt(source.train_prompts()[0])
    with pytest.raises(ValueError, match="no reward for the task 'dataset'"):
        reward.check_prompt(Prompt("id", (), task="dataset"))


def test_the_papers_own_sets_and_bare_problems_give_the_papers_prompt(tmp_path):
    """Reference section 3.3, written out once more."""
    system = r"Please reason step by step, and put your final answer within \boxed{}."
    user = "What is\n1 + 1?" r" Let's think step by step and output the final answer within \boxed{}."
    turns = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    other = [{"role": "system", "content": "Other."}, turns[1]]
    theirs = {"data_source": "numina_math", "prompt": other, "reward_model": {"style": "rule", "ground_truth": "2"}}
    bare = {"prompt": "What is\n1 + 1?", "answer": "2"}
    found = []
    for row in (theirs, bare):
        path = write(tmp_path / "a.jsonl", [row])
        cfg = composed("+experiment=paper/grpo", f"data.source.path={path}", "data.source.num_heldout=0")
        [prompt] = instantiate(cfg.data).source.train_prompts()
        assert prompt.messages == tuple(turns)
        assert prompt.reference["answer"] == "2"
        found.append(prompt.prompt_id)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("override", "way_out"),
    [
        ("rollout.schedule=barrier", "write rollout/schedule=barrier"),
        ("reward.reward=math", "write reward=math"),
        ("data.source=gsm8k", "choose one by data=<option>, of "),
    ],
)
def test_a_word_where_a_part_stands_is_refused_with_the_group_that_chooses_it(override, way_out):
    (error,) = override_errors([override], CONF, "train")
    key = override.partition("=")[0]
    assert error.startswith(f"{override}: {key} is a part with settings, not a single value; ")
    assert way_out in error


def test_a_part_may_be_left_out_or_referred_to():
    assert override_errors(["rollout.schedule=null"], CONF, "train") == []
    assert override_errors(["callbacks.evaluation.sampling=${rollout.sampling}"], CONF, "train") == []
