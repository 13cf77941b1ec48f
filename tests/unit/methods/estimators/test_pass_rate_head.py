from __future__ import annotations

import pytest
import torch

from ada_lightning.methods.estimators.value_network import PassRateHead


def make_head(base_rate=0.25, seed=0, learning_rate=0.01):
    settings = {"width": 8, "learning_rate": learning_rate, "weight_decay": 0.0, "base_rate": base_rate}
    return PassRateHead(3, **settings, generator=torch.Generator().manual_seed(seed))


def features(num=64, seed=1):
    return torch.randn(num, 3, generator=torch.Generator().manual_seed(seed))


def test_an_untrained_head_predicts_the_base_rate_everywhere():
    head = make_head()
    head.observe(features())
    torch.testing.assert_close(head.pass_rates(features()), torch.full((64,), 0.25))


def test_features_have_mean_0_and_spread_1_whatever_their_scale_and_however_they_came():
    head = make_head()
    raw_PH = features(200).double() * torch.tensor([1e-3, 1.0, 1e3]) + torch.tensor([0.0, 5.0, 1e4])
    for part_PH in raw_PH.float().split([1, 7, 192]):
        head.observe(part_PH)
    standard_PH = head._standardized(raw_PH.float())
    torch.testing.assert_close(standard_PH.mean(0), torch.zeros(3), atol=1e-3, rtol=0)
    torch.testing.assert_close(standard_PH.std(0, correction=0), torch.ones(3), atol=1e-3, rtol=0)


def test_a_feature_that_never_moved_cannot_explode():
    head = make_head()
    head.observe(torch.ones(10, 3))
    assert head._standardized(torch.tensor([[1.0, 2.0, -1e6]])).tolist() == [[0.0, 8.0, -8.0]]


def test_constant_features_learn_the_share_of_positives_by_response_and_not_by_pool():
    """40 of 100 responses are right, although the mean over pools is 0.6: the likelihood is binomial."""
    head = make_head(base_rate=0.5, learning_rate=0.05)
    constant = torch.zeros(2, 3)
    head.observe(constant)
    positives, sizes = torch.tensor([20.0, 20.0]), torch.tensor([20.0, 80.0])
    head.fit(constant, positives, sizes, num_epochs=200, batch_size=2)
    torch.testing.assert_close(head.pass_rates(constant), torch.full((2,), 0.4), atol=0.005, rtol=0)


def test_predictions_stay_off_0_and_1():
    head = make_head(learning_rate=0.1)
    inputs = features()
    head.observe(inputs)
    ones = torch.ones(64)
    head.fit(inputs, ones, ones, num_epochs=200, batch_size=64)
    assert float(head.pass_rates(inputs).max()) == pytest.approx(0.999)


def test_the_global_generator_is_not_touched_and_the_own_one_decides():
    before = torch.get_rng_state()
    heads = [make_head(seed=seed) for seed in (0, 0, 1)]
    for head in heads:
        head.observe(features())
        head.fit(features(), torch.ones(64), torch.full((64,), 2.0), num_epochs=1, batch_size=8)
    assert torch.equal(torch.get_rng_state(), before)
    first, same, other = (head.pass_rates(features(seed=2)) for head in heads)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_a_head_can_learn_where_gradients_are_off():
    head = make_head()
    head.observe(features())
    with torch.no_grad():
        head.fit(features(), torch.ones(64), torch.full((64,), 2.0), num_epochs=5, batch_size=8)
    assert float(head.pass_rates(features()).mean()) > 0.3  # on its way from 0.25 to 0.5


def test_other_computations_keep_their_threads(monkeypatch):
    """Counted here: once vLLM has run in a process, torch's own functions do nothing."""
    numbers = [3]
    monkeypatch.setattr(torch, "get_num_threads", lambda: numbers[-1])
    monkeypatch.setattr(torch, "set_num_threads", numbers.append)
    head = make_head()
    head.observe(features())
    with pytest.raises(RuntimeError, match="non-negative"):
        head.fit(features(), torch.ones(64), torch.ones(64), num_epochs=1, batch_size=-1)
    assert numbers[-1] == 3
    assert 1 in numbers
