"""A loss with trainable parameters of its own: made, trained, clipped, saved and restored beside the policy."""

from __future__ import annotations

import pytest
import torch
from lightning.pytorch import Callback

from tests.unit.training.losses.test_flow import make_policy
from tests.unit.training.test_policy import fit, pack, weights
from tests.unit.training.test_policy import make_policy as make_clipped_policy


class DropLoops(Callback):
    """As the run's own checkpoint callback does: the stream's length is what is left."""

    def on_save_checkpoint(self, trainer, pl_module, checkpoint):
        checkpoint.pop("loops", None)


def batches(*versions):
    return [batch for version in versions for batch in pack(policy_version=version, keep_all=True)]


def test_the_head_is_a_function_of_its_seed_and_draws_nothing_from_others(tiny_path):
    before = torch.get_rng_state()
    first, second = (make_policy(tiny_path).loss.state_dict() for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    torch.testing.assert_close(first, second, atol=0, rtol=0)
    assert len(first) == 10  # two layers of linear and norm, one output
    policy = make_policy(tiny_path)  # and the engine gets none of them
    assert [name for name, _ in policy.named_weights()] == [name for name, _ in policy.model.named_parameters()]


def test_both_train_with_learning_rates_of_their_own_under_one_warm_up(tiny_path):
    policy = make_policy(tiny_path, warmup_steps=1)
    before, head_before = weights(policy), {n: p.detach().cpu().clone() for n, p in policy.loss.named_parameters()}
    trainer = fit(policy, batches(0))
    assert [group["initial_lr"] for group in trainer.optimizers[0].param_groups] == [1e-3, 1e-2]
    for name, parameter in policy.loss.named_parameters():
        # where there is a gradient, Adam's first step is as long as the learning rate: half of it, in the warm-up
        moved = (parameter.cpu() - head_before[name]).abs()
        assert float(moved.max()) == pytest.approx(5e-3, rel=0.05), name
    assert any(not torch.equal(before[name], after) for name, after in weights(policy).items())
    assert policy.update_metrics["train/loss_grad_norm"] > 0


def test_gradients_are_clipped_apart(tiny_path):
    """The head's own error does not shorten the policy's step: its gradient is what is left without a limit on it."""
    free, tight = (make_policy(tiny_path, max_grad_norm=norm) for norm in (float("inf"), 1e-3))
    for policy in (free, tight):
        policy.optimizer_factory = lambda parameters: torch.optim.SGD(parameters, lr=1.0)
        policy.loss.learning_rate = 1.0
        before, head = weights(policy), {n: p.detach().cpu().clone() for n, p in policy.loss.named_parameters()}
        fit(policy, batches(0))
        policy.moved = torch.cat([(after - before[name]).flatten() for name, after in weights(policy).items()])
        policy.head_moved = torch.cat(
            [(p.detach().cpu() - head[n]).flatten() for n, p in policy.loss.named_parameters()]
        )
    assert float(tight.moved.norm()) == pytest.approx(1e-3, rel=1e-2)
    assert float(tight.head_moved.norm()) == pytest.approx(1e-3, rel=1e-2)
    assert float(free.head_moved.norm()) > 1


def test_a_broken_head_stops_the_policy_too(tiny_path):
    policy = make_policy(tiny_path)
    with torch.no_grad():
        policy.loss.partition.output.bias.fill_(float("nan"))
    before = weights(policy)
    with pytest.warns(RuntimeWarning, match="update 1 is left out: its gradient norm is nan"):
        fit(policy, batches(0))
    torch.testing.assert_close(weights(policy), before, atol=0, rtol=0)
    assert (policy.policy_version, policy.num_skipped_updates) == (1, 1)


def test_a_resumed_run_continues_to_the_bit(tiny_path, tmp_path):
    """Head, its moments and its dropout: three updates at once, and with a stop after the second."""
    whole = make_policy(tiny_path, dropout=0.5)
    fit(whole, batches(0, 1, 2))
    first = make_policy(tiny_path, dropout=0.5)
    trainer = fit(first, batches(0, 1), DropLoops())
    first.model.save_pretrained(tmp_path / "policy")
    trainer.save_checkpoint(tmp_path / "trainer.ckpt")
    torch.manual_seed(123)  # a resumed process has another history of random numbers
    second = make_policy(tiny_path, dropout=0.5)
    second.model.load_state_dict(type(second.model).from_pretrained(tmp_path / "policy").state_dict())
    second.loss.partition.output.bias.data.fill_(7.0)
    fit(second, batches(2), ckpt_path=tmp_path / "trainer.ckpt")
    torch.testing.assert_close(weights(second), weights(whole), atol=0, rtol=0)
    torch.testing.assert_close(second.loss.state_dict(), whole.loss.state_dict(), atol=0, rtol=0)
    saved = torch.load(tmp_path / "trainer.ckpt", weights_only=True)
    assert saved["state_dict"] == {}
    assert len(saved["policy"]["loss"]) == 10


def test_a_checkpoint_of_another_loss_is_refused(tiny_path):
    flow, clipped = make_policy(tiny_path), make_clipped_policy(tiny_path)
    saved_flow, saved_clipped = {}, {}
    flow.on_save_checkpoint(saved_flow)
    clipped.on_save_checkpoint(saved_clipped)
    with pytest.raises(ValueError, match="FlowRlLoss has 10 parameters of its own, and this run's checkpoint holds 0"):
        flow.on_load_checkpoint(saved_clipped)
    with pytest.raises(ValueError, match=r"ClippedPolicyLoss has 0 parameters of its own, and this run's .* holds 10"):
        clipped.on_load_checkpoint(saved_flow)
    with pytest.raises(ValueError, match="continue with the loss that the run was started with"):
        make_policy(tiny_path, num_layers=2).on_load_checkpoint(saved_flow)
