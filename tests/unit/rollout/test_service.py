from __future__ import annotations

import weakref
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from ada_lightning.core.records import Verdict
from ada_lightning.core.step import Step
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.methods.selection import AllSelection
from ada_lightning.rollout import fixed_weights
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.engines.host import EngineHost
from ada_lightning.rollout.service import RolloutService
from ada_lightning.run.phase_clock import PhaseClock
from ada_lightning.run.stopping import RunStoppedError
from research.scripted import ScriptedEngine
from tests.builders import SETTINGS, InstantGrader, make_prompt


class Tokenizer:
    def decode(self, response_ids, skip_special_tokens):
        return str(response_ids[0])


class Engines:
    """Builds scripted engines, the first of which break, and remembers what happened and who was alive at a start.

    Args:
        num_broken: engines that break.
        options: further attributes of an engine.
    """

    def __init__(self, num_broken=0, **options):
        self.num_broken, self.options = num_broken, options
        self.events, self.opened, self.alive_at_start = [], [], []

    def __call__(self, *, log_file, model_path, max_model_tokens, eos_token_ids):
        note, is_broken, options = self.events.append, len(self.opened) < self.num_broken, self.options

        class Engine(ScriptedEngine):
            sleep_level = options.get("sleep_level", 0)
            num_restarts = options.get("num_restarts", 0)
            takes_drafts = options.get("takes_drafts", False)

            def submit(self, *request, **guess):
                note(guess["draft"] if guess else "submit")
                super().submit(*request)

            def poll(self):
                if is_broken:
                    raise RuntimeError("out of memory")
                cut = options.get("cut", "none")
                return [replace(found, is_truncated=found.request_id.endswith(cut)) for found in super().poll()]

            def load_weights(self, named_tensors, policy_version):
                note(f"load {policy_version}")
                super().load_weights(named_tensors, policy_version)

            def sleep(self):
                assert self.num_in_flight() == 0
                note("sleep")
                return self.sleep_level < 2

            def close(self):
                note("close")
                super().close()

        note("open")
        self.alive_at_start.append([engine() is not None for engine in self.opened])
        engine = Engine(pass_rates={1: 0.5}, max_model_tokens=max_model_tokens)
        self.opened.append(weakref.ref(engine))
        return engine


def open_service(engines=None, *, grades=None, **options):
    """``grades``: a function of a response's text, or the grades of the responses in their order."""
    service = RolloutService(engine=engines or Engines(), sampling=SETTINGS, max_model_tokens=32, seed=0, **options)
    left = iter(()) if callable(grades) or grades is None else iter(grades)
    grade = grades if callable(grades) else lambda text: next(left)
    service.open(
        model_path=Path(), tokenizer=Tokenizer(), eos_token_ids=[2], log_file=Path("engine.log"),
        grader=InstantGrader(grade) if grades else InstantGrader(),
    )  # fmt: skip
    return service


def rollout(service, version=0, step=0, group_size=2, stage="train", **options):
    sampler = UniformSampler(group_size=group_size)
    sampled = service.sample(
        partial(Step, [make_prompt(1)], sampler=sampler, selection=AllSelection(), step=step),
        weights=lambda: [],
        policy_version=version,
        stage=stage,
        clock=PhaseClock(),
        **options,
    )
    return sampled.result()


def draw(service, num_prompts=2):
    """From the weights that the engine was opened with."""
    return fixed_weights.draw(
        service, [(i, make_prompt(1)) for i in range(num_prompts)], num_samples=2, stage="prepare"
    )


def test_weights_are_loaded_once_per_version_before_the_first_request():
    engines = Engines()
    service = open_service(engines)
    for step, version in enumerate((0, 0, 1)):
        rollout(service, version, step)
    service.close()
    service.close()
    submits = ["submit"] * 2
    assert engines.events == ["open", "load 0", *submits, *submits, "load 1", *submits, "close"]
    with pytest.raises(RuntimeError, match="not open"):
        rollout(service)


def test_a_broken_engine_is_replaced_and_the_step_repeated_with_the_same_outcome():
    service = open_service(Engines(num_broken=2))
    with pytest.warns(RuntimeWarning, match="out of memory"):
        repeated = rollout(service, 5)
    assert service.engine.num_restarts == 2
    assert repeated.groups == rollout(open_service(), 5).groups


def test_an_engine_that_keeps_breaking_ends_the_run():
    engines = Engines(num_broken=9)
    service = open_service(engines, max_engine_restarts=1)
    with pytest.warns(RuntimeWarning), pytest.raises(EngineError, match="out of memory"):
        rollout(service)
    assert engines.events.count("open") == 2


@pytest.mark.parametrize("sample", [rollout, lambda service: list(draw(service))])
def test_nothing_is_left_of_a_broken_engine_when_the_next_one_starts(sample):
    """What it holds, a GPU's memory or a port, its successor needs."""
    engines = Engines(num_broken=2)
    service = open_service(engines)
    with pytest.warns(RuntimeWarning, match="out of memory"):
        sample(service)
    assert engines.alive_at_start == [[], [False], [False, False]]


@pytest.mark.parametrize(("level", "loads"), [(0, 1), (1, 1), (2, 2)])
def test_an_engine_sleeps_after_a_rollout_and_weights_that_are_gone_are_loaded_again(level, loads):
    engines = Engines(sleep_level=level)
    service = open_service(engines)
    rollout(service, 3)
    rollout(service, 3, step=1)
    assert engines.events.count("load 3") == loads
    assert engines.events.count("sleep") == (2 if level else 0)


def test_restarts_within_a_pool_count():
    service = open_service(Engines(num_restarts=3))
    assert service.engine.num_restarts == 3
    service.close()
    assert service.engine.num_restarts == 3


