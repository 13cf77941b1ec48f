"""Before the first step: what a step of this run will cost and yield, next to GRPO."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from lightning.pytorch import Callback, LightningModule, Trainer

from ada_lightning.core.protocols import Refill, RefillProgress, Sampler, Selection, Trait
from ada_lightning.core.step import Step
from ada_lightning.core.step_records import RolloutResult
from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.methods.refill import NoRefill
from ada_lightning.methods.sampling.forecast import Forecast, forecast, forecasts, mean_forecast
from ada_lightning.methods.sampling.uniform import UniformSampler
from ada_lightning.methods.selection import AllSelection
from ada_lightning.rollout.engine_speed import EngineSpeed, longest_response
from ada_lightning.rollout.service import RolloutService
from ada_lightning.training.packing import pack_groups
from ada_lightning.training.policy import PolicyModule

from .run_parts import run_parts

_BINS = {"0": 0.0, "0-1/8": 1e-9, "1/8-1/4": 0.125, "1/4-1/2": 0.25, "1/2-3/4": 0.5, "3/4-1": 0.75, "1": 1 - 1e-9}
"""Lower ends of the classes of pass rates, by their names."""


class PreviewDone(Exception):  # noqa: N818 - not an error: the preview was all that was asked for
    """Ends a run that was started for its preview only."""


class CostPreview(Callback):
    """Samples a few training prompts, times the engine and an update, and prints what a step will cost.

    Nothing of it is trained on. Where the seconds of a rollout depend on how many of a prompt's rounds can be drawn
    ahead, both bounds are given. Where a few responses leave open how many prompts have a signal, and with them what an
    update computes, one step in ten comes to less and one in ten to more. All seconds are of the machine as busy as it
    is during the preview.

    Args:
        service: the engine, shared with training.
        sampler: the run's sampler.
        selection: the run's selection rule.
        num_prompts: prompts to try.
        num_samples: responses per prompt.
        only_preview: end the run afterwards.
        refill: the run's refill.

    Raises:
        ValueError: a size below 1.
    """

    def __init__(
        self,
        *,
        service: RolloutService,
        sampler: Sampler,
        selection: Selection,
        num_prompts: int = 32,
        num_samples: int = 4,
        only_preview: bool = False,
        refill: Refill = NoRefill(),  # noqa: B008 - holds no state
    ) -> None:
        if num_prompts < 1 or num_samples < 1:
            raise ValueError(
                f"callbacks.preview needs num_prompts >= 1 and num_samples >= 1; got {num_prompts}, {num_samples}"
            )
        self.service = service
        self.sampler = sampler
        self.selection = selection
        self.num_prompts = num_prompts
        self.num_samples = num_samples
        self.only_preview = only_preview
        self.refill = refill

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print the preview of a fresh run.

        Raises:
            PreviewDone: only the preview was asked for.
        """
        policy, data = run_parts(trainer, pl_module)
        if policy.policy_version == 0:
            policy.ranks.lead(lambda: self._preview(policy, data))

    def _preview(self, policy: PolicyModule, data: RolloutDataModule) -> None:
        """Draw once without a clock, because a cold engine is twice as slow, then with one; all responses count."""
        cold = self._rollout(policy, data, num_samples=self.num_samples, index=0)
        lines = ["preview: no response could be graded; check the reward function"]
        if any(group.pool.num_sampled for group in cold.groups):
            lines = self._report(cold, policy, data)
        if self.only_preview:
            lines.append("  nothing was trained; to train, run the same command without preview=true")
        print("\n".join(lines), file=sys.stdout, flush=True)
        if self.only_preview:
            raise PreviewDone

    def _rollout(
        self, policy: PolicyModule, data: RolloutDataModule, *, num_samples: int, index: int, share: float = 1.0
    ) -> RolloutResult:
        """Draw from the preview's prompts, or the first of them, all at once; ``index`` goes into the seeds."""
        prompts, uniform = data.step_prompts(0)[: self.num_prompts], UniformSampler(group_size=num_samples)
        prompts = prompts[: math.ceil(share * len(prompts))]
        step = self.service.sample(
            partial(Step, prompts, sampler=uniform, selection=AllSelection(), step=index),
            weights=self.service.engine.weights_of(policy),
            policy_version=policy.policy_version,
            stage="preview",
            clock=policy.clock,
            interrupt_check=policy.interrupt_check,
        )
        return step.result()

    def _timed(self, cold: RolloutResult, policy: PolicyModule, data: RolloutDataModule) -> list[RolloutResult]:
        """Draw on the warm engine: few responses at once, and as many as a step draws or slots can take."""
        num_prompts = len(cold.groups)
        of_a_prompt = forecast(tallies([cold]), self.sampler, self.selection).num_sampled
        num_at_once = min(self.service.engine.opened().max_num_seqs, data.prompts_per_step * of_a_prompt)
        num_full = max(1, math.floor(num_at_once / num_prompts))
        few = self._rollout(policy, data, num_samples=1, index=1, share=0.25)
        return [few, self._rollout(policy, data, num_samples=num_full, index=2)]

    def _report(self, cold: RolloutResult, policy: PolicyModule, data: RolloutDataModule) -> list[str]:
        timed = self._timed(cold, policy, data)
        results = [cold, *timed]
        pools = [group.pool for result in results for group in result.groups]
        counts = tallies(results)
        this_run = forecasts(
            counts,
            self.sampler,
            self.selection,
            keep_groups_without_signal=computes_all_groups(policy, data),
            budget=math.ceil(self.sampler.budget_per_step * len(counts) / data.prompts_per_step),
        )
        mean = mean_forecast(this_run)
        group_size = max(1, min(self.sampler.group_size, round(mean.num_sampled)))  # never dearer than this run
        num_prompts = data.prompts_per_step
        num_filled_up = expected_prompts(self.refill, num_prompts, mean.signal_ratio)
        grpo = forecasts(
            counts,
            UniformSampler(group_size=group_size),
            AllSelection(),
            # the same loss; its own advantage is zero where rewards are all equal
            keep_groups_without_signal=policy.loss.needs_groups_without_signal or not data.skip_groups_without_signal,
        )
        costs = StepCosts(
            engine=EngineSpeed.fitted(timed, self.service.engine.opened().max_num_seqs),
            response_tokens=sum(result.stats.generated_tokens for result in results)
            / max(sum(result.stats.num_drawn for result in results), 1),
            computed_share=_computed_share(results),
            longest_response=max(map(longest_response, results)),
            prompt_tokens=sum(len(pool.prompt.prompt_ids) for pool in pools) / len(pools),
            update_tokens_per_s=_update_speed(policy, data, cold) / update_passes(data),
            share_prompts=data.share_prompts,
        )
        num_responses = sum(num_tried for _, num_tried in counts)
        lines = [
            f"preview: {len(counts)} prompts, {num_responses} responses, {costs.response_tokens:.0f} tokens each",
            f"  pass rate   {_histogram([positive / total for positive, total in counts])}",
            f"  {'per step':<12}{'responses':>10}{'tokens':>9}{'rollout':>12}{'update':>12}{'signal':>9}",
            costs.row("this run", this_run, num_filled_up),
            costs.row(f"GRPO n={group_size}", grpo, num_prompts),
        ]
        responses = [response for pool in pools for response in pool.responses]
        if any(response.reward not in (0.0, 1.0) for response in responses):
            lines[1:1] = ["  rewards are not all 0 or 1: the forecast counts those above the positive threshold as 1"]
        if self.refill.is_on:
            lines.append(
                f"  refill: this run needs about {num_filled_up} prompts for {num_prompts} groups with a signal"
            )
        if data.curriculum.needs_history or data.curriculum.learns:
            lines.append(
                "  the run will choose prompts by what it learns of them, so more of them may have a signal than here"
            )
        if Trait.CUTS_RESPONSES in self.sampler.traits:
            lines.append("  the sampler will cut some responses, so this run draws fewer tokens than forecast")
        equal = self.service.first_grades.equal_rewards(responses, "of the preview")
        return [equal, *lines] if equal else lines


