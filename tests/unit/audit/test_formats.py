"""The same log, as each trainer writes it, gives one answer."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, replace

import pandas as pd
import pytest
import torch

from ada_lightning.audit.figures import audit
from ada_lightning.audit.readers.find import READERS, read_logs, tokenizer_of
from ada_lightning.audit.records import Cause, Options, Sampling
from ada_lightning.audit.sentences import about
from ada_lightning.audit.untrusted import RefusedFileError
from research.audit.synthetic import Population, draw
from research.audit.writers import WRITERS, write_word_tokenizer

POPULATION = Population(num_prompts=60, num_steps=3, group_size=8)


@pytest.fixture(scope="module")
def log():
    return draw(POPULATION, 0)


@pytest.fixture(scope="module")
def expected(log):
    return answer(log)


def answer(log):
    """Every figure of a log that all formats have."""
    found = audit(log, num_resamples=300)
    figures = {name: asdict(value) for name, value in found.figures.items() if name != "truncated"}
    return {"figures": figures, "rules": [asdict(row) for row in found.rules], "raw": found.raw}


def flat(value, name=""):
    if isinstance(value, dict):
        return {key: leaf for part in value for key, leaf in flat(value[part], f"{name}/{part}").items()}
    if isinstance(value, list):
        return {key: leaf for at, item in enumerate(value) for key, leaf in flat(item, f"{name}/{at}").items()}
    return {name: value}


@pytest.mark.parametrize("format", WRITERS)
def test_one_answer(format, log, expected, tmp_path):
    rows = log.rows
    if format in ("verl", "verifiers"):  # theirs name groups; lines come as they end
        rows = sorted(rows, key=lambda row: (row.step, random.Random(row.group_key + str(row.sample_index)).random()))
    WRITERS[format](rows, tmp_path)
    write_word_tokenizer(tmp_path / "words.json")
    options = Options()
    if format == "verl":
        options = Options(tokenizer=tokenizer_of(tmp_path / "words.json", options))
    ((_, read),) = read_logs([tmp_path], options)
    assert read.format == READERS[format].NAME
    assert len(read.rows) == len(log.rows)
    found, wanted = flat(answer(read)), flat(expected)
    assert found.keys() == wanted.keys()
    texts = {name for name, value in wanted.items() if isinstance(value, str | None | bool)}
    assert {name: found[name] for name in texts} == {name: wanted[name] for name in texts}
    numbers = [name for name in wanted if name not in texts]
    assert [found[name] for name in numbers] == pytest.approx([wanted[name] for name in numbers], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("format", [name for name in WRITERS if name not in ("verl",)])
def test_a_file_alone_is_known_by_its_content(format, log, tmp_path):
    WRITERS[format](log.rows, tmp_path)
    paths = READERS[format].files(tmp_path)
    assert len(paths) == POPULATION.num_steps
    ((_, read),) = read_logs([paths[1]], Options())
    assert {row.step for row in read.rows} == {1}


def test_files_of_one_folder_are_one_log(log, tmp_path):
    WRITERS["trl"](log.rows, tmp_path)
    ((name, read),) = read_logs(sorted((tmp_path / "completions").iterdir()), Options())
    assert name.endswith("completions")
    assert len({row.step for row in read.rows}) == 3


def test_verl_without_a_tokenizer_counts_characters_and_says_so(log, tmp_path):
    WRITERS["verl"](log.rows, tmp_path)
    ((_, read),) = read_logs([tmp_path], Options())
    assert [row.num_characters for row in read.rows[:50]] == [row.num_characters for row in log.rows[:50]]
    assert read.holes[0].what == "token counts"
    assert "--tokenizer" in read.holes[0].setting
    assert read.remarks == ["3 rows that only fill the batch are left out"]


def test_verl_joins_the_outputs_of_an_episode(tmp_path):
    line = {"input": "q", "output": "ab", "gts": "1", "score": 0.0, "step": 4}
    lines = [line | {"uid": "u_0_0"}, line | {"uid": "u_0_1", "score": 1.0, "output": "cde"}, line | {"uid": "u_1_0"}]
    (tmp_path / "4.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    ((_, read),) = read_logs([tmp_path], Options())
    assert [(row.sample_index, row.reward, row.num_characters) for row in read.rows] == [(0, 1.0, 5), (1, 0.0, 2)]


def test_verifiers_says_which_episodes_a_filter_took_out(log, tmp_path):
    WRITERS["verifiers"](log.rows, tmp_path)
    effective = tmp_path / "rollouts" / "step_1" / "train" / "effective" / "traces.jsonl"
    effective.write_text("".join(effective.read_text().splitlines(keepends=True)[8:]))
    ((_, read),) = read_logs([tmp_path], Options())
    assert [row.untrained for row in read.rows if row.step == 1][:9] == [Cause.FILTERED] * 8 + [None]


def test_trl_finds_a_repeated_rollout_and_missing_steps(log, tmp_path):
    rows = [replace(row, step=3 * row.step) for row in log.rows]
    WRITERS["trl"](rows, tmp_path)
    WRITERS["trl"]([replace(row, step=row.step + 1) for row in rows if not row.step], tmp_path / "again")
    (tmp_path / "again" / "completions" / "completions_00001.parquet").rename(
        tmp_path / "completions" / "completions_00001.parquet"
    )
    ((_, read),) = read_logs([tmp_path], Options())
    assert len(read.rows) == len(rows)
    assert read.remarks == ["the reward is the sum of accuracy", "1 files repeat the rollout of an earlier step"]
    (hole,) = (hole for hole in read.holes if hole.setting == "logging_steps=1")
    assert hole.what == "3 of 7 steps"  # 0, 1 (which repeats 0), 3 and 6 are there


def test_trl_misses_no_step_where_files_repeat_a_rollout(log, tmp_path):
    rows = [replace(row, step=2 * row.step) for row in log.rows]
    WRITERS["trl"](rows, tmp_path)
    for step in (0, 2, 4):  # num_iterations=2: every rollout is logged twice
        table = pd.read_parquet(tmp_path / "completions" / f"completions_{step:05d}.parquet")
        table.assign(step=step + 1).to_parquet(tmp_path / "completions" / f"completions_{step + 1:05d}.parquet")
    ((_, read),) = read_logs([tmp_path], Options())
    assert len(read.rows) == len(rows)
    assert not any(hole.setting == "logging_steps=1" for hole in read.holes)


@pytest.mark.parametrize("difficulty", [[float(n % 5) for n in range(60)], [n % 5 for n in range(60)]])
def test_a_column_that_says_something_of_prompts_is_no_reward_of_trls(log, tmp_path, difficulty):
    rows = [row for row in log.rows if row.step == 0]
    WRITERS["trl"](rows, tmp_path)
    table_of(tmp_path, difficulty=[difficulty[int(row.group_key) % 60] for row in rows])
    ((_, read),) = read_logs([tmp_path], Options())
    assert [row.reward for row in read.rows] == [row.reward for row in rows]
    assert read.remarks == [
        "the reward is the sum of accuracy; other columns of numbers, which are not used: difficulty"
    ]
    ((_, both),) = read_logs([tmp_path], Options(rewards={"accuracy": 1.0, "difficulty": 1.0}))
    assert [row.reward for row in both.rows] != [row.reward for row in rows]


def test_whole_numbers_are_rewards_of_trls_where_no_float_is_one(log, tmp_path):
    rows = [row for row in log.rows if row.step == 0]
    WRITERS["trl"](rows, tmp_path)
    table_of(tmp_path, accuracy=[int(row.reward) for row in rows], difficulty=[float(row.group_key) for row in rows])
    ((_, read),) = read_logs([tmp_path], Options())
    assert [row.reward for row in read.rows] == [row.reward for row in rows]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"accuracy": "yes"}, "name it by --reward; columns of numbers: none"),
        ({"accuracy": 1.0, "level": 2.0}, "none differs between the responses of a prompt.*numbers: accuracy, level"),
        ({"accuracy": 1, "level": 2}, "none differs between the responses of a prompt.*numbers: accuracy, level"),
    ],
)
def test_a_log_of_trls_whose_reward_cannot_be_told_is_refused(log, tmp_path, columns, said):
    WRITERS["trl"]([row for row in log.rows if row.step == 0], tmp_path)
    table_of(tmp_path, **columns)
    with pytest.raises(RefusedFileError, match=said):
        read_logs([tmp_path], Options())
    with pytest.raises(RefusedFileError, match="--reward nothing is no column of rewards in this log; columns of num"):
        read_logs([tmp_path], Options(rewards={"nothing": 1.0}))


@pytest.mark.parametrize("numbers", [int, float])
def test_a_number_that_differs_where_no_advantage_does_is_no_reward_of_trls(log, tmp_path, numbers):
    rows = [row for row in log.rows if row.step == 0]
    WRITERS["trl"](rows, tmp_path)
    lengths = [numbers(n % 7) for n in range(len(rows))]
    table_of(tmp_path, accuracy=0.0, advantage=0.0, length=lengths)
    ((_, read),) = read_logs([tmp_path], Options())
    assert {row.reward for row in read.rows} == {0.0}
    table_of(tmp_path, other=1.0)
    with pytest.raises(RefusedFileError, match=r"columns length does not fit.*numbers: accuracy, length, other"):
        read_logs([tmp_path], Options())


def test_sums_that_differ_by_rounding_alone_contradict_no_advantage(log, tmp_path):
    WRITERS["trl"]([row for row in log.rows if row.step == 0], tmp_path)
    pairs = [(0.1, 0.2), (0.3, 0.0)] * (len(log.rows) // 6)  # 0.1 + 0.2 is not 0.3
    table_of(tmp_path, accuracy=[a for a, _ in pairs], form=[b for _, b in pairs], advantage=0.0)
    ((_, read),) = read_logs([tmp_path], Options())
    assert read.remarks == ["the reward is the sum of accuracy, form"]


def test_one_column_that_never_differs_is_no_reward_where_advantages_do(log, tmp_path):
    WRITERS["trl"]([row for row in log.rows if row.step == 0], tmp_path)
    table_of(tmp_path, accuracy=1.0)
    with pytest.raises(RefusedFileError, match="columns accuracy does not fit the logged advantages"):
        read_logs([tmp_path], Options())


def test_one_column_that_never_differs_may_be_the_reward(log, tmp_path):
    WRITERS["trl"]([row for row in log.rows if row.step == 0], tmp_path)
    table_of(tmp_path, accuracy=0.0, advantage=0.0)
    ((_, read),) = read_logs([tmp_path], Options())
    assert {row.reward for row in read.rows} == {0.0}


def test_a_reward_that_is_named_and_not_there_or_not_asked_for_is_refused(log, tmp_path):
    WRITERS["verl"](log.rows, tmp_path / "verl")
    with pytest.raises(RefusedFileError, match="--reward accuracy is in no row; numbers that are: score"):
        read_logs([tmp_path / "verl"], Options(rewards={"accuracy": 1.0}))
    ((_, read),) = read_logs([tmp_path / "verl"], Options(rewards={"score": 2.0}))
    assert {row.reward for row in read.rows} == {0.0, 2.0}
    for format in ("tinker", "verifiers", "ada"):
        WRITERS[format](log.rows, tmp_path / format)
        with pytest.raises(RefusedFileError, match="say what the reward is; leave --reward out"):
            read_logs([tmp_path / format], Options(rewards={"accuracy": 1.0}))


def test_parts_of_a_reward_of_slimes_are_added_up_by_name(log, tmp_path):
    WRITERS["slime"](log.rows, tmp_path)
    with pytest.raises(
        RefusedFileError, match="--reward accuracy is not in any sample; parts of rewards: none: each reward"
    ):
        read_logs([tmp_path], Options(rewards={"accuracy": 1.0}))
    for path in tmp_path.rglob("*.pt"):
        content = torch.load(path, weights_only=True)
        for sample in content["samples"]:
            sample["reward"] = {"accuracy": sample["reward"], "format": 1.0}
        torch.save(content, path)
    with pytest.raises(
        RefusedFileError, match="--reward form is not in any sample; parts of rewards: accuracy, format"
    ):
        read_logs([tmp_path], Options(rewards={"form": 1.0}))
    with pytest.raises(RefusedFileError, match=r"the reward has parts \(accuracy, format\)"):
        read_logs([tmp_path], Options())
    ((_, read),) = read_logs([tmp_path], Options(rewards={"accuracy": 1.0, "format": 0.5}))
    assert {row.reward for row in read.rows} == {0.5, 1.5}


def test_trl_refuses_rewards_that_its_advantages_contradict(log, tmp_path):
    WRITERS["trl"]([replace(row, advantage=-row.advantage) for row in log.rows], tmp_path)
    with pytest.raises(RefusedFileError, match=r"columns accuracy does not fit the logged advantages.*--reward"):
        read_logs([tmp_path], Options())
    ((_, read),) = read_logs([tmp_path], Options(rewards={"accuracy": -1.0}))
    assert {row.reward for row in read.rows} == {0.0, -1.0}


def test_trl_asks_for_a_group_size_where_prompts_stand_beside_each_other(log, tmp_path):
    rows = [row for row in log.rows if row.step == 0][:20]  # groups of 8, 8 and 4
    WRITERS["trl"]([rows[0]] * 3 + rows, tmp_path)
    with pytest.raises(RefusedFileError, match=r"runs of .* give num_generations by --group-size"):
        read_logs([tmp_path], Options())


def test_our_run_says_how_much_of_it_was_not_kept(log, tmp_path):
    WRITERS["ada"](log.rows, tmp_path)
    (tmp_path / "responses" / "train" / "step_000002.parquet").unlink()
    ((_, read),) = read_logs([tmp_path], Options())
    (hole,) = (hole for hole in read.holes if "max_prompts=inf" in hole.setting)
    assert hole.what == "60 of 180 groups"


def table_of(folder, **columns):
    """Columns of TRL's only table, before the advantage."""
    changed(folder, "completions_00000.parquet", **{"advantage": lambda table: table["advantage"]} | columns)
    (path,) = folder.rglob("completions_00000.parquet")
    table = pd.read_parquet(path)
    table[[name for name in table if name != "advantage"] + ["advantage"]].to_parquet(path)


