from __future__ import annotations

import json
import logging
from types import SimpleNamespace

import pytest

from ada_lightning.callbacks.alarms import AlarmBound, Alarms
from ada_lightning.callbacks.metrics_csv import MetricsCsv, read_metrics
from ada_lightning.run.stopping import RunStoppedError


def make_run(loggers=()):
    """A trainer and a policy as far as alarms look at them; callback_metrics are of all steps, as Lightning's."""
    trainer = SimpleNamespace(is_global_zero=True, loggers=list(loggers), callback_metrics={})
    return trainer, SimpleNamespace(policy_version=0)


def step(alarms, trainer, policy, **metrics):
    figures = {name.replace("__", "/"): value for name, value in metrics.items()}
    trainer.callback_metrics |= figures
    policy.policy_version += 1
    alarms.on_step_end(trainer, policy, figures)


def test_an_alarm_is_raised_after_its_steps_once_and_ends(tmp_path, caplog):
    alarms = Alarms(bounds={"flat": AlarmBound("train/entropy", low=0.5, num_steps=2)})
    logger = MetricsCsv(run_dir=tmp_path)
    trainer, policy = make_run([logger])
    with caplog.at_level(logging.WARNING):
        for value in (0.1, 0.9, 0.1, 0.2, 0.3, 0.8):
            step(alarms, trainer, policy, train__entropy=value)
    assert [row["alarm/flat"] for row in read_metrics(logger.path)] == [0, 0, 0, 1, 1, 0]
    assert [record.getMessage() for record in caplog.records] == [
        "alarm flat: train/entropy = 0.2 is outside of [0.5, inf] for 2 steps in a row",
        "alarm flat is over: train/entropy = 0.8",
    ]


def test_a_figure_that_is_not_a_number_is_out_of_bounds_and_a_missing_one_counts_neither_way():
    alarms = Alarms(bounds={"x": AlarmBound("x", high=1.0, num_steps=2, stops=True)})
    trainer, policy = make_run()
    step(alarms, trainer, policy, x=float("nan"))
    step(alarms, trainer, policy, y=0.0)
    with pytest.raises(RunStoppedError, match=r"alarm x: x = 2 is outside of \[-inf, 1\] for 2 steps.*x.stops=false"):
        step(alarms, trainer, policy, x=2.0)


def test_a_figure_of_an_earlier_step_is_not_that_of_this_one():
    """A step that trains nothing has no entropy; Lightning's callback_metrics keep the last."""
    alarms = Alarms(bounds={"flat": AlarmBound("train/entropy", low=0.5, num_steps=2)})
    trainer, policy = make_run()
    step(alarms, trainer, policy, train__entropy=0.1)
    step(alarms, trainer, policy, rollout__signal_ratio=0.0)
    assert trainer.callback_metrics["train/entropy"] == 0.1
    assert alarms.state_dict()["num_out"] == {"flat": 1}


def test_a_figure_that_never_comes_is_warned_of_once_with_the_nearest(caplog):
    bounds = {
        "dead": AlarmBound("rollout/signl_ratio", low=0.1),
        "heldout": AlarmBound("eval/avg_at_4", low=0.1),
        "late": AlarmBound("train/entropy", low=0.0),
    }
    alarms, trainer, policy = Alarms(bounds=bounds), *make_run()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            step(alarms, trainer, policy, rollout__signal_ratio=0.5)
        for _ in range(9):
            step(alarms, trainer, policy, rollout__signal_ratio=0.5, train__entropy=1.0)
    why_missing = " (held-out figures are not watched, and a step that trains nothing has no figures of an update)"
    assert [record.getMessage() for record in caplog.records] == [
        "alarm dead watches nothing: no step has had a figure rollout/signl_ratio; did you mean rollout/signal_ratio?",
        f"alarm heldout watches nothing: no step has had a figure eval/avg_at_4{why_missing}",
    ]


def test_a_resumed_run_goes_on_counting():
    bounds = {"x": AlarmBound("x", high=1.0, num_steps=3, stops=True)}
    alarms, resumed = Alarms(bounds=bounds), Alarms(bounds=bounds | {"new": AlarmBound("z", low=0.0)})
    trainer, policy = make_run()
    for _ in range(2):
        step(alarms, trainer, policy, x=2.0)
    resumed.load_state_dict(alarms.state_dict())
    with pytest.raises(RunStoppedError, match="3 steps in a row"):
        step(resumed, trainer, policy, x=2.0)


def test_the_run_folder_says_how_each_alarm_stands(tmp_path):
    alarms = Alarms(bounds={"x": AlarmBound("x", high=1.0, num_steps=1)}, run_dir=tmp_path)
    trainer, policy = make_run()
    for value, text in ((2.0, "x = 2 is outside of [-inf, 1] for 1 steps in a row"), (1.0, "over")):
        step(alarms, trainer, policy, x=value)
        assert json.loads((tmp_path / "alarms.json").read_text()) == {"x": text}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "x"}, "give low or high"),
        ({"metric": "", "low": 1.0}, "metric is empty"),
        ({"metric": "x", "low": 2.0, "high": 1.0}, "low must be below high; got 2.0 and 1.0"),
        ({"metric": "x", "low": 2.0, "num_steps": 0}, "num_steps must be at least 1; got 0"),
    ],
)
def test_bounds_that_mean_nothing_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        AlarmBound(**options)


def test_after_a_resume_the_file_says_how_alarms_stood_at_the_checkpoint(tmp_path):
    """Raised behind it, by a learning rate that the resume lowers: that step will not come again."""
    bounds = {"flat": AlarmBound("x", low=0.5, num_steps=1), "old": AlarmBound("y", low=0.5, num_steps=1)}
    alarms = Alarms(bounds=bounds, run_dir=tmp_path)
    trainer, policy = make_run()
    step(alarms, trainer, policy, x=1.0, y=0.1)
    checkpoint = alarms.state_dict()
    step(alarms, trainer, policy, x=0.1, y=0.1)
    assert "x = 0.1" in json.loads((tmp_path / "alarms.json").read_text())["flat"]
    resumed = Alarms(bounds=bounds, run_dir=tmp_path)
    resumed.load_state_dict(checkpoint)
    resumed.on_train_start(trainer, policy)
    stands = json.loads((tmp_path / "alarms.json").read_text())
    assert (stands["flat"], "y = 0.1" in stands["old"]) == ("over", True)


def test_a_run_without_alarms_has_no_file_of_them(tmp_path):
    Alarms(bounds={}, run_dir=tmp_path).on_train_start(*make_run())
    assert not (tmp_path / "alarms.json").exists()


def test_a_figure_of_another_kind_is_not_proposed(caplog):
    alarms, trainer, policy = Alarms(bounds={"same": AlarmBound("train/entropy", low=0.0)}), *make_run()
    with caplog.at_level(logging.WARNING):
        for _ in range(12):
            step(alarms, trainer, policy, train__lr=1e-4)
    [record] = caplog.records
    assert "train/lr" not in record.getMessage()
    assert "a step that trains nothing" in record.getMessage()
