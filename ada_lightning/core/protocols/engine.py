"""What generates responses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ada_lightning.core.records import Outcome, SamplingSettings

if TYPE_CHECKING:  # torch stays out of reward workers
    from torch import Tensor


class RolloutEngine:
    """A streaming generator of responses. The collector never waits for all prompts."""

    max_model_tokens: int
    """Prompt and response together."""
    max_num_seqs: int
    """Slots: requests that run at once. More may be submitted, and wait."""
    sleep_level: int = 0
    """0: it does not sleep; 1: its weights are kept elsewhere meanwhile; 2: they are gone."""
    num_restarts: int = 0
    """Engines that it replaced by itself so far."""
    weight_dtype: str = ""
    """Torch's name of the type that weights should arrive in; empty where any will do."""
    weight_transfer: Any = None
    """How weights come from another process, if not by :meth:`load_weights`: a ``WeightTransfer`` with a backend."""
    takes_adapters: bool = False
    """Whether :meth:`load_weights` takes only a policy's adapters and keeps the weights that it was opened with."""
    num_workers: int = 1
    """Processes that a weight transfer goes to."""
    takes_drafts: bool = False
    """Whether :meth:`submit` also takes ``draft``: token ids that guess at the response. They change its time alone."""

    def submit(self, request_id: str, prompt_ids: Sequence[int], settings: SamplingSettings, seed: int | None) -> None:
        """Queue one response. Raises ValueError where the prompt leaves no room for a response."""
        raise NotImplementedError

    def poll(self) -> list[Outcome]:
        """Advance and return the responses that finished; empty when none did."""
        raise NotImplementedError

    def abort(self, request_ids: Sequence[str]) -> int:
        """Drop requests. Return how many tokens had been generated for them."""
        raise NotImplementedError

    def num_in_flight(self) -> int:
        """Requests submitted and neither returned nor aborted."""
        raise NotImplementedError

    def load_weights(self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
        """Replace the weights and forget every cached prefix. Only legal while nothing is in flight."""
        raise NotImplementedError

    def update_weights(self, method: str, argument: dict[str, Any]) -> None:
        """Take part in a weight transfer: one call of its protocol. Only of engines that have one."""
        raise NotImplementedError

    def sleep(self) -> bool:
        """Give memory back until it is used again; whether the weights will still be there.

        Only legal while nothing is in flight.
        """
        return True

    def close(self) -> None:
        """Free everything. Safe to call twice."""


class VersionedEngine(RolloutEngine):
    """An engine that may sample from several policy versions at once, each response from one."""

    @property
    def serves_versions(self) -> bool:
        """Whether it does, and not only could."""
        raise NotImplementedError

    @property
    def versions(self) -> Collection[int]:
        """Of which it has the weights."""
        raise NotImplementedError

    def submit(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        settings: SamplingSettings,
        seed: int | None,
        policy_version: int | None = None,
    ) -> None:
        """Queue one response of a version, of the last one that came unless given.

        Raises ValueError where the prompt leaves no room for a response, and where the version is not there.
        """
        raise NotImplementedError

    def publish(self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
        """Load a version in addition to those that are there. Legal while requests of those are in flight."""
        raise NotImplementedError

    def keep(self, policy_versions: Collection[int]) -> None:
        """Forget all other versions: nothing of them is in flight, and nothing will be asked for."""
        raise NotImplementedError
