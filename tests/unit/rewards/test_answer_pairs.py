"""Pairs of a gold answer and a given one, judged by hand; each line of the file says why."""

import json
from pathlib import Path

import pytest

from ada_lightning.core.records import Completion, Prompt
from ada_lightning.rewards.extraction import WholeResponse
from ada_lightning.rewards.math import MathReward

PAIRS = [json.loads(line) for line in (Path(__file__).parent / "answer_pairs.jsonl").read_text().splitlines()]
KNOWN = [pair for pair in PAIRS if "known" in pair]
"""Where the reward judges otherwise than a person; ``known`` gives the reason."""


def grade(pair):
    prompt = Prompt("id", (), {"answer": pair["gold"]})
    return MathReward(WholeResponse())(prompt, Completion(pair["answer"])).reward == 1.0


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair not in KNOWN], ids=lambda pair: pair["why"])
def test_the_reward_agrees_with_a_person(pair):
    assert grade(pair) is pair["equal"]


def test_known_disagreements_are_still_there():
    """One that is gone loses its ``known``."""
    assert [pair for pair in KNOWN if grade(pair) is pair["equal"]] == []


def test_there_are_enough_pairs_of_both_kinds():
    assert len(PAIRS) >= 100
    assert sum(not pair["equal"] for pair in PAIRS) >= 40
    assert len({(pair["gold"], pair["answer"]) for pair in PAIRS}) == len(PAIRS)


def test_every_gold_answer_can_be_graded_against():
    for pair in PAIRS:
        MathReward().check_prompt(Prompt("id", (), {"answer": pair["gold"]}))
