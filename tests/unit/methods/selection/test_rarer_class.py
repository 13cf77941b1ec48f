from __future__ import annotations

import pytest

from ada_lightning.methods.selection import RarerClassSelection
from tests.builders import make_pool


@pytest.mark.parametrize(
    ("num_positive", "num_negative", "kept_positive", "kept_negative"),
    [
        (3, 9, 3, 3),  # all of the rarer class
        (9, 2, 2, 2),
        (1, 31, 1, 1),
        (8, 8, 4, 4),  # capped
        (0, 32, 0, 4),  # one class: no advantage, but the prompt still counts
        (32, 0, 4, 0),
        (0, 2, 0, 2),
        (0, 0, 0, 0),
    ],
)
def test_the_rarer_class_and_as_many_of_the_other(num_positive, num_negative, kept_positive, kept_negative):
    kept = RarerClassSelection(max_per_class=4).select(make_pool([0.0] * num_negative + [1.0] * num_positive))
    assert sum(k.response.is_positive for k in kept) == kept_positive
    assert sum(not k.response.is_positive for k in kept) == kept_negative


def test_the_first_generated_of_each_class_with_the_weight_of_the_class():
    kept = RarerClassSelection(max_per_class=4).select(make_pool([0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0]))
    assert [(k.response.sample_index, k.selection_weight) for k in kept] == [(2, 1.0), (5, 1.0), (0, 2.5), (1, 2.5)]


def test_a_cap_below_one_is_an_error():
    with pytest.raises(ValueError, match="max_per_class must be at least 1; got 0"):
        RarerClassSelection(max_per_class=0)
