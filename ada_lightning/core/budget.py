"""A limit on the responses of a whole rollout step, shared out in the order of the round-based algorithm."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


class StepBudget:
    """Grants blocks in the order (round, position of the prompt in the step) until the budget is spent.

    Which prompts get the last blocks depends only on this order, never on who finished first. A block is granted early
    if it fits even when every prompt before it takes all it could. It is refused if it does not fit although all before
    it are settled. Otherwise it waits. So prompts wait for each other near the end of the budget, and not before.

    An answer takes time with the logarithm of the number of prompts, and with the number of rounds.

    Args:
        num_responses: the budget; 0 grants everything.
        samples_per_round: largest block a prompt can ask for.
        slots: of the prompts that take part, in ascending order.
    """

    def __init__(self, num_responses: int, samples_per_round: int, slots: Sequence[int]) -> None:
        self._budget = num_responses
        self._block = samples_per_round
        self._num_granted: dict[int, int] = {}
        """Blocks by slot, of the prompts that may ask for more."""
        self._num_slots = 0
        self._waiting: list[tuple[int, int, int]] = []
        """Heap of requests: blocks granted before, slot, responses wanted."""
        self._sizes: list[_Sums] = []
        """By round the responses granted to each slot."""
        self._open: list[_Sums] = []
        """By number of blocks granted: 1 for each slot that has so many and may ask for more."""
        self.join(slots)

    def join(self, slots: Sequence[int]) -> None:
        """Let further prompts take part, behind those that do."""
        if not self._budget or not slots:
            return
        self._num_slots = slots[-1] + 1
        for sums in (*self._sizes, *self._open):
            sums.grow(self._num_slots)
        for slot in slots:
            self._num_granted[slot] = 0
            self._count_open(slot, 1)

    def request(self, slot: int, num_responses: int) -> None:
        """Ask for a prompt's next block, of ``samples_per_round`` at most; :meth:`decide` answers, now or later."""
        heapq.heappush(self._waiting, (self._num_granted.get(slot, 0), slot, num_responses))

    def finish(self, slot: int) -> None:
        """Note that a prompt asks for nothing more."""
        if slot in self._num_granted:
            self._count_open(slot, -1)
            del self._num_granted[slot]

    def decide(self) -> list[tuple[int, int]]:
        """Return (slot, responses granted) of every request that can be answered now; 0 refuses it for good.

        The first request in order that has to wait ends the search. What may come before it, and its own block, may
        come before every later one too: if it does not fit, none of them does, and as it may still be granted, none
        of them is refused.
        """
        answers: list[tuple[int, int]] = []
        while self._waiting:
            round_index, slot, wanted = self._waiting[0]
            granted, possible = self._before(round_index, slot) if self._budget else (0, 0)
            if self._budget == 0 or granted + possible + wanted <= self._budget:
                self._grant(slot, wanted)
                answers.append((slot, wanted))
            elif possible == 0:
                self.finish(slot)
                answers.append((slot, 0))
            else:
                break
            heapq.heappop(self._waiting)
        return answers

    def _grant(self, slot: int, num_responses: int) -> None:
        if not self._budget:
            return
        self._at(self._sizes, self._num_granted[slot]).add(slot, num_responses)
        self._count_open(slot, -1)
        self._num_granted[slot] += 1
        self._count_open(slot, 1)

    def _before(self, round_index: int, slot: int) -> tuple[int, int]:
        """Responses granted before a prompt's next block, in order, and those that still could be."""
        granted = sum(sizes.total for sizes in self._sizes[:round_index])
        if round_index < len(self._sizes):
            granted += self._sizes[round_index].before(slot)
        blocks = sum((round_index - at) * opened.total for at, opened in enumerate(self._open[:round_index]))
        blocks += sum(opened.before(slot) for opened in self._open[: round_index + 1])
        return granted, blocks * self._block

    def _count_open(self, slot: int, change: int) -> None:
        self._at(self._open, self._num_granted[slot]).add(slot, change)

    def _at(self, sums: list[_Sums], index: int) -> _Sums:
        while index >= len(sums):
            sums.append(_Sums(self._num_slots))
        return sums[index]


class _Sums:
    """Whole numbers by slot, 0 at first, and the sum of those before a slot: a Fenwick tree (Fenwick 1994)."""

    def __init__(self, size: int) -> None:
        self.total = 0
        self._tree = [0] * (size + 1)

    def grow(self, size: int) -> None:
        for index in range(len(self._tree), size + 1):
            self._tree.append(self.before(index - 1) - self.before(index - (index & -index)))

    def add(self, slot: int, change: int) -> None:
        self.total += change
        index = slot + 1
        while index < len(self._tree):
            self._tree[index] += change
            index += index & -index

    def before(self, slot: int) -> int:
        total, index = 0, slot
        while index:
            total += self._tree[index]
            index &= index - 1
        return total
