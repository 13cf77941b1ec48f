"""Selects prompts to train on by how many of their responses are right."""

from __future__ import annotations

import pandas as pd

from ada_lightning.core.checks import refuse
from ada_lightning.core.options import option, preset


@option("band", "all", text="Every prompt of which at least one response could be graded.")
class PassRateBand:
    """Keeps prompts whose counts lie within every bound that is given, bounds included.

    Counts are positive responses, however many were drawn; a rate is positives over the responses that count as
    evidence, so a bound on it means the same for any number of samples. A prompt without evidence is never kept.

    Args:
        min_positive: least number of positive responses; 1: solved at least once, whatever ``num_samples`` is.
        max_positive: largest number of positive responses; None for no bound.
        min_pass_rate: least pass rate.
        max_pass_rate: largest pass rate.

    Raises:
        ValueError: a bound out of range, or bounds that nothing can meet; all in one message.
    """

    def __init__(
        self,
        *,
        min_positive: int = 0,
        max_positive: int | None = None,
        min_pass_rate: float = 0.0,
        max_pass_rate: float = 1.0,
    ) -> None:
        errors = []
        if min_positive < 0:
            errors.append(f"band.min_positive must not be negative; got {min_positive}")
        if max_positive is not None and max_positive < min_positive:
            errors.append(f"band.max_positive = {max_positive} is below band.min_positive = {min_positive}")
        if not 0 <= min_pass_rate <= max_pass_rate <= 1:
            errors.append(
                "band needs 0 <= min_pass_rate <= max_pass_rate <= 1; got "
                f"min_pass_rate = {min_pass_rate}, max_pass_rate = {max_pass_rate}"
            )
        refuse(*errors)
        self.min_positive = min_positive
        self.max_positive = max_positive
        self.min_pass_rate = min_pass_rate
        self.max_pass_rate = max_pass_rate

    def keeps(self, outcomes: pd.DataFrame) -> pd.Series[bool]:
        """Whether to train on each prompt, by its ``num_positive`` and ``num_counted``."""
        rate = outcomes.num_positive / outcomes.num_counted  # not a number without evidence: between no bounds
        most = float("inf") if self.max_positive is None else self.max_positive
        return outcomes.num_positive.between(self.min_positive, most) & rate.between(
            self.min_pass_rate, self.max_pass_rate
        )

    def check_samples(self, num_samples: int) -> None:
        """Find out before anything is drawn that no prompt could ever be kept.

        Raises:
            ValueError: no number of positives of so many responses meets the bounds.
        """
        if not self.keeps(pd.DataFrame({"num_positive": range(num_samples + 1), "num_counted": num_samples})).any():
            raise ValueError(
                f"band keeps no prompt with num_samples = {num_samples}: no number of positives meets "
                f"{self.describe()}; raise num_samples or widen the band"
            )

    def describe(self) -> str:
        """Spell the bounds.

        Example:
            >>> PassRateBand(min_positive=1, max_pass_rate=0.125).describe()
            '1 <= positives, pass rate <= 0.125'
            >>> PassRateBand().describe()
            'any pass rate'
        """
        highest_rate = self.max_pass_rate if self.max_pass_rate < 1 else None
        counts = _bounds(self.min_positive or None, "positives", self.max_positive)
        rates = _bounds(self.min_pass_rate or None, "pass rate", highest_rate)
        return ", ".join(filter(None, (counts, rates))) or "any pass rate"


preset(
    "band",
    "solved",
    "all",
    text="Prompts that were solved at least once, however often: 1-16 of 16, solved ones too. Nothing is hopeless at "
    "the start.",
    min_positive=1,
)
preset(
    "band",
    "easy",
    "solved",
    text='The authors\' "easy" sets: 1-5 of 16 right, and the like for other numbers of samples (prompt_selection.py, '
    "0.313): 2 of 8, 10 of 32.",
    max_pass_rate=0.313,
)
preset(
    "band",
    "hard",
    "solved",
    text='The authors\' "hard" sets: 1-2 of 16 right, and the like for other numbers of samples (prompt_selection.py, '
    "0.125): 1 of 8, 4 of 32; with fewer than 8 samples no prompt can be in this band.",
    max_pass_rate=0.125,
)
preset(
    "band",
    "paper_v3",
    "solved",
    text="What arXiv:2510.04996v3 writes: prompts with a mean above 0.375 and those never solved are dropped (1-6 of "
    "16, 3 of 8, 12 of 32).",
    max_pass_rate=0.375,
)


def _bounds(low: float | None, name: str, high: float | None) -> str:
    if low is None and high is None:
        return ""
    return f"{'' if low is None else f'{low} <= '}{name}{'' if high is None else f' <= {high}'}"
