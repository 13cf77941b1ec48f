"""Mixes of pass rates that reproduce what the paper published about its runs.

A mix is a share of prompts that are never solved, a share that always are, and a Beta distribution for the rest: four
numbers. They are fitted by least squares to published figures of Seq-balance with 2 positives and 2 negatives, blocks
of 4 and at most 32 responses, of which exact expectations are computed over the mix (``python -m
research.benchmarks.simulation.pass_rates`` repeats the fit). Blocks of 4: the published sample counts are too low for
the released blocks of 8, and arXiv:2510.04996v3, appendix D, uses ``k_batch = N_max / 8``.

What the fit cannot reproduce: the share of prompts with both quotas met within two rounds (published 296 of 512 at step
200, the mix gives 370). With few samples and few unresolved prompts the figures ask for pass rates close to each
other, which the paper's filtering of prompts by pass rate makes plausible.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import beta, binom

PROMPTS = 512
_QUANTILES = (np.arange(400) + 0.5) / 400


@dataclass(frozen=True)
class Mix:
    """A distribution of pass rates."""

    never: float
    """Share of prompts with pass rate 0."""
    always: float
    """Share of prompts with pass rate 1."""
    alpha: float
    """Of the Beta distribution of the rest."""
    beta: float

    def rates(self, num_prompts: int, seed: int) -> list[float]:
        """Pass rates at the mix's own quantiles, shuffled: no sampling noise in the mix itself."""
        num_never, num_always = round(self.never * num_prompts), round(self.always * num_prompts)
        num_between = num_prompts - num_never - num_always
        between = beta.ppf((np.arange(num_between) + 0.5) / num_between, self.alpha, self.beta)
        rates = [0.0] * num_never + [1.0] * num_always + [float(rate) for rate in between]
        random.Random(seed).shuffle(rates)
        return rates

    def mean(self) -> float:
        """Expected reward of one response."""
        return self.always + (1 - self.never - self.always) * self.alpha / (self.alpha + self.beta)

    def expect(self, of_rates: NDArray[np.float64]) -> float:
        """Mean over the mix of what :func:`expectations` gives at 0, 1 and the Beta's quantiles, in this order."""
        return float(
            self.never * of_rates[0] + self.always * of_rates[1] + (1 - self.never - self.always) * of_rates[2:].mean()
        )

    def grid(self) -> NDArray[np.float64]:
        """Pass rates 0, 1 and the Beta's quantiles."""
        return np.concatenate([[0.0, 1.0], beta.ppf(_QUANTILES, self.alpha, self.beta)])


def expectations(rates_P: NDArray[np.float64], block: int, n_max: int) -> dict[str, NDArray[np.float64]]:
    """Exact expectations of Seq-balance 2/2 by pass rate.

    Returns:
        ``samples``, and chances: ``short_of_positives`` and ``short_of_negatives`` at the end, ``positive_in_two`` and
        ``both_in_two`` (quotas met within two blocks).
    """
    counts = np.arange(n_max + 1)
    at_PK = np.zeros((len(rates_P), n_max + 1))  # prompts that still sample, by number of positives
    at_PK[:, 0] = 1.0
    block_PK = binom.pmf(np.arange(block + 1)[None, :], block, rates_P[:, None])
    samples_P = np.zeros(len(rates_P))
    result: dict[str, NDArray[np.float64]] = {}
    for drawn in range(block, n_max + 1, block):
        samples_P += block * at_PK.sum(1)
        at_PK = np.stack([np.convolve(row, step)[: n_max + 1] for row, step in zip(at_PK, block_PK, strict=True)])
        at_PK[:, (counts >= 2) & (drawn - counts >= 2)] = 0.0
        if drawn == 2 * block:
            result["both_in_two"] = 1 - at_PK.sum(1)
            result["positive_in_two"] = 1 - at_PK[:, counts < 2].sum(1)
    result["samples"] = samples_P
    result["short_of_positives"] = at_PK[:, counts < 2].sum(1)
    result["short_of_negatives"] = at_PK[:, n_max - counts < 2].sum(1)
    return result


