"""MathReward on the corpus of judged answers, and how graders are asked and counted."""

from __future__ import annotations

import pytest

from research.benchmarks.grading.__main__ import Found, ask, by_kind, wrong
from research.benchmarks.grading.corpus import KINDS, Pair, cells, corpus
from research.benchmarks.grading.judges import ours

MOST_REFUSED = 11
"""Equal answers that may be refused; lower it when the grammar learns."""
MOST_ACCEPTED = 1
"""Unequal answers that may be accepted."""


@pytest.fixture
def fake_grader(tmp_path, monkeypatch):
    """A grader of another process that takes everything for right, and sleeps over the answer ``slow``."""
    (tmp_path / "fake_grading.py").write_text(
        "import time\n"
        "from research.benchmarks.grading import judges\n"
        "def judge(pair):\n"
        "    if pair.answer == 'slow':\n"
        "        time.sleep(60)\n"
        "    if pair.answer == 'error':\n"
        "        raise RuntimeError\n"
        "    print('noise')\n"
        "    return True\n"
        "judges.JUDGES['fake'] = lambda: (judge, '1.2')\n"
        "judges.main()\n"
    )
    monkeypatch.setattr("research.benchmarks.grading.__main__.JUDGE", "fake_grading")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def test_every_pair_is_judged_once_and_has_a_sibling_with_the_other_verdict():
    pairs = corpus()
    keys = [(pair.gold, pair.answer, pair.response) for pair in pairs]
    assert len(keys) == len(set(keys))
    assert {pair.kind for pair in pairs} == set(KINDS)
    verdicts: dict[str, set[bool]] = {}
    for pair in pairs:
        if pair.kind != "rules":
            verdicts.setdefault(pair.gold, set()).add(pair.equal)
    assert [gold for gold, found in verdicts.items() if len(found) == 1] == []


def test_verdicts_of_the_product_on_the_corpus_stay_as_good_as_they_are():
    judge, _ = ours()
    pairs = corpus()
    found = Found("ada_lightning", verdicts=[judge(pair) for pair in pairs])
    total = by_kind(pairs, [found])[-1]["graders"]["ada_lightning"]
    listed = "\n".join(wrong(pairs, found))
    assert total["refused"] <= MOST_REFUSED, listed
    assert total["accepted"] <= MOST_ACCEPTED, listed


def test_a_grader_that_takes_too_long_or_raises_refuses_and_the_others_are_asked(fake_grader, tmp_path):
    pairs = [
        Pair("G1", "1", equal, answer) for equal, answer in ((True, "1"), (True, "slow"), (True, "error"), (False, "2"))
    ]
    found = ask("fake", pairs, folder=tmp_path, time_limit_s=1.0)
    assert (found.version, found.verdicts, found.timeouts) == ("1.2", [True, False, False, True], 1)
    row, total = by_kind(pairs, [found])
    assert row["graders"] == total["graders"] == {"fake": {"refused": 2, "accepted": 1}}
    assert cells(row, ["absent", "fake"]) == ["named values (3 / 1)", "", "2 / 1"]
    assert [line.split(" for ")[0] for line in wrong(pairs, found)] == ["fake refuses", "fake refuses", "fake accepts"]


def test_a_grader_that_ends_is_named(fake_grader, tmp_path, monkeypatch):
    monkeypatch.setattr("research.benchmarks.grading.__main__.JUDGE", "no_such_module")
    with pytest.raises(RuntimeError, match="the grader fake ended"):
        ask("fake", [Pair("G1", "1", True, "1")], folder=tmp_path)
