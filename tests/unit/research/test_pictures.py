"""Pictures are what their command draws, and show what the samplers do."""

from xml.etree import ElementTree

import pytest

from research.benchmarks.report import DOCS
from research.pictures import bars, estimators, groups, lag
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


def test_the_lag_that_is_drawn_is_exact_and_never_slower():
    ends = []
    for k in lag.LAGS:
        steps = lag.schedule(k)
        assert [step.version for step in steps] == [max(0, index - k) for index in range(len(steps))]
        for index, step in enumerate(steps):
            assert step.trained[0] >= step.sampled[1]
            assert step.version == 0 or step.sampled[0] >= steps[step.version - 1].trained[1]
            assert index == 0 or step.sampled[0] >= steps[index - 1].sampled[1]
        ends.append(steps[-1].trained[1])
    assert ends == sorted(ends, reverse=True)
    assert ends[0] == sum(lag.SAMPLING) + len(lag.SAMPLING) * lag.UPDATE


def test_advantages_in_the_picture_are_those_of_their_rules():
    weights = {view.name: view.weights() for view in estimators.views()}
    assert weights["grpo"] == pytest.approx((1.5, -0.5), rel=1e-5)  # one of four right, unbiased deviation 1/2
    assert weights["official"] == pytest.approx((1 - 3 / 8, -3 / 8))
    assert weights["exact"][0] == pytest.approx(-weights["exact"][1])
    assert weights["ada"] == pytest.approx((1 - 2 / 11, -3 / 11))  # two right of eight before, and the three others
    assert weights["ada_similar"] == weights["ada"]


def test_bars_are_as_long_as_what_they_stand_for():
    rows = [
        bars.Bar("one", "", [bars.Segment(0, 3, "#111111"), bars.Segment(3, 1, "#222222")], limit=4),
        bars.Bar("two", "", []),
    ]
    root = ElementTree.fromstring(bars.draw("a & b", rows, [("first", "#333333")], scale=4))
    bar = {
        each.get("fill"): (float(each.get("x")), float(each.get("width"))) for each in root if each.tag.endswith("rect")
    }
    (long_start, long_width), (short_start, short_width) = bar["#111111"], bar["#222222"]
    assert long_width == 3 * short_width
    assert short_start == long_start + long_width
    (line,) = (each.get("d") for each in root if each.get("stroke") == bars.LIMIT)
    assert float(line[1:].split()[0]) == short_start + short_width
    assert root.get("aria-label") == "a & b"
    texts = [each.text for each in root if each.tag.endswith("text") and each.text]
    assert texts == ["a & b", "one", "two", "first"]


def test_the_memory_picture_names_every_part():
    picture = PICTURES["gpu_memory.svg"]()
    assert picture.count(f'stroke="{bars.LIMIT}"') == 3
    for part in ("weights", "gradients", "Adam", "activations, logits", "keys and values", "allowance (a guess)"):
        assert f">{part}</text>" in picture
