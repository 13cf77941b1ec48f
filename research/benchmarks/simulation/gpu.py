"""Step-time curves of an H100-class GPU, from public figures. Nothing here was measured by this project.

A decode step reads all weights once and the keys and values of the whole context, or computes, whichever takes longer
for the weights; on top comes what the engine's host side costs.

====================== ============== ====================================================================
figure                 value          source
====================== ============== ====================================================================
memory bandwidth       3.35 TB/s      NVIDIA H100 SXM5 data sheet
bf16 dense peak        989 TFLOP/s    the same (1,979 with sparsity)
share of them reached  0.85 and 0.6   assumed, usual for large streams and large matrix products
fixed host time        2 ms a step    fitted, below
host time per sequence 0.03 ms        fitted, below
parameters, layers, KV model cards    Qwen/Qwen2.5-Math-1.5B and -7B, ``config.json``
====================== ============== ====================================================================

Fitted to: Qwen3-8B in bf16 on one H100 SXM, vLLM 0.11, median inter-token latency 7.23, 7.28, 7.37 and 7.63 ms at 1, 2,
4 and 8 concurrent requests (GPUStack performance lab, ``docs/performance-lab/qwen3-8b/h100-latency.md``). Checked
roughly against Qwen3-14B in bf16 on the same, 1,000 requests at once, median inter-token latency 60 ms (same lab,
``qwen3-14b/h100.md``; mixed with prefill, the number running is not published; the curve gives 60 ms at about 560).
Older vLLM has a larger host time: Qwen2.5-1.5B on an A100 80GB, batch 1, vLLM 0.6.3: 183 tokens/s (Qwen2.5 speed
benchmark), 3.6 ms over its weights at 85 % of 2.04 TB/s.
"""

from __future__ import annotations

from dataclasses import dataclass

from research.benchmarks.simulation.replica import StepTime

BANDWIDTH = 3.35e12 * 0.85
"""Bytes per second."""
FLOPS = 989e12 * 0.6
"""Operations per second."""
HOST_S = 2e-3
HOST_PER_SEQUENCE_S = 3e-5
_SIZES = (0, 1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 2048)


@dataclass(frozen=True, slots=True)
class Model:
    """What decoding costs of a model."""

    num_parameters: float
    """Read in every step: without an input embedding that is not also the output head."""
    num_layers: int
    num_kv_heads: int
    head_size: int = 128

    @property
    def kv_bytes(self) -> int:
        """Bytes of keys and values per token of context, in bf16."""
        return 2 * 2 * self.num_layers * self.num_kv_heads * self.head_size


MODELS = {
    "1.5B": Model(1.54e9, num_layers=28, num_kv_heads=2),  # tied head
    "7B": Model(7.07e9, num_layers=28, num_kv_heads=4),  # 7.62e9 less the input embedding of 152,064 x 3,584
}


def h100(model: Model) -> StepTime:
    """Seconds of a step of one replica on one GPU."""
    weights_s = 2 * model.num_parameters / BANDWIDTH
    token_s = 2 * model.num_parameters / FLOPS

    def base(size: int) -> float:
        return max(weights_s, token_s * size) + HOST_S + HOST_PER_SEQUENCE_S * size

    return StepTime(
        sizes=_SIZES,
        base_s=tuple(base(size) for size in _SIZES),
        context_s=model.kv_bytes / BANDWIDTH,
        prompt_token_s=token_s,
        admission_s=HOST_PER_SEQUENCE_S,
    )
