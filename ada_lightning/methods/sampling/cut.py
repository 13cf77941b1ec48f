"""Cuts long responses by chance, and gives those that go on more weight: cheaper where they would teach little."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from ada_lightning.core.options import option
from ada_lightning.core.protocols import Cut, Trait
from ada_lightning.core.records import ResponsePool
from ada_lightning.methods.checked import Check, at_least
from ada_lightning.methods.sampling.uniform import UniformSampler


@option("sampler", "cut")
@dataclass(kw_only=True, eq=False)
class CutSampler(UniformSampler):
    """A fixed group per prompt; a long response goes on with a probability c and then weighs 1 / c.

    Unbiased for ``advantage=history_baseline`` with ``loss/reduction=constant``. It saves tokens where long responses
    have small advantages. What went on weighs 1 / c, what was cut weighs nothing, and both count as drawn. So the sum
    over a prompt's responses of weight, advantage and score has the same expectation as without cuts
    (Horvitz-Thompson), as long as the policy that trains is the one that drew. Cutting without the weights would be a
    penalty on length. It would push right responses to be short, and wrong ones to be long.

    The coin is thrown before the response is drawn, with a seed of its own. A response that loses it has ``num_tokens``
    as its limit. So the engine need not know of it, and a step drawn again is the same. For a prompt with the believed
    pass rate b, ``c = survival * sqrt(4 b (1 - b))``, and no less than ``min_survival``.

    Why this c: let T be the mean tokens of a response up to the cut, and C those after it. Let V and W be what
    responses that end before and after it add to the variance of the update. Tokens times variance, ``(T + c C) (V + W
    / c)``, is least at ``c = sqrt(T W / (V C))``. W is in proportion to the squared advantage, whose mean under the
    belief is b (1 - b). It saves where long responses have many tokens and small advantages, and nothing (c = 1) where
    they teach as much as others.

    Assumed: an advantage whose baseline does not depend on the response and its coin, and an objective linear in the
    pass rate (``advantage=history_baseline``). Also a denominator that counts what was drawn
    (``loss/reduction=constant``), and no KL or entropy term. All else is refused. The belief about a prompt is learned
    only from responses that would not have been cut at any length. Of the others only short ones are seen: those train,
    but count in no figure of the pass rate and not in the response log.

    Degenerate: with ``survival=1 min_survival=1`` nothing is ever cut.

    Source:
        Ours; for importance sampling: Horvitz and Thompson 1952. DUET (arXiv:2605.08441) weighs too: Haoyu-Hu/DUET at
        82bd6f4 lets 5 % of what it would abort go on and gives those 20 times the weight, self-normalised. Whether
        ARRoL (arXiv:2603.24840) weighs what it keeps was not decided: its code is not public (Hsu1023/ARRoL).

    Raises:
        ValueError: a length below 1, a probability that is none, or that is 0.
    """

    traits = frozenset({Trait.CUTS_RESPONSES})

    num_tokens: int = 64
    """Tokens after which a response that has not ended is cut or goes on."""
    survival: float = 0.5
    """Probability to go on for prompts that are as likely answered right as wrong; less for all others."""
    min_survival: float = 0.1
    """The least for any prompt; no response weighs more than its inverse."""
    seed: int = 0
    """Of the coins; with step, slot, prompt and sample it decides."""

    def _checks(self) -> Iterator[Check]:
        yield from super()._checks()
        yield from at_least(1, num_tokens=self.num_tokens)
        for name in ("survival", "min_survival"):
            value = getattr(self, name)
            yield (0 < value <= 1, f"sampler.{name} is a probability above 0, and at most 1; got {value}")

    def chance(self, pass_rate: float) -> float:
        """Probability to go on, of a prompt believed to have a pass rate.

        Example:
            >>> sampler = CutSampler(group_size=4, num_tokens=64, survival=0.5)
            >>> [round(sampler.chance(rate), 3) for rate in (0.5, 0.1, 0.001)]
            [0.5, 0.3, 0.1]
        """
        return max(self.survival * math.sqrt(4.0 * pass_rate * (1.0 - pass_rate)), self.min_survival)

    def cut(self, pool: ResponsePool, sample_index: int) -> Cut:
        """Throw a response's coin."""
        survival = self.chance(pool.belief.mean)
        key = f"cut/{self.seed}/{pool.step}/{pool.slot}/{pool.prompt.prompt_id}/{sample_index}"
        return Cut(self.num_tokens, survival, goes_on=random.Random(key).random() < survival)

    def caveat(self) -> str:
        """Say what it does to the update."""
        return (
            f"sampler: a response goes on after {self.num_tokens} tokens with a probability of {self.survival:g} or "
            "less and weighs its inverse: the expected update is that of whole responses"
        )
