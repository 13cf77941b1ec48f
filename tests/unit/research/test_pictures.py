"""Pictures are what their command draws, and show what the samplers do."""

from xml.etree import ElementTree

import pytest

from research.benchmarks.report import DOCS
from research.pictures import groups
from research.pictures.__main__ import PICTURES
from research.pictures.svg import Use


@pytest.mark.parametrize("name", PICTURES)
def test_the_committed_file_is_what_the_command_draws(name):
    svg = PICTURES[name]()
    assert (DOCS / name).read_text() == svg, "run python -m research.pictures"
    assert ElementTree.fromstring(svg).get("aria-label")


def test_both_halves_of_the_first_picture_draw_the_same_responses_as_far_as_both_go():
    fixed, adaptive = groups.halves()
    assert fixed.num_drawn == adaptive.num_drawn == 32
    for one, other in zip(fixed.groups, adaptive.groups, strict=True):
        pairs = zip(one.pool.responses, other.pool.responses, strict=False)
        assert all(left.reward == right.reward for left, right in pairs)


def test_every_response_of_the_first_picture_trains_or_is_surplus_or_wasted():
    for half in groups.halves():
        assert sum(half.number(use) for use in Use) == half.num_drawn
        assert half.number(Use.TRAINS) == sum(len(group.kept) for group in half.groups if group.pool.has_signal)
        without = [group for group in half.groups if len({response.reward for response in group.pool.responses}) == 1]
        assert half.number(Use.WASTED) == sum(group.pool.num_drawn for group in without) > 0
