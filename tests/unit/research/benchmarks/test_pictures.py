"""Pictures of benchmarks: those in ``docs/`` show what the files say."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from research.benchmarks.pictures import PICTURES, Bar, Segment, drawing
from research.benchmarks.report import DOCS


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_what_the_files_say(name):
    """After a benchmark: ``python -m research.benchmarks.pictures``."""
    assert (DOCS / name).read_text() == PICTURES[name]()


def test_bars_are_as_long_as_what_they_stand_for():
    bars = [Bar("one", "", [Segment(0, 3, "#111111"), Segment(3, 1, "#222222")], limit=4), Bar("two", "", [])]
    root = ElementTree.fromstring(drawing("a & b", bars, [("first", "#333333")], scale=4))
    bar = {
        each.get("fill"): (float(each.get("x")), float(each.get("width")))
        for each in root
        if each.get("stroke-width") == "0.5"
    }
    (long_start, long_width), (short_start, short_width) = bar["#111111"], bar["#222222"]
    assert long_width == 3 * short_width
    assert short_start == long_start + long_width
    (line,) = (each for each in root if each.tag.endswith("line"))
    assert float(line.get("x1")) == short_start + short_width
    assert root.get("aria-label") == "a & b"
    texts = [each.text for each in root if each.tag.endswith("text") and each.text]
    assert texts == ["a & b", "one", "two", "first"]


def test_the_memory_picture_names_every_part():
    picture = PICTURES["gpu_memory.svg"]()
    assert len(re.findall("<line ", picture)) == 3
    for part in ("weights", "gradients", "Adam", "activations, logits", "keys and values", "allowance (a guess)"):
        assert f">{part}</text>" in picture
