"""tinker-cookbook's own advantages, filter and training data, asked for batches of groups.

Losses run on a server. So what a token is given stands for its gradient: by Tinker's documentation a loss is the sum
over tokens of that times the ratio.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ada_lightning.objective.batch import Group
from ada_lightning.objective.readers.tinker_cookbook import LOSSES
from research.objective.check import Combination
from research.objective.rows import filled
from research.objective.source import file_of, top_level

SIZE = 3
_NESTED = {
    "async_config": "AsyncConfig",
    "stream_minibatch_config": "StreamMinibatchConfig",
    "kl_reference_config": "KLReferenceConfig",
}


def combinations() -> list[Combination]:
    """Every loss with a published formula, with and without the filter, by a recipe's keys and by those of a run."""
    every = itertools.product(LOSSES, (False, True))
    asynchronous = {"async_config.max_steps_off_policy": 2, "async_config.loss_fn": "ppo"}
    return [
        *(
            Combination(
                {"group_size": SIZE, "loss_fn": loss, "remove_constant_reward_groups": filters}, Functions(filters)
            )
            for loss, filters in every
        ),
        *(
            Combination(
                {"dataset_builder.group_size": SIZE, "remove_constant_reward_groups": filters} | more,
                Functions(filters),
            )
            for filters in (False, True)
            for more in ({}, asynchronous)
        ),
    ]


def options() -> Mapping[str, Any]:
    """Return every field of ``Config`` with its default, and every argument of the recipes that use it.

    Recipes differ in what they take where an argument is silent, so theirs have the default None.
    """
    nodes = [node for node in top_level(_file("rl/train.py")) if isinstance(node, ast.ClassDef)]
    classes = {node.name: dict(_fields(node)) for node in nodes}
    found = dict.fromkeys(name for path in _recipes() for name in _arguments(path))
    for name, value in classes["Config"].items():
        inner = classes.get(_NESTED.get(name, ""), {})
        found |= {f"{name}.{key}": default for key, default in inner.items()} or {name: value}
    return dict.fromkeys(("dataset_builder.group_size", "dataset_builder.batch_size")) | found


def _file(path: str) -> Any:
    return file_of("tinker_cookbook", path)


def _recipes() -> Iterator[Any]:
    for path in sorted(_file("recipes").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "class CLIConfig" in text and "rl.train" in text.replace("rl import train", "rl.train"):
            yield path


def _arguments(path: Any) -> Iterator[str]:
    for node in top_level(path):
        if isinstance(node, ast.ClassDef) and node.name == "CLIConfig":
            for name, _ in _fields(node):
                yield from (f"{name}.{key}" for key in ("num_minibatches",)) if name in _NESTED else (name,)


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, Any]]:
    """Annotated names and their defaults, of those that are written down."""
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            try:
                value = ast.literal_eval(statement.value) if statement.value else None
            except ValueError:
                value = None
            yield statement.target.id, value


@dataclass(frozen=True)
class Functions:
    """The functions behind one combination."""

    filters: bool

    def keeps(self, group: Group) -> bool | None:
        """Return whether the filter keeps a group next to one whose rewards differ; None without one."""
        if not self.filters:
            return None
        from tinker_cookbook.rl.data_processing import remove_constant_reward_groups

        real, other = _real(group), _real(Group((1.0, 0.0)))
        return any(kept is real for kept in remove_constant_reward_groups([real, other]))

    def advantages(self, groups: Sequence[Group]) -> list[list[float]]:
        """Return the advantage of each response; 0 for those of a group that the filter drops."""
        return filled(self._advantages, groups, self.keeps)

    def factors(self, groups: Sequence[Group]) -> list[list[float]]:
        """Return what each token of a response is given; NaN where tokens of one differ, or the prompt has any."""
        return filled(self._factors, groups, self.keeps)

    def rounding(self, group: Group) -> float:
        """Return the largest advantage in float32, as it computes."""
        return max(map(abs, self._advantages([group])))

    def _advantages(self, groups: Sequence[Group]) -> list[float]:
        from tinker_cookbook.rl.data_processing import compute_advantages

        return [float(value) for row in compute_advantages([_real(group) for group in groups]) for value in row]

    def _factors(self, groups: Sequence[Group]) -> list[float]:
        from tinker_cookbook.rl.data_processing import assemble_training_data, compute_advantages

        real = [_real(group) for group in groups]
        data, _ = assemble_training_data(real, compute_advantages(real), include_provenance=False)
        lengths = [int(count) for group in groups for count in group.token_counts]
        return [_one(datum, length) for datum, length in zip(data, lengths, strict=True)]


def _one(datum: Any, length: int) -> float:
    inputs = datum.loss_fn_inputs
    given, mask = (inputs[name].to_torch().tolist() for name in ("advantages", "mask"))
    is_one = len(set(given[-length:])) == 1 and not any(given[:-length])
    return float(given[-1]) if is_one and mask == [0.0] * (len(mask) - length) + [1.0] * length else float("nan")


def _real(group: Group) -> Any:
    """A group as the trainer has it: a prompt of two tokens, and responses of one turn."""
    import tinker
    from tinker_cookbook.completers import TokensWithLogprobs
    from tinker_cookbook.rl.types import Trajectory, TrajectoryGroup, Transition

    prompt = tinker.ModelInput.from_ints([1, 2])

    def trajectory(reward: float, length: int) -> Any:
        action = TokensWithLogprobs([3] * length, [-1.0] * length)
        return Trajectory([Transition(prompt, action, reward, episode_done=True)], tinker.ModelInput.empty())

    rows = zip(group.rewards, group.token_counts, strict=True)
    return TrajectoryGroup(
        [trajectory(reward, int(length)) for reward, length in rows],
        [0.0] * len(group.rewards),
        [{}] * len(group.rewards),
    )
