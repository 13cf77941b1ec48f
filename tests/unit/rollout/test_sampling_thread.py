"""What becomes of the thread that samples beside the trainer, and of its steps."""

from __future__ import annotations

from functools import partial
from threading import Event, Thread
from threading import enumerate as threads

import pytest

from ada_lightning.core.protocols import VersionedEngine
from ada_lightning.core.records import SamplingSettings
from ada_lightning.core.step import Step
from ada_lightning.core.step_records import StepSettings
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.methods.selection import AllSelection
from ada_lightning.rollout.driver import Driver
from ada_lightning.rollout.engine_supervisor import EngineSupervisor
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.engines.host import TrainerProcess
from ada_lightning.rollout.sampling_thread import SamplingThread, StoppedSamplingError
from ada_lightning.run.phase_clock import PhaseClock
from research.scripted import ScriptedEngine
from tests.builders import InstantGrader, make_prompt

SETTINGS = StepSettings(seed=0)


class Engine(ScriptedEngine):
    """Finishes nothing of a step before ``may_end`` says so; breaks where ``breaks`` does."""

    def __init__(self, **options):
        super().__init__(pass_rates={1: 0.5}, max_num_seqs=4)
        self.may_end, self.begun, self.loaded = {}, {}, []
        self.breaks = False

    def submit(self, request_id, *request):
        self.begun.setdefault(self.step_of(request_id), Event()).set()
        super().submit(request_id, *request)

    def poll(self):
        if self.breaks:
            raise OSError("the disk is full")
        held = {name: self._running[name] for name in self._running if not self.is_free(name)}
        for name in held:
            del self._running[name]
        found = super().poll()
        self._running |= held
        return found

    def load_weights(self, named_tensors, policy_version):
        super().load_weights(named_tensors, policy_version)
        self.loaded.append(policy_version)

    def is_free(self, name):
        return self.may_end.setdefault(self.step_of(name), Event()).wait(0.001)

    @staticmethod
    def step_of(request_id):
        return int(request_id.partition("/")[0].partition(".")[2])


class Beside(Engine, VersionedEngine):
    """Has room for two versions; breaks when it is next asked which to keep, where ``breaks_next`` says so."""

    serves_versions, breaks_next = True, False

    def __init__(self):
        super().__init__()
        self.held = []

    @property
    def versions(self):
        return self.held

    def submit(self, request_id, *request, policy_version):
        assert policy_version in self.held
        super().submit(request_id, *request)

    def publish(self, named_tensors, policy_version):
        self.held = [*self.held, policy_version]
        assert len(self.held) <= 2

    def keep(self, policy_versions):
        if self.breaks_next and len(self.held) > 1:
            self.held, self.breaks_next = [], False
            self._running.clear()
            raise OSError("the machine is gone")
        self.held = [version for version in self.held if version in policy_versions]


@pytest.fixture
def sampling(tmp_path, request):
    """A thread, and its engine."""
    engine, max_restarts = getattr(request, "param", (Engine, 0))
    engine = engine()
    kept = EngineSupervisor(
        lambda **_: engine, TrainerProcess(), max_restarts=max_restarts, stall_limit_s=60, start_limit_s=60
    )
    kept.open(tmp_path / "engine.log")
    driver = partial(Driver, sampling=SamplingSettings(max_new_tokens=4), settings=SETTINGS, grader=InstantGrader())
    thread = SamplingThread(kept, partial(driver, decode=str))
    yield thread, engine
    for step in range(8):
        engine.may_end.setdefault(step, Event()).set()
    thread.close()
    kept.close()
    assert not alive()
    assert engine.num_in_flight() == 0


def alive():
    return [thread for thread in threads() if thread.name.startswith("sampling")]


def step(number):
    return Step(
        [make_prompt(1)], sampler=UniformSampler(group_size=2), selection=AllSelection(), settings=SETTINGS,
        step=number, policy_version=number,
    )  # fmt: skip


def start(sampling, number, begin=step):
    options = {"weights": list, "policy_version": number, "probe": None, "ended": lambda pool: None}
    return sampling[0].start(partial(begin, number), **options)


def result_of(waiting, interrupt_check=lambda: None):
    return waiting(clock=PhaseClock(), interrupt_check=interrupt_check)


def begun(engine, number):
    return engine.begun.setdefault(number, Event())


