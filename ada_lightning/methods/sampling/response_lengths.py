"""How long a prompt's responses are expected to be: what one of them costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ada_lightning.core.records import ResponsePool

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
