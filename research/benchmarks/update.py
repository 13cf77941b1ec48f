"""Tokens per second and peak memory of an update, against a bare loop, padded rows and each switch.

``python -m research.benchmarks.update`` times all variants in turn in one process, so that a busy machine disturbs all
alike, and prints medians and the medians of ratios within a repetition. Peak memory is that of child processes: here
nothing that ran before can hide in it. ``--device cuda`` measures on a GPU, ``--attention flex`` another backend.

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
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

from research.drive import pack, with_rows

NUM_PROMPTS, GROUP_SIZE, PROMPT_TOKENS, RESPONSE_TOKENS = 15, 4, 47, (8, 14, 20, 32, 32)  # fills two microbatches
MAX_TOKENS_PER_MICROBATCH = 1024
LENGTHS: dict[str, Callable[[random.Random], int]] = {
    "default": lambda generator: generator.choice(RESPONSE_TOKENS),
    "heavy_tail": lambda generator: min(400, 1 + int(generator.lognormvariate(3, 1.2))),
}
BACKENDS = {"sdpa": "SdpaAttention", "flex": "FlexAttention", "flash": "FlashAttention"}
REAL_VOCABULARY, LARGE_VOCABULARY = 49_152, 151_936  # SmolLM2's and Qwen3's
MEMORY_CASES: dict[str, dict[str, int]] = {
    "microbatch 256": {"max_tokens": 256},
    "microbatch 512": {"max_tokens": 512},
    "microbatch 1024": {"max_tokens": 1024},
    "microbatch 1024, 3 times the prompts": {"max_tokens": 1024, "num_prompts": 3 * NUM_PROMPTS},
    "microbatch 1024, checkpointing": {"max_tokens": 1024, "checkpointing": 1},
    "microbatch 1024, default malloc": {"max_tokens": 1024, "default_malloc": 1},
    **{
        f"head, vocabulary {vocabulary}, {tokens} tokens": {"vocabulary": vocabulary, "tokens": tokens}
        for vocabulary in (REAL_VOCABULARY, LARGE_VOCABULARY)
        for tokens in (512, 1024, 2048)
    },
    "plain head, vocabulary 49152, 2048 tokens": {"vocabulary": REAL_VOCABULARY, "tokens": 2048, "plain": 1},
}


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--attention", default="sdpa", choices=sorted(BACKENDS))
    parser.add_argument("--model", default="smollm2", choices=["smollm2", "tiny"])
    parser.add_argument("--repetitions", type=int, default=5, help="timed updates of each variant")
    parser.add_argument("--variants", nargs="*", help="some of the variants only")
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="count processor time instead of seconds, for a shared machine; needs OMP_NUM_THREADS=1, since threads "
        "that wait for each other count too",
    )
    parser.add_argument("--no-memory", action="store_true", help="leave peak memory out")
    parser.add_argument("--memory-case", help=argparse.SUPPRESS)  # what a child process measures
    arguments = parser.parse_args()
    if arguments.cpu_time and os.environ["OMP_NUM_THREADS"] != "1":
        parser.error("--cpu-time needs OMP_NUM_THREADS=1 in the environment")
    if arguments.memory_case:
        print(json.dumps(peak_memory(arguments, **json.loads(arguments.memory_case))))
        return
    speed = {kind: measure(arguments, kind) for kind in LENGTHS}
    memory = {} if arguments.no_memory else {name: _in_child(arguments, case) for name, case in MEMORY_CASES.items()}
    for name, figures in memory.items():
        print(f"{name:<45}" + "  ".join(f"{key} {value}" for key, value in figures.items()), flush=True)
    if not arguments.variants:
        from research.benchmarks.report import save

        settings = {key: getattr(arguments, key) for key in ("device", "attention", "model", "cpu_time")}
        save("update", **settings, speed=speed, memory=memory)


def measure(arguments: argparse.Namespace, kind: str) -> dict[str, Any]:
    """Seconds of every variant, in turn, and their ratios to ours."""
    from ada_lightning.run.malloc import keep_freed_memory

    keep_freed_memory()
    policy, optimizer = make_policy(arguments)
    num_prompts = NUM_PROMPTS if kind == "default" else NUM_PROMPTS // 2
    variants = make_variants(policy, random_groups(LENGTHS[kind], num_prompts), optimizer)
    if kind != "default":
        variants = {name: variants[name] for name in ("ours", "bare", "padded", "prompts repeated") if name in variants}
    if arguments.variants:
        variants = {name: run for name, run in variants.items() if name in ("ours", *arguments.variants)}
    clock = time.process_time if arguments.cpu_time else time.monotonic
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    first: dict[str, float] = {}
    num_tokens: dict[str, int] = {}
    for repetition in range(arguments.repetitions + 1):
        for name, run in variants.items():
            started = clock()
            num_tokens[name] = run()
            elapsed = clock() - started
            if repetition > 0:
                seconds[name].append(elapsed)
            else:  # builds kernels
                first[name] = elapsed
    print(f"{kind}: {arguments.repetitions} repetitions of {num_tokens['ours']} tokens, shared prompts counted once")
    figures = {}
    for name, values in seconds.items():
        ratio = statistics.median(other / ours for other, ours in zip(values, seconds["ours"], strict=True))
        figures[name] = {
            "seconds": round(statistics.median(values), 3),
            "first_s": round(first[name], 1),
            "computed_tokens": num_tokens[name],
            "times_ours": round(ratio, 3),
        }
        print(f"  {name:<20}{figures[name]['seconds']:8.2f} s{ratio:8.2f} x ours", flush=True)
    return figures


def make_policy(arguments: argparse.Namespace, **options: Any) -> tuple[Any, Any]:
    """Return the default policy and its optimiser on the device."""
    import torch

    from ada_lightning.methods.advantages import PoolMeanAdvantage
    from ada_lightning.run.terminal import quiet_libraries
    from ada_lightning.training import attention
    from ada_lightning.training.losses import ClippedPolicyLoss, ConstantReduction
    from ada_lightning.training.models.tiny import TinyLlama
    from ada_lightning.training.models.wheel import SmolLM2Wheel
    from ada_lightning.training.policy import PolicyModule

    quiet_libraries()
    path = (TinyLlama() if arguments.model == "tiny" else SmolLM2Wheel()).prepare()
    policy = PolicyModule(
        model_path=path,
        reference_path=path,
        advantage=PoolMeanAdvantage(),
        loss=ClippedPolicyLoss(reduction=ConstantReduction(token_scale=32)),
        attention=getattr(attention, BACKENDS[arguments.attention])(),
        optimizer=partial(torch.optim.AdamW, lr=1e-5, fused=True),
        **options,
    )
    policy.configure_model()
    policy.to(arguments.device)
    return policy, policy.optimizer_factory(policy.model.parameters())


def make_variants(policy: Any, groups: list, optimizer: Any) -> dict[str, Callable[[], int]]:
    """Return what to time by name; each makes one update and returns the tokens it computed, padding included."""
    from ada_lightning.training.models.compiled import compile_layers

    model, ours = policy.model, policy.attention.implementation
    share = policy.attention.shares_prompts
    device = model.device
    batch = pack(groups, share_prompts=share).to(device)
    padded = padded_batch(groups, share).to(device)
    repeated = pack(groups, share_prompts=False).to(device)

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

    variants = {
        "ours": lambda: update(policy, batch, optimizer),
        "bare": lambda: bare_update(policy, batch, optimizer),
        "padded": with_padding,
        "checkpointing": with_checkpointing,
        "compiled": compiled,
    }
    return variants | ({"prompts repeated": lambda: update(policy, repeated, optimizer)} if share else {})


def update(policy: Any, batch: Any, optimizer: Any) -> int:
    """One optimiser step as the policy makes it; autocast spans it all, as Lightning does."""
    import torch

    device_type = policy.model.device.type
    with torch.autocast(device_type, torch.bfloat16):
        for microbatch in batch:
            loss, _ = policy.microbatch_loss(microbatch, batch)
            loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.model.parameters(), policy.max_grad_norm)
    return _step(batch, optimizer, device_type)


def bare_update(policy: Any, batch: Any, optimizer: Any) -> int:
    """The least that trains on the same packed tokens: no chunks, entropy, advantages, clipping or figures."""
    import torch

    model = policy.model
    with torch.autocast(model.device.type, torch.bfloat16):
        for microbatch in batch:
            hidden_1TH = model.base_model(
                input_ids=microbatch.input_ids_T[None],
                position_ids=microbatch.position_ids_T[None],
                use_cache=False,
                **policy.attention.arguments(microbatch),
            ).last_hidden_state
            logits_KV = model.lm_head(hidden_1TH[0, microbatch.predictor_K])
            torch.nn.functional.cross_entropy(logits_KV.float(), microbatch.token_ids_K).backward()
    return _step(batch, optimizer, model.device.type)


def padded_logprobs(policy: Any, model: Any, microbatch: Any) -> Any:
    """Stand in for ``policy.token_logprobs``, by padded rows."""
    from ada_lightning.training.logprobs import chosen_logprobs
    from research.benchmarks.padded_rows import padded_forward

    return chosen_logprobs(
        padded_forward(model, microbatch),
        microbatch.token_ids_K,
        model.lm_head,
        temperature=1.0,
        chunk_size=policy.logprob_chunk_size,
        entropy_gradient=False,
    )


def peak_memory(arguments: argparse.Namespace, **case: int) -> dict[str, float]:
    """Peak memory in GiB of two updates, or of a head alone, and where it stood before."""
    import torch

    from ada_lightning.run.malloc import keep_freed_memory

    if not case.get("default_malloc"):
        keep_freed_memory()
    if "vocabulary" in case:
        run = partial(head_only, torch.device(arguments.device), **case)
        run = partial(run, *make_head(torch.device(arguments.device), case["vocabulary"], case["tokens"]))
    else:
        policy, optimizer = make_policy(arguments, gradient_checkpointing=bool(case.get("checkpointing")))
        groups = random_groups(LENGTHS["default"], case.get("num_prompts", NUM_PROMPTS))
        share = policy.attention.shares_prompts
        batch = pack(groups, share_prompts=share, max_tokens=case["max_tokens"]).to(arguments.device)
        run = partial(update, policy, batch, optimizer)
    before = _peak_gib(arguments.device)
    seconds = []
    for _ in range(2):
        started = time.monotonic()
        run()
        seconds.append(time.monotonic() - started)
    return {
        "before_gib": round(before, 2),
        "peak_gib": round(_peak_gib(arguments.device), 2),
        "seconds": round(min(seconds), 2),
    }


def make_head(device: Any, vocabulary: int, tokens: int) -> tuple[Any, Any, Any]:
    """Random hidden states, tokens and an output embedding of the default model's width."""
    import torch

    hidden_KH = torch.randn(tokens, 576, device=device, requires_grad=True)
    head = torch.nn.Linear(576, vocabulary, bias=False, device=device)
    head.weight.grad = torch.zeros_like(head.weight)
    return hidden_KH, torch.randint(vocabulary, (tokens,), device=device), head


