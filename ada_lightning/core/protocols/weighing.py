"""Which responses train, and what each of them weighs in the update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.protocols.part import Part, Trait
from ada_lightning.core.records import KeptResponse, ResponseGroup, ResponsePool


class Selection(Part):
    """Which responses of complete pools train, and with which weight. Define ``select`` or ``select_all``."""

    @property
    def within(self) -> Selection:
        """The selection that chooses responses: another one where this only drops whole pools before it."""
        return self

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the kept responses of a pool; an empty tuple drops the prompt."""
        raise NotImplementedError(f"{type(self).__name__} compares the pools of a step")

    def select_all(self, pools: Sequence[ResponsePool]) -> Sequence[tuple[KeptResponse, ...]]:
        """Return the kept responses of each pool, in the order of the pools.

        Must be a function of the pools and of what was learned before the step. One that looks at them together has
        :attr:`Trait.COMPARES_POOLS`.
        """
        return [self.select(pool) for pool in pools]

    def takes(self, pool: ResponsePool) -> bool:
        """Whether a complete pool is looked at at all: a function of the pool, with nothing left to chance.

        A step that is filled up with groups that have a signal does not count on the others.
        """
        return True

    def learn(self, metrics: Mapping[str, float]) -> None:
        """Learn from the figures of a finished step (:attr:`PolicyModule.update_metrics` and those of its rollout)."""


LogRatios = Callable[[ResponseGroup], Sequence[float]]
"""Gives, for every kept response of a group, its log-probability under the policy minus that under the initial policy;
nats. Costs two forward passes a response."""
States = Callable[[ResponseGroup], Sequence[Sequence[float]]]
"""Gives, for every kept response of a group, the policy's last hidden state after its last token. Shape ``(G, H)``.
Costs a forward pass a response."""


class Advantage(Part):
    """How much better than expected each kept response was: one number, weight included, assigned once for a rollout.

    A rule that looks at one group overrides :meth:`of_group`; one that compares groups overrides :meth:`assign`.
    Neither may depend on the order of groups, or on earlier rollouts. Traits stand on the class, so that a
    configuration is checked before the rule is made; an instance may have its own.
    """

    needs_reference: bool = False
    """Whether it compares with the initial policy, which is then loaded."""

    def connect(self, log_ratios: LogRatios, states: States) -> None:
        """Remember whom to ask about the policy; called once, before the first rollout."""

    def of_group(self, group: ResponseGroup) -> Sequence[float] | NDArray[np.float64]:
        """Return the advantage of every kept response of a group, in the order of ``group.kept``.

        Asked of groups that keep something and whose rewards differ; of all that keep something with
        :attr:`Trait.TRAINS_EQUAL_REWARDS`.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method of_group(group), or assign(groups)")

    def assign(self, groups: Sequence[ResponseGroup]) -> list[list[float]]:
        """Return the advantage of every kept response of a rollout, group by group, in the order of ``group.kept``."""
        trains_all = Trait.TRAINS_EQUAL_REWARDS in self.traits
        return [
            [float(value) for value in self.of_group(group)]
            if group.kept and (trains_all or group.pool.has_signal)
            else [0.0] * len(group.kept)
            for group in groups
        ]

    def weigh(self, groups: Sequence[ResponseGroup]) -> list[list[float]]:
        """Return :meth:`assign` with what was left to chance undone: what each kept response weighs in the update.

        A number that was sampled or kept with probability q counts 1/q times. Asked once for a rollout; the numbers
        then travel with the responses (:attr:`~ada_lightning.core.records.KeptResponse.advantage`), so that no split of
        the rollout changes them.

        Args:
            groups: all of a rollout, in any order.

        Returns:
            For each group as many numbers as it keeps, in the order of ``group.kept``.
        """
        return [group.without_chance(row) for group, row in zip(groups, self.assign(groups), strict=True)]


class PassRate:
    """Which estimate of a prompt's pass rate a weight or a baseline uses."""

    may_be_zero = False
    """Whether it is 0 in some pools that hold a positive, so that a power of it needs a bound."""
    is_known_before = False
    """Whether it is more than the pool's own rewards, so that equal rewards may still differ from it."""

    def __call__(self, group: ResponseGroup) -> float | NDArray[np.float64]:
        """Pass rate of the group's prompt, in [0, 1]: one number, or one for each kept response, shape ``(G,)``.

        Where rewards are not binary, the expected reward in the reward's unit.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method __call__(group)")


Values = NDArray[np.float64]


class Objective:
    """A function f of the pass rate p that is to be maximised, with ``f'(p) = sum_j a_j (1-p)^j``, ``a_j >= 0``.

    Objects are compared and hashed by their value (make them frozen dataclasses): tables are cached by objective. An
    objective with weight near p = 1 has no such series; it overrides :meth:`terms` instead of :meth:`series`, as
    :class:`~ada_lightning.methods.objectives.LogitObjective` does.

    Source:
        The objectives of Reinforce-Ada, arXiv:2510.04996v3, section 2.2 and appendix B; the series is ours.
    """

    def value(self, pass_rate: Values) -> Values:
        """f(p), elementwise."""
        raise NotImplementedError(f"{type(self).__name__} needs a method value(pass_rate)")

    def weight(self, pass_rate: Values) -> Values:
        """f'(p), elementwise: the factor on a prompt's gradient of p."""
        raise NotImplementedError(f"{type(self).__name__} needs a method weight(pass_rate)")

    def formula(self) -> str:
        """Return f as a person writes it, for messages."""
        raise NotImplementedError(f"{type(self).__name__} needs a method formula()")

    def series(self, num_terms: int) -> list[float]:
        """The coefficients ``a_0 ... a_(num_terms - 1)``."""
        raise NotImplementedError(f"{type(self).__name__} needs a method series(num_terms), or terms(n_max)")

    def terms(self, n_max: int) -> Mapping[tuple[int, int], float]:
        """``p q f'(p)`` as coefficients of ``p^i q^j``, by (i, j), all of them positive, up to degree ``n_max``.

        By default ``sum_j a_j p q^(j+1)``. Each (i, j) has ``min(i, j) = 1``: with both classes in every term, a pool
        without signal gets no weight.
        """
        coefficients = self.series(max(0, n_max - 1))
        return {(1, power + 1): a for power, a in enumerate(coefficients) if a}
