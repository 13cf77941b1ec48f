from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pytest

from ada_lightning.analysis.evaluation.intervals import estimate_means
from ada_lightning.analysis.evaluation.report import compare, p_value
from ada_lightning.analysis.evaluation.results import figure_names, prompt_figures
from ada_lightning.analysis.offline.response_store import SCHEMA


def table_of(prompts):
    """Stored responses of (prompt id, rewards, answers)."""
    rows = []
    for position, (prompt_id, rewards, answers) in enumerate(prompts):
        for index, reward in enumerate(rewards):
            row = dict.fromkeys(SCHEMA.names)
            row |= {"prompt_id": prompt_id, "position": position, "sample_index": index, "reward": reward}
            row["failure"] = "ConnectionError" if reward is None else ""
            row |= {"answer": answers[index] if answers else None, "is_truncated": index == 0, "num_tokens": index + 1}
            rows.append(row)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def figures_of(prompts, *, num_samples=4, failures_count_as_zero=True):
    return prompt_figures(
        table_of(prompts),
        num_samples=num_samples,
        max_tokens=8,
        positive_threshold=0.7,
        failures_count_as_zero=failures_count_as_zero,
    )


def of(*num_right, num_samples=4):
    """Prompts with so many right responses."""
    prompts = [(str(i), [1.0] * right + [0.0] * (num_samples - right), None) for i, right in enumerate(num_right)]
    return figures_of(prompts, num_samples=num_samples)


PROMPTS = [
    ("a", [1.0, 0.0, 0.0, 1.0], ["4", "5", "5", "4"]),
    ("b", [0.0, None, 0.0, 1.0], ["7", None, "7", "8"]),
]


def test_figures_by_hand():
    """That of subsets and votes are held in test_at_k."""
    figures = figures_of(PROMPTS)
    assert list(figures.table) == figure_names(4)
    expected = {
        "avg": [0.5, 0.25],
        "pass_at_2": [1 - 1 / 6, 1 - 1 / 2],
        "maj_at_4": [(1 + 0) / 2, 0],
        "all_correct_at_2": [1 / 6, 0],
        "all_wrong_at_2": [1 / 6, 1 / 2],
        "response_tokens": [2.5, 2.5],
        "truncated_ratio": [0.25, 0.25],
    }
    assert {name: figures.table[name].tolist() for name in expected} == {
        name: pytest.approx(values) for name, values in expected.items()
    }
    assert (figures.num_responses, figures.num_failed) == (8, 1)


def test_failed_grades_can_be_left_out():
    table = figures_of(PROMPTS, failures_count_as_zero=False).table
    assert table["avg"].tolist() == pytest.approx([0.5, 1 / 3])
    assert table["pass_at_3"].iloc[1] == pytest.approx(1.0)
    assert table["pass_at_4"].isna().tolist() == [False, True]
    assert figures_of([("a", [None, None], None)], failures_count_as_zero=False).table["avg"].isna().all()


def test_a_failure_that_counts_as_wrong_is_a_failure():
    table = table_of([("a", [0.0, 1.0], None)])
    table = table.set_column(table.schema.get_field_index("failure"), "failure", pa.array(["timeout", ""]))
    for as_zero in (True, False):
        figures = prompt_figures(
            table, num_samples=2, max_tokens=8, positive_threshold=0.7, failures_count_as_zero=as_zero
        )
        assert (figures.num_failed, figures.table["avg"].tolist()) == (1, [0.5])


@pytest.mark.parametrize(
    ("rewards", "answers"),
    [([1.0, 0.0], None), ([1.0, 0.0] * 501, ["4", "5"] * 501)],
    ids=["a reward without answers", "more votes than can be counted"],
)
def test_without_a_vote_there_is_no_majority(rewards, answers):
    table = figures_of([("a", rewards, answers)], num_samples=len(rewards)).table
    assert table["maj_at_1"].isna().all()
    assert table[f"pass_at_{len(rewards)}"].tolist() == [1.0]


def test_prompts_are_matched_by_id_whatever_their_order():
    first = figures_of([("a", [0.0] * 4, None), ("b", [1.0, 0.0, 0.0, 0.0], None), ("x", [1.0] * 4, None)])
    second = figures_of([("b", [1.0, 1.0, 0.0, 0.0], None), ("a", [1.0, 0.0, 0.0, 0.0], None), ("y", [0.0] * 4, None)])
    found = compare({"s": first}, {"s": second, "other": second}, weights={"s": None})
    average = found["sets"]["s"]["figures"]["avg"]
    assert (average["first"], average["second"]) == (0.125, 0.375)
    assert average["difference"] == {"mean": 0.25, "low": None, "high": None, "num_prompts": 2}  # too few prompts
    assert average["p_value"] == 0.5  # two prompts of equal difference: two of the four patterns are as extreme
    assert found["unmatched"] == {
        "sets": ["other"],
        "prompts_of_first": {"s": 1},
        "prompts_of_second": {"s": 1, "other": 3},
    }


