"""Environments of other libraries: what adapters share, and each with its package where that is installed."""

from __future__ import annotations

import json
import logging
import pickle
import random
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import datasets
import numpy as np
import pytest
import reasoning_gym

from ada_lightning.adapters.environments.gem import GemEnvironment
from ada_lightning.adapters.environments.openenv import OpenEnvEnvironment
from ada_lightning.adapters.environments.skyrl_gym import SkyRlGymEnvironment
from ada_lightning.adapters.environments.textarena import TextArenaEnvironment
from ada_lightning.core.records import Completion, Prompt
from ada_lightning.data.environment_tasks import EnvironmentTasks
from ada_lightning.rewards import worker as reward_worker
from ada_lightning.rollout.episodes import worker
from ada_lightning.rollout.episodes.pool import EnvironmentPool
from ada_lightning.rollout.episodes.worker import Call

ROOT = Path(__file__).parents[3]
HERE = "tests.unit.adapters.library_environments"
ADAPTERS = "ada_lightning.adapters.environments"


def needs(module, package):
    return pytest.mark.skipif(find_spec(module) is None, reason=f"{package} is not installed: docs/environments.md")


@pytest.fixture
def play(monkeypatch):
    """Takes the turns of an episode through pickle, as workers do, until it ends."""

    def played(path, prompt, choose, **arguments):
        made = worker.EnvironmentClass(path, arguments, max_reply_chars=5000)
        made.check()
        monkeypatch.setitem(reward_worker._loaded, "reward", made)
        state, heard, rewards = b"", [], []
        for index in range(20):
            call = Call(7, Completion(choose(heard)), index, state)
            reply, _ = worker._act(pickle.dumps((prompt, call)))
            heard, state = [*heard, reply.text], reply.state
            rewards.append(reply.grade.reward if reply.is_end else reply.reward)
            if reply.is_end:
                return heard, rewards, reply
        raise AssertionError("it never ended")

    return played


def tasks(path, number=6, *, seed=0, **arguments):
    return EnvironmentTasks(path, arguments, num_train=number, num_heldout=2, seed=seed)


def bisection(form, low, high):
    """Guesses by halves what is higher or lower."""

    def choose(heard):
        bounds = [low, high]
        for text in heard:
            guess = sum(bounds) // 2
            bounds = [guess + 1, bounds[1]] if "higher" in text else [bounds[0], guess - 1]
        return form.format(sum(bounds) // 2)

    return choose


def test_tasks_are_functions_of_their_number_and_leave_the_generators_alone():
    random.seed(5)
    np.random.seed(5)
    before = random.getstate(), np.random.get_state()[1].tolist()
    first, again, other = (tasks(f"{HERE}.Numbers", name="n", seed=seed) for seed in (0, 0, 1))
    prompts = [*first.train_prompts(), *first.heldout_prompts()]
    assert prompts == [*again.train_prompts(), *again.heldout_prompts()]
    assert not {prompt.prompt_id for prompt in prompts} & {prompt.prompt_id for prompt in other.train_prompts()}
    assert len({prompt.prompt_id for prompt in prompts}) == 8
    assert len({prompt.messages[0]["content"] for prompt in prompts}) > 1
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_an_episode_is_of_its_prompts_task_and_worth_the_sum_of_its_turns(play):
    for prompt in tasks(f"{HERE}.Numbers", name="n").train_prompts():
        heard, rewards, reply = play(f"{HERE}.Numbers", prompt, bisection("{}", 0, 99), name="n")
        assert reply.failure == ""
        assert rewards == [0.1] * len(heard)
    stranger = Prompt("p", ({"role": "user", "content": "Guess!"},), {"seed": 3})
    for prompt, message in ((stranger, "where its prompt has 'Guess!'"), (Prompt("p", ()), "data=environment")):
        _, _, reply = play(f"{HERE}.Numbers", prompt, lambda heard: "1", name="n")
        assert (reply.grade.reward, reply.failure) == (None, "environment_ValueError")
        assert message in reply.detail


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Forgetful", "is a different task each time it begins: with seed"),
        ("Untested", r"was tested with pytest>=0.1,<0.2, but \d"),
        ("Missing", r"needs no-such-package: pip install -e '.\[no-such-package\]'$"),
    ],
)
def test_what_cannot_be_trained_with_is_refused_in_one_line(name, message):
    made = worker.EnvironmentClass(f"{HERE}.{name}", {"name": "n"}, max_reply_chars=100)
    with pytest.raises(ValueError, match=message) as error:
        made.check()
    assert "\n" not in str(error.value)


def test_workers_have_its_library_before_they_start():
    pool = EnvironmentPool(f"{HERE}.Numbers", arguments={"name": "n"})
    pool.check()
    assert pool.reward.modules == (HERE, "colorsys")


