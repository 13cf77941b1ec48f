"""OpenRLHF's own advantages, filter and loss, asked for batches of groups, and the options of its command.

Its modules import DeepSpeed and vLLM, so definitions are compiled alone (``source.py``). Ray is a stand-in that gives
back what it gets.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import functools
import itertools
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ada_lightning.objective.batch import Group
from ada_lightning.objective.readers.openrlhf import AGGREGATIONS, ESTIMATORS, LOSSES
from research.objective.check import Combination
from research.objective.rows import filled, mask_of, one_a_row, rewards_of
from research.objective.source import definition, file_of, run, top_level

SIZE = 3
_WHITENED = ("reinforce", "reinforce_baseline")
_BOUNDS = ((0.0, 1.0), (-0.4, 10.0))
"""Of ``reward.clip_range``: nothing below 0, and one that a single response of three reaches."""
_RANGES = ((0.0, 1.0), (0.4, 1.0))
"""Of the filter: all groups with a signal, and some of them."""


def combinations() -> list[Combination]:
    """Every estimator without a critic with every loss and mean; bounds of advantages; whitening; filters."""
    plain = itertools.product(ESTIMATORS, LOSSES, AGGREGATIONS)
    return [
        *(_combination(name, loss, mode) for name, loss, mode in plain),
        *(_combination(name, no_std_norm=True) for name in _WHITENED),
        *(_combination(name, clip_range=bounds) for name in ESTIMATORS for bounds in _BOUNDS),
        *(_combination(name, filtered=bounds) for name in ESTIMATORS for bounds in _RANGES),
    ]


def _combination(
    estimator: str,
    loss: str = "ppo",
    aggregation: str = "token-mean",
    *,
    no_std_norm: bool = False,
    clip_range: tuple[float, float] = (-10.0, 10.0),
    filtered: tuple[float, float] | None = None,
) -> Combination:
    settings: dict[str, Any] = {
        "algo.advantage.estimator": estimator,
        "algo.advantage.no_std_norm": no_std_norm,
        "actor.policy_loss_type": loss,
        "actor.loss_agg_mode": aggregation,
        "reward.clip_range": list(clip_range),
        "rollout.n_samples_per_prompt": SIZE,
    }
    if filtered:
        settings |= {"algo.dynamic_filtering_enable": True, "algo.dynamic_filtering_range": list(filtered)}
    return Combination(settings, Functions(estimator, loss, aggregation, no_std_norm, clip_range, filtered))


def options() -> Mapping[str, Any]:
    """Return every option of the command with its default, of its own parser."""
    path = _file("cli/train_ppo_ray.py")
    main: Any = next(node for node in top_level(path) if isinstance(node, ast.If))
    is_parsed = [ast.unparse(statement).startswith("args = parser.parse_args") for statement in main.body]
    space = run(path, main.body[: is_parsed.index(True)], argparse=argparse, datetime=datetime.datetime)
    return {action.dest: action.default for action in space["parser"]._actions if action.dest != "help"}


def _file(path: str) -> Path:
    return file_of("openrlhf", path)


def _typing() -> dict[str, Any]:
    import torch

    return {"torch": torch, **{name: getattr(typing, name) for name in ("List", "Tuple", "Optional", "Union")}}


@dataclass(frozen=True)
class Functions:
    """The functions behind one combination."""

    estimator: str
    loss: str
    aggregation: str
    no_std_norm: bool
    clip_range: tuple[float, float]
    filtered: tuple[float, float] | None

    def keeps(self, group: Group) -> bool | None:
        """Return whether the filter keeps a group; None without one."""
        if self.filtered is None:
            return None
        import torch

        ray = SimpleNamespace(wait=lambda refs, **options: (refs[:1], refs[1:]), get=lambda ref: ref)
        names = _typing() | {"ray": ray, "tqdm": mock.MagicMock(), "logger": mock.MagicMock(), "Experience": None}
        path = _file("trainer/ppo_utils/samples_generator.py")
        names["_collect_prompt_batch"] = definition(path, "_collect_prompt_batch", **names)
        generate = definition(path, "SamplesGenerator._generate_vllm", **names)
        algo = SimpleNamespace(dynamic_filtering_range=self.filtered)
        responses = [SimpleNamespace(scores=torch.tensor([reward], dtype=torch.float64)) for reward in group.rewards]
        generator = SimpleNamespace(
            args=SimpleNamespace(algo=algo),
            _dispatch_prompts_to_vllm=lambda prompts, *more, **options: [responses for _ in prompts],
            _process_response_into_experience=lambda response, **options: response,
        )
        found, _, _ = generate(generator, iter([("", ["prompt"], ["label"], [None])]), 1, True)
        return bool(found)

    def advantages(self, groups: Sequence[Group]) -> list[list[float]]:
        """Return the advantage of each response; 0 for those of a group that the filter drops."""
        return filled(self._first, groups, self.keeps)

    def factors(self, groups: Sequence[Group]) -> list[list[float]]:
        """Return minus the gradient of the real loss of one optimiser step, in micro-batches of a response each."""
        return filled(self._factors, groups, self.keeps)

    def rounding(self, group: Group) -> float:
        """Return the largest advantage in float32."""
        import torch

        if self.estimator not in ("rloo", "group_norm", "dr_grpo"):
            return 0.0  # the batch's own statistics
        rows, _ = self._advantages([group], torch.float32)
        return float(rows.abs().max())

    def _first(self, groups: Sequence[Group]) -> list[float]:
        import torch

        return [float(row[0]) for row in self._advantages(groups, torch.float64)[0]]

    def _factors(self, groups: Sequence[Group]) -> list[float]:
        import torch

        rows, mask = self._advantages(groups, torch.float64)
        logprobs = torch.zeros_like(rows, requires_grad=True)
        micro_batches = list(range(len(mask)))
        for index, info in _normalised(micro_batches, lambda index: mask[index : index + 1]):
            loss = _loss(self.loss, self.aggregation)(
                logprobs[index : index + 1],
                logprobs[index : index + 1].detach(),
                rows[index : index + 1],
                action_mask=mask[index : index + 1],
                **info,
            )[0]
            (loss / len(micro_batches)).backward()  # as DeepSpeed does
        return one_a_row(logprobs.grad, mask)

    def _advantages(self, groups: Sequence[Group], dtype: Any) -> tuple[Any, Any]:
        import torch

        mask = mask_of(groups, dtype)
        arguments = SimpleNamespace(
            rollout=SimpleNamespace(n_samples_per_prompt=len(groups[0].rewards)),
            reward=SimpleNamespace(clip_range=self.clip_range),
            algo=SimpleNamespace(
                advantage=SimpleNamespace(estimator=self.estimator, gamma=1.0, lambd=1.0, no_std_norm=self.no_std_norm)
            ),
        )
        maker = object.__new__(_maker())
        maker.strategy = SimpleNamespace(args=arguments)
        maker.advantage_estimator = self.estimator
        maker.kl_ctl = SimpleNamespace(value=0.01)
        experience = SimpleNamespace(
            rewards=rewards_of(groups, dtype),
            index=list(range(len(mask))),
            kl=torch.zeros_like(mask),
            action_mask=mask,
            values=None,
            info={},
        )
        maker.compute_advantages_and_returns([experience])
        return experience.advantages.to(dtype), mask


@functools.cache
def _maker() -> Any:
    """``RemoteExperienceMaker``, with what it reads of other modules."""
    names = _typing() | {"logger": mock.MagicMock(), "itertools": itertools}
    penalties = _file("trainer/ppo_utils/length_penalty.py")
    names["apply_length_penalties"] = definition(penalties, "apply_length_penalties", **names)
    names["compute_reward"] = definition(_file("models/utils.py"), "compute_reward", **names)
    return definition(_file("trainer/ppo_utils/experience_maker.py"), "RemoteExperienceMaker", **names)


def _normalised(micro_batches: list[int], mask_of: Any) -> Any:
    """OpenRLHF's own count of an optimiser step's tokens, for one process."""
    names = _typing() | {"dist": SimpleNamespace(is_available=lambda: False)}
    path = _file("utils/loss_utils.py")
    for name in ("_get_dp_group", "_optimizer_step_loss_norm"):
        names[name] = definition(path, name, **names)
    return definition(path, "iter_grad_accum_global_norm", **names)(micro_batches, None, len(micro_batches), mask_of)


@functools.cache
def _loss(kind: str, aggregation: str) -> Any:
    import torch

    names = _typing() | {"nn": torch.nn, "F": torch.nn.functional}
    names["masked_mean"] = definition(_file("models/utils.py"), "masked_mean", **names)
    names["aggregate_loss"] = definition(_file("models/loss.py"), "aggregate_loss", **names)
    cls = definition(_file("models/loss.py"), "PolicyLoss", **names)
    return cls(policy_loss_type=kind, token_level_loss=aggregation == "token-mean")
