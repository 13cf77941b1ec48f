import pytest
from mlflow import MlflowClient

from callbacks.curves import Curves, plot_curves
from callbacks.metrics_csv import MetricsCsv
from callbacks.mlflow_logger import MLflowTracking

PNG = b"\x89PNG"


def test_plot_is_made_during_and_after_training(fit, tmp_path, mlflow_uri, monkeypatch):
    plotted = []
    monkeypatch.setattr(
        "callbacks.curves.plot_curves", lambda rows, *a, **k: (plotted.append(len(rows)), plot_curves(rows, *a, **k))
    )
    logger = MLflowTracking(run_dir=tmp_path, run_name="r", experiment_name="curves", tracking_uri=mlflow_uri)
    fit([Curves(run_dir=tmp_path, every_n_steps=2)], loggers=[MetricsCsv(run_dir=tmp_path), logger])
    assert plotted == [2, 4]
    assert (tmp_path / "curves.png").read_bytes().startswith(PNG)
    assert [file.path for file in MlflowClient(mlflow_uri).list_artifacts(logger.version)] == ["curves.png"]


def test_no_metrics_no_plot(fit, tmp_path):
    fit([Curves(run_dir=tmp_path)])
    assert not (tmp_path / "curves.png").exists()


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


def test_every_below_one_is_refused():
    with pytest.raises(ValueError, match="every_n_steps must be at least 1; got 0"):
        Curves(run_dir="x", every_n_steps=0)
