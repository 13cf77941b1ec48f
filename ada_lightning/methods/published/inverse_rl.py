"""Maximum-likelihood inverse reinforcement learning: a reward learned from demonstrations in the loop that uses it.

Rule: a response's reward is ``w f(text)``; after every step ``w <- (1 - rate decay) w + rate (mean f of
    demonstrations - mean f of responses)``, means over prompts, of the responses of that step.
Claim: suppose the policy is the best one for its reward with an entropy or a KL to pay. Then this is the gradient of
    the likelihood of the demonstrations. One policy step for each reward step is enough (a single loop, no inner one to
    the end) if rewards move more slowly than the policy follows. With a linear reward it is maximum-entropy IRL.
Assumption: what was demonstrated differs from what is drawn in the features, and the policy pays for leaving its prior
    (``loss.kl_coef`` above 0).
Degenerate: features that demonstrations and responses share alike get no weight; without a KL weights grow for as long
    as the policy has not caught up.
Fidelity: after (arXiv:2210.01808). The reward is linear in shares of kinds of characters and in length, where the paper
    has a network over states: it learns how demonstrations are written, not what is right. The entropy is a KL to the
    initial policy. ``tests/unit/methods/sampling/test_inverse_rl.py`` recovers a reward that is known, with a softmax
    over eight texts in the place of the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.options import option, use
from ada_lightning.core.protocols import PoolEnd, Trait
from ada_lightning.core.records import Prompt, ResponsePool
from ada_lightning.core.stopping.rule import FixedRule
from ada_lightning.methods.advantages import LeaveOneOutAdvantage
from ada_lightning.methods.checked import Check
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.uniform import UniformSampler
from ada_lightning.methods.selection import AllSelection


class TextFeatures:
    """Numbers of a text, each of about the size of 1."""

    names: Sequence[str]
    """Of the features, for whoever reads the weights."""

    def __call__(self, text: str) -> NDArray[np.float64]:
        """Return the features, in the order of ``names``. Shape ``(F,)``."""
        raise NotImplementedError(f"{type(self).__name__} needs a method __call__(text)")


class CharacterShares(TextFeatures):
    """Shares of letters, digits, white space and other characters, and the length as ``log(1 + characters) / 5``.

    Example:
        >>> CharacterShares()("a 12").tolist()
        [0.25, 0.5, 0.25, 0.0, 0.32188758248682003]
    """

    names = ("letters", "digits", "spaces", "others", "length")

    def __call__(self, text: str) -> NDArray[np.float64]:
        """Zeros of an empty text. Shape ``(5,)``."""
        counts = [
            sum(map(str.isalpha, text)),
            sum(map(str.isdigit, text)),
            sum(map(str.isspace, text)),
        ]
        shares = np.array([*counts, len(text) - sum(counts)]) / max(len(text), 1)
        return np.array([*shares, math.log1p(len(text)) / 5])


@option("sampler", "inverse_rl", features=use(CharacterShares))
@dataclass(kw_only=True, eq=False)
class InverseRlSampler(UniformSampler):
    """A fixed group whose rewards are learned from demonstrations while the policy learns (ML-IRL, arXiv:2210.01808).

    The reward is linear in features of the text, and takes one step after every step of the policy. It needs a KL
    (``loss.kl_coef`` above 0) to be a likelihood. Demonstrations are texts in the prompts' references. Graders' rewards
    are replaced before anything trains on or learns from them, so training figures show the learned reward; held-out
    ones keep the true one.

    Raises:
        ValueError: a number out of range.

    Source:
        Zeng et al., arXiv:2210.01808; authors' code ``Cloud0723/ML-IRL`` at 86e4b8d, ``ml/irl_samples.py``: one step of
        the reward for each of the policy, weight decay 1e-3; Adam and a network, where here are plain steps and a
        linear reward. A KL to the initial policy in the place of an entropy is ours.
    """

    traits = frozenset({Trait.GIVES_REWARDS})

    features: TextFeatures
    """What the reward sees of a text."""
    learning_rate: float = 1.0
    """Of the reward's weights; the slower of the two time scales (ours)."""
    decay: float = 1e-3
    """Share of the weights that a unit of learning rate takes off in a step (authors' code: 1e-3)."""
    demonstration: str = "answer"
    """Where a prompt's reference has the text of its demonstration."""
    _weights: NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._weights = np.zeros(len(self.features.names))

    def _checks(self) -> Iterator[Check]:
        yield from super()._checks()
        yield (
            0 < self.learning_rate < math.inf,
            f"learning_rate must be positive and finite; got {self.learning_rate}",
        )
        yield 0 <= self.decay < math.inf, f"decay must be 0 or positive, and finite; got {self.decay}"

    def check_prompts(self, prompts: Sequence[Prompt]) -> None:
        """Look for the demonstrations.

        Raises:
            ValueError: a prompt has none.
        """
        without = [prompt.prompt_id for prompt in prompts if self.demonstration not in prompt.reference]
        if without:
            raise ValueError(
                f"sampler.demonstration = {self.demonstration}: {len(without)} of {len(prompts)} prompts, such as "
                f"{without[0]}, have no such entry in their reference, so there is nothing to learn a reward from; "
                "name the one that holds the text of a demonstration"
            )

    @property
    def weights(self) -> dict[str, float]:
        """The learned reward, by name of the feature."""
        return dict(zip(self.features.names, map(float, self._weights), strict=True))

    def end(self, pool: ResponsePool) -> PoolEnd:
        """Stop at ``group_size``, with the learned reward of each response."""
        rewards = [float(self._weights @ self.features(response.text)) for response in pool.responses]
        return PoolEnd(FixedRule(self.group_size), rewards=rewards)

    def learn(self, pools: Sequence[ResponsePool]) -> None:
        """Take a step up the likelihood of the demonstrations."""
        evident = [pool for pool in pools if pool.responses]
        if not evident:
            return
        gaps = [
            self.features(str(pool.prompt.reference[self.demonstration]))
            - np.mean([self.features(response.text) for response in pool.responses], axis=0)
            for pool in evident
        ]
        kept = 1.0 - self.learning_rate * self.decay
        self._weights = kept * self._weights + self.learning_rate * np.mean(gaps, axis=0)

    def state_dict(self) -> dict[str, Any]:
        """The weights by name."""
        return {"weights": self.weights}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        known = state.get("weights", {})
        self._weights = np.array([float(known.get(name, 0.0)) for name in self.features.names])

    def caveat(self) -> str:
        """Say whose rewards these are."""
        return (
            "sampler: rewards are those of a reward learned from demonstrations, which changes with every step, linear "
            f"in {', '.join(self.features.names)}"
        )


