from __future__ import annotations

import io

from rich.console import Console

from ada_lightning.analysis.offline.sampling_job import SamplingProgress
from ada_lightning.rollout.fixed_weights import DrawCounts


class Clock:
    seconds = 0.0

    def __call__(self):
        return self.seconds


def display(*, is_terminal):
    clock, out = Clock(), io.StringIO()
    console = Console(file=out, force_terminal=is_terminal, width=100)
    return SamplingProgress(num_prompts=10, num_done=4, num_samples=8, console=console, now=clock), clock, out


def test_without_a_terminal_a_line_comes_every_half_minute():
    progress, clock, out = display(is_terminal=False)
    with progress:
        for second in range(0, 66):
            clock.seconds = float(second)
            progress.report(DrawCounts(num_prompts=second // 30, num_responses=second // 5, num_tokens=40 * second))
    assert out.getvalue().splitlines() == [
        "prompts 5/10  responses 6  40 tokens/s  left 3m30s",  # 42 of 48 responses are left, 6 took 30 s
        "prompts 6/10  responses 12  40 tokens/s  left 3m00s",
    ]


def test_nothing_is_divided_by_zero_at_the_start():
    progress, _, _ = display(is_terminal=False)
    with progress:
        assert progress.facts(DrawCounts()) == "responses 0  0 tokens/s"


def test_a_terminal_gets_a_bar_that_counts_what_earlier_starts_stored():
    progress, clock, out = display(is_terminal=True)
    with progress:
        clock.seconds = 2.0
        progress.report(DrawCounts(num_prompts=1, num_responses=8, num_tokens=100))
        progress._bar.refresh()
        assert "5/10" in out.getvalue()
        assert "50 tokens/s" in out.getvalue()
    assert progress._bar is None
