"""Seconds of an update on the default model: memory reuse and shared prompts, each on and off, in one run.

``python -m benchmarks.update`` prints medians of interleaved repetitions and their ratios. The batch has the shape of a
default step: 32 prompts of 47 tokens, 4 responses each of 8 to 32 tokens, all with a signal.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import time
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

NUM_PROMPTS, GROUP_SIZE, PROMPT_TOKENS, RESPONSE_TOKENS = 32, 4, 47, (8, 14, 20, 32, 32)
MAX_TOKENS_PER_MICROBATCH = 1024


def main() -> None:
    """Measure in fresh processes, because memory reuse cannot be switched off again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5, help="timed updates of each kind")
    parser.add_argument("--one", choices=["default_malloc", "keep_freed_memory"], help="what a child process measures")
    arguments = parser.parse_args()
    if arguments.one:
        measure(arguments.one == "keep_freed_memory", arguments.repetitions)
        return
    medians: dict[str, float] = {}
    for kind in ("default_malloc", "keep_freed_memory"):
        command = [sys.executable, "-m", "benchmarks.update", "--one", kind]
        command += ["--repetitions", str(arguments.repetitions)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for line in output.splitlines():
            name, seconds = line.rsplit(" ", 1)
            medians[f"{kind}, {name}"] = float(seconds)
    slowest = max(medians.values())
    for name, seconds in medians.items():
        print(f"{name:<40}{seconds:8.2f} s{slowest / seconds:8.2f} x")


def measure(is_reused: bool, repetitions: int) -> None:
    """Print the median seconds of a forward and backward pass with and without shared prompts."""
    import torch

    from ada_lightning.advantages import PoolMeanAdvantage
    from ada_lightning.losses import ClippedPolicyLoss, ConstantReduction
    from ada_lightning.malloc import keep_freed_memory
    from ada_lightning.models.wheel import SmolLM2Wheel
    from ada_lightning.policy import PolicyModule
    from ada_lightning.rollout.quiet import quiet_libraries

    quiet_libraries()
    if is_reused:
        keep_freed_memory()
    path = SmolLM2Wheel().prepare()
    policy = PolicyModule(
        model_path=path,
        reference_path=path,
        advantage=PoolMeanAdvantage(),
        loss=ClippedPolicyLoss(reduction=ConstantReduction(token_scale=32)),
        optimizer=partial(torch.optim.AdamW, lr=1e-5),
    )
    policy.configure_model()
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for repetition in range(repetitions + 1):
        for share_prompts, measured in seconds.items():
            elapsed = one_update(policy, share_prompts)
            if repetition > 0:  # the first builds kernels
                measured.append(elapsed)
    for share_prompts, measured in seconds.items():
        print(f"{'shared' if share_prompts else 'repeated'} prompts {statistics.median(measured):.3f}")


def one_update(policy: object, share_prompts: bool) -> float:
    """Seconds of forward and backward over all microbatches, gradients discarded."""
    import torch

    from ada_lightning.data.packing import pack_groups
    from ada_lightning.policy import PolicyModule

    assert isinstance(policy, PolicyModule)
    (batch,) = pack_groups(
        default_groups(),
        num_minibatches=1,
        max_tokens_per_microbatch=MAX_TOKENS_PER_MICROBATCH,
        policy_version=0,
        shuffle_seed=0,
        keep_groups_without_signal=False,
        share_prompts=share_prompts,
    )
    started = time.monotonic()
    for microbatch in batch:
        with torch.autocast("cpu", torch.bfloat16):
            loss, _ = policy.microbatch_loss(microbatch, batch)
        loss.backward()
    elapsed = time.monotonic() - started
    policy.zero_grad(set_to_none=True)
    return elapsed


def default_groups() -> list:
    """Random tokens in the shape of a default step, half of each group right."""
    from ada_lightning.types import KeptResponse, Prompt, Response, ResponseGroup, ResponsePool

    generator = random.Random(0)
    groups = []
    for slot in range(NUM_PROMPTS):
        prompt_ids = tuple(generator.randrange(1000) for _ in range(PROMPT_TOKENS))
        pool = ResponsePool(Prompt(str(slot), (), prompt_ids=prompt_ids), slot)
        for index in range(GROUP_SIZE):
            ids = tuple(generator.randrange(1000) for _ in range(generator.choice(RESPONSE_TOKENS)))
            reward = float(index % 2)
            pool.add(
                Response(
                    prompt_id=str(slot),
                    sample_index=index,
                    round_index=0,
                    response_ids=ids,
                    sampling_logprobs=(-1.0,) * len(ids),
                    text="",
                    is_truncated=False,
                    reward=reward,
                    is_positive=reward > 0,
                    policy_version=0,
                )
            )
        groups.append(ResponseGroup(pool, tuple(KeptResponse(response, 1.0) for response in pool.responses)))
    return groups


if __name__ == "__main__":
    main()
