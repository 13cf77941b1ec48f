"""GEM's environments."""

from __future__ import annotations

from ada_lightning.adapters.environments.library import SeededEnvironment, root_logger_kept
from ada_lightning.data.environment_tasks import SEEDS_APART


class GemEnvironment(SeededEnvironment):
    """One of ``gem.make``'s: ``reset(seed)``, ``step(text)``; with it the suffix that GEM's own wrappers would append.

    Of reasoning-gym's (``rg:chain_sum``) each task is a data set of one question, whose seed is the task's number. Of
    data sets (``math:GSM8K``) each task is one row.

    Args:
        name: of the environment, such as ``game:GuessTheNumber-v0-easy``.
        arguments: of its constructor.
        probe: turns by which seeds are tested at start; None: one that suits a game of numbers.
    """

    package, tested = "gem-llm", ((0, 1), (0, 2))
    install = "pip install --no-deps 'gem-llm>=0.1,<0.2'"  # it pins other versions of what this project needs
    modules = ("gem",)
    probe = (r"\boxed{5}",)

    def begin(self, seed: int) -> str:
        """Make the environment and reset it.

        Raises:
            ValueError: its data set has fewer rows than there are tasks.
        """
        with root_logger_kept():  # its import makes all libraries' messages appear
            import gem

        # GEM picks one of 500 questions by the seed: held-out tasks would ask what others train on.
        own = {"size": 1, "seed": seed} if self.name.startswith("rg:") else {}
        self.inner = gem.make(self.name, **{**own, **self.arguments})
        if (rows := getattr(self.inner, "dataset", None)) is not None:  # of which it picks one by the seed, too
            if (place := seed % SEEDS_APART) >= len(rows):
                raise ValueError(f"{self.name} has {len(rows)} rows, and data.source asks for more than {place} tasks")
            self.inner.dataset = rows.select([place])
        return str(self.inner.reset(seed=seed)[0])

    def answer(self, text: str) -> tuple[str, float, bool]:
        """Take a step."""
        observation, reward, is_terminated, is_truncated, info = self.inner.step(text)
        suffix = str(info.get("suffix", ""))
        said = "\n".join(filter(None, (str(observation), suffix)))
        return said, float(reward), bool(is_terminated or is_truncated)