def tallies(results: Sequence[RolloutResult]) -> list[tuple[int, int]]:
    """Return (positives, responses) of each prompt of which any response was graded, over all rollouts."""
    found: dict[str, tuple[int, int]] = {}
    for pool in (group.pool for result in results for group in result.groups if group.pool.num_sampled):
        positive, tried = found.get(pool.prompt.prompt_id, (0, 0))
        found[pool.prompt.prompt_id] = positive + pool.num_positive, tried + pool.num_sampled
    return list(found.values())


def _computed_share(results: Sequence[RolloutResult]) -> float:
    groups = [group for result in results for group in result.groups]
    responses = [response for group in groups for response in group.pool.responses]
    num_drawn = sum(response.num_tokens for response in responses)
    return sum(len(response.response_ids) for response in responses) / num_drawn if num_drawn else 1.0


def expected_prompts(refill: Refill, num_groups: int, signal_ratio: float) -> int:
    """Return how many prompts a step draws if groups have a signal at an even rate: its waves, without any luck."""
    num_drawn = refill.first_wave(num_groups)
    while True:
        num_signal = math.floor(num_drawn * signal_ratio + 1e-9)
        num_more = refill.next_wave(
            RefillProgress(num_wanted=num_groups, num_signal=num_signal, num_open=0, num_drawn=num_drawn)
        )
        if num_more == 0:
            return num_drawn
        num_drawn += num_more


def computes_all_groups(policy: PolicyModule, data: RolloutDataModule) -> bool:
    """Return whether the update computes groups whose rewards are all equal, too.

    It does for terms of the loss that do not depend on the advantage (KL, entropy), for a loss of another kind, and for
    advantages that such groups may have. A rule that gives some of these groups zeros makes an update cheaper than this
    says.
    """
    return (
        policy.needs_groups_without_signal
        or Trait.TRAINS_EQUAL_REWARDS in policy.advantage.traits
        or not data.skip_groups_without_signal
    )


