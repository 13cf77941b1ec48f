from __future__ import annotations

import random

import pytest

from ada_lightning.core.records import Belief
from ada_lightning.methods.curriculum import DifficultyBand
from tests.unit.methods.curriculum.histories import UNSEEN, ids, prompts, recalled, seen


def rank(histories, **options):
    return DifficultyBand(**options).rank(histories, random.Random(0))


def test_the_band_and_the_unseen_come_first_as_they_stand_then_the_nearest():
    histories = [seen(0.02), seen(0.95), UNSEEN, seen(0.9), seen(0.3), UNSEEN, seen(0.1)]
    assert rank(histories) == [2, 3, 4, 5, 6, 1, 0]


def test_within_the_band_none_is_preferred():
    assert rank([seen(0.11), seen(0.5), seen(0.89)]) == [0, 1, 2]


def test_a_prompt_never_seen_is_explored_whatever_its_prior_and_is_not_counted_for_the_band():
    unlikely = Belief(1.0, 999.0)
    assert rank([seen(0.05), unlikely, seen(0.3)]) == [1, 2, 0]
    assert DifficultyBand().figures([UNSEEN, seen(0.3), seen(0.01), seen(0.5)]) == {"share_in_band": 0.5}


def test_the_first_step_of_a_run_explores_and_a_known_band_is_kept_to():
    curriculum = DifficultyBand(revisit_ratio=0)
    assert len(set(ids(curriculum.choose(prompts(50), 8, step=0, seed=0, recall=recalled({}))))) == 8
    known = {f"p{index}": 0.5 if index < 40 else 0.95 for index in range(50)}
    for step in range(20):
        chosen = ids(curriculum.choose(prompts(50), 8, step=step, seed=0, recall=recalled(known)))
        assert all(known[prompt_id] == 0.5 for prompt_id in chosen)


def test_every_prompt_is_tried_before_long():
    """Prompts turn out to be in the band; the share in turn is off and does not help."""
    curriculum = DifficultyBand(revisit_ratio=0)
    known = {}
    for step in range(25):  # 25 x 8 prompts are four epochs of 50
        known |= dict.fromkeys(ids(curriculum.choose(prompts(50), 8, step=step, seed=0, recall=recalled(known))), 0.5)
    assert len(known) == 50


def test_the_statement_names_the_band():
    assert "a believed pass rate in [0.2, 0.7], and prompts never seen," in DifficultyBand(low=0.2, high=0.7).caveat()


@pytest.mark.parametrize(("low", "high"), [(0.5, 0.5), (-0.1, 0.5), (0.5, 1.1), (0.9, 0.1)])
def test_bounds_that_are_no_band_are_refused(low, high):
    with pytest.raises(ValueError, match=rf"0 <= low < high <= 1; got {low} and {high}"):
        DifficultyBand(low=low, high=high)


def test_everything_wrong_is_one_message():
    with pytest.raises(ValueError, match=r"low < high .*; curriculum.candidate_ratio .*; curriculum.revisit_ratio"):
        DifficultyBand(low=2, candidate_ratio=1, revisit_ratio=3)
