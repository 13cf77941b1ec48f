"""Weights of the last policy versions, in the engine's type: what an engine samples from that lags behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ada_lightning.rollout.engines.published_weights import on_cpu

if TYPE_CHECKING:
    from torch import Tensor


class WeightRing:
    """Holds whole copies of the policy on the CPU, by version: 2 bytes a parameter each, for an engine in bfloat16."""

    def __init__(self) -> None:
        self._tensors: dict[int, dict[str, Tensor]] = {}

    @property
    def versions(self) -> list[int]:
        """Versions held, in ascending order."""
        return sorted(self._tensors)

    def hold(self, version: int, named_tensors: Iterable[tuple[str, Tensor]], weight_dtype: str) -> None:
        """Copy the weights of a version; ``weight_dtype`` as :attr:`~ada_lightning.core.protocols.RolloutEngine`'s."""
        # A parameter on the CPU and in the engine's type would be passed on as it is, and then move with the updates.
        self._tensors[version] = {name: tensor.clone() for name, tensor in on_cpu(named_tensors, weight_dtype)}

    def read(self, version: int) -> Iterator[tuple[str, Tensor]]:
        """Yield the named tensors of a version.

        Raises:
            KeyError: it is not held.
        """
        yield from self._tensors[version].items()

    def retire_before(self, version: int) -> None:
        """Free every version that is older."""
        for old in [held for held in self._tensors if held < version]:
            del self._tensors[old]

    def state_dict(self) -> dict[str, Any]:
        """Tensors by version. Whether they are as they were written says the checkpoint's manifest."""
        return {"tensors": {version: dict(tensors) for version, tensors in self._tensors.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self._tensors = {int(version): dict(tensors) for version, tensors in state["tensors"].items()}
