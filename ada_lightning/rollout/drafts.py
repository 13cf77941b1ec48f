"""The last evaluation's responses as guesses at the next one's, which draws with the same seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from ada_lightning.core.records import ResponseGroup

Drafts = Mapping[tuple[str, int], Sequence[int]]
"""Token ids that guess at responses, by the prompt's id and the index among its responses."""
_TWICE_THE_COST = 32
"""Sequences at once of which a decoded token costs twice what a checked one costs: measured with the default model on a
CPU core (docs/engines.md). Of a smaller model it is more, and then this checks less often than pays."""


class LastResponses:
    """Keeps the responses of an evaluation, and says whether they are worth checking at the next one.

    Two policies that are drawn from with one seed give the same tokens up to the first that differs. Checking a draft
    saves the decoding of those and costs a pass over all of it. A token costs ``1 + 32 / n`` times as much to decode as
    to check, where n sequences are decoded at once. So drafts pay where the share of tokens that stay is at least
    ``n / (n + 32)``: 0.2 with 8 sequences, 0.5 with 32, 0.8 with 128.
    """

    def __init__(self) -> None:
        self.kept_ratio = 0.5
        """Share of the last evaluation's tokens that were those of the one before, up to the first that was not; a
        guess until there were two."""
        self._last: Drafts = {}

    def drafts(self, num_sequences: int) -> Drafts:
        """Return what was kept; nothing where checking it costs more than it saves.

        Args:
            num_sequences: that are decoded at once.
        """
        return self._last if self.kept_ratio * (num_sequences + _TWICE_THE_COST) >= num_sequences else {}

    def note(self, groups: Iterable[ResponseGroup]) -> None:
        """Keep an evaluation's responses and compare them with those of the last one, drafts or not."""
        found = responses_of(groups)
        if self._last and found:
            self.kept_ratio = kept_ratio(self._last, found)
        self._last = found


def responses_of(groups: Iterable[ResponseGroup]) -> Drafts:
    """Return all responses of an evaluation."""
    return {
        (group.pool.prompt.prompt_id, response.sample_index): response.response_ids
        for group in groups
        for response in group.pool.responses
    }


def kept_ratio(drafts: Drafts, responses: Drafts) -> float:
    """Return the share of the responses' tokens that drafts guess, up to the first wrong one of each.

    Example:
        >>> kept_ratio({("p", 0): (5, 6, 7, 2)}, {("p", 0): (5, 6, 8, 9, 2), ("p", 1): (5, 6, 2)})
        0.25
    """
    pairs = [(ids, drafts.get(key, ())) for key, ids in responses.items()]
    return sum(_num_equal(*pair) for pair in pairs) / max(1, sum(len(ids) for ids, _ in pairs))


def _num_equal(these: Sequence[int], those: Sequence[int]) -> int:
    """Return the number of tokens before the first that differs."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(these, those, strict=False)))
