"""TextArena's games for one player."""

from __future__ import annotations

from ada_lightning.adapters.environments.library import SeededEnvironment


class TextArenaEnvironment(SeededEnvironment):
    """One of ``textarena.make``'s for one player; the reward is the player's at the end.

    Without the wrappers that repeat the whole history: it is in the model's context already. What the game says of the
    model's turns is left out for the same reason.

    Args:
        name: of the game, such as ``GuessTheNumber-v0``.
        arguments: of its constructor.
        probe: see :class:`~ada_lightning.adapters.environments.library.SeededEnvironment`.
    """

    package, tested = "textarena", ((0, 7), (0, 8))
    modules = ("textarena",)
    probe = ("[10]",)

    def begin(self, seed: int) -> str:
        """Make the game and reset it."""
        import textarena

        self.inner = textarena.make(f"{self.name}-raw", **self.arguments)
        self.inner.reset(num_players=1, seed=seed)
        return self._said()

    def answer(self, text: str) -> tuple[str, float, bool]:
        """Take a turn."""
        is_over, _ = self.inner.step(text)
        if not is_over:
            return self._said(), 0.0, False
        rewards, _ = self.inner.close()
        return "", float(rewards[0]), True

    def _said(self) -> str:
        player, messages = self.inner.get_observation()
        return "\n".join(message for sender, message, _ in messages if sender != player)
