"""The brain in a named Ray actor: verl's workers ask it while responses come in, and the driver holds its handle.

Ray takes an actor's calls one after another, so nothing has to be locked. Calls carry numbers, no tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ada_lightning.adapters.brain import Brain
from ada_lightning.adapters.brain_records import FinishedStep, Handout
from ada_lightning.config.problems import ConfigError

# isort: split
import ray

DEFAULT_NAME = "ada_brain"
"""``custom.ada.actor`` unless given."""


class ActorBrain:
    """The calls of a :class:`~ada_lightning.adapters.brain.Brain` that the driver makes, each waiting for its answer.

    Args:
        name: of the actor, in the namespace of the run; None: :data:`DEFAULT_NAME`.
        method: as of ``Brain``.
        prompts: as of ``Brain``.
        options: as of ``Brain``.

    Raises:
        ConfigError: there is an actor of this name.
    """

    def __init__(self, name: str | None, method: str, prompts: Mapping[str, str], options: Mapping[str, Any]) -> None:
        self.name = name or DEFAULT_NAME
        actor = ray.remote(num_cpus=0)(Brain).options(name=self.name)
        try:
            self._actor = actor.remote(method, dict(prompts), **options)
        except ValueError as error:  # Ray's answer to a name that is taken
            raise ConfigError(
                [
                    f"another trainer of this Ray namespace has the actor {self.name!r}, and two would learn from each "
                    "other's steps; give one of them +actor_rollout_ref.rollout.custom.ada.actor=<another name>"
                ]
            ) from error

    def choose(self) -> list[Handout]:
        """Begin a step."""
        return list(self._call("choose"))

    def waiting(self, step: int | None = None) -> dict[tuple[int, int], list[int]]:
        """Return what has not come back."""
        return dict(self._call("waiting", step))

    def add(self, step: int, slot: int, results: Mapping[int, Mapping[str, Any]]) -> int:
        """Say what became of responses."""
        return int(self._call("add", step, slot, dict(results)))

    def give_up(self, why: str, step: int | None = None, *, for_good: bool = False) -> int:
        """Count what did not come back as ungraded."""
        return int(self._call("give_up", why, step, for_good=for_good))

    def finish(self) -> FinishedStep | None:
        """Return the step, once it is whole."""
        finished: FinishedStep | None = self._call("finish")
        return finished

    def state_dict(self) -> dict[str, Any]:
        """What outlives a step."""
        return dict(self._call("state_dict"))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self._call("load_state_dict", dict(state))

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        try:
            return ray.get(getattr(self._actor, method).remote(*arguments, **options))
        except ray.exceptions.RayActorError as error:
            raise RuntimeError(
                f"the actor {self.name!r}, which holds what was learned, is gone. The step under way was neither "
                "trained nor learned from. Start the run again: it goes on from its last checkpoint"
            ) from error
        except ray.exceptions.RayTaskError as error:
            raise error.as_instanceof_cause() from None
