"""The mask around the closed forms: where its numbers come from, what it keeps, and that no split changes it."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from ada_lightning.training.losses import ConstantReduction
from ada_lightning.training.token_masks import CapoMask
from tests.unit.training.test_policy import EXACT, GROUPS, fit, gradients, make_policy, pack, random_group, weights

OFF = {"min_improvement": float("-inf"), "max_improvement": float("inf"), "max_shift": float("inf")}


def trained(tiny_path, *masks):
    """A policy after one real step of AdamW, about to make the second."""
    policy = make_policy(tiny_path, token_masks=masks, optimizer=partial(torch.optim.AdamW, lr=1e-2))
    fit(policy, pack())
    return policy


def all_proxies(policy, batches):
    """m_H and m_F of every token as the update sees them."""
    seen, original = [], CapoMask.proxies

    def recording(self, *arguments):
        seen.append(original(self, *arguments))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CapoMask, "proxies", recording)
        policy._begin_update(batches[0])
        gradients(policy, batches)
    return tuple(torch.cat(parts) for parts in zip(*seen, strict=True))


def test_before_the_first_step_every_token_trains(tiny_path):
    masked, plain = trained(tiny_path, CapoMask(max_shift=1e-30)), trained(tiny_path)
    assert masked.update_metrics["train/capo_kept"] == 1
    torch.testing.assert_close(weights(masked), weights(plain), atol=0, rtol=0)


def test_the_second_update_knows_the_first_ones_moments(tiny_path):
    """A step that hardly moves keeps everything, the same step a thousand times as long does not."""
    for lr, kept_all in ((1e-6, True), (1e-1, False)):
        policy = make_policy(tiny_path, token_masks=[CapoMask()], optimizer=partial(torch.optim.AdamW, lr=lr))
        fit(policy, [*pack(), *pack(policy_version=1)])
        assert (policy.update_metrics["train/capo_kept"] == 1) == kept_all
        assert policy.update_metrics["train/token_mask"] == policy.update_metrics["train/capo_kept"]


def test_a_tokens_part_in_the_step_is_its_weight_in_the_loss(tiny_path):
    """Half the token scale doubles every token's weight, and so its own part in the step: m_F moves."""
    mask = CapoMask(**OFF)
    policy = trained(tiny_path, mask)
    (one, _), (same, _) = (all_proxies(policy, pack()) for _ in range(2))
    torch.testing.assert_close(one, same, atol=0, rtol=0)
    policy.loss.reduction = ConstantReduction(token_scale=4)
    doubled, _ = all_proxies(policy, pack())
    assert float((doubled - one).abs().max()) > 1e-5


@pytest.mark.parametrize("limit", ["min_improvement", "max_improvement", "max_shift"])
def test_each_limit_leaves_out_the_tokens_beyond_it(tiny_path, limit):
    mask = CapoMask(**OFF)
    policy = trained(tiny_path, mask)
    # what is right turns wrong, so that the momentum of the first step harms; the token's own part never does
    policy.loss.reduction = ConstantReduction(token_scale=1e6 if limit == "min_improvement" else 8)
    turned = [random_group(1, [0.0, 1.0, 1.0]), random_group(2, [1.0, 0.0])]
    (batch,) = pack(turned if limit == "min_improvement" else GROUPS)
    improvement_K, shift_K = all_proxies(policy, [batch])
    values_K = shift_K if limit == "max_shift" else improvement_K
    sign = -1 if limit == "min_improvement" else 1
    sides_K = values_K[values_K * sign > 0].sort().values
    middle = len(sides_K) // 2
    assert len(sides_K) >= 2
    setattr(mask, limit, float(sides_K[middle - 1 : middle + 1].mean()))
    policy._begin_update(batch)
    _, sums = policy.microbatch_loss(batch.microbatches[0], batch)
    kept_K = values_K <= getattr(mask, limit) if sign > 0 else values_K >= getattr(mask, limit)
    assert float(sums["capo_kept"]) == float(kept_K.sum())
    assert 0 < float(kept_K.sum()) < len(kept_K)


def test_no_split_changes_what_is_kept(tiny_path):
    mask = CapoMask(**OFF)
    policy = trained(tiny_path, mask)
    shifts_K = all_proxies(policy, pack())[1].sort().values
    gap = int((shifts_K[1:] / shifts_K[:-1].clamp_min(1e-12))[4:-4].argmax()) + 4  # far from any rounding
    mask.max_shift = float((shifts_K[gap] * shifts_K[gap + 1]).sqrt())
    policy._begin_update(pack()[0])
    whole, split = gradients(policy, pack()), gradients(policy, pack(max_tokens=1))
    torch.testing.assert_close(whole, split, **EXACT)
    mask.max_shift = float("inf")
    everything = gradients(policy, pack())
    assert max(float((whole[name] - everything[name]).abs().max()) for name in whole) > 1e-4


def test_an_optimizer_without_moments_or_without_the_head_is_refused(tiny_path):
    policy = make_policy(tiny_path, token_masks=[CapoMask()])
    with pytest.raises(ValueError, match="models a step of Adam; SGD has no such moments"):
        fit(policy, pack())
    head = policy.model.get_output_embeddings().weight
    policy.optimizer_factory = lambda parameters: torch.optim.AdamW([p for p in parameters if p is not head])
    with pytest.raises(ValueError, match="the optimiser does not train it"):
        fit(policy, pack())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_improvement": 0.1}, "min_improvement must be 0 or negative .*; got 0.1"),
        ({"max_improvement": 0.0}, "max_improvement must be positive .*; got 0.0"),
        ({"max_shift": -1.0}, "max_shift must be positive .*; got -1.0"),
        ({"max_shift": float("nan")}, "max_shift must be positive"),
        ({"block_size": 0}, "block_size must be at least 1; got 0"),
    ],
)
def test_settings_out_of_range_are_rejected(options, message):
    with pytest.raises(ValueError, match=f"token_masks.capo.{message}"):
        CapoMask(**options)
