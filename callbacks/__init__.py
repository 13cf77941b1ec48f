"""The application's Lightning callbacks. They may import ``ada_lightning``, never the reverse.

Their name is ``ada_lightning.callbacks``, in a checkout, where they stand at its top, as in an installed package.
"""

if __name__ == "callbacks":  # a second copy of every class, which no ``isinstance`` would know
    raise ImportError(
        "the callbacks are ada_lightning.callbacks, in a checkout too: import them from there, and name them so in "
        "_target_: ada_lightning.callbacks.budget.Budget, for example"
    )

from importlib import import_module
from typing import Any

_MODULES = {
    "AdaptiveSampling": "adaptive_sampling",
    "AlarmBound": "alarms",
    "Alarms": "alarms",
    "Budget": "budget",
    "CostPreview": "cost_preview",
    "Curves": "curves",
    "Dashboard": "tracker",
    "Environment": "environment",
    "Evaluation": "evaluation",
    "InterruptGuard": "checkpoint",
    "MLflowTracking": "mlflow_logger",
    "MetricsCsv": "metrics_csv",
    "ObjectiveStatement": "objective_statement",
    "Progress": "progress",
    "PromptLog": "prompt_log",
    "ResponseLengths": "response_log",
    "ResponseLog": "response_log",
    "RolloutCheckpoint": "checkpoint",
    "RolloutListener": "rollout_listener",
    "SamplePage": "sample_page",
    "SamplingPlots": "sampling_plots",
    "StreamingCheckpointIO": "checkpoint",
    "Summary": "summary",
    "TensorBoardTracking": "tensorboard_tracking",
    "Tracker": "tracker",
    "TrackioTracking": "trackio_tracking",
    "WandbTracking": "wandb_tracking",
    "WeightAverage": "weight_average",
}
"""File of each class, loaded when it is asked for: some of them need MLflow or pictures."""
_JOINED = {
    "alarm_bound": "alarms",
    "interrupt_guard": "checkpoint",
    "response_lengths": "response_log",
    "streaming_checkpoint_io": "checkpoint",
}
"""Files that joined another one: stored configurations of older runs name their classes by them."""
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _JOINED:
        return import_module(f"{__name__}.{_JOINED[name]}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
