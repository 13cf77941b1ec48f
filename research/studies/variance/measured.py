"""From the measured moments of a checkpoint's scores to the variance of every rule, and to how prompts agree."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research.studies.variance.draws import NUM_SCREEN
from research.studies.variance.update_moments import Array, UpdateMoments

Indices = NDArray[Any]
"""Of prompts."""
_CLASSES = ("positive", "negative")


@dataclass(frozen=True)
class Measured:
    """What was measured of a checkpoint. Shapes ``(P,)`` over prompts, ``(P, P)`` over pairs."""

    never: float
    """Share of screened prompts without a positive; they are taken for unsolvable."""
    always: float
    """Share without a negative."""
    rates_P: Array
    delta_square_P: Array
    """Unbiased estimate of ``|Delta|^2``; negative ones occur."""
    delta_products_PP: Array
    """Unbiased inner products of the Delta of different prompts; the diagonal is that of ``delta_square_P``."""
    positive_squares_P: Array
    """Mean ``|s|^2`` of positives."""
    negative_squares_P: Array
    positive_tokens_P: Array
    negative_tokens_P: Array

    def within(self) -> tuple[Array, Array]:
        """Return the variance of a score within each class, summed over coordinates: of positives, of negatives."""
        delta_P = np.maximum(self.delta_square_P, 0.0)
        positive_P = self.positive_squares_P - (1.0 - self.rates_P) ** 2 * delta_P
        negative_P = self.negative_squares_P - self.rates_P**2 * delta_P
        return positive_P, negative_P

    @property
    def mixed(self) -> float:
        """Share of prompts that the measured ones stand for."""
        return 1.0 - self.never - self.always


def read_moments(folder: Path, screened: Sequence[int]) -> dict[str, Any]:
    """Return what is committed of a checkpoint: moments by prompt, and inner products between the classes' sums."""
    files = [np.load(file) for file in sorted(folder.glob("*.npz"))]
    rows = []
    for found in files:
        row: dict[str, Any] = {"drawn": int(found["num_drawn"]), "positives": int(found["num_positive"])}
        for name in _CLASSES:
            row[name] = {
                "num": int(found[f"{name}_num"]),
                "distinct": int(found[f"{name}_num_distinct"]),
                "squares": _short(found[f"{name}_squares"]),
                "sum_square": _short(found[f"{name}_sum_square"]),
                "tokens": _short(found[f"{name}_tokens"]),
            }
        row["cross"] = _short(found["cross"])
        rows.append(row)
    sketches = np.stack([found[f"{name}_sketch"] for found in files for name in _CLASSES]).astype(np.float64)
    return {
        "screened": [int(np.sum(np.array(screened) == count)) for count in range(NUM_SCREEN + 1)],
        "prompts": rows,
        "seconds": round(float(sum(found["seconds"] for found in files))),
        "products": [
            [_short(value) for value in line[: place + 1]] for place, line in enumerate(sketches @ sketches.T)
        ],
    }


def measured(content: dict[str, Any]) -> Measured:
    """Return unbiased estimates from what is committed, of the prompts with at least two responses of each class.

    Since a prompt's scores have mean zero, positives have the mean ``q Delta`` and negatives ``-p Delta``, and
    ``(q mean+ - p mean-) / (p^2 + q^2)`` estimates Delta with less noise than the difference of the means.
    """
    usable = [place for place, row in enumerate(content["prompts"]) if min(row[name]["num"] for name in _CLASSES) > 1]
    rows = [content["prompts"][place] for place in usable]
    screened = np.array(content["screened"], dtype=np.float64)
    rates_P = np.array([row["positives"] / row["drawn"] for row in rows])
    scale_P = 1.0 / (rates_P**2 + (1.0 - rates_P) ** 2)
    nums_PC = np.array([[row[name]["num"] for name in _CLASSES] for row in rows], dtype=np.float64)
    factors_PC = np.stack([(1.0 - rates_P) * scale_P, -rates_P * scale_P], axis=1) / nums_PC
    # |mean|^2 without the responses' products with themselves.
    squares_PC = np.array([[row[name]["squares"] for name in _CLASSES] for row in rows])
    sums_PC = np.array([[row[name]["sum_square"] for name in _CLASSES] for row in rows])
    own_PC = (sums_PC - squares_PC) * nums_PC / (nums_PC - 1.0)
    cross_P = np.array([row["cross"] for row in rows])
    delta_P = (factors_PC**2 * own_PC).sum(1) + 2 * factors_PC[:, 0] * factors_PC[:, 1] * cross_P
    sums = [2 * place + kind for place in usable for kind in range(len(_CLASSES))]
    products = _symmetric(content["products"])[np.ix_(sums, sums)]
    weights = factors_PC.reshape(-1)
    blocks = (weights[:, None] * products * weights[None, :]).reshape(len(rows), 2, len(rows), 2)
    products_PP = blocks.sum((1, 3))
    np.fill_diagonal(products_PP, delta_P)
    return Measured(
        never=float(screened[0] / screened.sum()),
        always=float(screened[-1] / screened.sum()),
        rates_P=rates_P,
        delta_square_P=delta_P,
        delta_products_PP=products_PP,
        positive_squares_P=squares_PC[:, 0] / nums_PC[:, 0],
        negative_squares_P=squares_PC[:, 1] / nums_PC[:, 1],
        positive_tokens_P=np.array([row["positive"]["tokens"] for row in rows]),
        negative_tokens_P=np.array([row["negative"]["tokens"] for row in rows]),
    )