def test_an_environment_without_tasks_of_its_own_needs_prompts_from_elsewhere():
    path = "ada_lightning.rollout.episodes.guess.GuessTheNumber"
    with pytest.raises(ValueError, match=r"GuessTheNumber has no method `first\(seed\)`"):
        tasks(path).check()
    with pytest.raises(ValueError, match="at least 1"):
        tasks(path, number=0)


@pytest.mark.parametrize("adapter", [GemEnvironment, TextArenaEnvironment, SkyRlGymEnvironment, OpenEnvEnvironment])
def test_a_package_that_is_missing_or_was_not_tested_is_named(adapter, monkeypatch):
    environment = adapter("some", *["text"] * 2 * (adapter is OpenEnvEnvironment))
    monkeypatch.setattr("ada_lightning.adapters.tested.version", lambda package: "99.0.1")
    with pytest.raises(ValueError, match=rf"tested with {adapter.package}>=.*, but 99.0.1 is installed"):
        environment.check()


@needs("gem", "gem-llm")
def test_a_game_of_gem_is_won_by_halves(play):
    path, name = f"{ADAPTERS}.gem.GemEnvironment", "game:GuessTheNumber-v0-easy"
    for prompt in tasks(path, name=name).train_prompts():
        handlers = [*logging.root.handlers]
        heard, rewards, reply = play(path, prompt, bisection(r"I say \boxed{{{}}}", 1, 10), name=name)
        assert logging.root.handlers == handlers
        assert (reply.failure, sum(rewards)) == ("", 1.0)
        assert all(text.endswith("Enter your next guess.") for text in heard[:-1])


def asked(name, num_train=600):
    """Questions to train on and those held out, of one of GEM's environments."""
    arguments = {"name": name}
    made = EnvironmentTasks(f"{ADAPTERS}.gem.GemEnvironment", arguments, num_train=num_train, num_heldout=100, seed=0)
    parts = made.train_prompts(), made.heldout_prompts()
    return [{prompt.messages[-1]["content"] for prompt in part} for part in parts]


def test_questions_of_reasoning_gym_that_gem_asks_are_held_out(monkeypatch):
    class Picks:
        """As GEM's: one of a data set's questions, whichever the global generator points at."""

        def __init__(self, name, size=500, seed=42):
            self.entries = reasoning_gym.create_dataset(name.removeprefix("rg:"), size=size, seed=seed)

        def reset(self, seed):
            random.seed(seed)
            return random.choice(self.entries)["question"], {}

    monkeypatch.setitem(sys.modules, "gem", SimpleNamespace(make=Picks))
    to_train, held_out = asked("rg:leg_counting")
    assert (len(to_train), len(held_out), to_train & held_out) == (600, 100, set())


@pytest.mark.long
def test_rows_of_a_data_set_that_gem_asks_are_held_out(monkeypatch):
    class Rows:
        """As GEM's ``math:`` environments: a row of a data set, whichever the global generator points at."""

        def __init__(self, name):
            self.dataset = datasets.Dataset.from_list([{"problem": f"{number}?"} for number in range(700)])

        def reset(self, seed):
            random.seed(seed)
            return self.dataset[random.randint(0, len(self.dataset) - 1)]["problem"], {}

    monkeypatch.setitem(sys.modules, "gem", SimpleNamespace(make=Rows))
    to_train, held_out = asked("math:GSM8K")
    assert (len(to_train), len(held_out), to_train & held_out) == (600, 100, set())
    with pytest.raises(ValueError, match=r"math:GSM8K has 700 rows, and data\.source asks for more than 700 tasks"):
        asked("math:GSM8K", num_train=601)


@needs("gem", "gem-llm")
def test_gem_itself_holds_such_questions_out_and_grades_them(play):
    to_train, held_out = asked("rg:leg_counting")
    assert (len(to_train), len(held_out), to_train & held_out) == (600, 100, set())
    path = f"{ADAPTERS}.gem.GemEnvironment"
    for prompt in tasks(path, name="rg:leg_counting").train_prompts():
        (entry,) = reasoning_gym.create_dataset("leg_counting", size=1, seed=prompt.reference["seed"])
        _, rewards, reply = play(path, prompt, lambda heard: rf"\boxed{{{entry['answer']}}}", name="rg:leg_counting")  # noqa: B023
        assert (reply.failure, rewards) == ("", [1.0])


