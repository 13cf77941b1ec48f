"""What several processes cost beside the training itself: gathering weights, handing out batches, following.

torchrun --standalone --nproc_per_node=2 -m research.benchmarks.sharding --model smollm2_135m
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from ada_lightning.core.packing import pack_for_replicas
from ada_lightning.core.records import KeptResponse, Prompt, Response, ResponseGroup, ResponsePool
from ada_lightning.parallel.pieces import whole_weights
from ada_lightning.parallel.process_ranks import ProcessRanks
from ada_lightning.parallel.sharding import DATA, TENSOR, Sharding
from ada_lightning.parallel.transfer import flatten_batches
from ada_lightning.training.models.tiny import TinyLlama


def main() -> None:
    """Print one line for each part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=("tiny", "smollm2_135m"), default="tiny")
    parser.add_argument("--num-prompts", type=int, default=128)
    parser.add_argument("--response-tokens", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    if torch.cuda.is_available():
        torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    ranks = ProcessRanks(replica=dist.get_rank(), num_replicas=dist.get_world_size())
    lines = [_gathering(arguments), _scattering(arguments, ranks), _following(arguments, ranks)]
    if ranks.is_leader:
        print("\n".join(lines))
    dist.destroy_process_group()


def _gathering(arguments: argparse.Namespace) -> str:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    mesh = init_device_mesh(device, (dist.get_world_size(), 1), mesh_dim_names=(DATA, TENSOR))
    model = Sharding(mesh, low_precision=False).load(
        _model_path(arguments.model), attention="sdpa", prepare=lambda model: None
    )

    def gather() -> None:
        for _ in whole_weights(model):
            continue

    num_bytes = 4 * sum(parameter.numel() for parameter in model.parameters())
    seconds = _fastest(gather, arguments.repeats)
    return f"gather {num_bytes / 1e9:.2f} GB of weights: {seconds:.3f} s, {num_bytes / 1e9 / seconds:.2f} GB/s"


def _scattering(arguments: argparse.Namespace, ranks: ProcessRanks) -> str:
    parts = _packed(arguments, ranks.num_replicas) if ranks.is_leader else None
    seconds = _fastest(lambda: ranks.scatter(parts), arguments.repeats)
    num_tokens = sum(microbatch.num_computed_tokens for batch in (parts or [[]])[0] for microbatch in batch)
    num_bytes = flatten_batches(parts[0])[1].numel() if parts else 0
    return f"hand out {num_tokens} tokens ({num_bytes / 1e6:.1f} MB) to each: {seconds:.4f} s"


def _following(arguments: argparse.Namespace, ranks: ProcessRanks) -> str:
    seconds = _fastest(lambda: ranks.lead(lambda: None), 20 * arguments.repeats)
    together = _fastest(lambda: ranks.check_together(lambda: None), 20 * arguments.repeats)
    return f"a part that one process does alone: {1e3 * seconds:.2f} ms; a common check: {1e3 * together:.2f} ms"


def _fastest(work: Callable[[], object], repeats: int) -> float:
    """Least seconds of several repeats, from a common start; of this process."""
    seconds = []
    for _ in range(repeats):
        dist.barrier()
        started = time.monotonic()
        work()
        seconds.append(time.monotonic() - started)
    return min(seconds)


def _packed(arguments: argparse.Namespace, num_replicas: int) -> list[list]:
    generator = random.Random(0)
    groups = []
    for key in range(arguments.num_prompts):
        pool = ResponsePool(Prompt(f"p{key}", (), prompt_ids=(3,) * 128), slot=key)
        for index in range(4):
            ids = tuple(generator.randrange(250) for _ in range(arguments.response_tokens))
            reward = float(index % 2)
            pool.add(Response(f"p{key}", index, 0, ids, (-1.0,) * len(ids), "", False, reward, reward > 0.7, 0))
        groups.append(ResponseGroup(pool, tuple(KeptResponse(response, 1.0) for response in pool.responses)))
    return pack_for_replicas(
        groups,
        num_replicas=num_replicas,
        num_minibatches=1,
        max_tokens_per_microbatch=16_384,
        policy_version=0,
        shuffle_seed=0,
        keep_groups_without_signal=False,
        share_prompts=True,
    )


def _model_path(name: str) -> Path:
    if name == "tiny":
        return TinyLlama(seed=0).prepare()
    from hydra.utils import instantiate
    from omegaconf import OmegaConf

    folder: Path = instantiate(OmegaConf.load(Path(__file__).parents[2] / "conf" / "model" / f"{name}.yaml")).prepare()
    return folder


if __name__ == "__main__":
    main()
