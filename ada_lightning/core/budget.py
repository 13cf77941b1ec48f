"""A limit on the responses of a whole rollout step, shared out in the order of the round-based algorithm."""

from __future__ import annotations

from collections.abc import Sequence


class StepBudget:
    """Grants blocks in the order (round, position of the prompt in the step) until the budget is spent.

    Which prompts get the last blocks depends on this order only, never on who finished first: a block is granted early
    where it fits even if every prompt before it takes all it could, refused where it does not fit although all before
    it are settled, and otherwise waits. So prompts wait for each other near the end of the budget, and not before.

    Args:
        num_responses: the budget; 0 grants everything.
        samples_per_round: largest block a prompt can ask for.
        slots: of the prompts that take part.
    """

    def __init__(self, num_responses: int, samples_per_round: int, slots: Sequence[int]) -> None:
        self._budget = num_responses
        self._block = samples_per_round
        self._granted: dict[int, list[int]] = {slot: [] for slot in slots}
        self._open = set(slots)
        self._waiting: dict[int, int] = {}

    def join(self, slots: Sequence[int]) -> None:
        """Let further prompts take part, behind those that do."""
        self._granted |= {slot: [] for slot in slots}
        self._open.update(slots)

    def request(self, slot: int, num_responses: int) -> None:
        """Ask for a prompt's next block, of ``samples_per_round`` at most; :meth:`decide` answers, now or later."""
        self._waiting[slot] = num_responses

    def finish(self, slot: int) -> None:
        """Note that a prompt asks for nothing more."""
        self._open.discard(slot)

    def decide(self) -> list[tuple[int, int]]:
        """Return (slot, responses granted) of every request that can be answered now; 0 refuses it for good.

        The first request in order that has to wait ends the search. What may come before it, and its own block, may
        come before every later one too: if it does not fit, none of them does, and as it may still be granted, none
        of them is refused.
        """
        answers: list[tuple[int, int]] = []
        for slot in sorted(self._waiting, key=lambda slot: (len(self._granted[slot]), slot)):
            wanted = self._waiting[slot]
            granted, possible = self._before(slot) if self._budget else (0, 0)
            if self._budget == 0 or granted + possible + wanted <= self._budget:
                self._granted[slot].append(wanted)
                answers.append((slot, wanted))
            elif possible == 0:
                self._open.discard(slot)
                answers.append((slot, 0))
            else:
                break
            del self._waiting[slot]
        return answers

    def _before(self, slot: int) -> tuple[int, int]:
        """Responses granted before this prompt's next block, in order, and those that still could be."""
        round_index = len(self._granted[slot])
        granted = possible = 0
        for other, sizes in self._granted.items():
            num_rounds = round_index + (other < slot)
            granted += sum(sizes[:num_rounds])
            if other in self._open and other != slot:
                possible += max(0, num_rounds - len(sizes)) * self._block
        return granted, possible