@dataclass(frozen=True)
class RuleOnModel:
    """A rule's expectations at each measured prompt. Shapes ``(P,)``, but for the costs of the unmeasured prompts."""

    signal_P: Array
    second_moment_P: Array
    """``E|g|^2``."""
    generated_P: Array
    """Tokens."""
    trained_P: Array
    generated_unmeasured: float
    """Tokens on prompts that are never or always solved, per prompt of the mix."""
    trained_unmeasured: float


def rule_on_model(at: Callable[[Array], UpdateMoments], found: Measured) -> RuleOnModel:
    """Return what a rule does on a model whose class moments are known."""
    moments, outside = at(found.rates_P), at(np.array([0.0, 1.0]))
    positive_P, negative_P = found.within()
    shares = np.array([found.never, found.always])
    lengths = np.array([found.negative_tokens_P.mean(), found.positive_tokens_P.mean()])
    return RuleOnModel(
        signal_P=moments.signal_P,
        second_moment_P=moments.signal_square_P * found.delta_square_P
        + moments.positive_noise_P * positive_P
        + moments.negative_noise_P * negative_P,
        generated_P=moments.positive_drawn_P * found.positive_tokens_P
        + moments.negative_drawn_P * found.negative_tokens_P,
        trained_P=moments.positive_kept_P * found.positive_tokens_P + moments.negative_kept_P * found.negative_tokens_P,
        generated_unmeasured=float(shares @ (outside.drawn * lengths)),
        trained_unmeasured=float(shares @ (outside.kept * lengths)),
    )


def common_share(rule: RuleOnModel, found: Measured, of_P: Indices) -> float:
    """Return what the squared expected update is of one prompt's ``E|g|^2``; around 0 where nothing in common is seen.

    One over it, less 1, is the gradient noise scale in prompts: the step in which noise and gradient are equally large.
    The squared expected update is the mean over pairs of different prompts.

    Source:
        McCandlish et al. 2018, arXiv:1812.06162, equation 2.9 (the simple noise scale), with prompts for examples.
    """
    signal_P = rule.signal_P[of_P]
    pairs_PP = signal_P[:, None] * found.delta_products_PP[np.ix_(of_P, of_P)] * signal_P[None, :]
    gradient_square = found.mixed**2 * float(pairs_PP[of_P[:, None] != of_P[None, :]].mean())
    return gradient_square / (found.mixed * float(rule.second_moment_P[of_P].mean()))


def rule_cost(rule: RuleOnModel, found: Measured, of_P: Indices) -> dict[str, float]:
    """Return the second moment of a rule's update times the tokens of a prompt, over its squared mean signal.

    The cost of the study's first part with the model's own moments. What the prompts' gradients have in common is taken
    to be the same for all of them; how much that is cancels where two rules are compared.

    Returns:
        Costs by ``generated`` and by ``trained`` tokens.
    """
    signal = found.mixed * float(rule.signal_P[of_P].mean())
    relative = found.mixed * float(rule.second_moment_P[of_P].mean()) / signal**2
    return {kind: relative * number for kind, number in tokens(rule, found, of_P).items()}


def alignment(found: Measured, of_P: Indices) -> float:
    """Return how far the Delta of prompts agree: a mean cosine, long ones counting more.

    The mean inner product over pairs of different prompts, over their mean squared length. 1 where all are one vector,
    0 where prompts have nothing in common, NaN where the mean square is estimated below 0.
    """
    square = float(found.delta_square_P[of_P].mean())
    products_PP = found.delta_products_PP[np.ix_(of_P, of_P)]
    return float(products_PP[of_P[:, None] != of_P[None, :]].mean()) / square if square > 0 else math.nan


def tokens(rule: RuleOnModel, found: Measured, of_P: Indices) -> dict[str, float]:
    """Return the tokens of one prompt of the mix, those that are never or always solved among them."""
    return {
        "generated": found.mixed * float(rule.generated_P[of_P].mean()) + rule.generated_unmeasured,
        "trained": found.mixed * float(rule.trained_P[of_P].mean()) + rule.trained_unmeasured,
    }


def _symmetric(lines: Sequence[Sequence[float]]) -> Array:
    size = len(lines)
    square = np.zeros((size, size))
    for row, line in enumerate(lines):
        square[row, : row + 1] = line
        square[: row + 1, row] = line
    return square


def _short(value: Any) -> float:
    return float(f"{float(value):.6g}")
