from __future__ import annotations

import json

import pyarrow
import pytest
from pyarrow import parquet

from ada_lightning.core.protocols import PassRateEstimator, RememberingEstimator
from ada_lightning.methods.estimators import BetaHistory, EmaEstimator, ValueNetworkEstimator
from ada_lightning.methods.estimators.history_file import write_history
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


def beliefs(estimator, *keys):
    return [(b.alpha, b.beta) for b in estimator.predict([make_prompt(key) for key in keys], lambda prompts: None)]


def test_estimators_start_from_known_pass_rates_and_from_the_prior_elsewhere(history):
    assert beliefs(EmaEstimator(history_file=history), 1, 2, 3) == [(4, 21), (1.5, 20), (1, 16)]
    assert beliefs(BetaHistory(history_file=history), 1, 2, 3) == [(4, 6), (1.5, 5), (1, 1)]


def test_known_counts_fade_like_counts_of_the_run(history):
    estimator = EmaEstimator(history_file=history)
    estimator.update([make_pool([1.0] * 4, key=1)])
    assert estimator.history_counts()["p1"] == pytest.approx((0.9 * 3 + 4, 0.9 * 8 + 4))


@pytest.mark.parametrize("kind", [EmaEstimator, BetaHistory])
def test_a_run_can_start_from_what_another_one_wrote(kind, tmp_path):
    first = kind()
    first.update([make_pool([1.0, 0.0, 0.0, 0.0], key=1), make_pool([1.0] * 4, key=2)])
    assert first.history_counts() == {"p1": (1, 4), "p2": (4, 4)}
    write_history(tmp_path / "history.json", first.history_counts())
    second = kind(history_file=str(tmp_path / "history.json"))
    assert second.history_counts() == first.history_counts()
    assert [path.name for path in tmp_path.iterdir()] == ["history.json"]


def test_a_resumed_run_goes_on_with_its_own_counts_and_not_with_the_file(history):
    first = EmaEstimator()
    first.update([make_pool([1.0] * 4, key=9)])
    second = EmaEstimator(history_file=history)
    second.load_state_dict(first.state_dict())
    assert second.history_counts() == {"p9": (4, 4)}


def test_what_is_remembered_is_what_is_predicted_and_whether_it_was_seen(history):
    for estimator in (EmaEstimator(history_file=history), BetaHistory(history_file=history)):
        assert isinstance(estimator, RememberingEstimator)
        estimator.update([make_pool([1.0] * 4, key=7)])
        asked = [make_prompt(key) for key in (1, 3, 7)]
        recalled = estimator.recall(asked)
        assert [memory.belief for memory in recalled] == estimator.predict(asked, lambda prompts: None)
        assert [memory.is_seen for memory in recalled] == [True, False, True]
    assert not isinstance(ValueNetworkEstimator(), RememberingEstimator)


@pytest.mark.parametrize("kind", [EmaEstimator, BetaHistory])
def test_measured_pass_rates_are_read_from_parquet(kind, tmp_path):
    """The columns that prepare.py writes; p2 was measured twice."""
    path = write_parquet(
        tmp_path, prompt_id=["p1", "p2", "p2"], num_positive=[3, 0, 1], num_samples=[8, 4, 4],
        pass_rate=[0.375, 0.0, 0.25], text=["a", "b", "b"],
    )  # fmt: skip
    estimator = kind(history_file=path)
    assert estimator.history_counts() == {"p1": (3, 8), "p2": (1, 8)}
    assert [memory.is_seen for memory in estimator.recall([make_prompt(key) for key in (1, 2, 3)])] == [1, 1, 0]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"prompt_id": ["p1"], "pass_rate": [0.5]},
            r"has no column num_positive, num_samples \(its columns: prompt_id,",
        ),
        (
            {"prompt_id": ["p1"], "num_positive": [3], "num_samples": [2]},
            r"no counts \(p1: \[3, 2\]\); it must have the columns",
        ),
        ({"prompt_id": ["p1"], "num_positive": [None], "num_samples": [2]}, r"no counts \(p1: \[null, 2\]\)"),
        ({"prompt_id": ["p1", "p1"], "num_positive": [1, 1], "num_samples": [2, 0]}, r"no counts \(p1: \[1, 0\]\)"),
        ({"prompt_id": [], "num_positive": [], "num_samples": []}, r"holds no prompt at the top"),
    ],
)
def test_a_parquet_file_of_something_else_is_refused(columns, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        BetaHistory(history_file=write_parquet(tmp_path, **columns))


def test_a_file_that_is_only_called_parquet_is_refused(tmp_path):
    path = tmp_path / "wrong.parquet"
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"wrong\.parquet is not Parquet \(.*\); it must have the columns prompt_id"):
        EmaEstimator(history_file=str(path))
    with pytest.raises(ValueError, match=r"none\.parquet cannot be read \(No such file"):
        EmaEstimator(history_file=str(tmp_path / "none.parquet"))


