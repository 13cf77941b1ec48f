"""The average of the weights: its formula, and that the policy is what it was once it has lent its place."""

import pytest
import torch
from lightning.pytorch import LightningModule

from ada_lightning.callbacks.weight_average import WeightAverage
from ada_lightning.training.models.trained import AllParameters
from ada_lightning.training.policy import PolicyModule


class Policy(PolicyModule):
    def __init__(self):
        LightningModule.__init__(self)
        self.model, self.trained, self.sharding = torch.nn.Linear(1, 1, bias=False), AllParameters(), None

    def become(self, value):
        with torch.no_grad():
            self.model.weight.fill_(value)


def averaged(values, *, decay, state=None):
    policy, average = Policy(), WeightAverage(decay=decay)
    average.setup(None, policy, "fit")
    if state is not None:
        average.load_state_dict(state)
    for value in values:
        policy.become(value)
        average.on_train_batch_end(None, policy)
    return policy, average


def value_of(policy, average):
    with average.as_weights():
        return policy.model.weight.item()


@pytest.mark.parametrize("num_updates", [1, 2, 7])
def test_every_update_counts_its_share_and_the_start_no_more_than_that(num_updates):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(num_updates, generator=generator).tolist()
    shares = [0.1 * 0.9 ** (num_updates - 1 - index) for index in range(num_updates)]
    expected = sum(share * value for share, value in zip(shares, values, strict=True)) / sum(shares)
    assert value_of(*averaged(values, decay=0.9)) == pytest.approx(expected, rel=1e-5)  # a few float32 roundings


def test_it_lags_a_steady_drift_by_decay_over_one_minus_decay():
    assert 400 - value_of(*averaged(range(1, 401), decay=0.9)) == pytest.approx(9, abs=1e-3)


@pytest.mark.parametrize(("decay", "expected"), [(0.9, 0.501), (0.99, 0.087)])
def test_it_takes_noise_away_as_far_as_updates_are_unlike(decay, expected):
    """Variance left of a stationary noise whose neighbours correlate with 0.9, by the weights of what is averaged."""
    num_updates, correlation = 60, 0.9
    impulses = [[float(at == index) for at in range(num_updates)] for index in (num_updates - 1, num_updates - 2)]
    last, before = (value_of(*averaged(values, decay=decay)) for values in impulses)
    bias = 1 - decay**num_updates
    assert (last * bias, before / last) == pytest.approx((1 - decay, decay), rel=1e-5)  # a geometric kernel
    kernel = (1 - decay) * decay ** torch.arange(4000, dtype=torch.float64)
    left = torch.dot(kernel, kernel)
    for lag in range(1, 400):
        left += 2 * correlation**lag * torch.dot(kernel[lag:], kernel[:-lag])
    assert float(left) == pytest.approx(expected, abs=5e-4)


def test_the_weights_come_back_untouched_whatever_happens_meanwhile():
    policy, average = averaged([1.0, 2.0], decay=0.5)
    before = policy.model.weight.data_ptr()
    assert value_of(policy, average) == pytest.approx(5 / 3)
    with pytest.raises(KeyboardInterrupt), average.as_weights():
        raise KeyboardInterrupt
    assert (policy.model.weight.data_ptr(), policy.model.weight.item()) == (before, 2.0)


def test_it_goes_on_where_a_checkpoint_left_it():
    _, first = averaged([1.0, 5.0], decay=0.9)
    resumed = averaged([2.0, -3.0], decay=0.9, state=first.state_dict())
    assert value_of(*resumed) == value_of(*averaged([1.0, 5.0, 2.0, -3.0], decay=0.9))


def test_an_average_that_a_checkpoint_brought_goes_where_the_weights_are():
    """Lightning reads a checkpoint to the CPU; the meta device stands for a GPU."""
    _, first = averaged([1.0], decay=0.9)
    policy, average = Policy(), WeightAverage(decay=0.9)
    policy.model.to("meta")
    average.setup(None, policy, "fit")
    average.load_state_dict(first.state_dict())
    with average.as_weights():
        assert policy.model.weight.device.type == "meta"
    average.on_train_batch_end(None, policy)
    assert [each.device.type for each in average.state_dict()["average"]] == ["meta"]


def test_without_a_decay_nothing_is_kept():
    _, average = averaged([1.0], decay=0.0)
    assert not average.is_there
    assert average.state_dict() == {}


def test_shards_are_refused():
    policy = Policy()
    policy.sharding = object()
    with pytest.raises(ValueError, match=r"use trainer=ddp, or callbacks.weight_average\.decay=0"):
        WeightAverage(decay=0.9).setup(None, policy, "fit")


@pytest.mark.parametrize("decay", [-0.1, 1.0])
def test_a_decay_is_a_share(decay):
    with pytest.raises(ValueError, match=r"decay must be in \[0, 1\)"):
        WeightAverage(decay=decay)
