"""Moments of the scores of a checkpoint's responses: one backward pass a response, sums by prompt and class.

For the n responses of a class, with scores s of mean mu, ``(|sum of s|^2 - sum of |s|^2) / (n (n - 1))`` is an unbiased
estimate of ``|mu|^2`` (a U-statistic). Inner products of different prompts are taken between sketches of their sums:
random signs, then one sum per residue of the coordinate's index (Charikar, Chen and Farach-Colton 2002; the expected
inner product of two sketches is that of the vectors).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from research.studies.variance.draws import DrawnPool

SKETCH = 65_521
"""Coordinates of a sketch: a prime, so that rows of weights do not fall on each other."""


@dataclass
class ClassMoments:
    """Of the scores of one class of one prompt's responses."""

    num: int
    """Responses measured."""
    squares: float
    """Sum of their ``|s|^2``."""
    sum_square: float
    """``|sum of s|^2``."""
    tokens: float
    """Mean response tokens."""
    num_distinct: int


class ScoreMeter:
    """Gradients of a model's log-probabilities."""

    def __init__(self, model: nn.Module, *, sketch: int = SKETCH, seed: int = 0) -> None:
        self.model = model.eval()
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.sketch = sketch
        self.num_coordinates = sum(parameter.numel() for parameter in self.parameters)
        generator = torch.Generator().manual_seed(seed)
        size = -(-self.num_coordinates // sketch) * sketch
        self._signs = torch.randint(0, 2, (size,), generator=generator, dtype=torch.int8).mul_(2).sub_(1)

    def score(self, prompt_ids: Sequence[int], response_ids: Sequence[int]) -> list[Tensor]:
        """Return the gradient of ``log pi(response | prompt)``, parameter by parameter (overwritten by the next)."""
        ids_T = torch.tensor([[*prompt_ids, *response_ids]])
        for parameter in self.parameters:
            parameter.grad = None
        logits_KV = self.model(input_ids=ids_T).logits[0, len(prompt_ids) - 1 : -1]
        logprobs_KV = logits_KV.float().log_softmax(-1)
        logprobs_KV.gather(1, ids_T[0, len(prompt_ids) :, None]).sum().backward()
        return [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]

    def class_moments(
        self, prompt_ids: Sequence[int], responses: Sequence[Sequence[int]]
    ) -> tuple[ClassMoments, Tensor]:
        """Return the moments of these responses, and the sum of their scores. Equal responses are computed once."""
        total = torch.zeros(self.num_coordinates)
        squares = 0.0
        times_drawn = Counter(map(tuple, responses))
        for response, times in times_drawn.items():
            score = self.score(prompt_ids, response)
            squares += times * sum(float(part.square().sum()) for part in score)
            offset = 0
            for part in score:
                total[offset : offset + part.numel()].add_(part.reshape(-1), alpha=times)
                offset += part.numel()
        lengths = [len(response) for response in responses]
        moments = ClassMoments(
            len(responses), squares, _square(total), float(np.mean(lengths)) if lengths else 0.0, len(times_drawn)
        )
        return moments, total

    def sketched(self, vector_D: Tensor) -> NDArray[np.float32]:
        """Return the sketch of a vector. Shape ``(sketch,)``."""
        sums = torch.zeros(self.sketch, dtype=torch.float64)
        for first in range(0, self.num_coordinates, 256 * self.sketch):
            part = vector_D[first : first + 256 * self.sketch]
            part = part * self._signs[first : first + len(part)]
            padded = nn.functional.pad(part, (0, -len(part) % self.sketch))
            sums += padded.view(-1, self.sketch).sum(0, dtype=torch.float64)
        sketch: NDArray[np.float32] = sums.float().numpy()
        return sketch


def measure_prompt(meter: ScoreMeter, pool: DrawnPool, file: Path, most_per_class: int) -> None:
    """Measure one prompt, unless its file is there."""
    if file.exists():
        return
    started = time.monotonic()
    saved: dict[str, Any] = {"num_drawn": len(pool.responses), "num_positive": sum(pool.is_positive)}
    sums = []
    for name, label in (("positive", True), ("negative", False)):
        chosen = [ids for ids, kind in zip(pool.responses, pool.is_positive, strict=True) if kind is label]
        moments, total = meter.class_moments(pool.prompt_ids, chosen[:most_per_class])
        lengths = [len(ids) for ids in chosen]
        saved |= {f"{name}_{key}": value for key, value in vars(moments).items()}
        saved |= {f"{name}_sketch": meter.sketched(total), f"{name}_tokens": np.mean(lengths) if lengths else 0.0}
        sums.append(total)
    saved["cross"] = float(torch.dot(sums[0].double(), sums[1].double()))
    saved["seconds"] = time.monotonic() - started
    partial = file.with_suffix(".partial.npz")
    np.savez(partial, **saved)
    partial.rename(file)


def load_model(path: Path) -> nn.Module:
    """Return a checkpoint in float32."""
    from transformers import AutoModelForCausalLM

    model: nn.Module = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, trust_remote_code=False)
    return model


def _square(vector_D: Tensor) -> float:
    return float(torch.stack([part.double().square().sum() for part in vector_D.split(1 << 22)]).sum())
