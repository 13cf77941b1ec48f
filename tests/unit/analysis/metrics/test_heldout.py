from __future__ import annotations

import pytest

from ada_lightning.analysis.metrics.heldout import heldout_metrics
from tests.unit.analysis.metrics.test_at_k import group_of

SUMS = [
    group_of([1, 0, 0, 0], ["4", "5", "5", None], task="sum", key="a"),
    group_of([1, 1, 0, 0], ["4", "4", "5", "6"], task="sum", key="b", tokens=4, truncated=(3,)),
]
WORDS = [group_of([1, 1, 1, 0], task="words", key="c")]


def test_one_task_by_hand():
    assert heldout_metrics(SUMS, num_samples=4) == {
        "eval/avg_at_4": pytest.approx(3 / 8),
        "eval/pass_at_4": 1.0,
        "eval/maj_at_4": pytest.approx(0.5),
        "eval/response_tokens": 3.0,
        "eval/truncated_ratio": 1 / 8,
    }


def test_several_tasks_have_figures_of_their_own_and_a_vote_needs_answers():
    figures = heldout_metrics([*SUMS, *WORDS], num_samples=4)
    assert figures["eval/avg_at_4"] == pytest.approx((1 / 4 + 2 / 4 + 3 / 4) / 3)
    assert figures["eval/sum/avg_at_4"] == pytest.approx(3 / 8)
    assert figures["eval/words/avg_at_4"] == pytest.approx(3 / 4)
    assert figures["eval/sum/maj_at_4"] == pytest.approx(0.5)
    assert not {"eval/maj_at_4", "eval/words/maj_at_4"} & figures.keys()


def test_no_figure_at_k_without_a_prompt_that_has_k_responses():
    figures = heldout_metrics([group_of([1, 0], ["1", "2"])], num_samples=4)
    assert figures.keys() == {"eval/avg_at_4", "eval/response_tokens", "eval/truncated_ratio"}


def test_a_vote_of_more_than_can_be_counted_is_left_out():
    """pass@1024 and the like go without maj@k, and do not end the evaluation."""
    figures = heldout_metrics([group_of([1, 0] * 501, ["4", "5"] * 501)], num_samples=1002)
    assert figures["eval/pass_at_1002"] == 1.0
    assert "eval/maj_at_1002" not in figures


def test_one_response_of_each_prompt():
    """torchmetrics makes a scalar of a figure of one element."""
    assert heldout_metrics([group_of([1], ["4"]), group_of([0], ["5"], key="b")], num_samples=1) == {
        "eval/avg_at_1": 0.5,
        "eval/pass_at_1": 0.5,
        "eval/maj_at_1": 0.5,
        "eval/response_tokens": 2.0,
        "eval/truncated_ratio": 0.0,
    }
