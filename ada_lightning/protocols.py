"""The contracts between the rooms. Every implementation is chosen by ``_target_`` in ``conf/``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ada_lightning.types import (
    Generation,
    KeptResponse,
    Prompt,
    ResponsePool,
    SamplingSettings,
)

if TYPE_CHECKING:  # torch stays out of reward workers
    from torch import Tensor

    from ada_lightning.batch import Microbatch


@runtime_checkable
class PromptSource(Protocol):
    """Where prompts come from, with disjoint train and held-out lists fixed by a seed."""

    def train_prompts(self) -> Sequence[Prompt]:
        """Prompts to learn from, in a stable order."""
        ...

    def heldout_prompts(self) -> Sequence[Prompt]:
        """Prompts to evaluate on; none of them is a training prompt."""
        ...


@runtime_checkable
class Reward(Protocol):
    """A picklable grader that runs in worker processes and never imports torch."""

    def __call__(self, prompt: Prompt, text: str) -> float:
        """Grade one response text. Raise rather than guess: the pool turns failures into a :class:`Grade`."""
        ...


@runtime_checkable
class Sampler(Protocol):
    """Who gets more samples, who stops."""

    group_size: int
    """Responses a group should keep, at most."""

    def num_to_draw(self, pool: ResponsePool) -> int:
        """How many more responses to draw for this prompt now; 0 means its pool is complete.

        Asked only when every response drawn so far is committed, in launch order. Must be a function of
        the pool (and of history fixed before the step), so that scheduling cannot change the outcome.
        """
        ...

    @property
    def max_per_prompt(self) -> int:
        """Upper limit of draws for one prompt in one step."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """History that outlives a step, as primitives, keyed by prompt id."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        ...


@runtime_checkable
class SelectionRule(Protocol):
    """Which responses of a complete pool train, and with which weight."""

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the kept responses; an empty tuple drops the prompt."""
        ...


@runtime_checkable
class RolloutEngine(Protocol):
    """A streaming generator of responses. The collector never waits for all prompts."""

    max_model_tokens: int
    """Prompt and response together."""

    def submit(self, request_id: str, prompt_ids: Sequence[int], settings: SamplingSettings, seed: int | None) -> None:
        """Queue one response. Raises ValueError where the prompt leaves no room for a response."""
        ...

    def poll(self) -> list[Generation]:
        """Advance and return the responses that finished; empty when none did."""
        ...

    def abort(self, request_ids: Sequence[str]) -> None:
        """Drop requests; nothing is returned for them."""
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
class Advantage(Protocol):
    """How much better than expected each kept response was, weight included. Elementwise."""

    def __call__(self, microbatch: Microbatch) -> Tensor:
        """Advantages of the microbatch's responses. Shape ``(B,)``, float32."""
        ...
