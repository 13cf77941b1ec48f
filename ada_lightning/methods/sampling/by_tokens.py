"""What samplers share that can divide tokens among prompts instead of responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ada_lightning.core.records import Belief, ResponsePool
from ada_lightning.methods.sampling.planned import OneShotSampler, PlannedSampler

_MEMORY = 0.7
"""Share of a prompt's tokens and responses that survives a visit, since the policy has changed in between."""


@dataclass(frozen=True, slots=True)
class ResponseLengths:
    """Tokens per response of every prompt visited, averaged over its visits, of which earlier ones fade.

    A value: learning returns another one, so that a step's plan is not changed by what is learned meanwhile.

    Example:
        >>> ResponseLengths({"a": (300.0, 1.0), "b": (100.0, 1.0)}).costs(["a", "b", "never seen"])
        [1.5, 0.5, 1.0]
    """

    totals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """(tokens, responses) by prompt id."""

    def after(self, pools: Sequence[ResponsePool]) -> ResponseLengths:
        """Return what is known once these pools were drawn.

        Responses that were cut count as long as they got, episodes as many tokens as the model drew.
        """
        totals = dict(self.totals)
        for pool in pools:
            if pool.responses:
                tokens, responses = totals.get(pool.prompt.prompt_id, (0.0, 0.0))
                new = sum(response.num_tokens for response in pool.responses)
                totals[pool.prompt.prompt_id] = _MEMORY * tokens + new, _MEMORY * responses + len(pool.responses)
        return ResponseLengths(totals)

    def costs(self, prompt_ids: Sequence[str]) -> list[float]:
        """Return what a response to each prompt costs, in units of their mean length: they add up to their number.

        A prompt never visited counts as the mean of the others.
        """
        known = {prompt_id: self.totals[prompt_id] for prompt_id in prompt_ids if prompt_id in self.totals}
        lengths = {prompt_id: max(tokens, 1.0) / responses for prompt_id, (tokens, responses) in known.items()}
        mean = sum(lengths.values()) / len(lengths) if lengths else 1.0
        of_each = [lengths.get(prompt_id, mean) for prompt_id in prompt_ids]
        scale = len(of_each) / sum(of_each) if of_each else 1.0
        return [length * scale for length in of_each]

    def state_dict(self) -> dict[str, list[float]]:
        """(tokens, responses) by prompt id, as primitives."""
        return {prompt_id: list(total) for prompt_id, total in self.totals.items()}

    @classmethod
    def of_state(cls, state: Mapping[str, Sequence[float]]) -> ResponseLengths:
        """Restore :meth:`state_dict`."""
        return cls({prompt_id: (float(total[0]), float(total[1])) for prompt_id, total in state.items()})


@dataclass(kw_only=True, eq=False)
class LengthLearningSampler(PlannedSampler):
    """Remembers how long each prompt's responses were, where a plan goes by that.

    ``responses_per_prompt`` is then the step's total in responses of mean length: as many tokens are expected as with
    the same number for every prompt. It is not exceeded in expectation, and what is left is less than one response.
    """

    by_tokens: bool = False
    """Divide tokens: a response costs what those of its prompt took at earlier visits, instead of 1 (ours)."""
    _lengths: ResponseLengths = field(init=False, repr=False, default_factory=ResponseLengths)

    def costs(self, prompt_ids: Sequence[str]) -> list[float] | None:
        """Return what a response to each prompt costs, in responses of mean length; None where all cost the same."""
        return self._lengths.costs(prompt_ids) if self.by_tokens else None

    def learn(self, pools: Sequence[ResponsePool]) -> None:
        """Note the lengths of the step's responses, where they count."""
        if self.by_tokens:
            self._lengths = self._lengths.after(pools)

    def state_dict(self) -> dict[str, Any]:
        """Tokens and responses by prompt id, where they count."""
        return {"lengths": self._lengths.state_dict()} if self.by_tokens else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self._lengths = ResponseLengths.of_state(state.get("lengths", {}))


@dataclass(kw_only=True, eq=False)
class TokenDividingSampler(LengthLearningSampler, OneShotSampler):
    """Settles before a step's first response how many each prompt gets, by responses or by tokens."""

    def divide(self, beliefs: Sequence[Belief], total: int, costs: Sequence[float] | None = None) -> list[int]:
        """Return how many responses each prompt gets, a function of its arguments and of earlier steps.

        Args:
            beliefs: about each prompt's pass rate.
            total: of the step; spent exactly without costs, not exceeded with them.
            costs: of a response to each prompt; None: 1.
        """
        raise NotImplementedError

    def plan(self, pools: Sequence[ResponsePool], stage: int = 0) -> None:
        """Divide ``responses_per_prompt`` times the number of pools by the pools' beliefs and lengths."""
        costs = self.costs([pool.prompt.prompt_id for pool in pools])
        if costs is None or not pools:
            super().plan(pools, stage)
            return
        counts = self.divide([pool.belief for pool in pools], self.responses_per_prompt * len(pools), costs)
        self._planned = {pool.slot: count for pool, count in zip(pools, counts, strict=True)}
