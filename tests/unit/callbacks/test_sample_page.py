from dataclasses import replace

import pytest

from ada_lightning.callbacks.response_log import ResponseLog
from ada_lightning.callbacks.sample_page import MAX_CHARACTERS, SamplePage, write_sample_page
from ada_lightning.core.episode import Episode, Turn
from ada_lightning.core.step_records import EvaluationResult
from tests.unit.callbacks.small_run import Leader, Policy, make_group, make_rollout


def page_of(tmp_path, *results, **arguments):
    callbacks = [ResponseLog(run_dir=tmp_path, every_n_steps=1), SamplePage(run_dir=tmp_path, **arguments)]
    for result in results:
        for callback in callbacks:
            if isinstance(result, EvaluationResult):
                callback.on_evaluation_end(Leader(), Policy(), result)
            else:
                callback.on_rollout_end(Leader(), Policy(), result)
    return (tmp_path / "samples.html").read_text(encoding="utf-8")


def evaluation(step, *groups):
    return EvaluationResult(step, step, groups, {}, is_final=False)


def test_prompt_shows_a_right_and_a_wrong_response_and_what_it_cost(tmp_path):
    page = page_of(tmp_path, make_rollout(7, (make_group("p", [0.0, 0.0, 1.0, 0.0], 2),)))
    assert "step 7" in page
    assert "1 right of 4 sampled (25%) &middot; 2 kept &middot; 8 tokens" in page
    assert "user: question p" in page
    right, wrong = page.split("<div class=right>")[1].split("<div class=wrong>")
    assert "answer 2 — ü" in right
    assert "answer 0 — ü" in wrong
    assert "advantage -0.5" in wrong  # one that trains, rather than the last


def test_prompts_that_teach_come_first(tmp_path):
    groups = [make_group(name, rewards, 2) for name, rewards in (("dull", [0.0, 0.0]), ("good", [1.0, 0.0]))]
    groups[1].pool.slot = 1
    page = page_of(tmp_path, make_rollout(0, tuple(groups)), max_prompts=1)
    assert "question good" in page
    assert "question dull" not in page
    page = page_of(tmp_path, make_rollout(0, tuple(groups)), max_prompts=2)
    assert "no right response" in page


def test_model_text_is_never_markup(tmp_path):
    group = make_group("p", [1.0, 0.0], 2)
    group.pool.responses[0] = replace(
        group.pool.responses[0], text="<script>alert(1)</script>", answer="<img src=x onerror=alert(2)>"
    )
    group.pool.prompt = replace(group.pool.prompt, task="<b>", messages=({"role": "user", "content": "</pre><i>"},))
    page = page_of(tmp_path, make_rollout(0, (group,)))
    for markup in ("<script", "<img", "<b>", "<i>"):
        assert markup not in page
    assert "&lt;script&gt;" in page


def test_long_texts_keep_both_ends(tmp_path):
    group = make_group("p", [1.0, 0.0], 2)
    group.pool.responses[0] = replace(group.pool.responses[0], text="start" + "x" * 10 * MAX_CHARACTERS + "end")
    page = page_of(tmp_path, make_rollout(0, (group,)))
    assert len(page) < 3 * MAX_CHARACTERS
    assert "start" in page
    assert "xend" in page
    assert "characters ...]" in page


def test_heldout_prompts_before_and_after_those_that_changed_first(tmp_path):
    before = [make_group("same", [1.0, 1.0], 2), make_group("better", [0.0, 0.0], 2)]
    after = [make_group("same", [1.0, 1.0], 2), make_group("better", [1.0, 1.0], 2)]
    page = page_of(tmp_path, evaluation(0, *before), make_rollout(0), evaluation(3, *before), evaluation(5, *after))
    assert "Held-out prompts: step 0 and step 5" in page
    heldout = page.split("Held-out prompts")[1]
    assert heldout.index("question better") < heldout.index("question same")
    assert "pass rate 0.00 &rarr; 1.00" in heldout
    assert "step 0: wrong" in heldout
    assert "step 5: right" in heldout


def test_no_prompts(tmp_path):
    assert write_sample_page(tmp_path).read_text(encoding="utf-8").count("<article>") == 0
    with pytest.raises(ValueError, match=r"max_prompts must be at least 1; got 0; .*~callbacks.sample_page"):
        SamplePage(run_dir="x", max_prompts=0)


def test_turns_of_an_episode_are_told_from_what_the_environment_said(tmp_path):
    group = make_group("p", [1.0, 0.0], 2)
    turns = (Turn("calc: <1 + 1>", "result: 2"), Turn("2"))
    episode = Episode(turns, (True, False), "turns")
    group.pool.responses[0] = replace(group.pool.responses[0], text="2", episode=episode)
    page = page_of(tmp_path, make_rollout(0, (group,)))
    assert (
        "<pre><span class=model>calc: &lt;1 + 1&gt;</span>\n<span class=environment>result: 2</span>\n"
        "<span class=model>2</span>\n</pre>"
    ) in page
    assert "1 tokens, 2 turns, ended by turns" in page
    assert page.count("<span class=environment>") == 1  # the other response is a single turn