def test_steps_are_sampled_in_the_order_of_their_start_without_anybody_asking(sampling):
    _, engine = sampling
    waiting = [start(sampling, 0), start(sampling, 1)]
    assert begun(engine, 0).wait(60)
    assert not begun(engine, 1).is_set()  # this engine has one version at a time
    for number in (0, 1):
        engine.may_end.setdefault(number, Event()).set()
    assert result_of(waiting[1]).step == 1  # asked for the later one alone
    assert engine.loaded == [0, 1]
    assert result_of(waiting[0]).step == 0


def test_who_waits_for_the_engine_has_it_before_a_step_that_is_not_begun(sampling):
    thread, engine = sampling
    kept, has_turn, may_end = thread._engine, Event(), Event()

    def evaluate():
        with kept.turn(PhaseClock(), lambda: None):
            has_turn.set()
            may_end.wait(60)

    waiting = [start(sampling, 0), start(sampling, 1)]
    assert begun(engine, 0).wait(60)
    other = Thread(target=evaluate, daemon=True)
    other.start()
    while not kept.is_wanted:
        pass
    engine.may_end.setdefault(0, Event()).set()
    engine.may_end.setdefault(1, Event()).set()
    assert has_turn.wait(60)
    assert result_of(waiting[0]).step == 0
    assert not begun(engine, 1).is_set()
    may_end.set()
    assert result_of(waiting[1]).step == 1
    other.join(60)


def test_closing_ends_the_step_that_is_sampled_and_begins_no_other(sampling):
    thread, engine = sampling
    running, other = start(sampling, 0), start(sampling, 1)
    assert begun(engine, 0).wait(60)
    assert alive()
    closing = Thread(target=thread.close, daemon=True)
    closing.start()
    closing.join(30)
    assert not closing.is_alive()
    assert not alive()
    assert not begun(engine, 1).is_set()
    for waiting in (running, other, start(sampling, 2)):
        with pytest.raises(StoppedSamplingError):
            result_of(waiting)


@pytest.mark.parametrize("what", ["engine", "begin"])
def test_a_step_that_fails_is_told_to_who_waits_and_no_later_one_begins(what, sampling):
    def failing(number):
        raise OSError("the disk is full")

    _, engine = sampling
    engine.breaks = what == "engine"
    failed, unbegun = start(sampling, 0, failing if what == "begin" else step), start(sampling, 1)
    with pytest.raises((OSError, EngineError), match="the disk is full"):
        result_of(failed)
    with pytest.raises(StoppedSamplingError):
        result_of(unbegun)
    assert not begun(engine, 1).is_set()
    engine.breaks = False


def test_who_waits_can_be_interrupted_and_the_step_goes_on(sampling):
    def interrupted():
        raise KeyboardInterrupt

    _, engine = sampling
    waiting = start(sampling, 0)
    with pytest.raises(KeyboardInterrupt):
        result_of(waiting, interrupted)
    engine.may_end.setdefault(0, Event()).set()
    assert result_of(waiting).step == 0


def both_of(engine, waiting):
    """Numbers of two steps; the later one may end when the earlier one was handed over."""
    numbers = [result_of(waiting[0]).step]
    engine.may_end.setdefault(1, Event()).set()
    return [*numbers, result_of(waiting[1]).step]


@pytest.mark.parametrize("sampling", [(Beside, 1)], indirect=True)
def test_a_step_that_is_complete_is_handed_over_though_the_engine_dies_then(sampling):
    _, engine = sampling
    waiting = [start(sampling, 0), start(sampling, 1)]
    assert begun(engine, 1).wait(60)  # both are open
    engine.breaks_next = True
    engine.may_end.setdefault(0, Event()).set()
    with pytest.warns(RuntimeWarning, match="the machine is gone"):
        assert both_of(engine, waiting) == [0, 1]
    assert not engine.breaks_next


@pytest.mark.parametrize("sampling", [(Beside, 0)], indirect=True)
def test_with_a_lag_of_one_step_an_engine_has_two_versions_at_most(sampling):
    _, engine = sampling
    waiting = {number: start(sampling, number) for number in (0, 1)}
    for number in range(6):
        assert begun(engine, number).wait(60)
        engine.may_end.setdefault(number, Event()).set()
        assert result_of(waiting[number]).step == number
        if number < 5:
            waiting[number + 2] = start(sampling, number + 2)
    engine.may_end.setdefault(6, Event()).set()
    assert result_of(waiting[6]).step == 6
