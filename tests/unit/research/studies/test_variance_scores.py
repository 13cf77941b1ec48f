from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ada_lightning.core.stopping.rule import FixedRule
from ada_lightning.methods.sampling import BalanceSampler
from ada_lightning.methods.selection import BalancedSelection
from research.studies.variance.draws import DrawnPool, evenly_chosen
from research.studies.variance.measured import (
    Measured,
    alignment,
    common_share,
    measured,
    read_moments,
    rule_cost,
    rule_on_model,
)
from research.studies.variance.rules import EXACT_LOG_P, of_method
from research.studies.variance.scores import ScoreMeter, measure_prompt
from research.studies.variance.update_moments import fixed_weight, update_moments


class Bigram(torch.nn.Module):
    """Each token from the one before it."""

    def __init__(self, vocabulary: int = 7) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(vocabulary, vocabulary)
        self.unused = torch.nn.Parameter(torch.ones(3))

    def forward(self, input_ids):
        return SimpleNamespace(logits=self.table(input_ids))


def bigram() -> Bigram:
    torch.manual_seed(0)
    return Bigram()


def closed_form(model, prompt, response):
    """Rows of ``one-hot - softmax``, added where the token before points."""
    score = torch.zeros(7, 7)
    for before, token in zip([prompt[-1], *response[:-1]], response, strict=True):
        score[before] += torch.nn.functional.one_hot(torch.tensor(token), 7)
        score[before] -= model.table.weight[before].detach().softmax(-1)
    return torch.cat([torch.zeros(3), score.reshape(-1)])  # parameters of the module itself come first


def test_moments_of_a_class_are_those_of_the_scores_one_by_one():
    model = bigram()
    meter = ScoreMeter(model, sketch=5)
    responses = [(1, 2), (3,), (1, 2), (6, 6, 0)]
    moments, total = meter.class_moments((4, 5), responses)
    scores = torch.stack([closed_form(model, (4, 5), response) for response in responses])
    # float32 sums
    assert torch.allclose(total, scores.sum(0), atol=1e-6)
    assert moments.squares == pytest.approx(float(scores.square().sum()), rel=1e-5)
    assert moments.sum_square == pytest.approx(float(scores.sum(0).square().sum()), rel=1e-5)
    assert (moments.num, moments.num_distinct, moments.tokens) == (4, 3, 2.0)


def test_sketches_have_the_inner_product_in_the_mean():
    model = bigram()
    first, second = torch.randn(52), torch.randn(52)
    products = []
    for seed in range(400):
        meter = ScoreMeter(model, sketch=11, seed=seed)
        products.append(float(meter.sketched(first) @ meter.sketched(second)))
    error = np.std(products) / np.sqrt(len(products))
    assert abs(np.mean(products) - float(first @ second)) < 4.5 * error


def test_a_long_vector_is_sketched_in_parts(monkeypatch):
    model = torch.nn.Linear(1000, 1, bias=False)
    meter = ScoreMeter(model, sketch=3)
    vector = torch.randn(1000)
    signs = meter._signs[:1000].float()
    expected = [(vector * signs)[residue::3].sum().item() for residue in range(3)]
    assert meter.sketched(vector) == pytest.approx(expected, abs=1e-4)


def test_a_measured_prompt_is_read_back_and_not_measured_again(tmp_path):
    model = bigram()
    meter = ScoreMeter(model, sketch=1009)  # more buckets than coordinates: sketches are exact
    pools = [
        DrawnPool("a", (4, 5), ((1,), (2, 3), (1,), (0,)), (True, False, False, True)),
        DrawnPool("b", (2,), ((1,), (2,), (3,), (3,)), (True, True, False, False)),
    ]
    for index, pool in enumerate(pools):
        measure_prompt(meter, pool, tmp_path / f"{index:03d}.npz", 32)
    measure_prompt(None, pools[0], tmp_path / "000.npz", 32)  # type: ignore[arg-type]
    found = measured(read_moments(tmp_path, screened=[0, 3, 16, 4]))
    assert (found.never, found.always, found.mixed) == (0.25, 0.25, 0.5)
    for index, pool in enumerate(pools):
        scores = [closed_form(model, pool.prompt_ids, response) for response in pool.responses]
        right = [score for score, kind in zip(scores, pool.is_positive, strict=True) if kind]
        wrong = [score for score, kind in zip(scores, pool.is_positive, strict=True) if not kind]
        # p = 1/2: Delta is the difference of the means, and its square without products of a response with itself
        u_statistic = right[0] @ right[1] + wrong[0] @ wrong[1] - 2 * (sum(right) / 2) @ (sum(wrong) / 2)
        assert found.delta_square_P[index] == pytest.approx(float(u_statistic), rel=1e-4, abs=1e-5)
        assert found.positive_squares_P[index] == pytest.approx(float(sum(s @ s for s in right) / 2), rel=1e-4)
    deltas = [_difference(model, pool) for pool in pools]
    assert found.delta_products_PP[0, 1] == pytest.approx(float(deltas[0] @ deltas[1]), rel=1e-4)


