from __future__ import annotations

import json

import pyarrow
import pytest
from pyarrow import parquet

from ada_lightning.methods.estimators import BetaHistory, EmaEstimator, ValueNetworkEstimator, WindowEstimator
from ada_lightning.methods.estimators.history_file import HistoryFile, write_history
from tests.builders import make_pool, make_prompt


@pytest.fixture
def history(tmp_path):
    path = tmp_path / "history.json"
    path.write_text(json.dumps({"p1": [3, 8], "p2": [0.5, 4.5]}))
    return str(path)


def write_parquet(folder, **columns):
    path = folder / "pass_rates.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    return str(path)


@pytest.mark.parametrize(
    ("kind", "beliefs"),
    [
        (EmaEstimator, [(4, 21), (1.5, 20), (1, 16)]),
        (BetaHistory, [(4, 6), (1.5, 5), (1, 1)]),
        (WindowEstimator, [(4, 6), (2, 4), (1, 1)]),  # of 4.5 responses that have faded, 4
    ],
)
def test_estimators_start_from_known_pass_rates_and_from_the_prior_elsewhere(kind, beliefs, history):
    recalled = kind(history_file=history).recall([make_prompt(key) for key in (1, 2, 3)])
    assert [(known.alpha, known.beta) for known in recalled] == beliefs
    assert [known.is_seen for known in recalled] == [True, True, False]


def test_known_counts_fade_like_counts_of_the_run(history):
    estimator = EmaEstimator(history_file=history)
    estimator.update([make_pool([1.0] * 4, key=1)])
    assert estimator.history_counts()["p1"] == pytest.approx((0.9 * 3 + 4, 0.9 * 8 + 4))


@pytest.mark.parametrize(
    ("counts", "seen"),
    [((2.0, 8.0), (2, 8)), ((0.0, 3.0), (0, 3)), ((3.0, 3.0), (3, 3)), ((0.3, 5.2), (1, 5)), ((0.4, 0.6), (1, 2))],
)
def test_a_window_takes_faded_counts_rounded_and_a_mixed_history_stays_mixed(tmp_path, counts, seen):
    path = tmp_path / "history.json"
    path.write_text(json.dumps({"p7": list(counts), "p8": [0, 0]}))
    recalled = WindowEstimator(history_file=str(path)).recall([make_prompt(7), make_prompt(8)])
    assert (recalled[0].num_seen_positive, recalled[0].num_seen) == seen
    assert not recalled[1].is_seen


def test_a_measured_rate_gives_way_to_rewards_of_this_run(tmp_path):
    write_history(tmp_path / "history.json", {"p7": (8, 16)})
    estimator = WindowEstimator(history_file=str(tmp_path / "history.json"))
    estimator.update([make_pool([0.0] * 8)])
    assert estimator.history_counts() == {"p7": (4.0, 16.0)}


@pytest.mark.parametrize("kind", [EmaEstimator, BetaHistory])
def test_a_run_can_start_from_what_another_one_wrote_and_a_resumed_one_has_its_own(kind, history, tmp_path):
    first = kind()
    first.update([make_pool([1.0, 0.0, 0.0, 0.0], key=3), make_pool([1.0] * 4, key=4)])
    assert first.history_counts() == {"p3": (1, 4), "p4": (4, 4)}
    write_history(tmp_path / "written.json", first.history_counts())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["history.json", "written.json"]
    assert kind(history_file=str(tmp_path / "written.json")).history_counts() == first.history_counts()
    resumed = kind(history_file=history)
    resumed.load_state_dict(first.state_dict())
    assert resumed.history_counts() == first.history_counts()


def test_measured_pass_rates_are_read_from_parquet(tmp_path):
    """The columns that prepare.py writes; p2 was measured twice."""
    path = write_parquet(
        tmp_path, prompt_id=["p1", "p2", "p2"], num_positive=[3, 0, 1], num_samples=[8, 4, 4],
        pass_rate=[0.375, 0.0, 0.25], text=["a", "b", "b"],
    )  # fmt: skip
    assert HistoryFile(path).counts == {"p1": (3, 8), "p2": (1, 8)}


