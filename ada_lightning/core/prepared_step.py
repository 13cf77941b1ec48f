"""A rollout step that is decided before its turn: what it samples, from which policy, and by what was known then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import Any, Self

from ada_lightning.core.named_state import load_named_state, named_state
from ada_lightning.core.protocols import FollowUp, Sampler
from ada_lightning.core.records import Belief, Prompt


def sampling_version(step: int, *, max_staleness: int, updates_per_rollout: int) -> int:
    """Return the policy version that samples a step: an exact lag, and not a tolerance.

    Steps 0 to ``max_staleness`` share the initial policy. Nothing here depends on when anything was done.

    Example:
        >>> [sampling_version(step, max_staleness=2, updates_per_rollout=4) for step in range(5)]
        [0, 0, 0, 4, 8]
    """
    return updates_per_rollout * max(0, step - max_staleness)


@dataclass(frozen=True, slots=True)
class PreparedStep:
    """One step, fixed when step ``step - max_staleness - 1`` had been learned from: later ones change nothing of it."""

    step: int
    policy_version: int
    """Updates behind the weights that sample it."""
    prompts: tuple[Prompt, ...]
    beliefs: tuple[Belief, ...]
    """About each prompt's pass rate."""
    sampler: Sampler
    """Frozen: what it has learned of the steps before, and nothing of those under way."""
    figures: Mapping[str, float]
    """What was believed of the prompts, for the log of the step."""
    hints: FollowUp | None = None
    """The same of hints; None where there are none."""
    representations: Any = None
    """Tensor of shape ``(P, H)``, float32, where the estimator asked the policy about the prompts: it may learn from
    the step by them. Else None."""

    def to_plain(self) -> dict[str, Any]:
        """Return it as primitives and tensors; prompts by their ids."""
        return {
            "step": self.step,
            "policy_version": self.policy_version,
            "prompt_ids": [prompt.prompt_id for prompt in self.prompts],
            "beliefs": [_primitive(asdict(belief)) for belief in self.beliefs],
            "sampler": named_state(self.sampler),
            "figures": _primitive(self.figures),
            "representations": self.representations,
            **({} if self.hints is None else {"hints": named_state(self.hints)}),
        }

    @classmethod
    def from_plain(
        cls, plain: Mapping[str, Any], *, prompts: Sequence[Prompt], sampler: Sampler, hints: FollowUp
    ) -> Self:
        """Restore :meth:`to_plain`.

        Args:
            plain: what it returned.
            prompts: all training prompts.
            sampler: of the run; left as it is.
            hints: the same.

        Raises:
            ValueError: a prompt is not among them, or the sampler is of another class.
        """
        by_id = {prompt.prompt_id: prompt for prompt in prompts}
        if missing := [prompt_id for prompt_id in plain["prompt_ids"] if prompt_id not in by_id]:
            raise ValueError(
                f"step {plain['step']} of this run was prepared with {len(missing)} prompts that are not among the "
                f"training prompts ({missing[0]}, for one); continue with the data of the run or start a new one"
            )
        frozen = deepcopy(sampler)
        load_named_state(frozen, plain["sampler"], setting="sampler")
        given = hints.frozen() if hints.is_on else None
        if given is not None:
            load_named_state(given, plain.get("hints", {}), setting="hints")
        return cls(
            step=int(plain["step"]),
            policy_version=int(plain["policy_version"]),
            prompts=tuple(by_id[prompt_id] for prompt_id in plain["prompt_ids"]),
            beliefs=tuple(Belief(**belief) for belief in plain["beliefs"]),
            sampler=frozen,
            figures=dict(plain["figures"]),
            hints=given,
            representations=plain["representations"],
        )


def _primitive(values: Mapping[str, Any]) -> dict[str, Any]:
    """Make plain numbers of numpy's: a checkpoint is read without running what it names, so it must not hold those."""
    return {name: value if isinstance(value, str | bool) else float(value) for name, value in values.items()}
