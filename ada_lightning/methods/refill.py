"""Whether groups without a signal are replaced within their step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ada_lightning.core.moved import lazily
from ada_lightning.core.options import option
from ada_lightning.core.protocols import Refill
from ada_lightning.core.protocols.sampling import RefillProgress
from ada_lightning.core.records import Response, ResponsePool
from ada_lightning.methods.checked import Check, Checked

__all__ = ["DynamicSampling", "NoRefill"]
__getattr__ = lazily(__name__, {"AdaptiveDynamicSampling": "ada_lightning.methods.published.greso"})


@option("refill", "none")
class NoRefill(Refill):
    """Every prompt of a step counts, with or without a signal, and none is drawn in its stead. Costs nothing."""


@option("refill", "dynamic")
@dataclass(kw_only=True, eq=False)
class DynamicSampling(Checked, Refill):
    """DAPO's dynamic sampling: only groups with a signal train, and a step is filled up with them.

    Further prompts are drawn until ``data.prompts_per_step`` groups have a signal, or a cap on prompts is reached. What
    trains does not depend on the sizes of waves; how long a step waits, and how much it throws away, does.

    The claim: a group whose rewards are all equal has no gradient, so as a policy improves fewer and fewer groups of a
    batch count and the gradient gets noisier; filtering them and drawing others keeps the effective batch constant.

    What trains are the first ``prompts_per_step`` groups with a signal *in the order of the prompts*, whoever finished
    first, so each is an independent draw from the prompts that have one. The next wave starts as soon as it is certain
    to be wanted: when even a signal in every open group would leave the step short. So waves overlap, and which prompts
    are drawn depends on the outcomes alone, never on latency.

    The mean is over what trains: the update of the same step without the filter, over the share of prompts that had
    a signal. Its expected direction is the same, and it is longer by the inverse of that share, which falls as the
    policy improves: in effect a learning rate that rises. ``loss/reduction=token_mean`` (DAPO's) divides by the tokens
    of groups that train, ``constant`` and ``prompt_mean`` by their number, ``response_mean`` by their responses.

    Assumed: prompts with a signal are not rare. Degenerate: where they are (data that is solved, or far too hard), the
    cap ends the step, which then trains on fewer groups, or on none, and says so in ``rollout/refill_capped``; it never
    raises. No prompt comes twice to fill up a step, so one that has tried all training prompts ends too.

    Everything drawn is counted in ``rollout/num_sampled`` and ``rollout/generated_tokens``. Evaluation never refills.
    A step of the run, of its learning rate and of its evaluations is an optimiser's step, however many waves it took.

    Source:
        DAPO, arXiv:2503.14476, section 3.2; verl-recipe ``dapo/dapo_ray_trainer.py`` (``filter_groups``), which has
        ``oversampling`` 3, ``refill_ratio`` 3 and at most 10 waves.

    Example:
        >>> refill = DynamicSampling(oversampling=1.5, refill_ratio=0.5, max_ratio=4)
        >>> refill.first_wave(8)
        12
        >>> refill.next_wave(RefillProgress(num_wanted=8, num_signal=3, num_open=4, num_drawn=12))
        4
        >>> refill.next_wave(RefillProgress(num_wanted=8, num_signal=3, num_open=5, num_drawn=12))
        0
    """

    is_on = True

    oversampling: float = 1.0
    """Prompts of the first wave per prompt of a step. What it saves is waiting, what it costs are groups with a signal
    that are not wanted."""
    refill_ratio: float = 0.25
    """Prompts of each further wave per prompt of a step; 0 replaces one prompt at a time (ours)."""
    max_ratio: float = 10
    """Most prompts drawn per prompt of a step; then the step trains on what it has. The recipe allows 10 waves, hence
    30, and then raises."""
    component: str = ""
    """Of the reward, whose values must differ, such as ``correct`` of ``reward=overlong`` (DAPO filters by accuracy,
    not by the reward); empty: the reward itself. So it is, too, in a pool whose responses have no components at all, as
    those of an environment that gives the reward."""

    def _checks(self) -> Iterator[Check]:
        yield (
            1 <= self.oversampling < math.inf,
            f"refill.oversampling must be at least 1 and finite; got {self.oversampling}",
        )
        yield (
            0 <= self.refill_ratio < math.inf,
            f"refill.refill_ratio must be 0 (one prompt at a time) or positive; got {self.refill_ratio}",
        )
        yield (
            self.oversampling <= self.max_ratio < math.inf,
            f"refill.max_ratio = {self.max_ratio} must be finite and at least refill.oversampling = "
            f"{self.oversampling}: without a cap a step on data without a signal would never end",
        )

    def first_wave(self, num_wanted: int) -> int:
        """Return the prompts to begin with."""
        return math.ceil(self.oversampling * num_wanted)

    def next_wave(self, progress: RefillProgress) -> int:
        """Return how many more are certain to be wanted."""
        if progress.num_signal + progress.num_open >= progress.num_wanted:
            return 0
        return self._capped(max(1, math.ceil(self.refill_ratio * progress.num_wanted)), progress)

    def has_signal(self, pool: ResponsePool) -> bool:
        """Whether rewards of what may train differ, and the values of the named component too."""
        responses = pool.trainable()
        if len({response.reward for response in responses}) < 2:
            return False
        return not self._has_component(pool) or len(set(self._values(responses))) > 1

    def is_correct(self, pool: ResponsePool) -> bool:
        """Whether a pool without a signal is all right: positive, or its component above 0."""
        if self._has_component(pool):
            return any(value > 0 for value in self._values(pool.responses))
        return super().is_correct(pool)

    def caveat(self) -> str:
        """Say what it does to the update."""
        return (
            "refill: the mean is over groups with a signal only: the same expected direction, longer by the inverse "
            "of their share of the prompts drawn (rollout/signal_share); that share falls as prompts are solved"
        )

    def _capped(self, num_prompts: int, progress: RefillProgress) -> int:
        return max(0, min(num_prompts, math.floor(self.max_ratio * progress.num_wanted) - progress.num_drawn))

    def _has_component(self, pool: ResponsePool) -> bool:
        return bool(self.component) and any(response.components for response in pool.responses)

    def _values(self, responses: Sequence[Response]) -> list[float]:
        """What the named component was, of the responses that have it."""
        return [response.components[self.component] for response in responses if self.component in response.components]
