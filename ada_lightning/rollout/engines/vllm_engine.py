"""vLLM in this process; ``vllm`` is imported here and in the other ``vllm_*`` files alone.

In process means no second Python, no serialisation and a start of seconds instead of a minute.
What that costs is handled here: vLLM reseeds the global generators, rewrites environment variables, creates a
process group and talks to the terminal. Which process that is, ``rollout.host`` says.
"""

from __future__ import annotations

import gc
import importlib.util
import logging
import os
import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ada_lightning.core.checks import refuse
from ada_lightning.core.protocols import VersionedEngine
from ada_lightning.core.records import Outcome, SamplingSettings
from ada_lightning.rollout.engines.errors import check_fits
from ada_lightning.rollout.engines.gpu_room import room_on_gpu, weights_gib
from ada_lightning.rollout.engines.vllm_versions import version_errors
from ada_lightning.rollout.engines.vllm_weights import LoadedAdapters, reload_weights, repack_tied_head
from ada_lightning.rollout.engines.weight_transfer import Adapter, Reload, WeightTransfer
from ada_lightning.run.importing import imports_stay_frozen, uncollected
from ada_lightning.run.machine import concrete_dtype
from ada_lightning.run.terminal import logger_to_file, output_to_file

if TYPE_CHECKING:
    from torch import Tensor

