"""Answers turns in processes of their own, so that no environment can stall, crash or corrupt a run."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from ada_lightning.core.options import Option, add, option, preset
from ada_lightning.core.records import Verdict
from ada_lightning.rewards.pool import RewardPool
from ada_lightning.rollout.episodes import worker
from ada_lightning.rollout.episodes.worker import failed


@option(
    "environment",
    "_pool",
    _convert_="all",
    path="???",
    arguments={},
    format="${data.format}",
    time_limit_s=10,
    memory_limit_gb=4,
)
class EnvironmentPool(RewardPool):
    """The worker processes that an environment answers in.

    :meth:`submit` takes a :class:`~ada_lightning.rollout.episodes.messages.Call` in place of a completion, and
    :meth:`poll` and :meth:`wait` give each ticket's :class:`~ada_lightning.rollout.episodes.messages.Reply` once.
    Failures have the reasons of :mod:`ada_lightning.rewards.failures` behind ``environment_``, and besides
    ``invalid_reply`` and ``invalid_state``, each worth 0. An episode whose environment failed ends.

    Args:
        path: class of the environments, ``package.module.Class``; see
            :class:`~ada_lightning.core.protocols.environment.Environment`.
        arguments: of its constructor.
        role: whose turns its answers are: ``user`` or ``tool``, as far as the chat template knows it.
        format: how turns become tokens, that of the prompts.
        max_turns: of the model in one episode. Its tokens: ``rollout.sampling.max_new_tokens`` a turn,
            ``rollout.max_model_tokens`` in all.
        max_reply_chars: longest answer in characters; the rest is cut.
        num_workers: processes; also how many environments wait for something at once.
        time_limit_s: seconds for one answer; its worker is then killed and replaced.
        memory_limit_gb: 10^9 bytes of heap of one worker; None sets no limit, which other systems than Linux need.
        output_file: where what environments print goes; None drops it.

    Raises:
        ValueError: a number is out of range, or ``path`` is no dotted name of a class.
    """

    setting = "environment"
    work: ClassVar[staticmethod[[bytes], tuple[Any, bool]]] = staticmethod(worker.act)

    def __init__(
        self,
        path: str,
        *,
        arguments: Mapping[str, Any] | None = None,
        role: Literal["user", "tool"] = "user",
        format: Any = None,
        max_turns: int = 8,
        max_reply_chars: int = 2000,
        num_workers: int = 1,
        time_limit_s: float = 10.0,
        memory_limit_gb: float | None = None,
        output_file: str | Path | None = None,
    ) -> None:
        for name, value in (("max_turns", max_turns), ("max_reply_chars", max_reply_chars)):
            if value < 1:
                raise ValueError(f"environment.{name} must be at least 1; got {value}")
        if role not in ("user", "tool"):
            raise ValueError(f"environment.role must be user or tool; got {role!r}")
        super().__init__(
            worker.EnvironmentClass(path, arguments or {}, max_reply_chars=max_reply_chars),  # type: ignore[arg-type]
            num_workers=num_workers,
            time_limit_s=time_limit_s,
            memory_limit_gb=memory_limit_gb,
            cache_size=0,
            output_file=output_file,
        )
        self.role, self.format, self.max_turns = role, format, max_turns

    def poll(self) -> list[tuple[Hashable, Any]]:
        """Return the replies since the last call; never blocks."""
        answers: list[tuple[Hashable, Any]] = list(super().poll())
        return [(ticket, failed(found) if isinstance(found, Verdict) else found) for ticket, found in answers]


_CONSTANTS: dict[str, Any] = {"arguments": {}, "probe": None}
"""Of the environment itself; turns by which seeds are tested at start, None: one that suits a game of numbers."""


def _environment(name: str, text: str, **values: Any) -> None:
    preset("environment", name, "_pool", text=text, **values)


add(
    Option(
        "environment",
        "none",
        {"environment": None},
        text="Every response is a single turn: nothing answers the model.",
        package="_global_",
    )
)
_environment(
    "custom",
    "An environment of your own, importable from the folder of train.py (docs/environments.md), such as `class Game"
    '(Environment): def turn(self, said): return "warmer" or End(reward=1.0)`. Choose it by environment=custom '
    "environment.path=my_game.Game.",
)
_environment(
    "calculator",
    "A calculator that is called by `calc: 412 + 87 + 935` and answers `result: 1434`; the last turn is graded by the "
    "reward. With data=calculator reward=exact_match, as in +experiment=environments/calculator.",
    path="ada_lightning.rollout.episodes.calculator.Calculator",
    max_turns=3,
)
_environment(
    "guess",
    "Guess a number in three turns and hear higher or lower; the environment itself says what a game is worth. With "
    "data=guess, as in +experiment=environments/guess.",
    path="ada_lightning.rollout.episodes.guess.GuessTheNumber",
    max_turns=3,
)
_environment(
    "trl",
    "A class written for TRL's environment_factory, in arguments.path: reset(**row), public methods as tools, perhaps "
    "get_reward(). How this differs from TRL: ada_lightning/rollout/episodes/trl.py.",
    path="ada_lightning.rollout.episodes.trl.TrlEnvironment",
    arguments={"path": "???"},
    role="tool",
)
_environment(
    "gem",
    "GEM's environments, with prompts of data=environment; its package (docs/environments.md): gem-llm. For "
    "example: environment=gem environment.arguments.name=game:GuessTheNumber-v0-easy data=environment. The name is "
    "the one that gem.make takes.",
    path="ada_lightning.adapters.environments.gem.GemEnvironment",
    arguments={"name": "???", **_CONSTANTS},
)
_environment(
    "openenv",
    "An environment on a server of OpenEnv's, with prompts of data=environment; extra: openenv-core. For "
    "example: environment=openenv environment.arguments.name=http://127.0.0.1:8000 data=environment "
    "environment.arguments.action=message environment.arguments.observation=echoed_message.",
    path="ada_lightning.adapters.environments.openenv.OpenEnvEnvironment",
    arguments={"name": "???", "action": "???", "observation": "???", **_CONSTANTS},
)
_environment(
    "skyrl_gym",
    "SkyRL-gym's environments, with data written for SkyRL; extra: skyrl-gym. For example: "
    "environment=skyrl_gym environment.arguments.name=gsm8k_multi_turn data=dataset data.source.path=train.parquet. "
    "The name is the one that skyrl_gym.make takes.",
    path="ada_lightning.adapters.environments.skyrl_gym.SkyRlGymEnvironment",
    arguments={"name": "???", "arguments": {}},
)
_environment(
    "textarena",
    "TextArena's games for one player, with prompts of data=environment; extra: textarena. For example: "
    "environment=textarena environment.arguments.name=GuessTheNumber-v0 data=environment. The name has no -raw or "
    "-train of its wrappers. Many games pay for closeness, also where they are lost: with "
    "rollout.positive_threshold=0.99 only what is won is right.",
    path="ada_lightning.adapters.environments.textarena.TextArenaEnvironment",
    arguments={"name": "???", **_CONSTANTS},
)
