"""The ceiling of every rule that chooses prompts: one that measures each candidate's pass rate first, free of charge.

``--config-dir=research/studies/real_model/conf estimator=measured`` and
``+callbacks.oracle={_target_: research.studies.real_model.oracle.Oracle}``, with a curriculum that asks the estimator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from lightning.pytorch import Callback, LightningModule, Trainer

from ada_lightning.callbacks.adaptive_sampling import AdaptiveSampling
from ada_lightning.core.protocols import PassRateEstimator
from ada_lightning.core.records import Belief, Prompt, ResponsePool
from ada_lightning.core.step import Step
from ada_lightning.methods.sampling.uniform import UniformSampler
from ada_lightning.methods.selection import AllSelection
from ada_lightning.training.policy import PolicyModule

Measure = Callable[[Sequence[Prompt]], Sequence[ResponsePool]]


class MeasuredPassRates(PassRateEstimator):
    """Counts of fresh responses of the current policy, which train nothing and are in no budget.

    Args:
        num_samples: responses of each prompt that it is asked about.

    Raises:
        ValueError: ``num_samples`` below 1.
    """

    def __init__(self, *, num_samples: int = 4) -> None:
        if num_samples < 1:
            raise ValueError(f"estimator.num_samples must be at least 1; got {num_samples}")
        self.num_samples = num_samples
        self.measure: Measure | None = None
        """Draws the responses; set by :class:`Oracle`."""
        self._known: dict[str, Belief] = {}

    def recall(self, prompts: Sequence[Prompt]) -> Sequence[Belief]:
        """Measure those that were not measured since the last update; a uniform prior beside the counts.

        Raises:
            RuntimeError: nothing draws for it.
        """
        if self.measure is None:
            raise RuntimeError("MeasuredPassRates needs the callback research.studies.real_model.oracle.Oracle")
        if new := [prompt for prompt in prompts if prompt.prompt_id not in self._known]:
            for prompt, pool in zip(new, self.measure(new), strict=True):
                self._known[prompt.prompt_id] = Belief(1 + pool.num_positive, 1 + pool.num_negative)
        return [self._known[prompt.prompt_id] for prompt in prompts]

    def update(self, pools: Sequence[ResponsePool]) -> None:
        """Forget what was measured: the policy has moved on."""
        self._known.clear()


class Oracle(Callback):
    """Lets :class:`MeasuredPassRates` draw from the run's own engine and graders."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Connect before the first prompts are chosen."""
        assert isinstance(pl_module, PolicyModule)
        callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
        sampling = next(part for part in callbacks if isinstance(part, AdaptiveSampling))
        estimator = sampling.method.estimator
        assert isinstance(estimator, MeasuredPassRates)
        estimator.measure = partial(_measure, sampling, pl_module, estimator.num_samples)


def _measure(
    sampling: AdaptiveSampling, policy: PolicyModule, num_samples: int, prompts: Sequence[Prompt]
) -> list[ResponsePool]:
    version = policy.policy_version
    sampler = UniformSampler(group_size=num_samples)
    step = sampling.service.sample(
        partial(Step, prompts, sampler=sampler, selection=AllSelection(), step=version),
        weights=sampling.service.engine.weights_of(policy),
        policy_version=version,
        stage="preview",
        clock=policy.clock,
        interrupt_check=policy.interrupt_check,
    )
    return [group.pool for group in step.finish()]
