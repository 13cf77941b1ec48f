from __future__ import annotations

import weakref
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from ada_lightning.core.records import Grade, SamplingSettings
from ada_lightning.core.step import Step
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.methods.selection import AllSelection
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.engines.host import EngineHost
from ada_lightning.rollout.engines.scripted import ScriptedEngine
from ada_lightning.rollout.phase_clock import PhaseClock
from ada_lightning.rollout.service import RolloutService
from ada_lightning.run.run_stopped import RunStoppedError
from tests.builders import InstantGrader, make_prompt


class Tokenizer:
    def decode(self, response_ids, skip_special_tokens):
        return str(response_ids[0])


class Engines:
    """Builds scripted engines that break a given number of times, and remembers the order of events."""

    def __init__(self, num_broken):
        self.num_broken = num_broken
        self.events = []

    def __call__(self, *, model_path, log_file, max_model_tokens, eos_token_ids):
        events, is_broken = self.events, len([e for e in self.events if e == "open"]) < self.num_broken

        class Engine(ScriptedEngine):
            def submit(self, request_id, prompt_ids, settings, seed):
                events.append("submit")
                super().submit(request_id, prompt_ids, settings, seed)

            def poll(self):
                if is_broken:
                    raise RuntimeError("out of memory")
                return super().poll()

            def load_weights(self, named_tensors, policy_version):
                events.append(f"load {policy_version}")
                super().load_weights(named_tensors, policy_version)

            def close(self):
                events.append("close")
                super().close()

        events.append("open")
        return Engine(pass_rates={1: 0.5}, max_model_tokens=max_model_tokens)


def open_service(engines, *, grader=None, **options):
    service = RolloutService(
        engine=engines, sampling=SamplingSettings(max_new_tokens=4), max_model_tokens=32, seed=0, **options
    )
    service.open(
        model_path=Path(), tokenizer=Tokenizer(), eos_token_ids=[2], grader=grader or InstantGrader(),
        log_file=Path("engine.log"),
    )  # fmt: skip
    return service


def rollout(service, version, step=0):
    return service.rollout(
        partial(Step, [make_prompt(1)], sampler=UniformSampler(group_size=2), selection=AllSelection(), step=step),
        weights=lambda: [],
        policy_version=version,
        stage="train",
        clock=PhaseClock(),
    )


def test_weights_are_loaded_once_per_version_before_the_first_request():
    engines = Engines(num_broken=0)
    service = open_service(engines)
    rollout(service, 0)
    rollout(service, 0, step=1)
    rollout(service, 1)
    service.close()
    submits = ["submit"] * 2
    assert engines.events == ["open", "load 0", *submits, *submits, "load 1", *submits, "close"]


def test_a_broken_engine_is_replaced_and_the_step_repeated_with_the_same_outcome():
    broken, whole = open_service(Engines(num_broken=2)), open_service(Engines(num_broken=0))
    with pytest.warns(RuntimeWarning, match="out of memory"):
        repeated = rollout(broken, 5)
    assert broken.num_restarts == 2
    assert repeated.groups == rollout(whole, 5).groups


def test_an_engine_that_keeps_breaking_ends_the_run():
    engines = Engines(num_broken=9)
    service = open_service(engines, max_engine_restarts=1)
    with pytest.warns(RuntimeWarning), pytest.raises(EngineError, match="out of memory"):
        rollout(service, 0)
    assert engines.events.count("open") == 2


def draw(service, version):
    """From the weights that the engine was opened with."""
    return list(service.draw([(0, make_prompt(1))], num_samples=2, stage="eval"))


@pytest.mark.parametrize("sample", [rollout, draw])
def test_nothing_is_left_of_a_broken_engine_when_the_next_one_starts(sample):
    """What it holds, a GPU's memory or a port, its successor needs."""
    opened, alive_at_start = [], []

    class Engine(ScriptedEngine):
        def poll(self):
            if len(opened) <= 2:
                raise RuntimeError("out of memory")
            return super().poll()

    def open_engine(**completed):
        alive_at_start.append([engine() is not None for engine in opened])
        engine = Engine(pass_rates={1: 0.5}, max_model_tokens=32)
        opened.append(weakref.ref(engine))
        return engine

    service = open_service(open_engine)
    with pytest.warns(RuntimeWarning, match="out of memory"):
        sample(service, 5)
    assert alive_at_start == [[], [False], [False, False]]


def test_a_closed_service_says_so():
    service = open_service(Engines(num_broken=0))
    service.close()
    service.close()
    with pytest.raises(RuntimeError, match="not open"):
        rollout(service, 0)


@pytest.mark.parametrize(("level", "loads"), [(0, 1), (1, 1), (2, 2)])
def test_an_engine_sleeps_after_a_rollout_and_weights_that_are_gone_are_loaded_again(level, loads):
    events = []

    class Sleepy(ScriptedEngine):
        sleep_level = level

        def sleep(self):
            assert self.num_in_flight() == 0
            events.append("sleep")
            return level < 2

        def load_weights(self, named_tensors, policy_version):
            events.append("load")
            super().load_weights(named_tensors, policy_version)

    service = open_service(lambda **completed: Sleepy(pass_rates={1: 0.5}, max_model_tokens=32))
    rollout(service, 3)
    rollout(service, 3, step=1)
    assert events.count("load") == loads
    assert events.count("sleep") == (2 if level else 0)


