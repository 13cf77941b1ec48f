"""Out of memory in an update."""

from __future__ import annotations

import torch

from ada_lightning.run.run_stopped import RunStoppedError


class UpdateOutOfMemoryError(RunStoppedError):
    """An update does not fit into memory, nor does it in smaller parts."""

    def __init__(self, num_tokens: int, error: BaseException) -> None:
        super().__init__(
            f"an update ran out of memory with {num_tokens} tokens at once ({type(error).__name__}: "
            f"{str(error).splitlines()[0] if str(error) else 'no text'}). Lower data.max_tokens_per_microbatch to "
            f"{max(num_tokens // 2, 1)} or less, lower policy.logprob_chunk_size, switch on "
            "policy.gradient_checkpointing, or give the engine less: rollout.engine.kv_cache_gib; "
            "then continue with ckpt=last"
        )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there was no memory, on a device or on the host."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    # Torch's allocator on the CPU raises a plain RuntimeError.
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
