import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from ada_lightning.callbacks.curves import Curves, plot_curves
from ada_lightning.callbacks.metrics_csv import MetricsCsv
from ada_lightning.callbacks.prompt_log import PromptLog
from ada_lightning.callbacks.sampling_plots import (
    MAX_COLUMNS,
    SamplingPlots,
    draw,
    draw_budget,
    draw_difficulty,
    draw_lengths,
    draw_samples,
    plot_sampling,
)
from ada_lightning.run.run_dir import RunDir

PNG = b"\x89PNG"


def prompts(rows):
    """Rows of (step, bin, num_drawn, tokens), as the figure hands them on."""
    return pd.DataFrame(rows, columns=["step", "bin", "num_drawn", "tokens"])


@pytest.fixture
def axes():
    return Figure().subplots()


def test_difficulty_is_the_share_of_each_step_s_prompts(axes):
    draw_difficulty(axes.figure, axes, prompts([(0, 0, 1, 1), (0, 6, 1, 1), (1, 6, 1, 1), (1, 6, 1, 1)]), 1)
    image = axes.images[0].get_array()
    assert image[:, 0].tolist() == [0.5, 0, 0, 0, 0, 0, 0.5]
    assert image[:, 1].tolist() == [0, 0, 0, 0, 0, 0, 1.0]
    assert list(axes.images[0].get_extent()) == [-0.5, 1.5, -0.5, 6.5]


def test_budget_is_the_share_of_tokens(axes):
    draw_budget(axes, prompts([(0, 0, 1, 30), (0, 3, 1, 10), (1, 3, 1, 5)]), 1)
    tops = [patch.get_data().values for patch in axes.patches]
    assert np.allclose(tops[0], [0.75, 0])
    assert np.allclose(tops[-1], [1, 1])


def test_samples_are_those_of_the_newest_quarter(axes):
    draw_samples(axes, prompts([(step, 2, 4 if step < 75 else 12, 1) for step in range(100)]))
    medians = [
        line.get_ydata()[0] for line in axes.lines if len(set(line.get_ydata())) == 1 and len(line.get_ydata()) > 1
    ]
    assert 12 in medians
    assert 4 not in medians
    assert "10-30 %\n(25)" in [label.get_text() for label in axes.get_xticklabels()]


def test_lengths_show_what_there_is(axes):
    draw_lengths(axes, [{"step": 0.0, "rollout/response_tokens": 9.0}, {"step": 1.0}])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["mean"]


@pytest.mark.parametrize("rates", [[np.nan], [0.0], [1.0], [0.0, 0.5, 1.0, np.nan]])
def test_any_pass_rates_can_be_plotted(tmp_path, rates):
    frame = pd.DataFrame({"step": 3, "pass_rate": rates, "num_drawn": 8, "tokens": 0, "hint": 0})
    plot_sampling(frame, [], tmp_path / "sampling.png", title="x")
    assert (tmp_path / "sampling.png").read_bytes().startswith(PNG)


def test_long_runs_have_columns_of_several_steps(tmp_path, monkeypatch):
    widths = []
    monkeypatch.setattr(
        "ada_lightning.callbacks.sampling_plots.draw_budget", lambda axes, joined, width: widths.append((width, joined))
    )
    frame = pd.DataFrame({"step": range(1000), "pass_rate": 0.5, "num_drawn": 8, "tokens": 1, "hint": 0})
    plot_sampling(frame, [], tmp_path / "sampling.png", title="x")
    width, joined = widths[0]
    assert width == 9
    assert joined.step.nunique() <= MAX_COLUMNS
    assert joined.step.max() == 999  # the last column is of step 999 alone


@pytest.mark.parametrize(
    "rows",
    [
        [{"step": 0.0}],
        [{"step": 0.0, "eval/avg_at_4": 0.1, "time/rollout_s": 3.0}],
        [{"step": 0.0, "rollout/num_sampled": 3.0}, {"step": 1.0, "rollout/signal_ratio": float("nan")}],
    ],
)
def test_incomplete_metrics_can_be_plotted(tmp_path, rows):
    plot_curves(rows, tmp_path / "curves.png", title="x")
    assert (tmp_path / "curves.png").read_bytes().startswith(PNG)


def test_pictures_are_drawn_during_and_after_training(fit, tmp_path, monkeypatch):
    sizes = []
    monkeypatch.setattr(
        "ada_lightning.callbacks.curves.plot_curves",
        lambda rows, *a, **k: (sizes.append(len(rows)), plot_curves(rows, *a, **k)),
    )
    pictures = [each(run_dir=tmp_path, every_n_steps=2) for each in (Curves, SamplingPlots)]
    fit([PromptLog(run_dir=tmp_path), *pictures], loggers=[MetricsCsv(run_dir=tmp_path)])
    assert sizes == [2, 4]
    assert {file.name for file in tmp_path.glob("*.png")} == {"curves.png", "sampling.png"}


def test_nothing_logged_no_plot(fit, tmp_path):
    fit([Curves(run_dir=tmp_path), SamplingPlots(run_dir=tmp_path)])
    assert list(tmp_path.glob("*.png")) == []
    assert draw(RunDir(tmp_path)) is None


@pytest.mark.parametrize(("callback", "name"), [(Curves, "curves"), (SamplingPlots, "sampling_plots")])
def test_every_below_one_is_refused(callback, name):
    with pytest.raises(ValueError, match=rf"every_n_steps must be at least 1; got 0; .*~callbacks.{name}"):
        callback(run_dir="x", every_n_steps=0)