def test_a_figure_that_one_of_the_two_lacks_counts_for_neither():
    first = figures_of([("a", [1.0, None, 1.0, 1.0], None), ("b", [0.0] * 4, None)], failures_count_as_zero=False)
    second = figures_of([("a", [0.0] * 4, None), ("b", [1.0] + [0.0] * 3, None)])
    found = compare({"s": first}, {"s": second}, weights={})["sets"]["s"]["figures"]["pass_at_4"]
    assert (found["first"], found["second"], found["difference"]["num_prompts"]) == (0.0, 1.0, 1)


def test_a_prompt_that_a_set_holds_twice_is_matched_place_by_place():
    first = figures_of([("a", [0.0] * 4, None), ("a", [1.0] * 4, None)])
    found = compare({"s": first}, {"s": first}, weights={})
    assert found["sets"]["s"]["figures"]["avg"]["difference"]["mean"] == 0
    assert found["sets"]["s"]["num_prompts"] == 2


def test_the_average_weighs_sets_and_its_p_value_too():
    first, second = {"s": of(0, 1), "t": of(3, 3, 3)}, {"s": of(2, 2), "t": of(1, 1, 2)}
    found = compare(first, second, weights={"s": 300.0, "t": 100.0})
    figure = found["average"]["figures"]["avg"]
    assert figure["difference"]["mean"] == pytest.approx(0.75 * (0.5 + 0.25) / 2 - 0.25 * (0.5 + 0.5 + 0.25) / 3)
    differences = np.array([0.5, 0.25, -0.5, -0.5, -0.25])
    parts = differences * np.array([0.75 / 2] * 2 + [0.25 / 3] * 3)
    assert figure["p_value"] == p_value(parts)
    assert figure["p_value"] != p_value(differences)
    assert found["average"]["weights"] == {"s": 300.0, "t": 100.0}


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([0.5, 0.25, 0.25, 0.0], 0.25),
        ([0.5, -0.5], 1.0),
        ([0.0] * 5, 1.0),
        ([0.3], 1.0),
        ([1.0] * 40, 2 / 10_001),  # drawn: never 0
    ],
)
def test_the_p_value_counts_signs(differences, expected):
    assert p_value(np.array(differences)) == pytest.approx(expected, abs=1e-12)


def test_pairing_narrows_the_interval():
    """Prompts of very different difficulty, and a model a little better on each."""
    rates = [(index % 9, min(8, index % 9 + (index % 2))) for index in range(90)]
    sides = [of(*side, num_samples=8) for side in zip(*rates, strict=True)]
    figure = compare({"s": sides[0]}, {"s": sides[1]}, weights={})["sets"]["s"]["figures"]["avg"]
    spread = np.hypot(*(side.table["avg"].std(ddof=0) for side in sides)) / 90**0.5
    assert figure["difference"]["high"] - figure["difference"]["low"] < 1.5 * spread  # unpaired it would be 4 times it
    assert figure["p_value"] < 0.001


def test_ends_are_those_of_what_was_drawn_where_it_goes_further():
    figures = figures_of([("a", [2.0, None, -1.0, 0.0], None)])
    assert figures.ends["avg"].tolist() == [-1.0, 2.0]
    assert figures.ends["pass_at_2"].tolist() == [0.0, 1.0]
    assert figures.ends["response_tokens"].tolist() == [0.0, 8.0]
    assert figures_of([("a", [0.5] * 10, None)], num_samples=10).ends["response_tokens"].tolist() == [0.0, 10.0]


def test_a_difference_can_be_as_large_as_the_ends_are_apart_in_both():
    first = figures_of([(str(place), [0.0, 0.0, 0.0, 3.0], None) for place in range(6)])
    second = figures_of([(str(place), [0.0, 0.0, 0.0, -1.0 * (place == 0)], None) for place in range(6)])
    found = compare({"s": first}, {"s": second}, weights={})["sets"]["s"]["figures"]["avg"]["difference"]
    (expected,) = estimate_means([np.array([[-1.0]] + [[-0.75]] * 5)], [1.0], np.array([[-4.0], [4.0]]))
    assert found == asdict(expected)


def test_nothing_in_common_is_an_error():
    one = figures_of([("a", [1.0] * 4, None)])
    with pytest.raises(ValueError, match=r"no prompt in common: one has the sets s \(1 prompts\), the other t"):
        compare({"s": one}, {"t": one}, weights={})
