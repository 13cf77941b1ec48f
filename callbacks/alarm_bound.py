"""One figure of a run that must stay within bounds."""

from __future__ import annotations

import math


class AlarmBound:
    """Raises an alarm where a figure stays out of bounds for several steps, and may stop the run.

    Args:
        metric: name of a figure of the rollout or its updates (``rollout/``, ``train/``, ``reward/``, ``grader/``,
            ``sync/``, ``time/``), as in ``metrics.csv``.
        low: smallest value that is in order; ``-inf`` for none.
        high: largest value that is in order; ``inf`` for none.
        num_steps: rollout steps in a row, out of bounds, at which the alarm is raised. A step without the figure
            counts neither way; a figure that no step has is warned of once.
        stops: whether the run then stops.

    Raises:
        ValueError: bounds that nothing or everything meets, or fewer than one step; all in one message.
    """

    def __init__(
        self,
        metric: str,
        *,
        low: float = -math.inf,
        high: float = math.inf,
        num_steps: int = 5,
        stops: bool = False,
    ) -> None:
        errors = []
        if not metric:
            errors.append("metric is empty; give a column of metrics.csv")
        if not low < high:
            errors.append(f"low must be below high; got {low} and {high}")
        if low == -math.inf and high == math.inf:
            errors.append("low or high must be given: every value would be in order")
        if num_steps < 1:
            errors.append(f"num_steps must be at least 1; got {num_steps}")
        if errors:
            raise ValueError(f"alarm on {metric or '?'}: " + "; ".join(errors))
        self.metric = metric
        self.low = low
        self.high = high
        self.num_steps = num_steps
        self.stops = stops

    def is_met(self, value: float) -> bool:
        """Whether a value is in order. One that is not a number is not."""
        return self.low <= value <= self.high
