"""vLLM's weight transfer, as far as it exists without a GPU: an upgrade that changes it must fail here."""

from __future__ import annotations

import inspect
import pickle
import time
from types import SimpleNamespace

import pytest
import torch
from vllm.distributed.weight_transfer import base, factory, ipc_engine, nccl_common, nccl_engine, packed_tensor
from vllm.v1.engine.llm_engine import LLMEngine
from vllm.v1.worker.gpu_worker import Worker

from ada_lightning.rollout.engines import weight_transfer
from ada_lightning.rollout.engines.published_weights import chunks
from ada_lightning.rollout.engines.weight_transfer import CudaIpc, Nccl

WEIGHTS = [("a", torch.arange(6.0)), ("b", torch.ones(2, 3)), ("c", torch.zeros(4))]
HAS_ENGINE = {
    "ipc": hasattr(ipc_engine, "IPCTrainerInitInfo"),  # vLLM 0.27 and later
    "nccl": hasattr(nccl_engine, "NCCLTrainerInitInfo"),  # 0.28 and later
}
"""Of which the trainer's half is an engine, and not a static method."""


def parameters(function):
    return list(inspect.signature(function).parameters)


def interface():
    """What is called of the installed vLLM, and with which parameters."""
    yield base.VLLMWeightSyncClient.init_weight_transfer_engine, ["self", "init_info"]
    yield base.VLLMWeightSyncClient.start_weight_update, ["self"]
    yield base.VLLMWeightSyncClient.update_weights, ["self", "update_info"]
    yield Worker.init_weight_transfer_engine, ["self", "init_info"]
    yield Worker.start_weight_update, ["self"]
    yield Worker.update_weights, ["self", "update_info"]
    yield Worker.finish_weight_update, ["self"]
    yield LLMEngine.sleep, ["self", "level", "mode"]
    yield LLMEngine.wake_up, ["self", "tags"]
    yield LLMEngine.collective_rpc, ["self", "method", "timeout", "args", "kwargs"]
    if any(HAS_ENGINE.values()):
        yield factory.WeightTransferTrainerFactory.trainer_init, ["init_info", "client", "source"]
        yield base.TrainerWeightTransferEngine.send_weights, ["self"]
        yield base.TrainerWeightTransferEngine.shutdown, ["self"]
    meeting, packing = ["master_address", "master_port", "world_size"], ["packed", "packed_buffer_size_bytes"]
    if HAS_ENGINE["ipc"]:
        yield ipc_engine.IPCTrainerInitInfo, [*packing, "rank"]
    else:
        yield ipc_engine.IPCWeightTransferEngine.trainer_send_weights, ["iterator", "trainer_args"]
        yield ipc_engine.IPCTrainerSendWeightsArgs, ["send_mode", "llm_handle", "url", *packing]
    if HAS_ENGINE["nccl"]:
        yield nccl_engine.NCCLTrainerInitInfo, [*meeting, *packing, "packed_num_buffers", "rank"]
    else:
        yield nccl_engine.NCCLWeightTransferEngine.trainer_init, ["init_info"]
        yield nccl_engine.NCCLWeightTransferEngine.trainer_send_weights, ["iterator", "trainer_args"]


@pytest.mark.parametrize(
    ("function", "expected"), list(interface()), ids=lambda value: getattr(value, "__qualname__", "")
)
def test_the_interface_is_the_one_this_was_written_against(function, expected):
    assert parameters(function) == expected


def test_a_tensor_is_described_by_what_stays_first():
    assert parameters(base.ParamMeta)[:3] == ["name", "dtype", "shape"]


def test_the_client_has_every_call_of_vllms():
    names = [name for name in vars(base.VLLMWeightSyncClient) if not name.startswith("_")]
    assert sorted(names) == sorted(name for name in vars(weight_transfer._Client) if not name.startswith("_"))
    for name in names:
        theirs = parameters(getattr(base.VLLMWeightSyncClient, name))
        ours = inspect.signature(getattr(weight_transfer._Client, name)).parameters
        assert list(ours)[: len(theirs)] == theirs
        assert all(ours[more].default is None for more in list(ours)[len(theirs) :])


@pytest.mark.parametrize("transfer", [CudaIpc(), Nccl()])
def test_every_backend_is_registered_on_both_sides_and_travels(transfer):
    assert transfer.backend in factory.WeightTransferEngineFactory._registry
    assert HAS_ENGINE[transfer.backend] == (transfer.backend in factory.WeightTransferTrainerFactory._registry)
    assert pickle.loads(pickle.dumps(transfer)) == transfer


@pytest.fixture
def calls():
    return []


@pytest.fixture
def broadcast(monkeypatch):
    """What vLLM's own half of NCCL would broadcast, and where it would meet the workers."""
    sent = []

    def producer(iterator, group, src, post_iter_func, buffer_size_bytes, num_buffers):
        assert parameters(real_producer)[:4] == ["iterator", "group", "src", "post_iter_func"]
        assert (group, src) == ("group", 0)
        sent.append([(item[0], post_iter_func(item).clone()) for item in iterator])

    def meet(master_address, master_port, rank, world_size, device):
        assert parameters(real_meet) == ["master_address", "master_port", "rank", "world_size", "device"]
        sent.append((master_port, rank, world_size))
        return "group"

    real_producer, real_meet = packed_tensor.packed_nccl_broadcast_producer, nccl_common.stateless_init_process_group
    for module in (packed_tensor, nccl_engine):  # one of them has it at hand, by version
        monkeypatch.setattr(module, "packed_nccl_broadcast_producer", producer, raising=False)
    monkeypatch.setattr(nccl_common, "stateless_init_process_group", meet)
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    return sent


