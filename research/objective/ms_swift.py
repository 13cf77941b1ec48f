"""ms-swift's own advantages, filter and loss, asked for batches of groups, and the options of its command.

It pins other versions of TRL, so definitions are compiled alone (``source.py``).
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import functools
import itertools
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ada_lightning.objective.batch import Group
from ada_lightning.objective.readers.ms_swift import ESTIMATORS, LOSS_TYPES, SCALES
from research.objective.check import Combination
from research.objective.rows import WIDTH, filled, mask_of, one_a_row, rewards_of, truncated_of
from research.objective.source import definition, file_of, top_level

SIZE = 3


def combinations() -> list[Combination]:
    """Every estimator with every scale and loss; truncated responses left out of each loss; the filter."""
    every = itertools.product(ESTIMATORS, SCALES, LOSS_TYPES)
    return [
        *(_combination(*each) for each in every),
        *(_combination("grpo", "group", loss_type, overlong_filter=True) for loss_type in LOSS_TYPES),
        *(_combination(estimator, "group", "grpo", dynamic_sample=True) for estimator in ESTIMATORS),
    ]


def _combination(estimator: str, scale: str, loss_type: str, **more: bool) -> Combination:
    settings = {
        "rlhf_type": "grpo",
        "num_generations": SIZE,
        "advantage_estimator": estimator,
        "scale_rewards": scale,
        "loss_type": loss_type,
        **more,
    }
    return Combination(settings, Functions(estimator, scale, loss_type, **more))


def options() -> Mapping[str, Any]:
    """Return every field of ``RLHFArguments`` with its default."""
    classes = {
        node.name: node
        for path in _paths()
        for node in top_level(path)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("Hf")
    }
    found: dict[str, Any] = {}
    for node in _ancestors("RLHFArguments", classes):
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and statement.value is not None:
                found.setdefault(statement.target.id, _default(statement.value))  # type: ignore[union-attr]
    import transformers

    inherited = {
        field.name: _plain(field.default) for field in dataclasses.fields(transformers.Seq2SeqTrainingArguments)
    }
    return inherited | found


def _paths() -> Iterator[Path]:
    for folder in ("arguments", "arguments/base_args", "rlhf_trainers", "trainers", "ray"):
        yield from sorted(file_of("swift", folder).glob("*.py"))


def _ancestors(name: str, classes: Mapping[str, ast.ClassDef]) -> Iterator[ast.ClassDef]:
    """The class and those that it inherits of, in the order in which their fields count."""
    if name in classes:
        yield classes[name]
        for base in classes[name].bases:
            yield from _ancestors(ast.unparse(base), classes)


def _default(value: ast.expr) -> Any:
    """A default that is written down; ``field(default=x)`` is x, and a factory gives an empty list."""
    if isinstance(value, ast.Call):
        named = {word.arg: word.value for word in value.keywords}
        return _default(named["default"]) if "default" in named else []
    try:
        return ast.literal_eval(value)
    except ValueError:
        return None


def _plain(value: Any) -> Any:
    return None if value is dataclasses.MISSING else value


def _file(path: str) -> Path:
    return file_of("swift", path)


def _names() -> dict[str, Any]:
    import torch

    known = {name: getattr(typing, name) for name in ("List", "Tuple", "Optional", "Dict", "Any", "Callable")}
    return {"torch": torch, "nn": torch.nn, **known}


@dataclass(frozen=True)
class Functions:
    """The functions behind one combination."""

    estimator: str
    scale: str
    loss_type: str
    overlong_filter: bool = False
    dynamic_sample: bool = False

    def keeps(self, group: Group) -> bool | None:
        """Return whether the filter keeps a group; None without one."""
        if not self.dynamic_sample:
            return None
        import torch

        compute = definition(_file("rl_core/grpo_algorithm.py"), "compute_std_for_dynamic_sampling", **_names())
        rewards = rewards_of([group], torch.float64)[:, None]
        return bool((compute(rewards, torch.ones(1, dtype=torch.float64), len(group.rewards)) > 0).all())

    def advantages(self, groups: Sequence[Group]) -> list[list[float]]:
        """Return the advantage of each response; groups of one size."""
        return filled(self._advantages, groups, self.keeps)

    def factors(self, groups: Sequence[Group]) -> list[list[float]]:
        """Return minus the gradient of the real loss by the log-probability of each token."""
        return filled(self._factors, groups, self.keeps)

    def rounding(self, group: Group) -> float:
        """Return the largest advantage in float32."""
        import torch

        if self.scale in ("batch", "gdpo"):
            return 0.0
        return float(self._tensor([group], torch.float32).abs().max())

    def _advantages(self, groups: Sequence[Group]) -> list[float]:
        import torch

        return list(self._tensor(groups, torch.float64).tolist())

    def _tensor(self, groups: Sequence[Group], dtype: Any) -> Any:
        import torch

        found, _ = _compute_advantages()(
            rewards_of(groups, dtype)[:, None],
            torch.ones(1, dtype=dtype),
            len(groups[0].rewards),
            advantage_estimator=self.estimator,
            scale_rewards=self.scale,
        )
        return found

    def _factors(self, groups: Sequence[Group]) -> list[float]:
        import torch

        mask = mask_of(groups, torch.float64)
        logprobs = torch.zeros_like(mask, requires_grad=True)
        batch = SimpleNamespace(
            completion_mask=mask.bool(),
            truncated_mask=truncated_of(groups),
            advantages=self._tensor(groups, torch.float64)[:, None].expand_as(mask),
            old_per_token_logps=None,
            rollout_per_token_logps=None,
            teacher_per_token_logps=None,
            num_items_in_batch=mask.sum(),
        )
        loss, _ = _trainer_class()._compute_loss_and_metrics(self._trainer(logprobs), None, {}, batch)
        loss.backward()
        trained = mask * ~truncated_of(groups)[:, None] if self.overlong_filter else mask
        return one_a_row(logprobs.grad, trained)

    def _trainer(self, logprobs: Any) -> Any:
        """A stand-in with what the loss reads of a trainer."""
        cls = _trainer_class()
        trainer = mock.MagicMock(
            _get_per_token_logps_and_entropies=lambda *a, **k: (logprobs, None),
            loss_type=self.loss_type,
            overlong_filter=self.overlong_filter,
            num_generations=SIZE,
            max_completion_length=WIDTH,
            _metrics=collections.defaultdict(lambda: collections.defaultdict(list)),
            args=SimpleNamespace(delta=None, log_entropy=False, top_entropy_quantile=1.0),
            beta=0.0,
            epsilon_low=0.2,
            epsilon_high=0.2,
            importance_sampling_level="token",
            tau_pos=1.0,
            tau_neg=1.05,
            fipo_gamma=2 ** (-1 / 32.0),
            fipo_clip_range=0.2,
            fipo_clip_high_only=True,
            fipo_safety_threshold=4.0,
            sdar_loss_coef=0.0,
            current_gradient_accumulation_steps=1,
            **dict.fromkeys(
                ("compute_entropy", "kl_in_reward", "_has_teacher", "log_rollout_offpolicy_metrics"), False
            ),
            **dict.fromkeys(("rollout_importance_sampling_mode", "off_policy_sequence_mask_delta"), None),
            chord_sft_iterator=None,
        )
        trainer.accelerator = SimpleNamespace(num_processes=1, gather_for_metrics=lambda x: x)
        for name in ("_compute_fipo_influence", "_undo_gradient_accumulation_scaling"):
            setattr(trainer, name, getattr(cls, name).__get__(trainer))
        return trainer


@functools.cache
def _compute_advantages() -> Any:
    names = _names() | {"nanstd": definition(_file("utils/torch_utils.py"), "nanstd", **_names())}
    return definition(_file("rl_core/advantage.py"), "compute_advantages", **names)


@functools.cache
def _trainer_class() -> Any:
    """The two methods of ``GRPOTrainer`` that make the loss, and what they read of their module."""
    path = _file("rlhf_trainers/grpo_trainer.py")
    names = _names() | {"gather_object": lambda x: x, "nanmin": mock.MagicMock(), "nanmax": mock.MagicMock()}
    names["WINDOW_NORMALIZED_LOSS_TYPES"] = next(
        ast.literal_eval(statement.value)
        for statement in top_level(path)
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "WINDOW_NORMALIZED_LOSS_TYPES"
    )
    methods = ("_compute_loss_and_metrics", "_compute_fipo_influence", "_undo_gradient_accumulation_scaling")
    return SimpleNamespace(**{name: definition(path, f"GRPOTrainer.{name}", **names) for name in methods})
