"""Seconds of one engine step, as a function of what runs in it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field


@dataclass(frozen=True)
class StepTime:
    """A curve over the number of running sequences, plus what context and admissions add.

    ``seconds(step) = base(running) + context_s x context tokens + prompt_token_s x uncached prompt tokens
    + admission_s x sequences admitted``, where context tokens are summed over the running sequences. Linear in the
    context, so that many steps with the same sequences have a closed form.
    """

    sizes: tuple[int, ...]
    base_s: tuple[float, ...]
    context_s: float
    prompt_token_s: float
    admission_s: float
    _table: dict[int, float] = field(default_factory=dict, compare=False, repr=False)

    def base(self, num_running: int) -> float:
        """Seconds of a step without context: linear between the known sizes, and beyond them."""
        if num_running not in self._table:
            right = min(max(bisect_left(self.sizes, num_running), 1), len(self.sizes) - 1)
            (x0, x1), (y0, y1) = self.sizes[right - 1 : right + 1], self.base_s[right - 1 : right + 1]
            self._table[num_running] = y0 + (y1 - y0) * (num_running - x0) / (x1 - x0)
        return self._table[num_running]

    def steps(self, num_steps: int, num_running: int, context: int) -> float:
        """Seconds of ``num_steps`` steps with the same sequences, each of which grows by a token in every step."""
        total_context = num_steps * context + num_running * (num_steps * (num_steps - 1) // 2)
        return num_steps * self.base(num_running) + self.context_s * total_context

    def admission(self, num_admitted: int, num_prompt_tokens: int) -> float:
        """Seconds that admissions add to a step, of which ``num_prompt_tokens`` prompt tokens have to be computed."""
        return self.admission_s * num_admitted + self.prompt_token_s * num_prompt_tokens
