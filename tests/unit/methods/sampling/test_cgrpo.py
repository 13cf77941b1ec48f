"""C-GRPO's exit: golden numbers of its package, when it stops, and what a calibration costs."""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace

import pytest

from ada_lightning.core.records import Prompt, Response, ResponsePool
from ada_lightning.methods.published.cgrpo import CGrpoSampler, agreement, allowed_misses, conformal_quantile, score


def make_sampler(thresholds=(), **options):
    sampler = CGrpoSampler(
        **{"budgets": (2, 4, 8), "group_size": 8, "num_calibration": 3, "recalibrate_every": 2} | options
    )
    sampler.load_state_dict({"thresholds": thresholds})
    return sampler


def pool_of(answers, right="A", slot=0):
    pool = ResponsePool(Prompt("p", ()), slot)
    for index, answer in enumerate(answers):
        is_right = answer == right
        pool.add(Response("p", index, 0, (1,), (0.0,), "", False, float(is_right), is_right, 0, answer=answer))
    return pool


def chance(*numbers):
    """Gives these numbers, one after the other."""
    left = iter(numbers)
    return SimpleNamespace(random=lambda: next(left))


def test_golden_numbers_of_the_package():
    scores = [0.05 * rank for rank in range(1, 10)]
    assert conformal_quantile(scores[::-1], 0.2) == scores[7]  # the 8th smallest of 9
    assert conformal_quantile(scores, 0.01) == scores[-1]
    assert conformal_quantile(scores, 0.99) == scores[0]
    # 10 times 1 - 0.7 is a little more than whole: the package takes the next score, and so do we
    assert conformal_quantile(range(9), 0.7) == 3
    assert agreement(["A", "A", "B", "C"]) == 0.5
    assert allowed_misses([0.5] * 6 + [1.0] * 4) == pytest.approx(0.45)
    assert allowed_misses([1.0]) == 0.95
    assert allowed_misses([0.0]) == pytest.approx(0.05)
    # B is right in A, A, B, C; C, as frequent, comes behind it; U = .4 of its own quarter
    answers = pool_of(["A", "A", "B", "C"], right="B").responses
    assert score(answers, chance(0.3, 0.7, 0.4)) == pytest.approx(0.6)
    assert score(answers, chance(0.7, 0.3, 0.4)) == pytest.approx(0.85)
    assert score(pool_of(["A", "A", None, "C"], right="B").responses, chance()) == 1.0


def test_an_answer_that_ties_with_others_has_every_place_among_them_as_often():
    responses = pool_of(["A", "B", "C", "D"], right="A").responses
    generator = random.Random(0)
    places = [int(4 * score(responses, generator)) for _ in range(8000)]  # own part never makes a whole place
    for place in range(4):
        assert places.count(place) / 8000 == pytest.approx(0.25, abs=0.02)  # 4 standard errors


@pytest.mark.parametrize(("threshold", "more"), [(0.5, 0), (0.6, 4)])
def test_it_stops_at_a_threshold_that_is_reached(threshold, more):
    assert make_sampler([1.0, threshold, 1.0]).num_to_draw(pool_of("AABC")) == more


def test_with_strict_thresholds_it_is_speed():
    """Two equal answers stop, anything else runs to the end, whatever comes between."""
    sampler = make_sampler([1.0, 1.0, 1.0])
    for answers in itertools.product(["A", "B", None], repeat=8):
        drawn = 0
        while more := sampler.num_to_draw(pool_of(answers[:drawn])):
            drawn += more
        agree = answers[0] is not None and answers[0] == answers[1]
        assert drawn == (2 if agree else 8)
        assert sampler.end(pool_of(answers[:drawn])).is_resolved == agree
    assert make_sampler([0.0] * 3).num_to_draw(pool_of([None, None])) == 2  # nobody answers, nothing is settled


def test_a_calibration_draws_everything_counts_it_and_comes_again():
    sampler = make_sampler()
    assert sampler.num_to_draw(pool_of("")) == 4  # the largest block; then the rest
    assert sampler.num_to_draw(pool_of("AAAA")) == 4
    assert sampler.num_to_draw(pool_of("AAAAAAAA")) == 0
    too_short = pool_of("AB", slot=3)
    too_short.num_drawn = 16  # fourteen were no evidence
    sampler.learn([pool_of("AAAABBCC", slot=0), pool_of("ABBBBBBB", slot=1), too_short])
    assert sampler.thresholds == ()
    sampler.learn([pool_of("CCCCCCCC", slot=4), pool_of("AA", slot=5)])  # a step of before, where agreeing ones stopped
    assert sampler.thresholds == ()
    restored = make_sampler()
    restored.load_state_dict(sampler.state_dict())
    for one in (sampler, restored):
        one.learn([pool_of("BBBBBBBB", slot=2)])
    assert sampler.thresholds == restored.thresholds
    assert len(sampler.thresholds) == 3
    # Two of three solved: delta .3833, so the ceil(4 x .6167) = 3rd smallest, that of the prompt with nothing right.
    assert sampler.thresholds == (1.0, 1.0, 1.0)
    frozen = sampler.frozen()
    for _ in range(2):
        sampler.learn([])
    assert sampler.thresholds == ()
    assert frozen.thresholds == (1.0, 1.0, 1.0)


def test_given_misses_are_kept_and_one_calibration_is_enough():
    sampler = make_sampler(delta=0.7, recalibrate_every=0, num_calibration=2)
    sampler.learn([pool_of("A" * 8), pool_of("B" * 8, slot=1)])
    assert all(0 < threshold < 1 for threshold in sampler.thresholds)  # the ceil(3 x .3) = 1st: of the solved one
    for _ in range(3):
        sampler.learn([])
    assert sampler.thresholds


def test_what_is_no_evidence_is_drawn_anew_up_to_a_limit():
    pool = pool_of("AB")
    pool.num_drawn = 14  # twelve failed
    assert make_sampler([1.0] * 3).num_to_draw(pool) == 2


def test_bad_settings_are_told_at_once():
    with pytest.raises(ValueError, match=r"(?s)ascending.*num_calibration.*delta must be in"):
        make_sampler(budgets=(4, 2), num_calibration=0, delta=1.0)
    with pytest.raises(ValueError, match="group_size = 9 exceeds the last budget 8"):
        make_sampler(group_size=9)
