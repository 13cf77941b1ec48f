"""``docs/metrics.md`` explains figures that exist; whether it explains all, test_experiments.py asks of real runs."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.unit.documented import ROOT, figures, unexplained

SOURCES = [*(ROOT / "ada_lightning").rglob("*.py"), *(ROOT / "callbacks").glob("*.py")]


@pytest.fixture(scope="module")
def strings():
    """What the product has in quotes, with ``<>`` for what is filled in."""
    quoted = re.findall(r"\"([^\"\n]+)\"", "\n".join(file.read_text(encoding="utf-8") for file in SOURCES))
    return {re.sub(r"\{.*?\}", "<>", text) for text in quoted}


@pytest.mark.parametrize("name", sorted(set(figures())))
def test_a_figure_of_the_page_is_logged_somewhere(strings, name):
    whole = re.compile(re.sub("<[a-z]+>", ".+", name))
    _, _, last = name.partition("/")  # where the room is put before it: f"time/{phase}_s"
    assert re.sub("<[a-z]+>", "<>", last) in strings or any(map(whole.fullmatch, strings))


def test_no_figure_is_explained_twice_in_the_list():
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    in_list = re.findall(r"`([a-z]+/[\w<>]+)`", page[page.index("## Every figure") :])
    assert [name for name, number in Counter(in_list).items() if number > 1] == []


def test_what_the_page_lacks_is_found():
    columns = ["step", "unix_ms", "eval/avg_at_4", "eval/chain_sum/maj_at_16", "eval_average/response_tokens"]
    columns += ["rollout/response_tokens_p90", "time/update_s", "reward/format"]
    assert unexplained(columns) == []
    assert unexplained([*columns, "eval/average", "rollout/reward"]) == ["eval/average", "rollout/reward"]
