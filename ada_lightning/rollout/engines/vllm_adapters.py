"""The policies that a vLLM engine holds as adapters beside the initial weights."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ada_lightning.rollout.engines.adapter_files import write_adapter

if TYPE_CHECKING:
    from torch import Tensor


class LoadedAdapters:
    """Adapters by policy version, each under a name of its own: cached prefixes go by it, too.

    Args:
        engine: ``LLMEngine`` of vLLM, with room for as many as are held at once: it would drop one without a word.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._requests: dict[int, Any] = {}
        self._latest: int | None = None
        self._num_loaded = 0

    @property
    def versions(self) -> Collection[int]:
        """Policy versions that are held."""
        return self._requests.keys()

    def put(self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
        """Hold a version beside the others.

        Raises:
            ValueError: it is held already.
            RuntimeError: vLLM does not have the adapters that it was given.
        """
        from vllm.lora.request import LoRARequest

        if policy_version in self._requests:  # under which requests may be in flight
            raise ValueError(f"the engine has policy version {policy_version} already")
        self._num_loaded += 1
        with TemporaryDirectory(prefix="adapter-") as folder:  # read once: later requests find it by its number
            write_adapter(Path(folder), named_tensors)
            request = LoRARequest(f"policy-{self._num_loaded}", self._num_loaded, folder)
            self._engine.add_lora(request)
        self._requests[policy_version], self._latest = request, policy_version
        numbers = {request.lora_int_id for request in self._requests.values()}
        if self._engine.list_loras() != numbers:
            raise RuntimeError(f"vLLM has adapters {self._engine.list_loras()} instead of {numbers}")

    def keep(self, policy_versions: Collection[int]) -> None:
        """Remove all other versions, of which nothing is in flight."""
        for version in self._requests.keys() - policy_versions:
            self._engine.remove_lora(self._requests.pop(version).lora_int_id)

    def request(self, policy_version: int | None) -> Any:
        """Return what a request names its version by: of the last one that came unless given; None where none came.

        Raises:
            ValueError: the version is not there.
        """
        if policy_version is None and self._latest is None:
            return None
        policy_version = self._latest if policy_version is None else policy_version
        if policy_version not in self._requests:
            raise ValueError(f"the engine has policy versions {sorted(self._requests)}, not {policy_version}")
        return self._requests[policy_version]