def test_restarts_within_a_pool_count(monkeypatch):
    class Pool(ScriptedEngine):
        num_restarts = 3

    service = open_service(lambda **completed: Pool(pass_rates={1: 0.5}, max_model_tokens=32))
    assert service.num_restarts == 3
    service.close()
    assert service.num_restarts == 3


def test_the_host_is_checked_and_opens_the_engine():
    class Host(EngineHost):
        def check(self):
            raise ValueError("no such place")

        def open(self, engine, log_file):
            opened = engine(log_file=log_file)
            opened.place = "elsewhere"
            return opened

    service = open_service(Engines(num_broken=0), host=Host())
    assert service._engine.place == "elsewhere"
    with pytest.raises(ValueError, match="no such place"):
        service.check()


def test_a_reproducible_run_insists_on_seeds_of_its_own_for_every_response():
    with pytest.raises(ValueError, match=r"reproducible=true needs rollout.seed_requests=true: an engine that is"):
        open_service(ScriptedEngine, reproducible=True, seed_requests=False)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("verdict_delay", -1, "verdict_delay must be at least 0; got -1"),
        ("failure_alarm_ratio", 2.0, r"failure_alarm_ratio must be in \[0, 1\]; got 2.0"),
        ("truncated", "drop", "truncated must be grade, zero, exclude or mask; got 'drop'"),
    ],
)
def test_settings_out_of_range_are_rejected(option, value, message):
    with pytest.raises(ValueError, match=f"rollout.{message}"):
        open_service(ScriptedEngine, **{option: value})


def failing(text):
    return Grade(0.0, "KeyError", detail="grade.py, line 3: KeyError: 'gold'")


@pytest.mark.filterwarnings("ignore:.*could not be graded")
def test_a_reward_that_fails_on_every_response_stops_the_run_and_is_named():
    service = open_service(Engines(num_broken=0), grader=InstantGrader(failing))
    with pytest.raises(RunStoppedError) as stopped:
        rollout(service, 0)
    message = str(stopped.value)
    assert "InstantGrader has graded none of the 2 responses of step 0: KeyError 2" in message
    assert "grade.py, line 3: KeyError: 'gold'" in message


def test_a_reward_that_fails_later_is_warned_of_and_does_not_end_the_run():
    grades = iter([Grade(0.0), failing(""), failing(""), failing("")])
    service = open_service(Engines(num_broken=0), grader=InstantGrader(lambda text: next(grades)))
    with pytest.warns(RuntimeWarning, match="1 of 2 responses could not be graded: {'KeyError': 1}; 0 of them are"):
        assert rollout(service, 0).stats.num_failed == 1
    with pytest.warns(RuntimeWarning, match="2 of 2 responses could not be graded"):
        assert rollout(service, 1, step=1).stats.num_failed == 2


@pytest.mark.parametrize(("truncated", "stops"), [("zero", True), ("grade", False)])
@pytest.mark.filterwarnings("ignore:.*could not be graded")
def test_responses_that_nobody_graded_do_not_speak_for_a_reward(truncated, stops):
    class Cut(ScriptedEngine):
        def poll(self):
            return [replace(g, is_truncated=g.request_id.endswith("0")) for g in super().poll()]

    grades = iter([Grade(0.0), failing("")]) if truncated == "grade" else iter([failing("")] * 2)
    grader = InstantGrader(lambda text: next(grades))
    service = open_service(
        lambda **_: Cut(pass_rates={1: 0.5}, max_model_tokens=32), grader=grader, truncated=truncated
    )
    with pytest.raises(RunStoppedError) if stops else nullcontext():
        assert rollout(service, 0).stats.num_truncated == 1


def drawn_from(service):
    return list(service.draw([(0, make_prompt(1)), (1, make_prompt(1))], num_samples=2, stage="prepare"))


def test_nothing_is_handed_over_of_a_list_that_a_reward_cannot_grade():
    service = open_service(Engines(num_broken=0), grader=InstantGrader(failing))
    handed_over = []
    with pytest.raises(RunStoppedError, match="none of the 4 responses drawn so far: KeyError 4"):
        handed_over.extend(service.draw([(0, make_prompt(1)), (1, make_prompt(1))], num_samples=2, stage="prepare"))
    assert handed_over == []


def test_what_waited_for_the_first_grade_is_handed_over_with_it():
    grades = iter([failing(""), failing(""), failing(""), Grade(1.0)])
    drawn = drawn_from(open_service(Engines(num_broken=0), grader=InstantGrader(lambda text: next(grades))))
    assert sorted(prompt.position for prompt in drawn) == [0, 1]


def test_a_long_list_is_given_up_before_its_end():
    grader = InstantGrader(failing)
    service = open_service(Engines(num_broken=0), grader=grader)
    with pytest.raises(RunStoppedError, match="none of the 256 responses"):
        list(service.draw([(i, make_prompt(1)) for i in range(500)], num_samples=2, stage="prepare"))
    assert grader.num_graded < 1000
