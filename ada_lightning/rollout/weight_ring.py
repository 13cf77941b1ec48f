"""Weights of the last policy versions, in the engine's type: what an engine samples from that lags behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ada_lightning.rollout.engines.published_weights import Digest, WeightDigest, on_cpu

if TYPE_CHECKING:
    from torch import Tensor


class WeightRing:
    """Holds whole copies of the policy on the CPU, by version: 2 bytes a parameter each, for an engine in bfloat16."""

    def __init__(self) -> None:
        self._tensors: dict[int, dict[str, Tensor]] = {}
        self._digests: dict[int, Digest] = {}

    @property
    def versions(self) -> list[int]:
        """Versions held, in ascending order."""
        return sorted(self._tensors)

    def hold(self, version: int, named_tensors: Iterable[tuple[str, Tensor]], weight_dtype: str) -> None:
        """Copy the weights of a version; ``weight_dtype`` as :attr:`~ada_lightning.core.protocols.RolloutEngine`'s."""
        digest = WeightDigest()
        # A parameter on the CPU and in the engine's type would be passed on as it is, and then move with the updates.
        copies = ((name, tensor.clone()) for name, tensor in on_cpu(named_tensors, weight_dtype))
        self._tensors[version] = dict(digest.reading(copies))
        self._digests[version] = digest.value()

    def read(self, version: int) -> Iterator[tuple[str, Tensor]]:
        """Yield the named tensors of a version.

        Raises:
            KeyError: it is not held.
        """
        yield from self._tensors[version].items()

    def retire_before(self, version: int) -> None:
        """Free every version that is older."""
        for old in [held for held in self._tensors if held < version]:
            del self._tensors[old], self._digests[old]

    def state_dict(self) -> dict[str, Any]:
        """Tensors and digests, by version."""
        return {
            "tensors": {version: dict(tensors) for version, tensors in self._tensors.items()},
            "digests": {version: asdict(digest) for version, digest in self._digests.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`.

        Raises:
            ValueError: tensors are not those that were stored.
        """
        self._tensors = {int(version): dict(tensors) for version, tensors in state["tensors"].items()}
        self._digests = {int(version): Digest(**digest) for version, digest in state["digests"].items()}
        for version, tensors in self._tensors.items():
            digest = WeightDigest()
            for name, tensor in tensors.items():
                digest.add(name, tensor)
            if digest.value() != self._digests[version]:
                raise ValueError(
                    f"the weights of policy version {version} in this run's checkpoint are not those that were stored "
                    "there: the file is damaged; continue from an earlier checkpoint"
                )