def test_how_many_prompts_are_known_is_said_and_a_file_that_knows_none_is_refused(history, capsys):
    estimator = EmaEstimator(history_file=history)
    estimator.check_prompts([make_prompt(key) for key in (1, 3, 4)])
    estimator.check_prompts([make_prompt(1), make_prompt(2)])
    for silent in (EmaEstimator(), BetaHistory(), ValueNetworkEstimator()):
        silent.check_prompts([make_prompt(3)])
        assert silent.history_counts() == {}
    assert capsys.readouterr().out == (
        f"history: 1 of 3 training prompts known from {history}; the others start from the prior\n"
        f"history: 2 of 2 training prompts known from {history}\n"
    )
    with pytest.raises(ValueError, match=r"knows none of the 2 training prompts: .* another data set; leave it out"):
        estimator.check_prompts([make_prompt(3), make_prompt(4)])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"prompt_id": ["p1"], "pass_rate": [0.5]},
            r"has no column num_positive, num_samples \(its columns: prompt_id,",
        ),
        (
            {"prompt_id": ["p1"], "num_positive": [3], "num_samples": [2]},
            r"not counts \(p1: \[3, 2\]\); it must have the columns prompt_id",
        ),
        ({"prompt_id": ["p1"], "num_positive": [None], "num_samples": [2]}, r"not counts \(p1: \[null, 2\]\)"),
        ({"prompt_id": ["p1", "p1"], "num_positive": [1, 1], "num_samples": [2, 0]}, r"not counts \(p1: \[1, 0\]\)"),
        ({"prompt_id": [], "num_positive": [], "num_samples": []}, r"holds no prompt at the top"),
    ],
)
def test_a_parquet_file_of_something_else_is_refused(columns, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        HistoryFile(write_parquet(tmp_path, **columns))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"is not JSON \(Expecting property name .*\); it must be .* leave it out"),
        ("\xff", r"is not JSON"),
        ("[1, 2]", r"holds list at the top; it must be"),
        ("{}", r"holds no prompt at the top; it must be"),
        ('{"p1": 0.5}', r"has entries that are not counts \(p1: 0.5\); it must be"),
        ('{"p1": [3, 2]}', r"has entries that are not counts \(p1: \[3, 2\]\)"),
        ('{"p1": [-1, 2]}', r"has entries that are not counts \(p1: \[-1, 2\]\)"),
        ('{"p1": [NaN, 2]}', r"has entries that are not counts \(p1: \[NaN, 2\]\)"),
        ('{"p1": [1, Infinity]}', r"has entries that are not counts \(p1: \[1, Infinity\]\)"),
        ('{"p1": [true, 2]}', r"has entries that are not counts \(p1: \[true, 2\]\)"),
        ('{"p1": ["1", 2], "p2": [1, 2]}', r'has entries that are not counts \(p1: \["1", 2\]\)'),
        (
            '{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}',
            r"has entries that are not counts \(a: 1, b: 2, c: 3 and 2 more\)",
        ),
    ],
)
def test_a_file_that_is_something_else_is_refused_with_its_path(text, message, tmp_path):
    path = tmp_path / "wrong.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=rf"history_file .*wrong\.json {message}"):
        HistoryFile(path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "wrong.parquet").write_text("{}")
    for name, message in (
        ("none.json", r"none\.json cannot be read \(No such file or directory\)"),
        ("none.parquet", r"none\.parquet cannot be read \(No such file"),
        (".", r"cannot be read \(Is a directory\)"),
        ("wrong.parquet", r"wrong\.parquet is not Parquet \(.*\); it must have the columns prompt_id"),
    ):
        with pytest.raises(ValueError, match=message):
            HistoryFile(tmp_path / name)