@pytest.mark.parametrize("kind", [EmaEstimator, BetaHistory])
def test_how_many_prompts_are_known_is_said(kind, history, capsys):
    estimator = kind(history_file=history)
    estimator.check_prompts([make_prompt(key) for key in (1, 3, 4)])
    assert capsys.readouterr().out == (
        f"history: 1 of 3 training prompts known from {history}; the others start from the prior\n"
    )
    estimator.check_prompts([make_prompt(1), make_prompt(2)])
    assert capsys.readouterr().out == f"history: 2 of 2 training prompts known from {history}\n"


@pytest.mark.parametrize("kind", [EmaEstimator, BetaHistory])
def test_a_file_that_knows_no_prompt_is_from_another_data_set(kind, history):
    with pytest.raises(ValueError, match=r"knows none of the 2 training prompts: .* another data set; leave it out"):
        kind(history_file=history).check_prompts([make_prompt(3), make_prompt(4)])


@pytest.mark.parametrize("kind", [EmaEstimator, BetaHistory, ValueNetworkEstimator])
def test_without_a_file_there_is_nothing_to_compare(kind, capsys):
    estimator = kind()
    assert isinstance(estimator, PassRateEstimator)
    estimator.check_prompts([make_prompt(3)])
    assert capsys.readouterr().out == ""
    assert estimator.history_counts() == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"is not JSON \(Expecting property name .*\); it must be .* leave it out"),
        ("\xff", r"is not JSON"),
        ("[1, 2]", r"holds list at the top; it must be"),
        ("{}", r"holds no prompt at the top; it must be"),
        ('{"p1": 0.5}', r"has entries that are no counts \(p1: 0.5\); it must be"),
        ('{"p1": [3, 2]}', r"has entries that are no counts \(p1: \[3, 2\]\)"),
        ('{"p1": [-1, 2]}', r"has entries that are no counts \(p1: \[-1, 2\]\)"),
        ('{"p1": [NaN, 2]}', r"has entries that are no counts \(p1: \[NaN, 2\]\)"),
        ('{"p1": [1, Infinity]}', r"has entries that are no counts \(p1: \[1, Infinity\]\)"),
        ('{"p1": [true, 2]}', r"has entries that are no counts \(p1: \[true, 2\]\)"),
        ('{"p1": ["1", 2], "p2": [1, 2]}', r'has entries that are no counts \(p1: \["1", 2\]\)'),
        ('{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}', r"has entries that are no counts \(a: 1, b: 2, c: 3 and 2 more\)"),
    ],
)
@pytest.mark.parametrize("kind", [EmaEstimator, BetaHistory])
def test_a_file_that_is_something_else_is_refused_with_its_path(kind, text, message, tmp_path):
    path = tmp_path / "wrong.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=rf"history_file .*wrong\.json {message}"):
        kind(history_file=str(path))


def test_a_file_that_is_not_there_or_no_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"none\.json cannot be read \(No such file or directory\)"):
        BetaHistory(history_file=str(tmp_path / "none.json"))
    with pytest.raises(ValueError, match=r"cannot be read \(Is a directory\)"):
        EmaEstimator(history_file=str(tmp_path))


def test_a_wrong_memory_and_a_wrong_file_are_one_message():
    with pytest.raises(ValueError, match=r"memory must be in \[0, 1\]; got 2; estimator.history_file none.json cannot"):
        BetaHistory(memory=2, history_file="none.json")