def _difference(model, pool):
    scores = [closed_form(model, pool.prompt_ids, response) for response in pool.responses]
    signs = [0.5 if kind else -0.5 for kind in pool.is_positive]
    return sum(sign * score for sign, score in zip(signs, scores, strict=True))


def population(seed: int = 0, num: int = 5, size: int = 4) -> tuple[Measured, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    rates = generator.uniform(0.1, 0.9, num)
    deltas = np.array([1.0, 0.5, 0, 0]) + 0.3 * generator.normal(size=(num, size))
    squares = (deltas**2).sum(1)
    found = Measured(
        never=0.0,
        always=0.0,
        rates_P=rates,
        delta_square_P=squares,
        delta_products_PP=deltas @ deltas.T,
        positive_squares_P=4.0 + (1 - rates) ** 2 * squares,
        negative_squares_P=9.0 + rates**2 * squares,
        positive_tokens_P=np.full(num, 2.0),
        negative_tokens_P=np.full(num, 3.0),
    )
    return found, rates, deltas


def test_a_rule_on_a_model_has_the_second_moment_of_simulated_updates():
    found, rates, deltas = population()
    ends = of_method(
        BalanceSampler(k_pos=1, k_neg=1, samples_per_round=2, n_max=8, group_size=2),
        BalancedSelection(group_size=2),
        EXACT_LOG_P,
    )
    on_model = rule_on_model(lambda rates: update_moments(ends, rates), found)
    generator = np.random.default_rng(1)
    for index, (rate, delta) in enumerate(zip(rates, deltas, strict=True)):
        chance_E = ends.probabilities(rate)
        end_X = generator.choice(len(chance_E), size=100_000, p=chance_E / chance_E.sum())
        update_XD = (ends.positive_sums_E[end_X] * (1 - rate) - ends.negative_sums_E[end_X] * rate)[:, None] * delta
        spread_X = np.sqrt(4.0 * ends.positive_squares_E + 9.0 * ends.negative_squares_E)[end_X] / 2
        update_XD += spread_X[:, None] * generator.normal(size=update_XD.shape)
        square_X = (update_XD**2).sum(1)
        assert abs(square_X.mean() - on_model.second_moment_P[index]) < 4.5 * square_X.std() / np.sqrt(len(end_X))
        tokens = 2 * ends.positives_E + 3 * ends.negatives_E
        assert on_model.generated_P[index] == pytest.approx(float(chance_E @ tokens))


def test_what_prompts_share_is_that_of_equal_prompts_in_closed_form():
    """One pass rate and one Delta: E|g|^2 = (p q^2 S+ + q p^2 S-) for A = r - p, |G|^2 = (p q)^2 |Delta|^2."""
    num, rate, delta = 4, 0.3, np.array([1.0, 2.0])
    found = Measured(
        never=0.25,
        always=0.25,
        rates_P=np.full(num, rate),
        delta_square_P=np.full(num, 5.0),
        delta_products_PP=np.full((num, num), float(delta @ delta)),
        positive_squares_P=np.full(num, 50.0),
        negative_squares_P=np.full(num, 70.0),
        positive_tokens_P=np.full(num, 10.0),
        negative_tokens_P=np.full(num, 20.0),
    )
    ends = fixed_weight(FixedRule(1), rate)
    second = 0.5 * (rate * 0.49 * 50 + 0.7 * 0.09 * 70)
    on_model = rule_on_model(lambda rates: update_moments(ends, rates), found)
    assert common_share(on_model, found, np.arange(num)) == pytest.approx((0.5 * 0.21) ** 2 * 5 / second)
    tokens = 0.5 * (0.3 * 10 + 0.7 * 20) + 0.25 * 20 + 0.25 * 10
    cost = rule_cost(on_model, found, np.arange(num))
    assert cost["generated"] == pytest.approx(second / (0.5 * 0.21) ** 2 * tokens)  # it does not know |Delta|


def test_prompts_that_pull_together_and_apart():
    found, _, deltas = population()
    some = np.array([0, 1])
    pair = deltas[0] @ deltas[1] / np.mean([deltas[i] @ deltas[i] for i in some])
    assert alignment(found, some) == pytest.approx(pair)  # not with itself
    every = deltas @ deltas.T
    between = (every.sum() - np.trace(every)) / (len(every) * (len(every) - 1))
    assert alignment(found, np.arange(len(every))) == pytest.approx(between / np.diag(every).mean())


def test_prompts_are_chosen_at_even_steps_and_only_mixed_ones():
    assert evenly_chosen([0, 16, 5, 1, 9, 16, 2, 12], num_screen=16, num_chosen=3) == [3, 2, 7]
    with pytest.raises(ValueError, match="only 5 of 8 prompts"):
        evenly_chosen([0, 16, 5, 1, 9, 16, 2, 12], num_screen=16, num_chosen=6)
