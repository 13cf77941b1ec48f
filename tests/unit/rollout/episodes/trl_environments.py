"""Environments as TRL's documentation writes them. Imported by workers, so without pytest."""

from __future__ import annotations


class Counter:
    """Scores how far it was counted."""

    def reset(self, answer, **kwargs):
        self.goal, self.value = int(answer), 0

    def increment(self, step: int) -> int:
        """
        Count on.

        Args:
            step: by how much.

        Returns:
            The new value.
        """
        self.value += step
        return self.value

    async def reset_to(self, value: int) -> dict:
        """
        Begin anew.

        Args:
            value: where.
        """
        self.value = value
        return {"value": value}

    def get_reward(self) -> float:
        return float(self.value == self.goal)

    def _hidden(self):
        raise AssertionError("no tool")

    @property
    def broken(self):
        raise AssertionError("no tool either")


class Talking(Counter):
    """Tells the model something at reset."""

    def reset(self, **kwargs):
        return "Count!"

    get_reward = None


class Toolless:
    def reset(self, **kwargs):
        pass