def changed(folder, pattern, **columns):
    """Columns of a table that a writer wrote, changed."""
    (path,) = folder.rglob(pattern)
    table = pd.read_parquet(path)
    for name, values in columns.items():
        table[name] = values(table) if callable(values) else values
    table.to_parquet(path)


def test_trls_extras_are_no_rewards_and_a_name_outlives_a_change_of_the_text(log, tmp_path):
    WRITERS["trl"]([row for row in log.rows if row.step == 0], tmp_path)
    changed(
        tmp_path,
        "completions_00000.parquet",
        num_tokens=lambda table: table["num_tokens"].astype(float),
        policy_version=lambda table: table["policy_version"].astype(float),
        prompt_id="the same for all",
        is_truncated=lambda table: [float(index == 3) for index in range(len(table))],
        advantage=lambda table: table.pop("advantage"),  # stays the last column
    )
    ((_, read),) = read_logs([tmp_path], Options())
    assert [row.reward for row in read.rows] == [row.reward for row in log.rows if row.step == 0]
    assert len({row.prompt_key for row in read.rows}) == 1
    assert [row.is_truncated for row in read.rows[:5]] == [False, False, False, True, False]


def test_trls_groups_are_cut_where_a_person_says(log, tmp_path):
    WRITERS["trl"](log.rows, tmp_path)
    ((_, read),) = read_logs([tmp_path], Options(group_size=4))
    assert len({row.group_key for row in read.rows}) == 2 * len({(row.step, row.group_key) for row in log.rows})


