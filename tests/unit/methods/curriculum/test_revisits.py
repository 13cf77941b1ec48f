"""Prompts that come back because of what their last visit showed: those with a signal, and those without one."""

from __future__ import annotations

import json

import pytest

from ada_lightning.methods.curriculum import UniformCurriculum
from ada_lightning.methods.published.prompt_replay import PromptReplay
from ada_lightning.methods.published.recycling import RetiredCurriculum
from tests.builders import make_pool
from tests.unit.methods.curriculum.histories import ids, prompts

MIXED, EMPTY = [1.0, 0.0], [0.0, 0.0]


def choose(curriculum, step, *, total=40, num=8):
    return ids(curriculum.choose(prompts(total), num, step=step, seed=0, recall=lambda asked: []))


def pools(chosen, rewards):
    return [make_pool(rewards(prompt_id), slot=slot, key=int(prompt_id[1:])) for slot, prompt_id in enumerate(chosen)]


def reloaded(curriculum, **options):
    other = type(curriculum)(**options)
    other.load_state_dict(json.loads(json.dumps(curriculum.state_dict())))
    return other


def test_three_quarters_of_a_step_at_most_and_the_rest_in_its_turn():
    curriculum = PromptReplay(cooldown=0)
    curriculum.note({f"p{index}": 0.5 for index in range(100, 140)})  # 40 wait
    chosen = choose(curriculum, 0, total=200, num=32)
    uniform = choose(UniformCurriculum(), 0, total=200, num=32)
    replayed = [prompt_id for prompt_id in chosen if 100 <= int(prompt_id[1:]) < 140 and prompt_id not in uniform[:8]]
    assert len(replayed) == 24
    assert {*chosen} == {*uniform[:8], *replayed}
    assert chosen == choose(curriculum, 0, total=200, num=32)  # asked again, the same
    assert choose(PromptReplay(), 3) == choose(UniformCurriculum(), 3)  # nothing waits


def test_a_prompt_rests_comes_back_and_has_had_enough():
    curriculum = PromptReplay(cooldown=2, max_reuses=2)
    came_back = []
    for step in range(14):
        came_back.append(curriculum.waiting() == ["a"])
        curriculum.note({"a": 0.5} if came_back[-1] or step == 0 else {})
    # sampled in step 0, rests for 2 steps, sampled in step 3, rests, sampled in step 6, then never again
    assert [step for step, waits in enumerate(came_back) if waits] == [3, 6]


def test_a_rate_that_has_left_the_band_leaves_the_buffer():
    curriculum = PromptReplay(cooldown=0)
    curriculum.note({"a": 0.5, "b": 0.75})
    curriculum.note({"a": 0.8})
    assert curriculum.waiting() == ["b"]
    curriculum.observe([make_pool([]), make_pool([1.0, 0.0, 0.0], key=3)])  # nothing graded is no visit
    assert curriculum.waiting() == ["p3", "b"]
    assert curriculum.figures([]) == {"waiting": 2.0}


def test_what_had_a_signal_is_retired_and_what_had_none_comes_again():
    curriculum = RetiredCurriculum()
    chosen = choose(curriculum, 0, total=12)
    mixed = {*chosen[:4]}
    curriculum.observe(pools(chosen, lambda prompt_id: MIXED if prompt_id in mixed else EMPTY))
    following = choose(curriculum, 1, total=12)
    assert {*following} == {f"p{index}" for index in range(12)} - mixed  # 4 never seen, 4 without a signal
    curriculum.observe(pools(following, lambda prompt_id: MIXED if prompt_id == chosen[5] else EMPTY))
    assert curriculum.figures([]) == {"retired": 5.0, "flipped": 0.25}


def test_when_too_few_are_left_the_longest_retired_come_back():
    curriculum = RetiredCurriculum()
    first = choose(curriculum, 0, total=16)
    curriculum.observe(pools(first, lambda prompt_id: MIXED))
    second = choose(curriculum, 1, total=16)
    assert {*second}.isdisjoint(first)
    curriculum.observe(pools(second, lambda prompt_id: MIXED))
    assert {*choose(curriculum, 2, total=16)} == {*first}
    assert len(choose(curriculum, 2, total=16, num=20)) == 20


@pytest.mark.parametrize(("kind", "options"), [(PromptReplay, {"cooldown": 1}), (RetiredCurriculum, {})])
def test_what_is_remembered_outlives_a_stop(kind, options):
    curriculum = kind(**options)
    for step in range(6):
        chosen = choose(curriculum, step)
        assert choose(reloaded(curriculum, **options), step) == chosen
        curriculum.observe(pools(chosen, lambda prompt_id: MIXED if int(prompt_id[1:]) % 3 else EMPTY))
    assert reloaded(curriculum, **options).state_dict() == curriculum.state_dict()
    assert curriculum.learns
    assert "nothing" in curriculum.caveat()


def test_what_replay_refuses():
    with pytest.raises(
        ValueError, match=r"low <= high <= 1; got 0.8 and 0.75; .*share .* 2; .*cooldown .*-1; .*max_reuses"
    ):
        PromptReplay(low=0.8, share=2, cooldown=-1, max_reuses=0)
