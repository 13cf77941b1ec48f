from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from ada_lightning.methods.selection.choice import Choice
from tests.builders import make_pool

NUM_SEEDS = 4000


def taken(pool, choice, num_kept=(2, 3)):
    classes = pool.responses[:5], pool.responses[5:]
    return [response.sample_index for response in choice.take(pool, classes, num_kept)]


def test_the_first_generated_of_each_class_by_default():
    assert taken(make_pool([0.0] * 12), Choice()) == [0, 1, 5, 6, 7]


def test_a_random_choice_keeps_each_class_in_launch_order():
    for seed in range(50):
        first, second = (indices := taken(make_pool([0.0] * 12), Choice(is_random=True, seed=seed)))[:2], indices[2:]
        assert first == sorted(set(first))
        assert second == sorted(set(second))
        assert max(first) < 5 <= min(second)


def test_a_random_choice_keeps_every_response_equally_often():
    pool = make_pool([0.0] * 12)
    counts = Counter(i for seed in range(NUM_SEEDS) for i in taken(pool, Choice(is_random=True, seed=seed)))
    for index in range(12):
        share = 2 / 5 if index < 5 else 3 / 7
        # four standard deviations of a binomial count
        assert abs(counts[index] - NUM_SEEDS * share) < 4 * math.sqrt(NUM_SEEDS * share * (1 - share))


def test_the_same_pool_of_a_repeated_step_is_chosen_from_alike():
    choice = Choice(is_random=True, seed=3)
    assert taken(make_pool([0.0] * 40), choice, (2, 9)) == taken(make_pool([0.0] * 40), choice, (2, 9))


def test_seed_step_slot_and_prompt_all_change_the_choice():
    def chosen(choice=Choice(is_random=True, seed=3), step=0, **pool_options):  # noqa: B008 - a frozen value
        pool = replace(make_pool([0.0] * 40, **pool_options), step=step)
        return tuple(taken(pool, choice, (2, 9)))

    other_seed = chosen(Choice(is_random=True, seed=4))
    assert len({chosen(), other_seed, chosen(step=1), chosen(slot=1), chosen(key=8)}) == 5
