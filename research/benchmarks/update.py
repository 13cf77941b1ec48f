"""Tokens per second and peak memory of an update, against a bare loop, padded rows and each switch.

``python -m research.benchmarks.update`` times all variants in turn in one process, so that a busy machine disturbs all
alike, and prints medians and the medians of ratios within a repetition. Peak memory is that of child processes: here
nothing that ran before can hide in it.

A batch has the shape of half a default step: 15 prompts of 47 tokens, 4 responses each of 8 to 32 tokens, all with a
signal; ``heavy_tail`` has half as many prompts and log-normal lengths up to 400.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

NUM_PROMPTS, GROUP_SIZE, PROMPT_TOKENS, RESPONSE_TOKENS = 15, 4, 47, (8, 14, 20, 32, 32)  # fills two microbatches
MAX_TOKENS_PER_MICROBATCH = 1024
LENGTHS: dict[str, Callable[[random.Random], int]] = {
    "default": lambda generator: generator.choice(RESPONSE_TOKENS),
    "heavy_tail": lambda generator: min(400, 1 + int(generator.lognormvariate(3, 1.2))),
}
MEMORY_CASES: dict[str, dict[str, int]] = {
    "microbatch 256": {"max_tokens": 256},
    "microbatch 512": {"max_tokens": 512},
    "microbatch 1024": {"max_tokens": 1024},
    "microbatch 1024, 3 times the prompts": {"max_tokens": 1024, "num_prompts": 3 * NUM_PROMPTS},
    "microbatch 1024, checkpointing": {"max_tokens": 1024, "checkpointing": 1},
    "microbatch 1024, default malloc": {"max_tokens": 1024, "default_malloc": 1},
}


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2", choices=["smollm2", "tiny"])
    parser.add_argument("--repetitions", type=int, default=5, help="timed updates of each variant")
    parser.add_argument("--variants", nargs="*", help="some of the variants only")
    parser.add_argument("--no-memory", action="store_true", help="leave peak memory out")
    parser.add_argument("--memory-case", help=argparse.SUPPRESS)  # what a child process measures
    arguments = parser.parse_args()
    if arguments.memory_case:
        print(json.dumps(peak_memory(arguments.model, **json.loads(arguments.memory_case))))
        return
    speed = {kind: measure(arguments, kind) for kind in LENGTHS}
    cases = {} if arguments.no_memory else MEMORY_CASES
    memory = {name: _in_child(arguments.model, case) for name, case in cases.items()}
    print(memory)
    if not arguments.variants:
        from research.benchmarks.report import save

        save("update", model=arguments.model, speed=speed, memory=memory)


def measure(arguments: argparse.Namespace, kind: str) -> dict[str, Any]:
    """Seconds of every variant, in turn, and their ratios to ours."""
    from ada_lightning.run.machine import keep_freed_memory

    keep_freed_memory()
    policy, optimizer = make_policy(arguments.model)
    num_prompts = NUM_PROMPTS if kind == "default" else NUM_PROMPTS // 2
    groups = random_groups(LENGTHS[kind], num_prompts)
    adapters = cache(lambda: adapter_updates(arguments.model, groups))  # another model, made where it is wanted
    variants = make_variants(policy, groups, optimizer)
    variants["adapters alone"] = lambda: adapters()()
    if kind != "default":
        variants = {name: variants[name] for name in ("ours", "bare", "padded", "prompts repeated")}
    if arguments.variants:
        variants = {name: run for name, run in variants.items() if name in ("ours", *arguments.variants)}
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    num_tokens: dict[str, int] = {}
    for repetition in range(arguments.repetitions + 1):
        for name, run in variants.items():
            started = time.monotonic()
            num_tokens[name] = run()
            if repetition > 0:  # the first one builds kernels
                seconds[name].append(time.monotonic() - started)
    figures = {}
    for name, values in seconds.items():
        ratio = statistics.median(other / ours for other, ours in zip(values, seconds["ours"], strict=True))
        figures[name] = {
            "seconds": round(statistics.median(values), 3),
            "computed_tokens": num_tokens[name],
            "times_ours": round(ratio, 3),
        }
        print(kind, name, figures[name], flush=True)
    return figures


def make_policy(model: str | Path, *, device: str = "cpu", **options: Any) -> tuple[Any, Any]:
    """Return the default policy of a model, by name or folder, loaded, and its optimiser."""
    policy = unloaded_policy(model, **options)
    policy.configure_model()
    policy.to(device)
    return policy, policy.optimizer_factory(policy.trained.trainable(policy.model))


def unloaded_policy(model: str | Path, **options: Any) -> Any:
    """Return the same policy before its weights are there, as a trainer takes it."""
    import torch

    from ada_lightning.methods.advantages import PoolMeanAdvantage
    from ada_lightning.run.terminal import quiet_libraries
    from ada_lightning.training.losses import ClippedPolicyLoss, ConstantReduction
    from ada_lightning.training.models.tiny import TinyLlama
    from ada_lightning.training.models.wheel import SmolLM2Wheel
    from ada_lightning.training.policy import PolicyModule

    quiet_libraries()
    path = model if isinstance(model, Path) else (TinyLlama() if model == "tiny" else SmolLM2Wheel()).prepare()
    return PolicyModule(
        model_path=path,
        reference_path=path,
        advantage=PoolMeanAdvantage(),
        loss=ClippedPolicyLoss(reduction=ConstantReduction(token_scale=32)),
        optimizer=partial(torch.optim.AdamW, lr=1e-5, fused=True),
        **options,
    )


def make_variants(
    policy: Any, groups: list, optimizer: Any, max_tokens: int = MAX_TOKENS_PER_MICROBATCH
) -> dict[str, Callable[[], int]]:
    """Return what to time by name; each makes one update and returns the tokens it computed, padding included."""
    from ada_lightning.training.models.trained import compile_layers

    model, ours = policy.model, policy.attention.implementation
    batch, repeated = (
        pack(groups, share_prompts=share, max_tokens=max_tokens).to(policy.device) for share in (True, False)
    )
    padded = padded_batch(groups, max_tokens).to(policy.device)

    def with_checkpointing() -> int:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        update(policy, batch, optimizer)
        model.gradient_checkpointing_disable()
        return _num_computed(batch)

    def with_padding() -> int:
        model.set_attn_implementation("sdpa")
        policy.token_logprobs = partial(padded_logprobs, policy)
        update(policy, padded, optimizer)
        del policy.token_logprobs
        model.set_attn_implementation(ours)
        return sum(
            len(m.document_lengths) * max(sum(parts) for parts in m.document_lengths) for m in padded.microbatches
        )

    def compiled() -> int:
        compile_layers(model)
        update(policy, batch, optimizer)
        for module in model.modules():
            module._compiled_call_impl = None
        return _num_computed(batch)

    def without_embedding() -> int:
        embedding = model.get_input_embeddings().weight
        embedding.requires_grad_(False)
        update(policy, batch, optimizer)
        embedding.requires_grad_(True)
        return _num_computed(batch)

    return {
        "ours": lambda: update(policy, batch, optimizer),
        "bare": lambda: bare_update(policy, batch, optimizer),
        "padded": with_padding,
        "checkpointing": with_checkpointing,
        "compiled": compiled,
        "embedding frozen": without_embedding,
        "prompts repeated": lambda: update(policy, repeated, optimizer),
    }


def adapter_updates(model: str, groups: list) -> Callable[[], int]:
    """Return an update of adapters of rank 32 alone, the rest held as a run holds it."""
    import torch

    from ada_lightning.run.machine import has_fast_bfloat16
    from ada_lightning.training.models.lora import LoraParameters

    policy, optimizer = make_policy(model, parameters=LoraParameters(rank=32))
    if has_fast_bfloat16(on_gpu=False):
        policy.trained.hold_frozen(policy.model, torch.bfloat16)
    batch = pack(groups, share_prompts=True, max_tokens=MAX_TOKENS_PER_MICROBATCH)
    return lambda: update(policy, batch, optimizer)


def fast_autocast(device: str = "cpu") -> Any:
    """What ``trainer.precision=auto`` computes in on this machine."""
    import torch

    from ada_lightning.run.machine import has_fast_bfloat16

    return torch.autocast(device, torch.bfloat16, enabled=has_fast_bfloat16(on_gpu=device == "cuda"))


def update(policy: Any, batch: Any, optimizer: Any) -> int:
    """One optimiser step as the policy makes it; autocast spans it all, as Lightning does."""
    import torch

    with fast_autocast(policy.device.type):
        for microbatch in batch:
            loss, _ = policy.microbatch_loss(microbatch, batch)
            loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.trained.trainable(policy.model), policy.max_grad_norm)
    return _step(batch, optimizer)


def bare_update(policy: Any, batch: Any, optimizer: Any) -> int:
    """The least that trains on the same packed tokens: no chunks, entropy, advantages, clipping or figures."""
    import torch

    model = policy.model
    with fast_autocast(policy.device.type):
        for microbatch in batch:
            hidden_1TH = model.base_model(
                input_ids=microbatch.input_ids_T[None],
                position_ids=microbatch.position_ids_T[None],
                use_cache=False,
                **policy.attention.arguments(microbatch),
            ).last_hidden_state
            logits_KV = model.lm_head(hidden_1TH[0, microbatch.predictor_K])
            torch.nn.functional.cross_entropy(logits_KV.float(), microbatch.token_ids_K).backward()
    return _step(batch, optimizer)


def padded_logprobs(policy: Any, model: Any, microbatch: Any) -> Any:
    """Stand in for ``policy.token_logprobs``, by padded rows."""
    from ada_lightning.training.logprobs import chosen_logprobs

    return chosen_logprobs(
        padded_forward(model, microbatch),
        microbatch.token_ids_K,
        model.lm_head,
        temperature=1.0,
        chunk_size=policy.logprob_chunk_size,
        entropy_gradient=False,
    )


def peak_memory(model: str, **case: int) -> dict[str, float]:
    """Peak memory in GiB of two updates, and where it stood before."""
    from ada_lightning.run.machine import keep_freed_memory

    if not case.get("default_malloc"):
        keep_freed_memory()
    policy, optimizer = make_policy(model, gradient_checkpointing=bool(case.get("checkpointing")))
    groups = random_groups(LENGTHS["default"], case.get("num_prompts", NUM_PROMPTS))
    batch = pack(groups, share_prompts=True, max_tokens=case["max_tokens"])
    before = _peak_gib()
    for _ in range(2):
        update(policy, batch, optimizer)
    return {"before_gib": round(before, 2), "peak_gib": round(_peak_gib(), 2)}


def padded_forward(model: Any, microbatch: Any) -> Any:
    """Return what packing replaces: a group per row, padded to the widest, with a dense mask. Shape ``(K, H)``.

    The model must have ``sdpa`` as its attention.
    """
    import torch

    lengths = microbatch.document_lengths
    sizes = [sum(parts) for parts in lengths]
    shape, device = (len(sizes), max(sizes)), microbatch.input_ids_T.device
    is_token_RT = torch.arange(shape[1]) < torch.tensor(sizes)[:, None]
    segment_RT = torch.full(shape, -1)
    segment_RT[is_token_RT] = torch.tensor([s for parts in lengths for s, n in enumerate(parts) for _ in range(n)])
    is_token_RT, segment_RT = is_token_RT.to(device), segment_RT.to(device)
    query_RT1, key_R1T = segment_RT[:, :, None], segment_RT[:, None, :]
    is_causal_TT = torch.ones(shape[1], shape[1], dtype=torch.bool, device=device).tril()
    is_visible_RTT = ((query_RT1 == key_R1T) | (key_R1T == 0)) & is_causal_TT
    ids_RT, positions_RT = (
        torch.zeros(shape, dtype=torch.int64, device=device).masked_scatter_(is_token_RT, ids_T)
        for ids_T in (microbatch.input_ids_T, microbatch.position_ids_T)
    )
    hidden_RTH = model.base_model(
        input_ids=ids_RT, position_ids=positions_RT, attention_mask=is_visible_RTT[:, None], use_cache=False
    ).last_hidden_state
    return hidden_RTH[is_token_RT][microbatch.predictor_K]


def padded_batch(groups: list, max_tokens: int = MAX_TOKENS_PER_MICROBATCH) -> Any:
    """The same documents, as many padded rows of similar length to a microbatch as the budget allows, longest first."""
    from dataclasses import replace

    from ada_lightning.training.packing import group_microbatch

    rows: list[list[Any]] = [[]]
    for group in sorted(groups, key=_size, reverse=True):
        if rows[-1] and (len(rows[-1]) + 1) * _size(rows[-1][0]) > max_tokens:
            rows.append([])
        rows[-1].append(group)
    microbatches = tuple(group_microbatch(*groups) for groups in rows)
    return replace(pack(groups, share_prompts=True), microbatches=microbatches)


def pack(groups: list, *, share_prompts: bool, max_tokens: int = MAX_TOKENS_PER_MICROBATCH) -> Any:
    """Return one optimiser step of the groups."""
    from ada_lightning.training.packing import pack_groups

    sizes = {"num_minibatches": 1, "max_tokens_per_microbatch": max_tokens, "policy_version": 0, "shuffle_seed": 0}
    (batch,) = pack_groups(groups, keep_groups_without_signal=False, share_prompts=share_prompts, **sizes)
    return batch


def random_groups(
    draw_length: Callable[[random.Random], int], num_prompts: int, prompt_tokens: int = PROMPT_TOKENS
) -> list:
    """Random tokens, half of each group right."""
    from ada_lightning.core.records import KeptResponse, Prompt, Response, ResponseGroup, ResponsePool

    generator = random.Random(0)
    groups = []
    for slot in range(num_prompts):
        prompt_ids = tuple(generator.randrange(250) for _ in range(prompt_tokens))
        pool = ResponsePool(Prompt(str(slot), (), prompt_ids=prompt_ids), slot)
        for index in range(GROUP_SIZE):
            ids = tuple(generator.randrange(250) for _ in range(draw_length(generator)))
            reward = float(index % 2)
            pool.add(Response(str(slot), index, 0, ids, (-1.0,) * len(ids), "", False, reward, reward > 0, 0))
        groups.append(ResponseGroup(pool, tuple(KeptResponse(response, 1.0) for response in pool.responses)))
    return groups


def _in_child(model: str, case: dict[str, int]) -> dict[str, float]:
    command = [sys.executable, "-m", "research.benchmarks.update", "--memory-case", json.dumps(case), "--model", model]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    figures: dict[str, float] = json.loads(output.splitlines()[-1])
    return figures


def _peak_gib() -> float:
    # Of this program alone; getrusage would report what the parent held at the fork.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 2**20


def _step(batch: Any, optimizer: Any) -> int:
    optimizer.step()
    optimizer.zero_grad()
    return _num_computed(batch)


def _num_computed(batch: Any) -> int:
    return sum(microbatch.num_computed_tokens for microbatch in batch.microbatches)


def _size(group: Any) -> int:
    return len(group.pool.prompt.prompt_ids) + sum(len(kept.response.response_ids) for kept in group.kept)


if __name__ == "__main__":
    main()