def update_passes(data: RolloutDataModule) -> float:
    """Return how often a step computes its responses, in passes forward and back.

    Where a step makes several updates, their old log-probabilities take a pass forward before the first: a third of one
    forward and back, which computes two gradients for each product of matrices.
    """
    return data.epochs_per_rollout + (1 / 3 if data.updates_per_rollout > 1 else 0)


def _histogram(pass_rates: Sequence[float]) -> str:
    counts, _ = np.histogram(pass_rates, [*_BINS.values(), 2.0])
    return "  ".join(f"{label}: {count}" for label, count in zip(_BINS, counts, strict=True))


def _update_speed(policy: PolicyModule, data: RolloutDataModule, result: RolloutResult) -> float:
    """Tokens per second of one forward and backward pass over a full microbatch, after a short one to warm up.

    Of all replicas together: each has such microbatches. NaN where no response was graded.
    """
    (batch,) = pack_groups(
        result.groups,
        num_minibatches=1,
        max_tokens_per_microbatch=data.max_tokens_per_microbatch,
        policy_version=policy.policy_version,
        shuffle_seed=0,
        keep_groups_without_signal=True,
        share_prompts=data.share_prompts,
    )
    if not batch.microbatches:
        return math.nan
    smallest, largest = batch.microbatches[-1], batch.microbatches[0]
    seconds = 0.0
    for microbatch in (smallest, largest):
        started = time.monotonic()
        with policy.clock.phase("preview"):
            policy.rehearse(replace(batch, microbatches=(microbatch,)))
        seconds = time.monotonic() - started
    return policy.ranks.num_replicas * largest.num_computed_tokens / max(seconds, 1e-9)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCosts:
    """What the preview measured, to turn a forecast of responses into tokens and seconds."""

    engine: EngineSpeed
    response_tokens: float
    """Mean tokens of a response that the model draws."""
    computed_share: float
    """Tokens of a response that an update computes over those: above 1 where an environment adds its own."""
    longest_response: int
    """Tokens."""
    prompt_tokens: float
    """Mean length of a prompt."""
    update_tokens_per_s: float
    """Of all passes of an update over a token."""
    share_prompts: bool
    """Whether the update computes a prompt once for all of its responses."""

    def row(self, name: str, steps: Sequence[Forecast], num_prompts: int) -> str:
        """Return a line of the preview: a step of ``num_prompts`` prompts."""
        expected = mean_forecast(steps)
        num_responses = expected.num_sampled * num_prompts
        rollout_s = self.engine.rollout_seconds(
            num_responses,
            response_tokens=self.response_tokens,
            longest=self.longest_response,
            num_rounds=expected.num_rounds,
        )
        update_s = [num_prompts * self._trained_tokens(step) / self.update_tokens_per_s for step in steps]
        num_tokens = num_responses * self.response_tokens
        return (
            f"  {name:<12}{num_responses:>10.0f}{num_tokens:>9.0f}{seconds_text(rollout_s):>12}"
            f"{seconds_text(_most(update_s)):>12}{share_text(_most([step.signal_ratio for step in steps])):>9}"
        )

    def _trained_tokens(self, expected: Forecast) -> float:
        return trained_tokens(
            expected,
            prompt_tokens=self.prompt_tokens,
            response_tokens=self.response_tokens * self.computed_share,
            share_prompts=self.share_prompts,
        )


def _most(values: Sequence[float]) -> tuple[float, float]:
    """Where four in five of the values lie."""
    low, high = np.quantile(values, (0.1, 0.9))
    return float(low), float(high)


def trained_tokens(expected: Forecast, *, prompt_tokens: float, response_tokens: float, share_prompts: bool) -> float:
    """Return how many tokens of a prompt and its responses the update computes, once; lengths are means."""
    num_prompts = expected.trained_ratio if share_prompts else expected.num_trained
    return num_prompts * prompt_tokens + expected.num_trained * response_tokens


def seconds_text(interval: tuple[float, float]) -> str:
    """Return the middle of two bounds on seconds that are within a tenth of each other, else both.

    Example:
        >>> seconds_text((2.0, 2.1)), seconds_text((21.3, 29.8)), seconds_text((0.24, 0.95))
        ('2.0s', '21-30s', '0.2-0.9s')
    """
    low, high = interval
    if high <= 1.1 * low:
        return f"{(low + high) / 2:.1f}s"
    digits = 0 if low >= 10 else 1
    return f"{low:.{digits}f}-{high:.{digits}f}s"


def share_text(interval: tuple[float, float]) -> str:
    """Return two bounds on a share, or one where they are hardly apart.

    Example:
        >>> share_text((0.12, 0.45)), share_text((0.98, 1.0))
        ('12-45%', '99%')
    """
    low, high = interval
    if high <= 1.1 * low:
        return f"{(low + high) / 2:.0%}"
    return f"{100 * low:.0f}-{high:.0%}"
