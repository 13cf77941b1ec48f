"""Out of memory in an update: once more in halves, with the same gradient; then a message that names the way out."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch
from lightning.pytorch import Callback

from ada_lightning.run.machine import is_out_of_memory
from ada_lightning.training.batch import Microbatch
from ada_lightning.training.packing import group_microbatch
from ada_lightning.training.updates import UpdateOutOfMemoryError, halved
from tests.builders import random_group
from tests.unit.training.test_policy import EXACT, GROUPS, fit, gradients, make_policy, pack, weights


def test_halves_are_packed_as_their_responses_would_have_been():
    groups = [*GROUPS, random_group(4, [1.0, 0.0, 0.0, 1.0, 1.0])]
    whole = group_microbatch(*groups)
    parts = halved(whole)
    responses = [(group, kept) for group in groups for kept in group.kept]
    cut = len(parts[0].num_tokens_B)
    assert responses[cut - 1][0] is responses[cut][0]  # in the middle of a document
    for part, mine in zip(parts, (responses[:cut], responses[cut:]), strict=True):
        own = [replace(group, kept=tuple(kept for other, kept in mine if other is group)) for group in groups]
        expected = group_microbatch(*(group for group in own if group.kept))
        for field in fields(Microbatch):
            if field.name not in ("group_size_B", "pool_weight_B"):  # those of the group, which is in two parts now
                torch.testing.assert_close(getattr(part, field.name), getattr(expected, field.name), rtol=0, atol=0)
    for name in ("group_size_B", "pool_weight_B"):
        assert torch.equal(torch.cat([getattr(part, name) for part in parts]), getattr(whole, name))
    sizes = [float(part.num_tokens_B.sum()) for part in parts]
    assert abs(sizes[0] - sizes[1]) <= float(whole.num_tokens_B.max())


def test_a_single_response_stays_whole():
    microbatch = group_microbatch(GROUPS[0])
    while len(microbatch.num_tokens_B) > 1:
        microbatch = halved(microbatch)[0]
    assert halved(microbatch) == (microbatch,)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("[x] can't allocate memory: 9 GB"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
    ],
)
def test_an_update_without_memory_is_repeated_in_halves_with_the_same_outcome(tiny_path, error):
    (batch,) = pack()
    expected = gradients(make_policy(tiny_path), [batch])
    policy = make_policy(tiny_path, lr=1.0)
    before = weights(policy)
    loss, calls = policy.microbatch_loss, []

    def fails_at_first(microbatch, batch):
        calls.append(microbatch.num_computed_tokens)
        if len(calls) == 1:
            loss(microbatch, batch)[0].backward()  # gradients of the failed attempt must not stay
            raise error
        return loss(microbatch, batch)

    policy.microbatch_loss = fails_at_first
    with pytest.warns(RuntimeWarning, match=r"ran out of memory .* in 2 parts .*max_tokens_per_microbatch"):
        fit(policy, [batch])
    steps = {name: before[name] - after for name, after in weights(policy).items()}
    torch.testing.assert_close(steps, expected, **EXACT)
    assert (policy.policy_version, policy.num_memory_retries) == (1, 1)
    assert max(calls[1:]) < calls[0]


def test_a_rehearsal_without_memory_is_repeated_in_halves_too(tiny_path):
    (batch,) = pack()
    policy = make_policy(tiny_path)
    loss, calls = policy.microbatch_loss, []

    def fails_at_first(microbatch, batch):
        calls.append(microbatch.num_computed_tokens)
        if len(calls) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return loss(microbatch, batch)

    class Rehearsing(Callback):
        def on_train_start(self, trainer, pl_module):
            policy.microbatch_loss = fails_at_first
            policy.rehearse(batch)
            policy.microbatch_loss = loss
            assert all(parameter.grad is None for parameter in policy.parameters())

    with pytest.warns(RuntimeWarning, match=r"ran out of memory .* in 2 parts"):
        fit(policy, [batch], Rehearsing())
    assert len(calls) == 3
    assert max(calls[1:]) < calls[0]
    assert policy.policy_version == 1


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("a bug")])
@pytest.mark.filterwarnings("ignore:an update ran out of memory")
def test_where_halves_do_not_fit_either_the_way_out_is_named_and_other_errors_pass(tiny_path, error):
    policy = make_policy(tiny_path)

    def always_fails(microbatch, batch):
        raise error

    policy.microbatch_loss = always_fails
    named = r"Lower data.max_tokens_per_microbatch to \d+ or less.*kv_cache_gib$"
    kind, message = (UpdateOutOfMemoryError, named) if is_out_of_memory(error) else (RuntimeError, "^a bug$")
    with pytest.raises(kind, match=message):
        fit(policy, pack())


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in the CUDA docs",
        "CUDA driver error: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`",
        "cuFFT error: CUFFT_ALLOC_FAILED",
        "HIP error: out of memory",
        "rocblas error: rocblas_status_memory_error",
        "MPS backend out of memory (MPS allocated: 9 GB)",
        "level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
        "[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory: you tried to",
        "[enforce fail at alloc_cpu.cpp:80] . DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes",
        "unable to mmap 8 bytes from file <x>: Cannot allocate memory (12)",
        "backend='inductor' raised:\nOutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB",
    ],
)
def test_every_library_s_words_for_no_memory_are_understood(text):
    assert is_out_of_memory(RuntimeError(text))
    assert is_out_of_memory(torch.AcceleratorError(text))


@pytest.mark.parametrize(
    "error",
    [
        ValueError("out of memory"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
        RuntimeError("out of resource: shared memory, Required: 262144, Hardware limit: 232448"),
    ],
)
def test_other_errors_are_none_of_memory(error):
    assert not is_out_of_memory(error)
