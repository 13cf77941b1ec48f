"""What does not go with an environment."""

from __future__ import annotations

from collections.abc import Iterator

from ada_lightning.config.view import ConfigView
from ada_lightning.data.episode_tasks import CalculatorTasks, GuessTasks
from ada_lightning.data.formats import PlainFormat
from ada_lightning.rewards.overlong import OverlongReward

_TASKS = {"calculator": CalculatorTasks, "guess": GuessTasks}
"""Sources whose prompts go with an environment that comes along, by its name."""


def environment_errors(run: ConfigView) -> Iterator[str]:
    """Compare ``environment`` with the format of prompts and with what they ask for."""
    key = "environment" if run.kind("environment") is not object else "rollout.environment"
    if run.kind(key) is object:
        yield from _tasks_without_environment(run)
        return
    if run.is_a("data.format", PlainFormat):
        yield (
            f"{key} takes turns with the model, and data/format=plain does not tell turns apart; use data/format=chat "
            "with an instruction-tuned model, or environment=none"
        )
    prompt, answer = run.number("data.max_prompt_tokens"), run.number("rollout.sampling.max_new_tokens")
    room = run.number("rollout.max_model_tokens")
    turns = run.number(f"{key}.max_turns")
    if prompt is None or answer is None or room is None or turns is None:  # reported by themselves
        return
    yield from _overlong_errors(run, key, turns, answer)
    if turns > 1 and room == prompt + answer:
        yield (
            f"rollout.max_model_tokens = {room} has room for the longest prompt and one turn "
            f"(data.max_prompt_tokens + rollout.sampling.max_new_tokens = {prompt + answer}), and {key}.max_turns = "
            f"{turns}: further turns would find none; use rollout.max_model_tokens={prompt + 2 * turns * answer}, or "
            "lower data.max_prompt_tokens"
        )


def _overlong_errors(run: ConfigView, key: str, turns: float, answer: float) -> Iterator[str]:
    """A penalty by the tokens of a response counts those of all turns."""
    if turns > 1 and run.is_a("reward.reward", OverlongReward) and run.number("reward.reward.max_tokens") == answer:
        yield (
            f"reward.reward.max_tokens = {answer}, the tokens of one turn, and OverlongReward counts those of an "
            f"episode's {turns} turns together ({key}.max_turns); use reward.reward.max_tokens={turns * answer}, or "
            "another reward"
        )


def _tasks_without_environment(run: ConfigView) -> Iterator[str]:
    for name, tasks in _TASKS.items():
        if run.is_a("data.source", tasks):
            yield (
                f"data={name} asks for turns with an environment, and environment=none answers none; use "
                f"environment={name}, or +experiment=environments/{name}"
            )
