"""What a part of one's own has to say, and what follows for those that ask."""

from __future__ import annotations

import pytest

from ada_lightning.core.protocols import Curriculum, PassRateEstimator, PromptEmbedding
from ada_lightning.core.records import Belief
from tests.builders import make_pool, make_prompt


class LastVisit(PassRateEstimator):
    def __init__(self):
        self.last = {}

    def recall(self, prompts):
        return [self.last.get(prompt.prompt_id, Belief()) for prompt in prompts]

    def update(self, pools):
        self.last |= {p.prompt.prompt_id: Belief(1 + p.num_positive, 1 + p.num_negative, is_seen=True) for p in pools}


class FirstOnes(Curriculum):
    def choose(self, prompts, num_prompts, *, step, seed, recall):
        return list(prompts[:num_prompts])


def test_an_estimator_that_recalls_can_be_asked_about_any_prompt_and_predicts_by_it():
    estimator, prompts = LastVisit(), [make_prompt(1), make_prompt(2)]
    estimator.update([make_pool([1.0, 0.0, 0.0], key=2)])
    assert estimator.remembers_prompts
    assert estimator.predict(prompts, None) == estimator.recall(prompts) == [Belief(), Belief(2, 3)]
    assert not PassRateEstimator().remembers_prompts
    with pytest.raises(NotImplementedError, match="PassRateEstimator keeps nothing by prompt"):
        PassRateEstimator().predict(prompts, None)


def test_a_curriculum_learns_where_it_says_how():
    class Counting(FirstOnes):
        def observe(self, pools):
            self.num_pools = len(pools)

    assert (FirstOnes().learns, Counting().learns) == (False, True)
    with pytest.raises(NotImplementedError, match=r"Curriculum needs a method choose\(prompts, num_prompts"):
        Curriculum().choose([], 1, step=0, seed=0, recall=list)


def test_an_embedding_says_how_rows_are_made():
    with pytest.raises(NotImplementedError, match="PromptEmbedding needs a method __call__"):
        PromptEmbedding()([make_prompt()], None)
