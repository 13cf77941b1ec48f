"""Tells a failed weight sync from drift: engine and trainer judge the same tokens by the same policy version.

Where an engine samples from an older policy, its log-probabilities differ from the trainer's by what the policy has
learned since, so that difference no longer says whether the weights arrived. This one does: the trainer notes what its
policy says of every possible next token after a few prefixes, at each version; the engine draws a token after each of
them when it has loaded that version, and the two must agree to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from ada_lightning.core.records import Outcome, SamplingSettings
from ada_lightning.rollout.probe import Probe

if TYPE_CHECKING:
    from torch import Tensor


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
