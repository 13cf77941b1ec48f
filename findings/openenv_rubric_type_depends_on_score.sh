#!/usr/bin/env bash
# openenv 0.10.0: inside an async function a Sequential rubric gives 0.0 for a failure, and a coroutine for a success.
#
# Expected: rubrics that are not async give a number, wherever they are called, or always a coroutine in async code.
# Observed: Sequential looks for a running event loop only after all its rubrics have passed. So in async code a success
# is a coroutine, and a failure is the number 0.0: `await` raises TypeError for failures, and without it a success is no
# number. Environment.step_async calls step by default. With the reward set as its documentation shows, a wrong answer
# then gets 0.0 and a right one ends in ValidationError. A loop that counts errors as 0 never sees a reward.
# What to do: in async code call _apply_rubric_async, which takes both kinds, or run step in a thread.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile pydantic==2.12.5
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder/package" openenv==0.10.0
# The two modules are loaded alone: the packages around them import a web server and clients.
cat > "$folder/check.py" <<'PYTHON'
import asyncio
import sys
from types import ModuleType

for name in ("openenv", "openenv.core", "openenv.core.rubrics", "openenv.core.env_server"):
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__path__ = [f"{sys.argv[1]}/{name.replace('.', '/')}"]
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Observation
from openenv.core.rubrics.base import Rubric
from openenv.core.rubrics.containers import Sequential


class Right(Rubric):
    def forward(self, action, observation):
        return 1.0 if action == "right" else 0.0


class Task(Environment):
    state = None

    def reset(self, seed=None, episode_id=None, **settings):
        return Observation()

    def step(self, action, timeout_s=None, **settings):
        observation = Observation(done=True)
        observation.reward = self._apply_rubric(action, observation)
        return observation


def kind(value):
    if asyncio.iscoroutine(value):
        value.close()
        return "coroutine"
    return value


async def awaited(action):
    return await rubric(action, None)


async def called(action):
    return rubric(action, None)


async def stepped(action):
    return (await Task(rubric=rubric).step_async(action)).reward


def outcome(run, action):
    try:
        return kind(asyncio.run(run(action)))
    except Exception as error:
        return type(error).__name__


rubric = Sequential(Right())
found = {"plain call": [rubric(action, None) for action in ("right", "wrong")]}
for run in (called, awaited, stepped):
    found[run.__name__] = [outcome(run, action) for action in ("right", "wrong")]
print("openenv 0.10.0, Sequential of one rubric that is not async: right answer, wrong answer (expected: 1.0, 0.0)")
for name, values in found.items():
    print(f"{name}:", *values)
observed = [[1.0, 0.0], ["coroutine", 0.0], [1.0, "TypeError"], ["ValidationError", 0.0]]
raise SystemExit(list(found.values()) != observed)
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder/package"
