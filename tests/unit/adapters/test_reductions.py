"""Each reduction as a share and a denominator, against the class that the project's own loss uses."""

from __future__ import annotations

import pytest
import torch

import ada_lightning.training.losses  # noqa: F401 - whose classes are the options
from ada_lightning.adapters.reductions import LOSSES, RULES, TERMS
from ada_lightning.core.options import OPTIONS
from ada_lightning.training.batch import BatchCounts
from tests.unit.adapters.test_core import begun, fill


@pytest.mark.parametrize("name", RULES)
def test_each_reduction_is_that_of_its_class(name):
    """Share and denominator, against the weights that the project's own loss gives to tokens."""
    core, pools = begun("ada_seq_pos", **{"loss/reduction": name}, samples_per_round=2, n_max=4, group_size=3)
    fill(pools, lambda pool, index: float(index == pool.slot))
    groups = pools.finish()
    lengths = [[len(kept.response.response_ids) for kept in group.kept] for group in groups]
    counts = BatchCounts(len(groups), sum(map(len, lengths)), sum(map(sum, lengths)))
    kind = OPTIONS["loss/reduction"][name].kind
    reduction = kind(token_scale=16) if name in ("constant", "prompt_mean") else kind()
    for pool, group in zip(pools, groups, strict=True):
        batch = _Batch(group)
        wanted = dict(
            zip(
                [kept.response.sample_index for kept in group.kept], reduction.token_weights(batch, counts), strict=True
            )
        )
        advantages = {kept.response.sample_index: kept.advantage for kept in group.trained}
        for row in pool.kept():
            found = row.advantage / advantages[row.index] / core.denominator(max_tokens=16)
            assert found == pytest.approx(float(wanted[row.index]), rel=1e-6)  # single precision there


def test_plain_losses_are_those_whose_gradient_is_plain_where_the_ratio_is_1():
    """The table of words, against the classes and their settings, which load torch."""
    plain = {"ClippedPolicyLoss", "ReinforceLoss", "RaftLoss"}
    options = {word: option for word, option in OPTIONS["loss"].items() if option.kind.__name__ in plain}
    assert {word: option.choices["reduction"] for word, option in options.items()} == LOSSES
    for word, option in options.items():
        terms = {name: option.values[name] for name in ("kl_coef", "entropy_coef") if option.values[name]}
        assert terms == TERMS.get(word, {}), word


class _Batch:
    """The two columns that reductions look at."""

    def __init__(self, group) -> None:
        self.num_tokens_B = torch.tensor([float(len(kept.response.response_ids)) for kept in group.kept])
        self.group_size_B = torch.full_like(self.num_tokens_B, len(group.kept))
        self.rewards_B = torch.zeros_like(self.num_tokens_B)
