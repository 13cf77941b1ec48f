"""Responses that test an engine's weights, drawn with a policy version before those that train.

They tell a failed weight sync from drift: engine and trainer judge the same tokens by the same policy version.

Where an engine samples from an older policy, its log-probabilities differ from the trainer's by what the policy has
learned since, so that difference no longer says whether the weights arrived. These responses do. At each version the
trainer notes the probabilities of every possible next token after a few prefixes. The engine draws a token after each
of them when it has loaded that version. The two must agree to rounding.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.core.records import Outcome, SamplingSettings
from ada_lightning.rollout.engines.errors import guarded
from ada_lightning.run.stopping import RunStoppedError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Probe:
    """One response after each of some prefixes; seeds are their numbers."""

    prefixes: Sequence[tuple[int, ...]]
    sampling: SamplingSettings
    note: Callable[[Sequence[Outcome]], object]
    """Called once with all of them, in the order of the prefixes."""

    def run(self, engine: RolloutEngine) -> None:
        """Draw them from an engine with nothing in flight.

        Raises:
            EngineError: the engine broke.
        """
        open_probe = OpenProbe(self, "canary")
        open_probe.submit(engine.submit)
        while not open_probe.is_over:
            for generation in guarded(engine.poll):
                open_probe.take(generation)


class OpenProbe:
    """A probe under way, among other requests of an engine.

    Args:
        probe: what is asked.
        name: of its requests, before their numbers.
    """

    def __init__(self, probe: Probe, name: str) -> None:
        self._probe = probe
        self._names = [f"{name}/{index}" for index in range(len(probe.prefixes))]
        self._known: dict[str, Outcome] = {}

    @property
    def is_over(self) -> bool:
        """Whether all has been said."""
        return len(self._known) == len(self._names)

    def submit(self, submit: Callable[..., Any]) -> None:
        """Ask for what is not known; anew where an engine was lost with it."""
        for index, (name, prefix) in enumerate(zip(self._names, self._probe.prefixes, strict=True)):
            if name not in self._known:
                guarded(submit, name, prefix, self._probe.sampling, index)

    def take(self, generation: Outcome) -> bool:
        """Take a response, if it is one of these; whether it is."""
        if generation.request_id not in self._names:
            return False
        self._known[generation.request_id] = generation
        if self.is_over:
            self._probe.note([self._known[name] for name in self._names])
        return True

    @property
    def in_flight(self) -> list[str]:
        """Requests that are not answered."""
        return [name for name in self._names if name not in self._known]


class Canary:
    """The last prefixes of one prompt, the whole prompt among them.

    Args:
        token_ids: of the prompt.
        sampling: as in training; a token is drawn from the same distribution.
        num_prefixes: most prefixes.
    """

    def __init__(self, token_ids: Sequence[int], sampling: SamplingSettings, *, num_prefixes: int = 8) -> None:
        self.token_ids = tuple(token_ids)
        self.num_prefixes = min(num_prefixes, len(self.token_ids))
        """L."""
        self._sampling = replace(sampling, max_new_tokens=1)

    def probe(self, logprobs_LV: Tensor, note: Callable[[float], object]) -> Probe:
        """Return what to draw from an engine of the version that the log-probabilities are of.

        Args:
            logprobs_LV: what the trainer says of every token after each prefix, the shortest first.
            note: told the mean difference of a drawn token's log-probability between engine and trainer, in nats.
        """

        def tell(generations: Sequence[Outcome]) -> None:
            note(
                fmean(
                    abs(generation.sampling_logprobs[0] - float(logprobs_L[generation.response_ids[0]]))
                    for generation, logprobs_L in zip(generations, logprobs_LV, strict=True)
                )
            )

        first = len(self.token_ids) - self.num_prefixes + 1
        prefixes = [self.token_ids[: first + index] for index in range(self.num_prefixes)]
        return Probe(prefixes, self._sampling, tell)


class GapLimits:
    """Compares how probable engine and trainer found the same tokens, update by update.

    Args:
        max_logprob_gap: nats per token, mean; a larger one is warned of.
        stop_logprob_gap: a larger one stops the run; ``inf`` only warns.
        name: of the figure. Of responses of an older policy ``sync/logprob_gap`` is mostly drift, and
            ``sync/canary_gap`` tells whether weights arrived.

    Raises:
        ValueError: a gap is not positive, or the run would stop before it warns.
    """

    def __init__(self, max_logprob_gap: float, stop_logprob_gap: float, *, name: str) -> None:
        if not 0 < max_logprob_gap <= stop_logprob_gap:
            raise ValueError(
                "callbacks.adaptive_sampling needs 0 < max_logprob_gap <= stop_logprob_gap (inf: never stop); "
                f"got {max_logprob_gap}, {stop_logprob_gap}"
            )
        self.max_logprob_gap, self.stop_logprob_gap, self._name = max_logprob_gap, stop_logprob_gap, name

    def check(self, figures: Mapping[str, float]) -> None:
        """Look at the figures of an update, before a checkpoint is written of it.

        Raises:
            RunStoppedError: engine and trainer differ too much.
        """
        gap = figures.get(self._name, 0.0)
        if gap <= self.max_logprob_gap:
            return
        text = (
            f"the engine's log-probabilities differ from the trainer's by {gap:.3f} nat per token (mean; the largest "
            f"difference of a token is {figures.get(f'{self._name}_max', gap):.3f})"
        )
        if gap > self.stop_logprob_gap:
            raise RunStoppedError(
                f"{text}, above callbacks.adaptive_sampling.stop_logprob_gap = {self.stop_logprob_gap}: the weights in "
                "the engine are not the trainer's, or one of the two computes something else. Compare "
                "rollout.engine.dtype=float32 trainer.precision=32-true; this update is in no checkpoint"
            )
        warnings.warn(
            f"{text}, above max_logprob_gap = {self.max_logprob_gap}: does the engine have the weights of the trainer?",
            RuntimeWarning,
            stacklevel=3,
        )