def head_only(device: Any, hidden_KH: Any, token_ids_K: Any, lm_head: Any, *, plain: int = 0, **_: int) -> None:
    """Log-probabilities and their gradient, in chunks or plainly."""
    import torch

    from ada_lightning.training.logprobs import chosen_logprobs

    with torch.autocast(device.type, torch.bfloat16):
        if plain:
            loss = torch.nn.functional.cross_entropy(lm_head(hidden_KH).float(), token_ids_K)
        else:
            logprobs_K, _ = chosen_logprobs(
                hidden_KH, token_ids_K, lm_head, temperature=1.0, chunk_size=512, entropy_gradient=False
            )
            loss = logprobs_K.mean()
    loss.backward()


def padded_batch(groups: list, share_prompts: bool) -> Any:
    """The same documents, as many padded rows to a microbatch as the budget allows with their padding."""
    from ada_lightning.core.records import ResponseGroup
    from research.benchmarks.padded_rows import padded_splits

    if not share_prompts:
        groups = [ResponseGroup(group.pool, (kept,)) for group in groups for kept in group.kept]
    by_size = sorted(groups, key=lambda group: -_size(group))
    rest = iter(by_size)
    splits = padded_splits([(_size(group),) for group in by_size], MAX_TOKENS_PER_MICROBATCH)
    return with_rows(pack(groups, share_prompts=True), [[next(rest) for _ in rows] for rows in splits])


