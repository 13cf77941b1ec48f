"""Numbers by prompt id in columns say what a dictionary says, and take little of a checkpoint."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest
import torch

from ada_lightning.core.prompt_columns import IdIndex, PromptNumbers, PromptTable
from ada_lightning.core.records import Prompt
from ada_lightning.methods.curriculum.draws import largest, shuffled, uniform_draws
from ada_lightning.methods.curriculum.uniform import MOST_BY_PYTHON, epoch_positions
from ada_lightning.methods.estimators import BetaHistory, EmaEstimator
from ada_lightning.methods.published.spo import KlHistory, WeightedDraw


def hex_ids(count, seed=0):
    generator = random.Random(seed)
    return [f"{generator.getrandbits(64):016x}" for _ in range(count)]


class Listed(PromptTable):
    """A table over a list."""

    def __init__(self, ids):
        self._ids = ids

    def __len__(self):
        return len(self._ids)

    def __getitem__(self, place):
        return Prompt(self._ids[place], ())

    @property
    def ids(self):
        return self._ids

    def positions(self, prompt_ids):
        places = {id_: place for place, id_ in enumerate(self._ids)}
        return np.array([places.get(id_, -1) for id_ in prompt_ids], dtype=np.int64)


@pytest.mark.parametrize("ids", [hex_ids(9000), [*hex_ids(50), "p7", "", "58B1B1285EA86C00"]])
def test_they_say_what_a_dictionary_says(ids):
    generator, numbers, plain = random.Random(1), PromptNumbers(), {}
    for _ in range(2 * len(ids)):
        prompt_id, pair = generator.choice(ids), (generator.random(), generator.random())
        numbers[prompt_id] = plain[prompt_id] = pair
    assert list(numbers.items()) == list(plain.items())
    assert [numbers.get(id_) for id_ in ids] == [plain.get(id_) for id_ in ids]
    assert list(PromptNumbers.from_state(numbers.state()).items()) == list(plain.items())


def test_a_checkpoint_grows_by_24_bytes_a_prompt():
    estimator, sizes = EmaEstimator(), []
    for number, id_ in enumerate(hex_ids(20_000)):
        estimator._known[id_] = (1.0, 8.0)
        if number + 1 in (10_000, 20_000):
            file = io.BytesIO()
            torch.save(estimator.state_dict(), file)
            sizes.append(file.tell())
    assert (sizes[1] - sizes[0]) / 10_000 <= 24.5


@pytest.mark.parametrize("kind", [EmaEstimator, BetaHistory, KlHistory])
def test_what_earlier_versions_saved_still_loads(kind):
    estimator = kind()
    counts = {"p1": [1.0, 3.0], hex_ids(1)[0]: [2.0, 2.5]}
    state = {"counts": counts, "recent": [], "drift": [], "last": {}}
    estimator.load_state_dict(state)
    assert {id_: list(pair) for id_, pair in estimator._known.items()} == counts


@pytest.mark.parametrize("make", [EmaEstimator, BetaHistory, lambda: BetaHistory(drift_visits=64), KlHistory])
def test_beliefs_of_a_table_are_those_of_its_prompts_and_follow_what_is_learned(make):
    ids = hex_ids(300)
    table, estimator = Listed(ids), make()
    prompts = [table[place] for place in range(len(ids))]
    for visit in range(3):
        for id_ in ids[visit * 20 : visit * 20 + 60]:
            if isinstance(estimator, BetaHistory):
                estimator.learn({id_: (visit, 4)})
            else:
                estimator._known[id_] = (1.0 + visit, 4.0)
        columns, singly = estimator.recall(table), estimator.recall(prompts)
        for name in ("alpha", "beta", "num_seen", "num_seen_positive", "is_seen"):
            assert [getattr(each, name) for each in columns] == [getattr(each, name) for each in singly]


@pytest.mark.parametrize("unseen_first", [False, True])
def test_a_weighted_draw_from_a_table_is_that_from_its_prompts(unseen_first):
    ids, estimator = hex_ids(500), EmaEstimator()
    for id_ in ids[:490]:
        estimator._known[id_] = (int(id_[0], 16) / 2, 8.0)
    table, draw = Listed(ids), WeightedDraw(unseen_first=unseen_first, gamma=0.5)
    prompts = list(table)
    for step in range(5):
        one, other = (
            [p.prompt_id for p in draw.choose(each, 32, step=step, seed=3, recall=estimator.recall)]
            for each in (table, prompts)
        )
        assert one == other
    assert set(ids[490:]) <= set(one) if unseen_first else True


def test_many_draws_at_once_are_those_one_by_one():
    at_once, singly = random.Random("x"), random.Random("x")
    at_once.random(), singly.random()
    assert uniform_draws(at_once, 2000).tolist() == [singly.random() for _ in range(2000)]
    assert at_once.getstate() == singly.getstate()


@pytest.mark.parametrize("count", [0, 1, 7, 20])
def test_the_largest_are_those_of_a_sorted_list(count):
    keys = np.array([random.Random(place).randrange(6) for place in range(20)], dtype=float)
    expected = sorted(range(20), key=lambda place: (keys[place], place), reverse=True)[:count]
    assert largest(keys, count).tolist() == expected


def test_a_long_epoch_visits_every_prompt_once_in_an_order_of_its_own():
    total = MOST_BY_PYTHON + 3
    first = epoch_positions(total, 0, total, "0")
    assert sorted(first) == list(range(total))
    assert epoch_positions(total, total, 5, "0") == shuffled(total, "0/1")[:5].tolist() != first[:5]
    # The streams of numpy's RandomState are fixed: a resumed run finds the same order under any version.
    assert shuffled(10, "0").tolist() == [9, 2, 3, 5, 7, 8, 4, 6, 0, 1]


def test_ids_that_are_no_hash_are_told_apart():
    index = IdIndex()
    assert [index.add(id_) for id_ in ("a", "b", "a", "58b1b1285ea86c00")] == [0, 1, 0, 2]
