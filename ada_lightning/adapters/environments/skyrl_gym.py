"""SkyRL-gym's environments."""

from __future__ import annotations

from typing import Any

from ada_lightning.adapters.environments.library import LibraryEnvironment
from ada_lightning.core.records import Prompt
from ada_lightning.rewards.user_function import sample_columns


class SkyRlGymEnvironment(LibraryEnvironment):
    """One of ``skyrl_gym.make``'s: ``init(prompt)``, ``step(text)``, rewards by turn.

    Its ``extras`` are the columns of the sample, so that data written for SkyRL comes by ``data=dataset``.

    Args:
        name: of the environment, such as ``gsm8k_multi_turn``.
        arguments: its ``env_config``.
    """

    package, tested = "skyrl-gym", ((0, 4), (0, 5))
    modules = ("skyrl_gym",)

    def start(self, prompt: Prompt, seed: int) -> None:
        """Make the environment of a sample.

        Raises:
            ValueError: it changes the prompt, from which the model has answered already.
        """
        import skyrl_gym
        from omegaconf import OmegaConf

        extras: dict[str, Any] = sample_columns(prompt)
        self.inner = skyrl_gym.make(self.name, env_config=OmegaConf.create(self.arguments), extras=extras)
        messages = [dict(message) for message in prompt.messages]
        said, _ = self.inner.init(messages)
        if list(said) != [dict(message) for message in prompt.messages]:
            raise ValueError(f"{self.name} changes its prompt to {str(said)[:200]}; put that into the data")

    def answer(self, text: str) -> tuple[str, float, bool]:
        """Take a step; messages that come together stand in one turn."""
        step = self.inner.step(text)
        said = "\n".join(message["content"] for message in step["observations"])
        return said, float(step["reward"]), bool(step["done"])