@needs("textarena", "textarena")
@pytest.mark.parametrize("form", ["I say [{}]", "{}"])  # the game's own wrapper puts brackets around what has none
def test_a_game_of_textarena_is_won_by_halves(play, form):
    path, name = f"{ADAPTERS}.textarena.TextArenaEnvironment", "GuessTheNumber-v0"
    won = [play(path, prompt, bisection(form, 1, 20), name=name) for prompt in tasks(path, name=name).train_prompts()]
    assert [(reply.failure, sum(rewards)) for _, rewards, reply in won] == [("", 1.0)] * 6
    assert {text for heard, _, _ in won for text in heard[:-1]} == {
        "The target number is higher.", "The target number is lower.",
    }  # fmt: skip
    assert len({len(heard) for heard, _, _ in won}) > 1


@needs("textarena", "textarena")
def test_a_game_of_textarena_that_ends_by_invalid_moves_is_worth_nothing_however_close_it_was(play):
    path, name = f"{ADAPTERS}.textarena.TextArenaEnvironment", "GuessTheNumber-v0"
    prompt = tasks(path, name=name).train_prompts()[0]
    heard, rewards, _ = play(path, prompt, lambda heard: ("10", "[no]", "[number]")[len(heard)], name=name)
    assert "invalid move" in heard[1]
    assert (len(rewards), sum(rewards)) == (3, 0.0)
    _, rewards, _ = play(path, prompt, lambda heard: str(len(heard) + 1), name=name)
    assert 0 < sum(rewards) <= 1  # lost at the limit of turns or won: what TextArena pays


@needs("skyrl_gym", "skyrl-gym")
def test_an_environment_of_skyrl_gym_gives_rewards_by_turn(play):
    path = f"{ADAPTERS}.skyrl_gym.SkyRlGymEnvironment"
    columns = {"reward_spec": {"ground_truth": "42"}, "extra_info": {"max_turns": 4}}
    prompt = Prompt("p", ({"role": "user", "content": "6 * 7?"},), {"answer": "42", "columns": columns})
    said = ["I think", "#### 41", "#### 42"]
    heard, rewards, reply = play(path, prompt, lambda heard: said[len(heard)], name="gsm8k_multi_turn")
    assert (reply.failure, rewards) == ("", [0.0, pytest.approx(0.05), 1.0])
    assert "#### ANSWER" in heard[0]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Address of a server of OpenEnv's."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("server")
    command = [sys.executable, "-m", "tests.unit.adapters.openenv_server", str(port), str(folder)]
    log = (folder / "log").open("w")  # no pipe: nobody would read it, and the server says much
    process = subprocess.Popen(command, cwd=ROOT, stderr=log)
    try:
        while process.poll() is None:
            with socket.socket() as waiting:
                if waiting.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        assert process.poll() is None, (folder / "log").read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        log.close()


@needs("openenv", "openenv-core")
def test_an_environment_of_openenv_is_its_seeds(play, server):
    path = f"{ADAPTERS}.openenv.OpenEnvEnvironment"
    fields = {"name": f"{server}/game", "action": "text", "observation": "text", "probe": ["50", "25", "75"]}
    secrets = set()
    for prompt in tasks(path, 3, **fields).train_prompts():
        heard, rewards, reply = play(path, prompt, bisection("{}", 0, 99), **fields)
        assert (reply.failure, sum(rewards), heard[-1]) == ("", 1.0, "")
        secrets.add(json.dumps(heard))
    assert len(secrets) > 1
    forgetful = worker.EnvironmentClass(path, fields | {"name": f"{server}/forgetful"}, max_reply_chars=100)
    with pytest.raises(ValueError, match="forgetful gives different answers to the same turns with seed 0"):
        forgetful.check()


@needs("openenv", "openenv-core")
def test_the_environment_of_openenvs_template_echoes(server):
    echo = OpenEnvEnvironment(f"{server}/echo", "message", "echoed_message")
    echo.check()
    assert "ready" in echo.first(0)
    assert echo.answer("hello") == ("hello", 0.5, False)
    assert pickle.loads(pickle.dumps(echo)).answer("you") == ("you", pytest.approx(0.3), False)


@needs("openenv", "openenv-core")
def test_a_server_that_answers_otherwise_later_or_is_gone_is_no_evidence(play, server, monkeypatch):
    path = f"{ADAPTERS}.openenv.OpenEnvEnvironment"
    monkeypatch.setattr(OpenEnvEnvironment, "check", lambda self: None)
    fields = {"action": "text", "observation": "text"}
    prompt = Prompt("p", ({"role": "user", "content": "Guess a number."},), {"seed": 3})
    for name, message in (
        (f"{server}/forgetful", "gives different answers"),
        ("http://127.0.0.1:1", "Failed to connect"),
    ):
        _, _, reply = play(path, prompt, bisection("{}", 0, 99), name=name, **fields)
        assert (reply.grade.reward, reply.failure) == (None, "environment_ConnectionError")
        assert message in reply.detail
