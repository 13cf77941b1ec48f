"""How much GPU memory a run needs, by formula: ``python -m research.benchmarks.memory_plan``.

The plan is arithmetic, checked without a GPU: the number of parameters against models that exist, and the activations
of a layer against the tensors that autograd really keeps (``--count``); ``research.benchmarks.gpu_update`` holds the
trainer's part against a GPU. What a GPU adds (CUDA context, kernels' workspaces, fragmentation) is the allowance
``RESERVE_GIB``, a guess.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace

from research.benchmarks.report import save

GIB = 2**30
RESERVE_GIB = 4.0
"""CUDA context of trainer and engine, workspaces, CUDA graphs, fragmentation: an allowance, not a formula."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """The sizes of a Llama-like decoder that memory depends on."""

    name: str
    num_layers: int
    hidden: int
    intermediate: int
    query_heads: int
    key_heads: int
    head_size: int
    vocabulary: int
    is_tied: bool
    """Whether the output head is the input embedding."""
    has_qkv_bias: bool

    @property
    def layer_parameters(self) -> int:
        """Of one layer: four attention matrices, three of the MLP, two norms."""
        queries, keys = self.query_heads * self.head_size, self.key_heads * self.head_size
        attention = 2 * self.hidden * queries + 2 * self.hidden * keys
        biases = (queries + 2 * keys) * self.has_qkv_bias
        return attention + biases + 3 * self.hidden * self.intermediate + 2 * self.hidden

    @property
    def parameters(self) -> int:
        """Of the whole model."""
        embeddings = self.vocabulary * self.hidden * (1 if self.is_tied else 2)
        return self.num_layers * self.layer_parameters + embeddings + self.hidden

    def lora_parameters(self, rank: int) -> int:
        """Of adapters on every linear layer but the head."""
        queries, keys = self.query_heads * self.head_size, self.key_heads * self.head_size
        ends = 2 * (self.hidden + queries) + 2 * (self.hidden + keys) + 3 * (self.hidden + self.intermediate)
        return self.num_layers * rank * ends

    @property
    def cache_bytes(self) -> int:
        """Keys and values of one token in every layer, in bf16."""
        return 2 * 2 * self.num_layers * self.key_heads * self.head_size

    def layer_activations(self, num_tokens: int) -> int:
        """Bytes that autograd keeps of one layer under bf16 autocast (``--count`` compares)."""
        queries, keys = self.query_heads * self.head_size, self.key_heads * self.head_size
        # The residual stream is float32. Both norms keep their input and what they normalised in float32, and one
        # number per token; autocast then makes a bf16 copy for each matrix product, three for attention, two for MLP.
        norms = self.hidden * (4 + 4 + 3 * 2) + self.hidden * (4 + 4 + 2 * 2) + 2 * 4
        # Rotary embedding keeps nothing of queries and keys but multiplies by cos and sin; attention keeps queries,
        # keys and values as it got them and its output, which the output projection shares.
        attention = 2 * (2 * queries + 2 * keys) + 4 * self.query_heads
        mlp = 2 * 4 * self.intermediate  # gate, up, silu(gate) and their product
        return num_tokens * (norms + attention + mlp)


# Sizes from the models' config.json on the Hugging Face hub.
QWEN_1_5B = Architecture("Qwen2.5-Math-1.5B", 28, 1536, 8960, 12, 2, 128, 151_936, True, True)
QWEN_7B = Architecture("Qwen2.5-Math-7B", 28, 3584, 18_944, 28, 4, 128, 152_064, False, True)
SMOLLM2_135M = Architecture("SmolLM2-135M", 30, 576, 1536, 9, 3, 64, 49_152, True, False)


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run is started with."""

    name: str
    overrides: str
    architecture: Architecture
    num_gpus: int
    gpu_gib: float
    tokens_per_microbatch: int = 8192
    """``data.max_tokens_per_microbatch``."""
    logits_at_once: int = 1024
    """``policy.logprob_chunk_size``."""
    kv_cache_gib: float = 16.0
    """``rollout.engine.kv_cache_gib`` of vLLM, on each GPU."""
    lora_rank: int = 0
    """0 trains every weight."""
    has_reference: bool = False
    num_slots: int = 0
    """``rollout.engine.max_num_seqs`` of ``rollout=transformers``; 0: the engine is vLLM."""
    slot_tokens: int = 768
    """``rollout.max_model_tokens``, with ``rollout=transformers``."""

    @property
    def cache_gib(self) -> float:
        """The engine's memory for keys and values; ``rollout=transformers`` takes it for all sequences at the start."""
        if self.num_slots:
            return self.num_slots * self.slot_tokens * self.architecture.cache_bytes / GIB
        return self.kv_cache_gib

    @property
    def options(self) -> str:
        """The command line's settings."""
        engine = f"rollout.engine.kv_cache_gib={self.kv_cache_gib:g}"
        if self.num_slots:
            engine = f"rollout.engine.max_num_seqs={self.num_slots} rollout.max_model_tokens={self.slot_tokens}"
        return (
            f"{self.overrides} policy.gradient_checkpointing=true "
            f"data.max_tokens_per_microbatch={self.tokens_per_microbatch} "
            f"policy.logprob_chunk_size={self.logits_at_once} {engine}"
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """GiB on each GPU."""

    weights: float
    """Float32 master weights, sharded, and what a step casts or gathers of them in bf16."""
    gradients: float
    optimizer: float
    """Adam's two moments."""
    activations: float
    logits: float
    engine_weights: float
    kv_cache: float

    @property
    def total(self) -> float:
        """With the allowance."""
        return RESERVE_GIB + sum(getattr(self, name) for name in self.__dataclass_fields__)


def plan(setting: Setting) -> Plan:
    """Add up one GPU's memory while the engine stays loaded (no sleep)."""
    model, shards = setting.architecture, setting.num_gpus
    trained = model.lora_parameters(setting.lora_rank) if setting.lora_rank else model.parameters
    models = 2 if setting.has_reference and not setting.lora_rank else 1
    embedding = model.vocabulary * model.hidden
    if shards == 1 and setting.lora_rank:
        cast = 2 * embedding  # of what is frozen autocast keeps nothing; the largest matrix is the head
    elif shards == 1:
        cast = 2 * model.parameters  # autocast keeps the bf16 copies of a whole forward pass
    else:
        cast = 2 * (2 * model.layer_parameters + embedding * (1 if model.is_tied else 2))  # this layer and the next
    held = 4 * model.parameters
    if shards == 1 and setting.lora_rank:  # of a checkpoint in bfloat16; embeddings and head are float32
        held -= 2 * model.num_layers * model.layer_parameters
    kept = setting.tokens_per_microbatch * model.hidden * 4 * model.num_layers  # each layer's float32 input
    return Plan(
        weights=(models * held / shards + cast) / GIB,
        gradients=4 * trained / shards / GIB,
        optimizer=8 * trained / shards / GIB,
        activations=(kept + model.layer_activations(setting.tokens_per_microbatch)) / GIB,
        # bf16 logits of a chunk, kept, and on a GPU the float32 copies that become their gradient
        logits=setting.logits_at_once * model.vocabulary * (2 + 3 * 4) / GIB,
        engine_weights=2 * model.parameters / GIB,
        kv_cache=setting.cache_gib,
    )


def sequences_in_cache(setting: Setting, num_tokens: int) -> int:
    """How many sequences of a length the KV cache holds."""
    return int(setting.cache_gib * GIB // (setting.architecture.cache_bytes * num_tokens))


SETTINGS = (
    Setting("1.5B, all weights", "trainer=gpu", QWEN_1_5B, 1, 80),
    Setting("1.5B, LoRA", "trainer=gpu parameters=lora", QWEN_1_5B, 1, 80, lora_rank=32),
    Setting("1.5B, LoRA", "trainer=gpu parameters=lora", QWEN_1_5B, 1, 24, 4096, 512, 4.0, lora_rank=32),
    Setting("1.5B, all weights", "trainer=fsdp trainer.devices=8", QWEN_1_5B, 8, 80, kv_cache_gib=40.0),
    Setting("7B, LoRA", "trainer=gpu parameters=lora", QWEN_7B, 1, 80, 4096, 512, 8.0, lora_rank=32),
    Setting("7B, all weights", "trainer=gpu", QWEN_7B, 1, 141, 4096, 512, 8.0),
    Setting("7B, all weights", "trainer=fsdp trainer.devices=8", QWEN_7B, 8, 80, kv_cache_gib=24.0),
    Setting(
        "7B, all weights, KL",
        "trainer=fsdp trainer.devices=8 loss.kl_coef=0.001",
        QWEN_7B,
        8,
        80,
        kv_cache_gib=24.0,
        has_reference=True,
    ),
    Setting(
        "7B, all weights", "trainer=fsdp trainer.devices=8 trainer.num_nodes=2", QWEN_7B, 16, 80, kv_cache_gib=24.0
    ),
)
_TRANSFORMERS = "trainer=gpu rollout=transformers"
WITHOUT_VLLM = (
    Setting("1.5B, all weights", _TRANSFORMERS, QWEN_1_5B, 1, 80, num_slots=512),
    Setting("1.5B, all weights", _TRANSFORMERS, QWEN_1_5B, 1, 24, 4096, 512, num_slots=128),
    Setting("1.5B, LoRA", f"{_TRANSFORMERS} parameters=lora", QWEN_1_5B, 1, 24, 4096, 512, lora_rank=32, num_slots=128),
)
"""Those of docs/gpu.md."""
RESPONSE_TOKENS = 3072
"""Prompt and response of the paper's runs: 1,024 + 2,048."""


def rows(settings: Sequence[Setting]) -> list[dict[str, object]]:
    """Return one row for each setting."""
    found = []
    for setting in settings:
        parts = plan(setting)
        found.append(
            {
                "name": setting.name,
                "gpus": f"{setting.num_gpus} x {setting.gpu_gib:g} GiB",
                "overrides": setting.options,
                "gib": {name: round(getattr(parts, name), 1) for name in parts.__dataclass_fields__},
                "total_gib": round(parts.total, 1),
                "fits": parts.total <= setting.gpu_gib,
                "sequences_in_cache": setting.num_slots or sequences_in_cache(setting, RESPONSE_TOKENS),
            }
        )
    return found


def count_activations(model: Architecture, num_tokens: int) -> tuple[int, int]:
    """Return the bytes that autograd keeps of one layer, by formula and counted.

    Counted are distinct storages saved for the backward pass, weights and their bf16 copies left out, as the difference
    between a model of three layers and one of two: what is kept once for the whole model falls out.
    """
    return model.layer_activations(num_tokens), _saved_bytes(replace(model, num_layers=3), num_tokens) - _saved_bytes(
        replace(model, num_layers=2), num_tokens
    )


def _saved_bytes(model: Architecture, num_tokens: int) -> int:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=503,  # no shape of a weight may be that of an activation
        hidden_size=model.hidden,
        intermediate_size=model.intermediate,
        num_hidden_layers=model.num_layers,
        num_attention_heads=model.query_heads,
        num_key_value_heads=model.key_heads,
        head_dim=model.head_size,
    )
    network = LlamaForCausalLM(config).train()
    shapes = {tuple(p.shape) for p in network.parameters()} | {tuple(p.shape)[::-1] for p in network.parameters()}
    saved: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tuple(tensor.shape) not in shapes:
            saved[tensor.untyped_storage().data_ptr()] = tensor  # alive, so that no address comes twice
        return tensor

    tokens = torch.randint(0, 503, (1, num_tokens))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t), torch.autocast("cpu", torch.bfloat16):
        network.base_model(input_ids=tokens, use_cache=False)
    return sum(tensor.untyped_storage().nbytes() for tensor in saved.values())


def main() -> None:
    """Print and save the plans, and the comparison of the activations."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", action="store_true", help="also count what autograd keeps of a layer")
    arguments = parser.parse_args()
    found, without_vllm = rows(SETTINGS), rows(WITHOUT_VLLM)
    print(*found, *without_vllm, sep="\n")
    counted = []
    if arguments.count:
        for model, num_tokens in ((SMOLLM2_135M, 512), (SMOLLM2_135M, 1024), (QWEN_1_5B, 512)):
            by_formula, kept = count_activations(model, num_tokens)
            counted.append({"model": model.name, "tokens": num_tokens, "formula": by_formula, "counted": kept})
    save(
        "memory_plan",
        plans=found,
        without_vllm=without_vllm,
        activations=counted,
        reserve_gib=RESERVE_GIB,
        sequence_tokens=RESPONSE_TOKENS,
    )


if __name__ == "__main__":
    main()