def describe(mix: Mix, block: int = 4, n_max: int = 32) -> dict[str, float]:
    """Expected figures of a step of :data:`PROMPTS` prompts, in the paper's units."""
    by_rate = expectations(mix.grid(), block, n_max)
    figures = {name: PROMPTS * mix.expect(values) for name, values in by_rate.items()}
    additional = figures.pop("samples") - 4 * PROMPTS  # counted over GRPO with 4 responses
    return {"additional": additional, "reward": mix.mean(), **figures}


PUBLISHED: dict[str, dict[str, float]] = {
    # arXiv:2510.04996v1, Figure 5 and training curves of Qwen2.5-Math-1.5B, Seq-balance, read from the vector graphics;
    # the reward is a moving average over 20 steps.
    "step 50": {"additional": 4837, "reward": 0.213},
    "step 200": {"additional": 3158, "reward": 0.341, "short_of_positives": 26, "short_of_negatives": 27},
    "step 400": {"additional": 3426, "reward": 0.438, "short_of_positives": 25, "short_of_negatives": 40},
    # No reward is published at step 600; the prompts short of negatives go on growing as from 400 (40) to 500 (51).
    "step 600": {"additional": 4044, "short_of_positives": 24, "short_of_negatives": 62},
}

_TOLERANCES = {"additional": 20.0, "reward": 0.01, "short_of_positives": 4.0, "short_of_negatives": 4.0}

MIXES = {
    "step 50": Mix(0.0326, 0.0353, 62.8531, 266.6654),
    "step 200": Mix(0.0467, 0.0455, 149.3532, 301.6386),
    "step 400": Mix(0.0486, 0.0784, 8.9734, 12.8161),
    "step 600": Mix(0.0464, 0.1211, 10.8543, 18.3769),
    # Of the 7B run only rewards are published (0.644 at step 200): unresolved shares as of 1.5B at step 600, an
    # assumption.
    "7B, step 200": Mix(0.0464, 0.1211, 12.6, 7.4),
    # No published run: pass rates spread widely, as on prompts that nobody filtered.
    "wide": Mix(0.0, 0.0, 0.5, 0.5),
}


def fit(published: dict[str, float], near: Mix) -> Mix:
    """The mix that reproduces published figures best; where they leave room, the one nearest to ``near``."""

    def decode(x: NDArray[np.float64]) -> Mix:
        never, always, between = np.exp(x[:3]) / np.exp(x[:3]).sum()
        del between
        return Mix(float(never), float(always), float(np.exp(x[3])), float(np.exp(x[4])))

    rest = 1 - near.never - near.always
    start = np.log([max(near.never, 1e-4), max(near.always, 1e-4), rest, near.alpha, near.beta])

    def loss(x: NDArray[np.float64]) -> float:
        figures = describe(decode(x))
        misses = sum(((figures[name] - value) / _TOLERANCES[name]) ** 2 for name, value in published.items())
        return misses + 0.01 * float(((x - start) ** 2).sum())

    found = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 1500, "xatol": 1e-3, "fatol": 1e-3})
    return decode(found.x)


def main() -> None:
    """Fit every mix and print it with its figures beside the published ones."""
    near = Mix(0.01, 0.01, 1.2, 2.2)
    for name in ("step 200", "step 50", "step 400", "step 600"):
        mix = fit(PUBLISHED[name], near)
        if name in ("step 200", "step 400"):
            near = mix  # the sparse ones stay near the fully described one before them
        print(f'    "{name}": Mix({mix.never:.4f}, {mix.always:.4f}, {mix.alpha:.4f}, {mix.beta:.4f}),')
        figures = describe(mix)
        for key, value in figures.items():
            print(f"        {key:<20}{value:10.3f}   published {PUBLISHED[name].get(key, '-')}")


if __name__ == "__main__":
    main()
