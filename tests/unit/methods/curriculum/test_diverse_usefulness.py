from __future__ import annotations

import numpy as np
import pytest
import torch

from ada_lightning.core.protocols import PromptEmbedding
from ada_lightning.core.records import Belief
from ada_lightning.methods.curriculum import DiverseUsefulness, ExpectedUsefulness, Learnability
from ada_lightning.methods.curriculum.ranked import greedily_spread
from tests.unit.methods.curriculum.histories import ids, prompts


class Line(PromptEmbedding):
    """Prompts in two clusters far from each other: even and odd ones."""

    fitted = 0

    def fit(self, prompts):
        self.fitted += 1

    def __call__(self, prompts, represent):
        return torch.tensor([[10.0 * (prompt.prompt_ids[0] % 2) + 0.001 * prompt.prompt_ids[0]] for prompt in prompts])


class NeedsPolicy(Line):
    needs_policy = True


def chosen(weight, kind=DiverseUsefulness):
    options = {} if kind is ExpectedUsefulness else {"embedding": Line(), "weight": weight}
    curriculum = kind(usefulness=Learnability(), revisit_ratio=0, **options)

    # of the 32 candidates those in the even cluster are the more useful ones
    def recall(asked):
        return [Belief(20.0, 20.0 + 20 * (prompt.prompt_ids[0] % 2)) for prompt in asked]

    found = ids(curriculum.choose(prompts(32), 8, step=0, seed=0, recall=recall))
    return sorted(int(name[1:]) % 2 for name in found), found


def test_a_step_is_spread_over_clusters_and_without_a_weight_it_is_the_most_useful_ones():
    assert chosen(0.0)[0] == [0] * 8
    assert set(chosen(0.0)[1]) == set(chosen(0.0, ExpectedUsefulness)[1])
    assert 1 in chosen(0.05)[0]
    assert chosen(0.05)[0].count(0) >= 4  # the second of a cluster is near the first


def test_the_greedy_order_is_the_best_next_one_each_time():
    generator = np.random.default_rng(0)
    values, places = generator.uniform(0, 0.25, 20), generator.normal(size=(20, 3))
    order = greedily_spread(values, places, 0.1)
    assert order[0] == int(values.argmax())
    for position in range(1, 20):
        before, left = order[:position], order[position:]
        worth = {i: values[i] + 0.1 * min(np.linalg.norm(places[i] - places[j]) for j in before) for i in left}
        assert worth[order[position]] == pytest.approx(max(worth.values()), abs=1e-9)


def test_the_embedding_learns_once_and_must_not_need_the_policy():
    curriculum = DiverseUsefulness(usefulness=Learnability(), embedding=Line())
    for step in range(2):
        curriculum.choose(prompts(32), 4, step=step, seed=0, recall=lambda asked: [Belief()] * len(asked))
    assert curriculum.embedding.fitted == 1
    assert "unlike each other" in curriculum.caveat()
    with pytest.raises(ValueError, match=r"weight must be .* got -1; curriculum.embedding .*; got NeedsPolicy"):
        DiverseUsefulness(usefulness=Learnability(), embedding=NeedsPolicy(), weight=-1)
