"""What two processes do in the tests of single parts."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ada_lightning.parallel import process_ranks
from ada_lightning.parallel.gradients import clip_to_norm, like, whole, whole_weights
from ada_lightning.parallel.process_ranks import ProcessRanks
from ada_lightning.parallel.sharding import Sharding


def ranks():
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    return ProcessRanks(replica=dist.get_rank(), num_replicas=2)


def mesh():
    ranks()
    return init_device_mesh("cpu", (2, 1), mesh_dim_names=("data_parallel", "tensor_parallel"))


def ended(function, *arguments):
    """What a function raised, as class and text."""
    try:
        function(*arguments)
    except (Exception, KeyboardInterrupt) as error:
        return type(error).__name__, str(error)
    return None


def follow_commands():
    """What each process did, in order; the leader does not use all pieces of a stream."""
    group, done = ranks(), []
    group.on("note", lambda argument: done.append(argument))
    group.on("pieces", lambda _: done.extend(pieces()))

    def pieces():
        for index in range(3):
            total = torch.tensor(index)
            dist.all_reduce(total)
            yield int(total)

    def work():
        with group.command("note", "a"):
            done.append("a")
        stream = group.stream("pieces", pieces())
        done.append(next(stream))
        assert group.lead(lambda: "inner") == "inner"
        with group.command("note", "b"):
            done.append("b")
        done.append("end")
        return 7

    result = group.lead(work)
    for index in range(2):
        group.lead(lambda index=index: done.append(index))
    return result, done


def stop(kind):
    def work():
        raise {"error": ValueError("bad"), "interrupt": KeyboardInterrupt("SIGINT")}[kind]

    return ended(ranks().lead, work)


def interrupt_on(rank):
    def check():
        if dist.get_rank() == rank:
            raise KeyboardInterrupt("SIGTERM")

    return ended(ranks().check_together, check)


def totals():
    group = ranks()
    mine = {"tokens": 3.0 + dist.get_rank(), "gap_max": 5.0 - dist.get_rank()}
    shared = ProcessRanks(replica=0, num_replicas=1)  # two processes that compute one replica together
    return group.totals(mine), shared.totals({"tokens": 3.0})


def command_of_a_follower():
    group = ranks()
    return None if group.is_leader else ended(group.command("note").__enter__)


def clip(max_norm):
    """Sharded, whole and two-dimensional parameters at once."""
    model = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.Linear(3, 2))
    head = torch.nn.Parameter(torch.zeros(4))
    generator = torch.Generator().manual_seed(0)
    gradients = [torch.randn(p.shape, generator=generator) for p in (*model.parameters(), head)]
    fully_shard(model, mesh=mesh()["data_parallel"])
    parameters = [*model.parameters(), head]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = like(parameter, gradient)
    norm = clip_to_norm(parameters, max_norm)
    return float(norm), [whole(parameter.grad) for parameter in parameters], gradients


class LiveBytes(TorchDispatchMode):
    """The most bytes that tensors made in its scope held at one time."""

    def __init__(self):
        super().__init__()
        self.alive, self.peak = {}, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and type(leaf) is torch.Tensor:
                storage = leaf.untyped_storage()
                self.alive[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self.alive = {key: entry for key, entry in self.alive.items() if not entry[0].expired()}
        self.peak = max(self.peak, sum(size for _, size in self.alive.values()))
        return result


def gather_memory(path, *, keep):
    """Peak of what gathering a model adds, and the largest tensor, in bytes; ``keep`` holds on to every tensor."""
    model = Sharding(mesh(), low_precision=False).load(path, attention="sdpa", prepare=lambda model: None)
    gc.collect()
    kept = []
    with LiveBytes() as live:
        for _, tensor in whole_weights(model):
            if keep:
                kept.append(tensor)
            del tensor
    return live.peak, max(4 * p.numel() for p in model.parameters())


def look_for_a_file(folder, *, hidden):
    """Who misses a file of the leader's, with a folder that the second process does not see, and what is left of it."""
    group, rank = ranks(), dist.get_rank()
    process_ranks._SEEN_WITHIN_S = 0.3
    name, process_ranks.socket.gethostname = process_ranks.socket.gethostname, lambda: "ab"[rank]
    try:
        seen = Path(folder) / ("elsewhere" if hidden and rank else ".")
        return group.hosts_without(seen / "probe"), (Path(folder) / "probe").exists()
    finally:
        process_ranks.socket.gethostname = name


def watch_hosts(*, names):
    """Whether the processes watch each other, on hosts of these names."""
    group = ranks()
    name, process_ranks.socket.gethostname = process_ranks.socket.gethostname, lambda: names[dist.get_rank()]
    try:
        group.watch_hosts(20.0)
        time.sleep(4)  # a beat takes 3.3
        heard = dict(group._watch._heard) if group._watch else None
        group.close()
        return heard
    finally:
        process_ranks.socket.gethostname = name
