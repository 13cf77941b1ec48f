from dataclasses import replace

import pytest

from ada_lightning.callbacks.prompt_log import COLUMNS, PromptLog, read_prompts, unbiased_pass_rate
from ada_lightning.core.records import Belief, Prompt, ResponseGroup, ResponsePool
from ada_lightning.core.stopping.rule import QuotaRule
from tests.builders import make_pool
from tests.unit.callbacks.small_run import Leader, Policy, make_group, make_rollout


def log_steps(log, *steps):
    for step in steps:
        log.on_rollout_end(Leader(), Policy(), make_rollout(step))


def test_row_says_what_a_prompt_cost_and_gave(tmp_path):
    group = make_group("p", [1.0, 0.0, 0.0], 2)
    group.pool.belief = Belief(1.0, 3.0)
    group.pool.num_drawn, group.pool.num_failed, group.pool.num_truncated_excluded = 6, 1, 2
    responses = group.pool.responses
    responses[2] = replace(responses[2], round_index=1)
    PromptLog(run_dir=tmp_path).on_rollout_end(Leader(), Policy(), make_rollout(3, (group,)))
    frame = read_prompts(tmp_path)
    assert list(frame.columns) == list(COLUMNS)
    assert frame.to_dict("records") == [
        {
            "step": 3, "policy_version": 3, "slot": 0, "prompt_id": "p", "task": "", "expected_pass_rate": 0.25,
            "pass_rate": 0.5, "num_first_round": 2, "num_first_round_positive": 1, "num_drawn": 6, "num_sampled": 3,
            "num_positive": 1, "num_truncated": 3, "num_failed": 1, "num_rounds": 2, "num_kept": 2, "has_signal": 1,
            "is_resolved": 1, "reward_mean": pytest.approx(1 / 3, abs=1e-6), "tokens": 6,
            "hint": 0, "num_hints": 0,
        }
    ]  # fmt: skip


def test_texts_that_look_like_missing_values_or_hold_commas_survive(tmp_path):
    pool = ResponsePool(Prompt("NA", (), task='a,\n"b"'), slot=0)
    for step in range(2):  # each reads what the one before left
        PromptLog(run_dir=tmp_path).on_rollout_end(Leader(), Policy(), make_rollout(step, (ResponseGroup(pool, ()),)))
    assert len(read_prompts(tmp_path)) == 2
    row = read_prompts(tmp_path).iloc[0]
    assert (row.prompt_id, row.task, row.num_rounds) == ("NA", 'a, "b"', 0)
    assert row.isna().sum() == 2  # pass rate and mean reward: nothing counted


@pytest.mark.parametrize("cut", [0, 20])
def test_resume_replaces_the_steps_of_the_lost_attempt_and_a_line_that_a_kill_cut(tmp_path, cut):
    log_steps(PromptLog(run_dir=tmp_path), 0, 1, 2, 3)
    file = tmp_path / "prompts.csv"
    file.write_bytes(file.read_bytes()[: file.stat().st_size - cut])
    assert read_prompts(tmp_path).step.tolist() == [0, 0, 1, 1, 2, 2, 3, 3][: -1 if cut else None]
    log_steps(PromptLog(run_dir=tmp_path), 2)
    assert read_prompts(tmp_path).step.tolist() == [0, 0, 1, 1, 2, 2]


def test_a_hinted_group_says_which_level_it_had_and_files_of_before_go_on(tmp_path):
    from ada_lightning.core.following import hinted
    from ada_lightning.core.hint import Solution

    log_steps(PromptLog(run_dir=tmp_path), 0)
    file = tmp_path / "prompts.csv"
    file.write_text("".join(line.rsplit(",", 2)[0] + "\n" for line in file.read_text().splitlines()))
    assert read_prompts(tmp_path)[["hint", "num_hints"]].to_numpy().tolist() == [[0, 0], [0, 0]]
    known = Prompt("p", ({"role": "user", "content": "?"},), solution=Solution("a\nb\nc", (), ((2, 0), (4, 0), (5, 0))))
    group = ResponseGroup(ResponsePool(hinted(known, 2), slot=9), ())
    PromptLog(run_dir=tmp_path).on_rollout_end(Leader(), Policy(), make_rollout(1, (group,)))
    rows = read_prompts(tmp_path)
    assert rows[["prompt_id", "hint", "num_hints"]].to_numpy().tolist()[2:] == [["p#2", 2, 3]]
    assert rows.hint.tolist() == [0, 0, 2]


def test_run_without_the_file_has_no_rows(tmp_path):
    frame = read_prompts(tmp_path)
    assert frame.empty
    assert list(frame.columns) == list(COLUMNS)


@pytest.mark.parametrize(
    ("rewards", "rule", "later", "expected"),
    [
        # One at a time until a positive: the pool's mean of 1/3 is what a mean over prompts must not use.
        ([0, 0, 1], {"k_pos": 1}, (), 0.0),
        ([0, 1, 0, 1], {"k_pos": 2}, (), 1 / 3),  # (k - 1) / (n - 1)
        # The first positive should have ended it: counts that the rule cannot reach leave the first round.
        ([1, 0, 1], {"k_pos": 1}, (2,), 0.5),
        ([1, 0, 1], None, (2,), 0.5),
    ],
)
def test_pass_rate_is_not_that_of_the_pool_where_stopping_biased_it(rewards, rule, later, expected):
    pool = make_pool(rewards)
    pool.rule = rule and QuotaRule(**rule, k_neg=0, samples_per_round=1, n_max=8)
    for place in later:
        pool.responses[place] = replace(pool.responses[place], round_index=1)
    assert unbiased_pass_rate(pool) == pytest.approx(expected)


def test_only_the_first_process_writes(tmp_path):
    class Second(Leader):
        is_global_zero = False

    PromptLog(run_dir=tmp_path).on_rollout_end(Second(), Policy(), make_rollout(0))
    assert not (tmp_path / "prompts.csv").exists()
