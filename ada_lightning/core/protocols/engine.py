"""What generates responses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ada_lightning.core.records import Generation, SamplingSettings

if TYPE_CHECKING:  # torch stays out of reward workers
    from torch import Tensor


@runtime_checkable
class RolloutEngine(Protocol):
    """A streaming generator of responses. The collector never waits for all prompts."""

    max_model_tokens: int
    """Prompt and response together."""

    @property
    def max_num_seqs(self) -> int:
        """Slots: requests that run at once. More may be submitted, and wait."""
        ...

    def submit(self, request_id: str, prompt_ids: Sequence[int], settings: SamplingSettings, seed: int | None) -> None:
        """Queue one response. Raises ValueError where the prompt leaves no room for a response."""
        ...

    def poll(self) -> list[Generation]:
        """Advance and return the responses that finished; empty when none did."""
        ...

    def abort(self, request_ids: Sequence[str]) -> int:
        """Drop requests. Return how many tokens had been generated for them."""
        ...

    def num_in_flight(self) -> int:
        """Requests submitted and neither returned nor aborted."""
        ...

    def load_weights(self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
        """Replace the weights and forget every cached prefix. Only legal while nothing is in flight."""
        ...

    def close(self) -> None:
        """Free everything. Safe to call twice."""
        ...


@runtime_checkable
class SleepingEngine(RolloutEngine, Protocol):
    """An engine that can give its memory back while the policy is updated. It wakes by itself when it is used."""

    sleep_level: int
    """0: it does not sleep; 1: its weights are kept elsewhere meanwhile; 2: they are gone."""

    def sleep(self) -> bool:
        """Give memory back; whether the weights will still be there. Only legal while nothing is in flight."""
        ...