def test_a_prompt_of_verls_is_its_text_and_its_reference(tmp_path):
    line = {"input": "q", "output": "a", "score": 0.0, "step": 4}
    lines = [line | {"uid": f"u{number}_0_0", "gts": gts} for number, gts in enumerate("112")]
    (tmp_path / "4.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    ((_, read),) = read_logs([tmp_path], Options())
    one, same, other = (row.prompt_key for row in read.rows)
    assert one == same != other


def test_our_run_says_what_was_left_out_in_which_block_and_whether_a_rule_stopped(log, tmp_path):
    WRITERS["ada"]([row for row in log.rows if row.step == 0], tmp_path)
    settings = "rollout:\n  truncated: mask\nsampler:\n  _target_: ada_lightning.methods.sampling.PositiveSampler\n"
    (tmp_path / "config.yaml").write_text(settings)
    changed(
        tmp_path,
        "step_000000.parquet",
        is_kept=lambda table: [index > 1 for index in range(len(table))],
        finish_reason=lambda table: ["length" if index == 0 else "stop" for index in range(len(table))],
        round=lambda table: table["sample_index"] // 4,
    )
    ((_, read),) = read_logs([tmp_path], Options())
    assert [row.untrained for row in read.rows[:3]] == [Cause.MASKED, Cause.NOT_KEPT, None]
    assert [row.block for row in read.rows[:8]] == [0] * 4 + [1] * 4
    assert read.sampling is Sampling.ADAPTIVE


def test_our_run_says_that_long_responses_were_cut(log, tmp_path):
    WRITERS["ada"]([row for row in log.rows if row.step == 0], tmp_path)
    own = {"_target_": "ada_lightning.methods.sampling.CutSampler"}
    (tmp_path / "config.yaml").write_text(json.dumps({"sampler": own}))
    ((_, read),) = read_logs([tmp_path], Options())
    assert read.sampling is Sampling.UNIFORM
    assert any("cut" in hole.what for hole in read.holes)
    (tmp_path / "config.yaml").write_text(json.dumps({"sampler": {"_target_": "UniformSampler"}}))
    ((_, read),) = read_logs([tmp_path], Options())
    assert not any("cut" in hole.what for hole in read.holes)


def test_trl_refuses_groups_whose_advantages_do_not_add_up_to_0(log, tmp_path):
    """A file that ends within a group, and rows in another order: each has runs that some size divides."""
    rows = [row for row in log.rows if row.step == 0]
    whole = tmp_path / "whole"
    WRITERS["trl"](rows, whole)
    (path,) = READERS["trl"].files(whole)
    table = pd.read_parquet(path)
    table[:82].to_parquet(tmp_path / "a.parquet")
    table[82:].to_parquet(tmp_path / "b.parquet")
    table.sample(frac=1, random_state=0).to_parquet(tmp_path / "c.parquet")
    for names in (["a", "b"], ["a"], ["c"]):
        paths = [tmp_path / f"{name}.parquet" for name in names]
        with pytest.raises(RefusedFileError, match=r"add up to .* and not to 0; was the file cut, or put in another"):
            read_logs(paths, Options())
        with pytest.raises(RefusedFileError, match=r"which are no multiples of 8"):
            read_logs(paths, Options(group_size=8))


def test_trl_finds_rewards_in_a_table_whose_columns_were_sorted(log, tmp_path):
    WRITERS["trl"](log.rows, tmp_path)
    for path in READERS["trl"].files(tmp_path):
        table = pd.read_parquet(path)
        table[sorted(table.columns)].to_parquet(path)
    ((_, read),) = read_logs([tmp_path], Options())
    assert [row.reward for row in read.rows] == [row.reward for row in log.rows]
    assert read_logs([tmp_path], Options(rewards={"accuracy": 1.0}))[0][1].rows == read.rows


@pytest.mark.parametrize("format", ["trl", "verl"])
def test_a_file_that_is_given_twice_is_refused(format, log, tmp_path):
    WRITERS[format](log.rows, tmp_path)
    path = READERS[format].files(tmp_path)[0]
    for twice in ([path, path], [path, path.parent / ".." / path.parent.name / path.name], [tmp_path, tmp_path]):
        with pytest.raises(RefusedFileError, match=r"is given twice; its responses would count twice"):
            read_logs(twice, Options())


def test_verl_refuses_an_output_that_is_there_twice(log, tmp_path):
    WRITERS["verl"](log.rows, tmp_path)
    (tmp_path / "7.jsonl").write_text((tmp_path / "0.jsonl").read_text())
    with pytest.raises(RefusedFileError, match=r"7.jsonl, line 1: uid 0-00000_0_0 was there before in its step"):
        read_logs([tmp_path], Options())


@pytest.mark.parametrize("format", [name for name in WRITERS if name != "trl"])
def test_a_group_size_is_refused_where_the_log_marks_its_groups(format, log, tmp_path):
    WRITERS[format](log.rows, tmp_path)
    with pytest.raises(RefusedFileError, match=r"mark their groups; leave --group-size out"):
        read_logs([tmp_path], Options(group_size=4))


def test_our_run_counts_as_right_what_it_did_and_a_threshold_of_a_persons_goes_first(log, tmp_path):
    rows = [replace(row, reward=0.6 * (row.reward or 0.0) + 0.2, is_positive=False) for row in log.rows]
    WRITERS["ada"](rows, tmp_path)
    config = tmp_path / "config.yaml"
    config.write_text(config.read_text() + "rollout: {positive_threshold: 0.9}\n")
    ((_, read),) = read_logs([tmp_path], Options())
    own, given = audit(read, num_resamples=50), audit(read, threshold=0.5, num_resamples=50)
    assert (own.figures["pass_rate"].value, own.gathered.threshold) == (0.0, 0.9)
    assert "Right is what the run counted as right: rewards above 0.9." in about(own)
    assert given.figures["pass_rate"].value == pytest.approx(sum(row.reward for row in log.rows) / len(log.rows))
    assert "Rewards above 0.5 count as right." in about(given)


def test_our_run_says_what_was_drawn_ahead_and_dropped(log, tmp_path):
    WRITERS["ada"](log.rows, tmp_path)
    (tmp_path / "metrics.csv").write_text("step,rollout/tokens_wasted\n1,600\n2,\n3,1300.0\n")
    ((_, read),) = read_logs([tmp_path], Options())
    (hole,) = (hole for hole in read.holes if "drawn ahead" in hole.what)
    assert hole.what == "1,900 tokens that were drawn ahead and dropped"