# In-process mode must be chosen before vllm is imported. Usage statistics would need a network.
# vLLM's own logging set-up would write to the terminal.
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CONFIGURE_LOGGING": "0",
}
_LIMITS = ("max_model_tokens", "max_num_seqs", "kv_cache_gib", "block_size", "tensor_parallel_size")
_CHOICES: dict[str, tuple[Any, ...]] = {"dtype": ("auto", "bfloat16", "float16", "float32"), "sleep_level": (0, 1, 2)}
# vLLM overwrites these for its workers; a reward worker or a later job must not inherit them.
_RESTORED_VARIABLES = ("LD_PRELOAD", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS", "KMP_AFFINITY")


class VllmEngine(VersionedEngine):
    """A :class:`~ada_lightning.core.protocols.RolloutEngine` on ``vllm.v1.engine.LLMEngine``.

    One that takes adapters and has room for several of them samples from several policy versions at once.

    Args:
        model_path: folder of a Hugging Face checkpoint; only its architecture matters after the first ``load_weights``.
        log_file: where start-up chatter and vLLM's log lines go.
        max_model_tokens: prompt and response together, in tokens. KV blocks are sized for it.
        max_num_seqs: sequences decoded at once.
        kv_cache_gib: memory of the KV cache in GiB. vLLM's own default takes most of the machine.
        block_size: tokens per KV block. The prefix cache shares whole blocks only, so short prompts want small blocks:
            vLLM's CPU default of 128 shares nothing of a 50-token prompt.
        dtype: of weights and activations in the engine; ``auto``: bfloat16 where this machine computes fast in it, else
            float32.
        tensor_parallel_size: GPUs (on a CPU: processes) that one engine is spread over; vLLM starts a process for each.
        weight_transfer: how weights come; CUDA IPC and NCCL need a GPU and an engine in another process.
        sleep_level: what :meth:`sleep` does. 0: nothing; 1: weights go to memory of the CPU and the KV cache is given
            back; 2: both are given back. GPU only, and not with ``PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True``.
        enforce_eager: skip graph capture and compilation. True on CPU, where compiling costs a minute.
        eos_token_ids: tokens that end a response.
        extra: further ``vllm.EngineArgs``, for GPU settings this class does not name.

    Raises:
        ValueError: see :meth:`check_arguments`, or a GPU has too little free memory for the cache and the weights.
    """

    def __init__(
        self,
        *,
        model_path: Path,
        log_file: Path,
        max_model_tokens: int,
        eos_token_ids: Sequence[int],
        max_num_seqs: int = 128,
        kv_cache_gib: float = 0.5,
        block_size: int = 32,
        dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto",
        enforce_eager: bool = True,
        tensor_parallel_size: int = 1,
        weight_transfer: WeightTransfer = Reload(),  # noqa: B008 - frozen
        sleep_level: int = 0,
        extra: dict[str, Any] | None = None,
    ) -> None:
        self.check_arguments(
            max_model_tokens=max_model_tokens,
            max_num_seqs=max_num_seqs,
            kv_cache_gib=kv_cache_gib,
            block_size=block_size,
            tensor_parallel_size=tensor_parallel_size,
            dtype=dtype,
            sleep_level=sleep_level,
            weight_transfer=weight_transfer,
        )
        self.max_model_tokens = max_model_tokens
        self.max_num_seqs = max_num_seqs
        self.weight_dtype = concrete_dtype(dtype)
        self.weight_transfer = weight_transfer
        self.takes_adapters = isinstance(weight_transfer, Adapter)
        self.num_workers = tensor_parallel_size
        self.sleep_level = sleep_level
        self._asleep: set[str] = set()
        self._has_weights = True
        self._eos_token_ids = list(eos_token_ids)
        self._in_flight: set[str] = set()
        os.environ.update(_ENVIRONMENT)
        with _global_state_preserved(), output_to_file(log_file):
            with uncollected():  # a policy may be there, which is not to be kept
                from vllm.engine.arg_utils import EngineArgs
                from vllm.platforms import current_platform
                from vllm.sampling_params import RequestOutputKind, SamplingParams
                from vllm.v1.engine.llm_engine import LLMEngine

            from ada_lightning.rollout.engines.vllm_cpu_norms import register_cpu_norms

            if current_platform.is_cuda_alike():
                # `extra` may quantise weights or leave them on the CPU, so only the cache is sure to be needed then.
                gib = 0.0 if extra else weights_gib(model_path, self.weight_dtype)
                room_on_gpu(kv_cache_gib=kv_cache_gib, weights_gib=gib, num_gpus=self.num_workers)
            logger_to_file("vllm", log_file)
            self._sampling_params = SamplingParams
            self._final_only = RequestOutputKind.FINAL_ONLY
            own = self._own_arguments(block_size=block_size, kv_cache_gib=kv_cache_gib, enforce_eager=enforce_eager)
            others: dict[str, Any] = {"trust_remote_code": False} | register_cpu_norms()
            others |= self._transfer_arguments() | dict(extra or {})
            # What stands in `own` has a setting of this class: `extra` that names it is a TypeError.
            arguments = EngineArgs(model=str(model_path), **own, **others)
            with imports_stay_frozen():
                self._engine = LLMEngine.from_engine_args(arguments)
        self._adapters = LoadedAdapters(self._engine)

    @staticmethod
    def check_arguments(**arguments: Any) -> None:
        """Raise ValueError for what is wrong with arguments of the constructor, as many as are known yet."""
        errors = [
            f"rollout.engine.{name} must be positive; got {arguments[name]}"
            for name in _LIMITS
            if name in arguments and not arguments[name] > 0
        ]
        errors += [
            f"rollout.engine.{name} must be {', '.join(map(str, choices[:-1]))} or {choices[-1]}; got {arguments[name]}"
            for name, choices in _CHOICES.items()
            if name in arguments and arguments[name] not in choices
        ]
        if importlib.util.find_spec("vllm") is None:
            errors.append("vllm is not installed here; use rollout=transformers, or install it (docs/install.md)")
        errors += version_errors(getattr(arguments.get("weight_transfer"), "backend", ""))
        if arguments.get("sleep_level") == 2 and isinstance(arguments.get("weight_transfer"), Adapter):
            errors.append(
                "rollout.engine.sleep_level = 2 gives the model's weights away, and rollout/weight_transfer=adapter "
                "brings none of them back; use rollout.engine.sleep_level=1"
            )
        refuse(*errors)

    @property
    def serves_versions(self) -> bool:
        """Whether adapters of several versions have room."""
        return self.takes_adapters and self.weight_transfer.num_versions > 1

    @property
    def versions(self) -> Collection[int]:
        """Of which it has the adapters."""
        return self._adapters.versions

    def submit(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        settings: SamplingSettings,
        seed: int | None,
        policy_version: int | None = None,
    ) -> None:
        """Queue one response.

        Raises:
            ValueError: prompt and longest response together exceed ``max_model_tokens``, or the adapters of the version
                are not there.
        """
        check_fits(len(prompt_ids), settings.max_new_tokens, self.max_model_tokens)
        adapter = self._adapters.request(policy_version)
        self._wake_to_work()
        params = self._sampling_params(
            max_tokens=settings.max_new_tokens,
            temperature=settings.temperature,
            top_p=settings.top_p,
            top_k=settings.top_k,
            seed=seed,
            logprobs=0,  # the sampled token's own
            detokenize=False,
            stop_token_ids=self._eos_token_ids,
            output_kind=self._final_only,
        )
        self._engine.add_request(request_id, {"prompt_token_ids": list(prompt_ids)}, params, lora_request=adapter)
        self._in_flight.add(request_id)

    def poll(self) -> list[Outcome]:
        """Run one engine step (one token for every running sequence) and return what finished."""
        if not self._in_flight:
            return []
        finished = []
        outputs: list[Any] = self._engine.step()
        for output in outputs:
            if output.finished and output.request_id in self._in_flight:
                self._in_flight.discard(output.request_id)
                finished.append(_generation(output.request_id, output.outputs[0]))
        return finished

    def abort(self, request_ids: Sequence[str]) -> int:
        """Drop requests. Return how many tokens had been generated for them."""
        known = {request_id for request_id in request_ids if request_id in self._in_flight}
        if not known:
            return 0
        states: list[Any] = list(self._engine.output_processor.request_states.values())
        num_tokens = sum(int(s.detokenizer.num_output_tokens()) for s in states if s.external_req_id in known)
        self._engine.abort_request(list(known))
        self._in_flight.difference_update(known)
        return num_tokens

    def num_in_flight(self) -> int:
        """Requests submitted and neither returned nor aborted."""
        return len(self._in_flight)

    def load_weights(self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
        """Replace the weights and drop cached prefixes, which belong to the old ones.

        Raises:
            RuntimeError: requests are in flight, or the prefix cache could not be reset.
        """
        if self._in_flight:
            raise RuntimeError(f"load_weights with {len(self._in_flight)} requests in flight")
        self._wake("weights")  # adapters lie among them
        if self.takes_adapters:
            self._adapters.keep(())
            self._adapters.put(named_tensors, policy_version)
            self._use_new_weights(policy_version)
            return
        reload_weights(self._engine, named_tensors, self.num_workers)
        self._use_new_weights(policy_version)

    def publish(self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
        """Load the adapters of a version in addition to those that are there."""
        self._wake("weights")
        self._adapters.put(named_tensors, policy_version)

    def keep(self, policy_versions: Collection[int]) -> None:
        """Forget the adapters of all other versions."""
        self._adapters.keep(policy_versions)

    def update_weights(self, method: str, argument: dict[str, Any]) -> None:
        """Make a call of vLLM's ``VLLMWeightSyncClient`` in every worker.

        Raises:
            RuntimeError: requests are in flight, or the prefix cache could not be reset.
        """
        if self._in_flight:
            raise RuntimeError(f"{method} with {len(self._in_flight)} requests in flight")
        if method == "start_weight_update":
            self._wake("weights")
        names = {"init_weight_transfer_engine": "init_info", "update_weights": "update_info"}
        kwargs = {names[method]: argument} if method in names else {}
        self._engine.collective_rpc(method, kwargs=kwargs)
        if method == "finish_weight_update":
            self._use_new_weights("transferred")

    def sleep(self) -> bool:
        """Give memory back as ``sleep_level`` says; :meth:`submit` and new weights wake the engine.

        Returns:
            Whether the weights will still be there: after level 2 new ones must come first.

        Raises:
            RuntimeError: requests are in flight.
        """
        if self._in_flight:
            raise RuntimeError(f"sleep with {len(self._in_flight)} requests in flight")
        if self.sleep_level and not self._asleep:
            self._engine.sleep(level=self.sleep_level)
            self._asleep = {"weights", "kv_cache"}
            self._has_weights = self.sleep_level == 1
        return self._has_weights

    def close(self) -> None:
        """Free weights, cache and process group. Safe to call twice."""
        engine = self.__dict__.pop("_engine", None)
        self.__dict__.pop("_adapters", None)  # which has the engine, too
        self._in_flight.clear()
        if engine is None:
            return
        from vllm.distributed import cleanup_dist_env_and_memory

        with imports_stay_frozen():
            engine.engine_core.shutdown()
            del engine
            cleanup_dist_env_and_memory()
            gc.collect()

    def _use_new_weights(self, policy_version: int | str) -> None:
        if not self.takes_adapters:
            self._engine.collective_rpc(repack_tied_head)
        self._has_weights = True
        self._wake("kv_cache")
        # Returns False silently while blocks are held; stale prefixes would be sampled from the old policy.
        if not self._engine.reset_prefix_cache():
            raise RuntimeError(f"vLLM did not reset its prefix cache after loading policy version {policy_version}")

    def _wake(self, tag: str) -> None:
        """Bring one part back; weights before the cache, so that both are never there together with a third."""
        if tag in self._asleep:
            self._engine.wake_up([tag])
            self._asleep.discard(tag)

    def _wake_to_work(self) -> None:
        if not self._has_weights:
            # vLLM would wake up with whatever lies in memory and sample nonsense without a word.
            raise RuntimeError("after sleep_level = 2 the engine has no weights: load some first")
        for tag in ("weights", "kv_cache"):
            self._wake(tag)

    def _own_arguments(self, *, block_size: int, kv_cache_gib: float, enforce_eager: bool) -> dict[str, Any]:
        from vllm.platforms import current_platform

        own = {
            "dtype": self.weight_dtype,
            "enforce_eager": enforce_eager,
            "max_model_len": self.max_model_tokens,
            "max_num_seqs": self.max_num_seqs,
            "block_size": block_size,
            "enable_prefix_caching": True,
            "kv_cache_memory_bytes": int(kv_cache_gib * 2**30),
            # The line above makes this mean nothing else, but a GPU's worker refuses to start where such a share of the
            # card is not free: by default 0.92, which it never is with a trainer. `room_on_gpu` asks instead.
            "gpu_memory_utilization": 1e-6,
            # The default, raw_logprobs, ignores temperature and top-p: wrong for importance weights.
            "logprobs_mode": "processed_logprobs",
            "skip_tokenizer_init": True,
            "disable_log_stats": True,
            "async_scheduling": False,
            "use_tqdm_on_load": False,
            "tensor_parallel_size": self.num_workers,
            "enable_sleep_mode": self.sleep_level > 0,
        }
        if current_platform.is_cpu():  # seeded requests fail there when a prefill is cut, so whole prompts must fit
            own["enable_chunked_prefill"] = False
            own["max_num_batched_tokens"] = max(2048, self.max_model_tokens, self.max_num_seqs)
        return own

    def _transfer_arguments(self) -> dict[str, Any]:
        if isinstance(self.weight_transfer, Adapter):
            transfer = self.weight_transfer
            return {"enable_lora": True, "max_loras": transfer.num_versions, "max_lora_rank": transfer.max_rank}
        if not self.weight_transfer.backend:
            return {}
        from vllm.config import WeightTransferConfig

        return {"weight_transfer_config": WeightTransferConfig(backend=self.weight_transfer.backend)}


def _generation(request_id: str, completion: Any) -> Outcome:
    token_ids = tuple(completion.token_ids)
    logprobs = tuple(
        position[token].logprob for token, position in zip(token_ids, completion.logprobs or (), strict=True)
    )
    return Outcome(
        text="",
        request_id=request_id,
        response_ids=token_ids,
        sampling_logprobs=logprobs,
        is_truncated=completion.finish_reason == "length",
    )


@contextmanager
def _global_state_preserved() -> Iterator[None]:
    """Undo what engine start does to the trainer's process: generators, environment, root logging."""
    import numpy as np
    import torch

    random_state, numpy_state, torch_state = random.getstate(), np.random.get_state(), torch.get_rng_state()
    variables = {name: os.environ.get(name) for name in _RESTORED_VARIABLES}
    level, num_threads = logging.getLogger().level, torch.get_num_threads()
    try:
        yield
    finally:
        if torch.cuda.is_available():  # a GPU's worker leaves one; a CPU's sets those that it computes with
            torch.set_num_threads(num_threads)
        random.setstate(random_state)
        np.random.set_state(numpy_state)
        torch.set_rng_state(torch_state)
        logging.getLogger().setLevel(level)
        for name, value in variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
