"""What becomes of the thread that samples beside the trainer, and of its steps."""

from __future__ import annotations

from threading import Event, Thread
from threading import enumerate as threads

import pytest

from ada_lightning.rollout.phase_clock import PhaseClock
from ada_lightning.rollout.sampling_thread import SamplingThread, StoppedSamplingError


def result_of(waiting, interrupt_check=lambda: None):
    return waiting(clock=PhaseClock(), interrupt_check=interrupt_check)


def alive():
    return [thread for thread in threads() if thread.name.startswith("sampling")]


class EndlessStep:
    """Samples until it is told to stop, as an engine that waits for its longest response."""

    def __init__(self):
        self.begun, self.is_given_up = Event(), Event()

    def __call__(self, *, clock, interrupt_check):
        self.begun.set()
        while not self.is_given_up.wait(0.001):
            interrupt_check()


@pytest.fixture
def sampling():
    thread = SamplingThread()
    yield thread
    thread.close()
    assert not alive()


def test_steps_are_sampled_in_the_order_of_their_start_without_anybody_asking(sampling):
    done, first_may_go_on = [], Event()

    def first(**options):
        first_may_go_on.wait()
        done.append("first")
        return "first"

    def second(**options):
        done.append("second")
        return "second"

    waiting = [sampling.start(first), sampling.start(second)]
    assert not done
    first_may_go_on.set()
    assert result_of(waiting[1]) == "second"  # asked for the later one alone
    assert done == ["first", "second"]
    assert result_of(waiting[0]) == "first"


def test_closing_ends_the_step_that_is_sampled_and_begins_no_other(sampling):
    running, other = EndlessStep(), EndlessStep()
    waiting, _ = sampling.start(running), sampling.start(other)
    assert running.begun.wait(60)
    assert alive()

    closing = Thread(target=sampling.close, daemon=True)
    closing.start()
    closing.join(30)
    is_closed = not closing.is_alive()
    running.is_given_up.set()  # whatever came of it, the test ends

    assert is_closed
    assert not alive()
    assert not other.begun.is_set()
    with pytest.raises(StoppedSamplingError):
        result_of(waiting)


def test_a_step_that_fails_is_told_to_who_waits_and_no_later_one_begins(sampling):
    may_fail, sampled = Event(), []

    def failing(**options):
        may_fail.wait()
        raise OSError("the disk is full")

    failed, unbegun = sampling.start(failing), sampling.start(lambda **options: sampled.append(1))
    may_fail.set()

    with pytest.raises(OSError, match="the disk is full"):
        result_of(failed)
    with pytest.raises(StoppedSamplingError):
        result_of(unbegun)
    assert not sampled


def test_who_waits_can_be_interrupted_and_the_step_goes_on(sampling):
    may_end = Event()

    def step(**options):
        may_end.wait()
        return "step"

    def interrupted():
        raise KeyboardInterrupt

    waiting = sampling.start(step)
    with pytest.raises(KeyboardInterrupt):
        result_of(waiting, interrupted)
    may_end.set()
    assert result_of(waiting) == "step"
