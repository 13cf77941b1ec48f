"""A server of OpenEnv's with two of our games and the echo of its own template: ``python -m ... PORT FOLDER``."""

from __future__ import annotations

import importlib
import itertools
import random
import sys
from importlib import resources
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Guess(Action):
    text: str


class Answer(Observation):
    text: str = ""


class Game(Environment):
    """A number to guess."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, **kwargs):
        self.secret = random.Random(seed).randrange(100)
        return Answer(text="Guess a number.", reward=0.0, done=False)

    def step(self, action, timeout_s=None, **kwargs):
        guess = int(action.text)
        if guess == self.secret:
            return Answer(text="right", reward=1.0, done=True)
        return Answer(text="higher" if guess < self.secret else "lower", reward=0.0, done=False)

    @property
    def state(self):
        return State(episode_id="", step_count=0)


class Forgetful(Game):
    """Another number in every session, whatever the seed."""

    secrets = itertools.cycle([10, 90])

    def reset(self, seed=None, episode_id=None, **kwargs):
        begun = super().reset(seed)
        self.secret = next(self.secrets)
        return begun


def template(folder):
    """The environment that ``openenv init`` makes, made in a folder: its class, its action and its observation."""
    files = resources.files("openenv") / "cli" / "templates" / "openenv_env"
    for source, name in (("models.py", "models"), ("server/__ENV_NAME___environment.py", "echo_environment")):
        text = (files / source).read_text().replace("__ENV_CLASS_NAME__", "Echo")
        (Path(folder) / f"{name}.py").write_text(text)
    sys.path.insert(0, str(folder))
    models, made = importlib.import_module("models"), importlib.import_module("echo_environment")
    return made.EchoEnvironment, models.EchoAction, models.EchoObservation


def main(port, folder):
    app = FastAPI()
    games = {"game": (Game, Guess, Answer), "forgetful": (Forgetful, Guess, Answer), "echo": template(folder)}
    for name, parts in games.items():
        app.mount(f"/{name}", create_fastapi_app(*parts, max_concurrent_envs=8))
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
