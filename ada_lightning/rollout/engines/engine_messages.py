"""What travels between an engine that runs a loop of its own and whoever asks it for responses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ada_lightning.core.records import Generation, SamplingSettings
from ada_lightning.rollout.engines.weight_digest import Digest
from ada_lightning.rollout.engines.weight_transfer import WeightTransfer

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Submit:
    """Queue one response."""

    request_id: str
    prompt_ids: tuple[int, ...]
    settings: SamplingSettings
    seed: int | None


@dataclass(frozen=True, slots=True)
class Abort:
    """Drop requests; answered by :class:`Aborted` of the same ticket."""

    ticket: int
    request_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """Replace the weights; answered by :class:`Loaded`."""

    policy_version: int
    named_tensors: Iterable[tuple[str, Tensor]]
    """Read in the engine's thread, once."""


@dataclass(frozen=True, slots=True)
class Update:
    """Have one call of a weight transfer made; answered by :class:`Updated`."""

    method: str
    """Of vLLM's ``VLLMWeightSyncClient``."""
    argument: dict[str, Any]
    policy_version: int


@dataclass(frozen=True, slots=True)
class Sleep:
    """Give memory back until the next request or weights; answered by :class:`Asleep`."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End the loop."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The engine is open."""

    max_model_tokens: int
    max_num_seqs: int
    weight_dtype: str
    """Name of the torch dtype that weights should arrive in; empty where any will do."""
    pid: int
    """Process it runs in, on its machine."""
    weight_transfer: WeightTransfer | None = None
    """How weights come, if not by :class:`Load`."""
    num_workers: int = 1
    """Processes of the engine that weights go to."""
    can_sleep: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """Responses that finished, by the weights of ``policy_version`` (-1: those the engine was opened with)."""

    policy_version: int
    generations: tuple[Generation, ...]


@dataclass(frozen=True, slots=True)
class Alive:
    """The engine makes progress, and nothing finished for a while."""


@dataclass(frozen=True, slots=True)
class Aborted:
    """Requests were dropped."""

    ticket: int
    num_tokens: int
    """Generated for them."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The weights are in the engine."""

    policy_version: int
    digest: Digest
    """Of what the engine was given."""


@dataclass(frozen=True, slots=True)
class Updated:
    """A call of a weight transfer was made."""

    method: str


@dataclass(frozen=True, slots=True)
class Asleep:
    """The engine gave memory back."""

    keeps_weights: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """The engine broke and the loop ended."""

    reason: str


Command = Submit | Abort | Load | Update | Sleep | Stop
Event = Ready | Finished | Alive | Aborted | Loaded | Updated | Asleep | Failed
