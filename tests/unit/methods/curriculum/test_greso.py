from __future__ import annotations

import math

import pytest

from ada_lightning.methods.curriculum import DifficultyBand, UniformCurriculum
from ada_lightning.methods.published.greso import GresoCurriculum
from ada_lightning.methods.published.prompt_replay import PromptReplay
from tests.builders import make_pool
from tests.unit.methods.curriculum.histories import ids, prompts

EASY, HARD, MIXED = [1.0] * 4, [0.0] * 4, [1.0, 0.0, 0.0, 1.0]


def choose(curriculum, step, total=40, num=10):
    return ids(curriculum.choose(prompts(total), num, step=step, seed=0, recall=lambda asked: []))


def test_unknown_prompts_come_as_in_the_other_curriculum():
    curriculum = GresoCurriculum()
    assert curriculum.learns
    assert choose(curriculum, 3) == choose(UniformCurriculum(), 3)
    of_band = GresoCurriculum(curriculum=DifficultyBand())
    assert of_band.needs_history
    assert "skipped at random, down to a chance of 0.01" in of_band.caveat()
    assert "in [0.1, 0.9]" in of_band.caveat()


def test_the_chance_falls_with_every_visit_without_a_signal_and_one_with_it_restores_it():
    curriculum = GresoCurriculum(step_size=0.0)
    for expected in (0.5, 0.25, 0.125):
        curriculum.observe([make_pool(HARD, key=1), make_pool(MIXED, key=2)])
        assert curriculum.chance("p1") == expected
        assert curriculum.chance("p2") == 1.0
    curriculum.observe([make_pool(EASY, key=1)])  # another kind: a new count
    assert curriculum.chance("p1") == 0.5
    for _ in range(20):
        curriculum.observe([make_pool(EASY, key=1)])
    assert curriculum.chance("p1") == 0.01
    curriculum.observe([make_pool(MIXED, key=1)])
    assert curriculum.chance("p1") == 1.0


def test_the_other_curriculum_learns_and_is_remembered():
    curriculum = GresoCurriculum(curriculum=PromptReplay(cooldown=0))
    curriculum.observe([make_pool(MIXED, key=1), make_pool(HARD, key=2)])
    curriculum.observe([])
    assert curriculum.curriculum.waiting() == ["p1"]
    resumed = GresoCurriculum(curriculum=PromptReplay(cooldown=0))
    resumed.load_state_dict(curriculum.state_dict())
    assert resumed.curriculum.waiting() == ["p1"]
    with pytest.raises(ValueError, match=r"curriculum\.curriculum: .*what PromptReplay remembers"):
        GresoCurriculum().load_state_dict(curriculum.state_dict())


def test_skipped_as_often_as_the_chance_says():
    curriculum = GresoCurriculum(step_size=0.0)
    curriculum.observe([make_pool(HARD, key=key) for key in range(40)])
    num_steps = 1000
    share = sum(len(choose(curriculum, step)) for step in range(num_steps)) / (10 * num_steps)
    assert abs(share - 0.5) < 4 * math.sqrt(0.25 / (10 * num_steps))  # four standard errors


def in_second_epoch():
    curriculum = GresoCurriculum()
    choose(curriculum, 4)  # prompts 40 to 49 of 40
    return curriculum


def groups(easy, hard, total=12):
    rewards = [EASY] * easy + [HARD] * hard + [MIXED] * (total - easy - hard)
    return [make_pool(reward, key=key) for key, reward in enumerate(rewards)]


def test_probabilities_stay_where_they_are_for_the_whole_first_epoch():
    """After 60 steps of fresh prompts one that failed once comes back every second time, as in the authors' code."""
    curriculum = GresoCurriculum()
    for step in range(60):
        choose(curriculum, step, total=610)
        curriculum.observe([make_pool(HARD, key=10 * step + k) for k in range(10)])
    assert curriculum.p == {"easy": 0.5, "hard": 0.5}
    assert curriculum.chance("p599") == 0.5
    choose(curriculum, 60, total=610)  # the last ten of the epoch
    curriculum.observe(groups(0, 0))
    assert curriculum.p == {"easy": 0.5, "hard": 0.5}
    choose(curriculum, 61, total=610)
    curriculum.observe(groups(0, 0))
    assert curriculum.p == {"easy": 0.51, "hard": 0.51}


def test_probabilities_move_as_in_the_authors_code():
    """Targets 0.25 / 3 for easy and 0.5 / 3 for hard groups: 1 and 2 of 12; a share that is the target lowers."""
    curriculum = in_second_epoch()
    for easy, hard, p_easy, p_hard in (
        (1, 2, 0.49, 0.49),
        (1, 1, 0.48, 0.50),
        (0, 2, 0.49, 0.49),
        (0, 1, 0.50, 0.50),
        (12, 0, 0.49, 0.51),
    ):
        curriculum.observe(groups(easy, hard))
        assert curriculum.p == {"easy": pytest.approx(p_easy), "hard": pytest.approx(p_hard)}
    for _ in range(100):
        curriculum.observe([make_pool(HARD)])
    assert curriculum.p == {"easy": 0.95, "hard": 0.05}


def test_a_group_of_small_rewards_is_hard_and_counts_in_the_share_only_where_they_are_equal():
    curriculum = in_second_epoch()
    curriculum.observe([make_pool([0.1, 0.0, 0.1, 0.1], key=key) for key in range(4)])
    assert curriculum.chance("p3") == curriculum.p["hard"] == 0.51
    curriculum.observe([make_pool([0.1] * 4, key=key) for key in range(4)])
    assert curriculum.p["hard"] == 0.50
    assert curriculum.chance("p3") == 0.25


def test_groups_between_the_bounds_count_as_seen_and_empty_ones_as_nothing():
    curriculum = in_second_epoch()
    curriculum.observe([make_pool([0.5] * 4, key=1)])
    assert curriculum.chance("p1") == 1.0
    assert curriculum.p == {"easy": pytest.approx(0.51), "hard": pytest.approx(0.51)}
    curriculum.observe([make_pool([], key=1)])
    assert curriculum.p == {"easy": pytest.approx(0.51), "hard": pytest.approx(0.51)}
    curriculum.observe([make_pool([0.1] * 4, key=3), make_pool([0.985] * 4, key=4)])
    assert curriculum.chance("p3") < 1 > curriculum.chance("p4")


def test_state_restores_whom_it_skips():
    curriculum, restored = in_second_epoch(), GresoCurriculum()
    curriculum.observe([make_pool(HARD, key=key) for key in range(0, 40, 2)] + [make_pool(EASY, key=1)])
    restored.load_state_dict(curriculum.state_dict())
    for part in (curriculum, restored):  # both go on moving
        part.observe(groups(0, 12))
    assert [choose(restored, step) for step in range(5)] == [choose(curriculum, step) for step in range(5)]
    assert restored.figures([]) == curriculum.figures([])
    assert restored.figures([])["without_signal"] == 26  # 20 even ones, and the first 6 odd ones


def test_what_cannot_work_is_refused_at_once():
    with pytest.raises(
        ValueError,
        match=r"p_min = 0\.9, p_start.*; .*min_chance .* 0; .*target .* 2; .*hard_per_easy .* -1; .*hard_to .* 1",
    ):
        GresoCurriculum(p_min=0.9, min_chance=0, target=2, hard_per_easy=-1, hard_to=1)