def test_the_host_is_checked_and_opens_the_engine():
    class Host(EngineHost):
        def check(self):
            raise ValueError("no such place")

        def open(self, engine, log_file):
            opened = engine(log_file=log_file)
            opened.place = "elsewhere"
            return opened

    service = open_service(host=Host())
    assert service.engine.opened().place == "elsewhere"
    with pytest.raises(ValueError, match="no such place"):
        service.check()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"verdict_delay": -1}, r"rollout\.verdict_delay must be at least 0; got -1"),
        ({"failure_alarm_ratio": 2.0}, r"rollout\.failure_alarm_ratio must be in \[0, 1\]; got 2.0"),
        ({"truncated": "drop"}, r"rollout\.truncated must be grade, zero, exclude or mask; got 'drop'"),
        ({"reproducible": True, "seed_requests": False}, r"reproducible=true needs rollout.seed_requests=true"),
    ],
)
def test_settings_out_of_range_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        open_service(**options)


FAILED = Verdict(0.0, failure="KeyError", detail="grade.py, line 3: KeyError: 'gold'")


@pytest.mark.filterwarnings("ignore:.*could not be graded")
def test_a_reward_that_fails_on_every_response_stops_the_run_and_is_named():
    with pytest.raises(RunStoppedError) as stopped:
        rollout(open_service(grades=lambda text: FAILED))
    assert "InstantGrader has graded none of the 2 responses of step 0: KeyError 2" in str(stopped.value)
    assert "grade.py, line 3: KeyError: 'gold'" in str(stopped.value)


def test_a_reward_that_fails_later_is_warned_of_and_does_not_end_the_run():
    service = open_service(grades=[Verdict(0.0), FAILED, FAILED, FAILED])
    with pytest.warns(RuntimeWarning, match="1 of 2 responses could not be graded: {'KeyError': 1}; 0 of them are"):
        assert rollout(service, 0).stats.num_failed == 1
    with pytest.warns(RuntimeWarning, match="2 of 2 responses could not be graded"):
        assert rollout(service, 1, step=1).stats.num_failed == 2


@pytest.mark.parametrize(("truncated", "stops"), [("zero", True), ("grade", False)])
@pytest.mark.filterwarnings("ignore:.*could not be graded")
def test_responses_that_nobody_graded_do_not_speak_for_a_reward(truncated, stops):
    grades = [Verdict(0.0), FAILED] if truncated == "grade" else [FAILED] * 2
    service = open_service(Engines(cut="0"), grades=grades, truncated=truncated)
    with pytest.raises(RunStoppedError) if stops else nullcontext():
        assert rollout(service).stats.num_truncated == 1


def test_nothing_is_handed_over_of_a_list_that_a_reward_cannot_grade():
    handed_over = []
    with pytest.raises(RunStoppedError, match="none of the 4 responses drawn so far: KeyError 4"):
        handed_over.extend(draw(open_service(grades=lambda text: FAILED)))
    assert handed_over == []


def test_what_waited_for_the_first_grade_is_handed_over_with_it():
    drawn = draw(open_service(grades=[FAILED, FAILED, FAILED, Verdict(1.0)]))
    assert sorted(prompt.position for prompt in drawn) == [0, 1]


def test_a_long_list_is_given_up_before_its_end():
    service = open_service(grades=lambda text: FAILED)
    with pytest.raises(RunStoppedError, match="none of the 256 responses"):
        list(draw(service, 500))
    assert service._grader.num_graded < 1000


def test_equal_rewards_of_the_first_rollout_are_said_once(capsys):
    service = open_service(grades=lambda text: Verdict(0.0))
    rollout(service, 0, group_size=16)
    assert "warning: all 16 rewards of step 0 are 0, so there is nothing to learn from." in capsys.readouterr().out
    rollout(service, 1, step=1, group_size=16)
    assert "warning" not in capsys.readouterr().out
    rollout(open_service(grades=[Verdict(0.0)] * 15 + [Verdict(1.0)]), group_size=16)
    assert "warning" not in capsys.readouterr().out
    rollout(open_service(grades=lambda text: Verdict(0.0)), group_size=16, stage="preview")  # the first of several
    assert "warning" not in capsys.readouterr().out


DRAFTS = {("p1", 1): (7, 8), ("p2", 0): (9,)}


@pytest.mark.parametrize("num_broken", [0, 1])
@pytest.mark.filterwarnings("ignore:the engine broke")
def test_drafts_go_to_the_requests_of_an_evaluation_that_they_guess_at_and_to_no_training(num_broken):
    engines = Engines(num_broken, takes_drafts=True)
    service = open_service(engines)
    rollout(service, stage="eval", drafts=DRAFTS)
    assert engines.events[-3:] == ["load 0", "submit", (7, 8)]
    rollout(service)
    assert engines.events[-2:] == ["submit", "submit"]


@pytest.mark.parametrize(
    ("stage", "takes_drafts", "options"),
    [
        ("train", True, {}),
        ("preview", True, {}),
        ("eval", False, {}),
        ("eval", True, {"reproducible": True}),
        ("eval", True, {"environment": SimpleNamespace(start=lambda: None, format="text", role="user")}),
    ],
)
def test_drafts_are_refused_where_they_would_train_or_not_be_exact(stage, takes_drafts, options, monkeypatch):
    monkeypatch.setattr("ada_lightning.rollout.service.Continuation", lambda *_: None)
    engines = Engines(takes_drafts=takes_drafts)
    service = open_service(engines, **options)
    assert service.takes_drafts == (stage != "eval")
    with pytest.raises(ValueError, match=f"drafts came for stage '{stage}', and takes_drafts is {stage != 'eval'}"):
        rollout(service, stage=stage, drafts=DRAFTS)
    assert "submit" not in engines.events
