import io
import itertools
import re

import pytest
from rich.console import Console

from ada_lightning.callbacks.budget import Budget
from ada_lightning.callbacks.progress import LINE_INTERVAL_S, Progress
from ada_lightning.run.phase_clock import PhaseEvent
from tests.unit.callbacks.small_run import Data


class Clock:
    """Seconds that pass only when told."""

    def __init__(self):
        self.seconds = 100.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def output():
    return io.StringIO()


def test_step_lines_without_a_terminal(fit, output):
    fit([Progress(console=Console(file=output, width=60))])
    lines = output.getvalue().splitlines()
    assert lines[0] == "held-out after 0 steps  avg_at_4 0.050"
    assert re.sub(r"left \w+", "left 0s", lines[1]) == (  # a slow machine may have seconds left
        "step 1/3  reward 0.50  signal 0.50  responses 4  loss 2.0000  rollout 9.8s  update 7.1s  left 0s"
    )
    assert [line.split()[1] for line in lines[2:4]] == ["2/3", "3/3"]
    assert lines[4] == "held-out after 3 steps  avg_at_4 0.560"
    assert len(lines) == 5


@pytest.mark.parametrize(
    ("data", "shown"),
    [({"num_steps": 2, "updates_per_rollout": 3}, ["1/2", "2/2"]), ({"num_steps": 3, "first_step": 1}, ["2/3", "3/3"])],
)
def test_one_line_per_step_however_many_minibatches_and_counted_on_by_a_resume(fit, output, data, shown):
    fit([Progress(console=Console(file=output))], data=Data(**data))
    assert [line.split()[1] for line in output.getvalue().splitlines() if line.startswith("step")] == shown


def test_first_rollout_of_a_resumed_run_has_the_right_number(fit, output):
    data = Data(num_steps=3, first_step=1)
    clock = itertools.count(0.0, 2 * LINE_INTERVAL_S).__next__  # every event is worth a line
    fit([Progress(console=Console(file=output), now=clock)], data=data)
    first = next(line for line in output.getvalue().splitlines() if "rollout" in line)
    assert first.startswith("step 2/3  rollout")


class Slow(Progress):
    """A run whose steps take 50 seconds."""

    def on_rollout_end(self, trainer, pl_module, result):
        self._now.seconds += 50
        super().on_rollout_end(trainer, pl_module, result)


class Cold(Slow):
    """One whose preview and first evaluation take ten minutes, its first step two."""

    def on_train_start(self, trainer, pl_module):
        super().on_train_start(trainer, pl_module)
        self._now.seconds += 600

    def on_rollout_end(self, trainer, pl_module, result):
        self._now.seconds += 0 if result.step else 70
        super().on_rollout_end(trainer, pl_module, result)


@pytest.mark.parametrize(
    ("display", "num_steps", "max_tokens", "spent", "expected"),
    [
        (Slow, 6, None, 0, ["4m10s", "3m20s", "2m30s", "1m40s", "50s", "0s"]),
        # What comes before the first rollout is left out, and then a cold first step; of a budget the same.
        (Cold, 4, None, 0, ["6m00s", "1m40s", "50s", "0s"]),
        (Cold, 1000, 40, 0, ["6m00s", "1m40s", "50s", "0s"]),
        # Each step spends ten tokens: 5 of 45 are spent before, the fourth step spends the last of them.
        (Slow, 1000, 45, 5, ["2m30s", "1m40s", "50s", "0s"]),
        (Slow, 2, 1e9, 0, ["50s", "0s"]),
        (Slow, 1000, 45, 45, ["0s"]),
    ],
)
def test_time_left_is_that_to_the_last_step_or_the_end_of_the_budget(
    fit, output, display, num_steps, max_tokens, spent, expected
):
    callbacks = [display(console=Console(file=output), now=Clock())]
    if max_tokens:
        budget = Budget(max_generated_tokens=max_tokens)
        budget.load_state_dict({"generated_tokens": spent, "seconds": 0.0})
        callbacks.append(budget)
    fit(callbacks, data=Data(num_steps=num_steps))
    left = [line.rpartition("left ")[2] for line in output.getvalue().splitlines() if "left" in line]
    assert left == expected


def test_long_phase_says_now_and_then_how_far_it_is(fit, output):
    clock = Clock()
    progress = Progress(console=Console(file=output), now=clock)
    fit([progress], data=Data(num_steps=1))
    start = len(output.getvalue())
    for done in range(100):
        clock.seconds += LINE_INTERVAL_S / 40
        progress.on_phase(PhaseEvent("rollout", done, 512))
    assert output.getvalue()[start:].splitlines() == ["step 1/1  rollout 39/512", "step 1/1  rollout 79/512"]


def test_bar_in_a_terminal_shows_the_phase_and_goes_away(fit, output):
    console = Console(file=output, force_terminal=True, width=150)
    fit([Progress(console=console)])
    text = output.getvalue()
    assert "step 3/3  update" in text
    assert "signal 0.50  responses 4  left 0s" in text
    assert "held-out after 3 steps" in text
    assert "\x1b[?25h" in text, "the cursor is shown again"
    assert "step 3/3  reward" not in text, "no line per step beside the bar"


def test_bar_goes_away_on_an_error(fit, output):
    with pytest.raises(RuntimeError, match="boom"):
        fit(
            [Progress(console=Console(file=output, force_terminal=True))],
            data=Data(fail_at=1, error=RuntimeError("boom")),
        )
    assert "\x1b[?25h" in output.getvalue()
