"""TextArena's games for one player."""

from __future__ import annotations

from typing import Any

from ada_lightning.adapters.environments.library import SeededEnvironment


class TextArenaEnvironment(SeededEnvironment):
    """One of ``textarena.make``'s for one player; the reward is the player's at the end.

    The game keeps its default wrappers of actions, which in most games put brackets around a turn that has none. It
    loses those that repeat the whole history, which is in the model's context already. What the game says of the
    model's turns is left out for the same reason.

    Many games pay a lost game for closeness. A game that ends by invalid moves is worth at most 0 here. Any other lost
    game keeps its reward: ``rollout.positive_threshold=0.99`` counts as right only what is won.

    Args:
        name: of the game, such as ``GuessTheNumber-v0``.
        arguments: of its constructor.
        probe: turns by which seeds are tested at start; None: one that suits a game of numbers.
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
        is_over, _ = self._wrapped().step(text)
        if not is_over:
            return self._said(), 0.0, False
        rewards, info = self.inner.close()
        reward = float(rewards[0])
        return "", min(reward, 0.0) if info[0]["invalid_move"] else reward, True

    def _wrapped(self) -> Any:
        """The game with its wrappers of actions: made for each turn, since they cannot be pickled."""
        import textarena
        from textarena.envs.registration import ENV_REGISTRY

        game = self.inner
        for wrapper in ENV_REGISTRY[self.name].default_wrappers or ():
            if issubclass(wrapper, textarena.ActionWrapper):
                game = wrapper(game)
        return game

    def _said(self) -> str:
        player, messages = self.inner.get_observation()
        return "\n".join(message for sender, message, _ in messages if sender != player)