def test_nccl_sends_chunks_between_one_start_and_one_finish(calls, broadcast):
    """vLLM's own half, with the group and the broadcast replaced."""
    sender = Nccl(master_port=1234, buffer_mib=1).connect(lambda *call: calls.append(call), num_workers=2)
    assert broadcast == [(1234, 0, 3)]
    broadcast.clear()
    method, payload = calls.pop(0)
    assert method == "init_weight_transfer_engine"
    worker_info = nccl_engine.NCCLWeightTransferInitInfo(**payload)
    assert (worker_info.rank_offset, worker_info.world_size, worker_info.master_port) == (1, 3, 1234)
    sender._chunk_bytes = 40  # "a" and "b" together, then "c"
    sender.send(iter(WEIGHTS))
    assert [name for name, _ in calls] == ["start_weight_update", *["update_weights"] * 2, "finish_weight_update"]
    infos = [
        nccl_engine.NCCLWeightTransferUpdateInfo(**argument) for name, argument in calls if name == "update_weights"
    ]
    assert {info.packed for info in (infos if not HAS_ENGINE["nccl"] else [worker_info])} == {True}
    assert [info.names for info in infos] == [["a", "b"], ["c"]]
    assert [info.shapes for info in infos] == [[[6], [2, 3]], [[4]]]
    assert {dtype for info in infos for dtype in info.dtype_names} == {"float32"}
    flat = [pair for chunk in broadcast for pair in chunk]
    assert [name for name, _ in flat] == ["a", "b", "c"]
    assert all(torch.equal(tensor, expected) for (_, tensor), (_, expected) in zip(flat, WEIGHTS, strict=True))


def test_a_chunk_is_there_before_nccl_packs_it(calls, monkeypatch):
    """Casts and gathers run on the caller's stream, and vLLM packs on others in another thread."""
    stream = SimpleNamespace(synchronize=lambda: calls.append("wait"))
    half = SimpleNamespace(send=lambda chunk: calls.append("send"))
    monkeypatch.setattr(weight_transfer, "trainer_half", lambda backend, settings, client: half)
    sender = Nccl(buffer_mib=1).connect(lambda *call: None, num_workers=1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    monkeypatch.setattr(torch.cuda, "ipc_collect", lambda: calls.append("collect"))
    sender._chunk_bytes = 40
    sender.send(iter(WEIGHTS))
    assert calls == ["wait", "send", "wait", "send", "collect"]


def test_ipc_sends_packed_chunks_of_an_iterator(calls, monkeypatch):
    """vLLM's own half, with what needs a GPU replaced."""
    chunk = ipc_engine.packed_ipc_producer.__annotations__["return"]
    assert "PackedIpcChunk" in str(chunk)

    def producer(iterator, gpu_uuid, post_iter_func, buffer_size_bytes):
        assert parameters(real_producer) == ["iterator", "gpu_uuid", "post_iter_func", "buffer_size_bytes"]
        for item in iterator:
            tensor = post_iter_func(item)
            yield packed_tensor.PackedIpcChunk(
                names=[item[0]],
                shapes=[list(tensor.shape)],
                dtype_names=["float32"],
                tensor_sizes=[tensor.nbytes],
                ipc_handle={gpu_uuid: (buffer_size_bytes,)},
            )

    real_producer = packed_tensor.packed_ipc_producer
    monkeypatch.setattr(ipc_engine, "packed_ipc_producer", producer)
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: type("Properties", (), {"uuid": "GPU-1"}))
    monkeypatch.setattr(torch.cuda, "ipc_collect", lambda: None)
    sender = CudaIpc(buffer_mib=3).connect(lambda *call: calls.append(call), num_workers=1)
    assert calls.pop(0) == ("init_weight_transfer_engine", {"packed": True} if HAS_ENGINE["ipc"] else {})
    sender.send(iter(WEIGHTS))
    assert [name for name, _ in calls] == ["start_weight_update", *["update_weights"] * 3, "finish_weight_update"]
    for (name, tensor), (_, argument) in zip(WEIGHTS, calls[1:-1], strict=True):
        info = ipc_engine.IPCWeightTransferUpdateInfo(**argument)
        assert (info.names, info.shapes, info.tensor_sizes) == ([name], [list(tensor.shape)], [tensor.nbytes])
        assert info.ipc_handles == {"GPU-1": (3 * 2**20,)}


def test_a_transfer_that_never_returns_is_an_error():
    started = time.monotonic()
    with pytest.raises(TimeoutError, match=r"did not end within 0.1 s.*continue it with ckpt=last"):
        weight_transfer._within(0.1, lambda: time.sleep(60))
    assert time.monotonic() - started < 10
    with pytest.raises(ZeroDivisionError):
        weight_transfer._within(10, lambda: 1 / 0)


def test_chunks_keep_the_order_and_hold_every_tensor():
    found = list(chunks(iter(WEIGHTS), 40))
    assert [[name for name, _ in chunk] for chunk in found] == [["a", "b"], ["c"]]
    assert list(chunks([], 40)) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CudaIpc(buffer_mib=0), "buffer_mib must be at least 1; got 0"),
        (lambda: Nccl(buffer_mib=0), "buffer_mib must be at least 1; got 0"),
        (lambda: Nccl(master_port=0), "master_port must be a port; got 0"),
        (lambda: Nccl(time_limit_s=0), "time_limit_s must be positive; got 0"),
    ],
)
def test_a_value_out_of_range_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