INVERSE_RL = known(
    Recipe(
        name="inverse_rl",
        card=Card(
            table="update",
            changes="learns a reward from demonstrations, step by step with the policy",
            needs="demonstrations in the prompts' references, a KL",
            cost="a forward pass of the reference",
            fidelity="after",
            departs=(
                "After arXiv:2210.01808, which has a network over states as reward. Here it is linear in shares of "
                "kinds of characters and in length (`sampler.features`). So it learns how demonstrations are written, "
                "not what is right. The entropy is a KL to the initial policy. A test recovers a reward that is known, "
                "with a softmax over eight texts in place of the model "
                "(`tests/unit/methods/sampling/test_inverse_rl.py`)."
            ),
        ),
        checked=Comparison(
            rule="the reward that demonstrations were made with is recovered",
            against="simulation",
            test=(
                "unit/methods/sampling/test_inverse_rl.py::test_the_recovered_reward_is_the_true_one_and_the_policy_that_of_the_expert"
            ),
        ),
        text="""
            Maximum-likelihood inverse RL (arXiv:2210.01808): the reward is learned from the data's answers, which are
            the demonstrations. It takes one step for every step of the policy, in the same loop. Graders are asked only
            for held-out figures. The reward is linear in shares of kinds of characters and in length. So the policy
            learns to write like the demonstrations, not to be right. Advantages keep the reward's scale (rloo), and a
            KL to the initial policy keeps the policy near it. Loads a second model.
        """,
        sampler=InverseRlSampler,
        selection=AllSelection,
        advantage=LeaveOneOutAdvantage,
        settings={"loss.kl_coef": 0.1},
    )
)