def random_groups(draw_length: Callable[[random.Random], int], num_prompts: int) -> list:
    """Random tokens, half of each group right."""
    from ada_lightning.core.records import KeptResponse, Prompt, Response, ResponseGroup, ResponsePool

    generator = random.Random(0)
    groups = []
    for slot in range(num_prompts):
        prompt_ids = tuple(generator.randrange(250) for _ in range(PROMPT_TOKENS))
        pool = ResponsePool(Prompt(str(slot), (), prompt_ids=prompt_ids), slot)
        for index in range(GROUP_SIZE):
            ids = tuple(generator.randrange(250) for _ in range(draw_length(generator)))
            reward = float(index % 2)
            pool.add(Response(str(slot), index, 0, ids, (-1.0,) * len(ids), "", False, reward, reward > 0, 0))
        groups.append(ResponseGroup(pool, tuple(KeptResponse(response, 1.0) for response in pool.responses)))
    return groups


def _in_child(arguments: argparse.Namespace, case: dict[str, int]) -> dict[str, float]:
    command = [sys.executable, "-m", "research.benchmarks.update", "--memory-case", json.dumps(case)]
    command += ["--device", arguments.device, "--attention", arguments.attention, "--model", arguments.model]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    figures: dict[str, float] = json.loads(output.splitlines()[-1])
    return figures


def _peak_gib(device: str) -> float:
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated() / 2**30
    # Of this program alone; getrusage would report what the parent held at the fork.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 2**20


def _step(batch: Any, optimizer: Any, device_type: str) -> int:
    optimizer.step()
    optimizer.zero_grad()
    if device_type == "cuda":
        import torch

        torch.cuda.synchronize()
    return _num_computed(batch)


def _num_computed(batch: Any) -> int:
    return sum(microbatch.num_computed_tokens for microbatch in batch.microbatches)


def _size(group: Any) -> int:
    return len(group.pool.prompt.prompt_ids) + sum(len(kept.response.response_ids) for kept in group.kept)


if __name__ == "__main__":
    main()
