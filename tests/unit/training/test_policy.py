"""The policy on a real, tiny Llama in float32."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from lightning.pytorch import Callback, LightningDataModule, Trainer

from ada_lightning.core.records import KeptResponse, ResponseGroup
from ada_lightning.methods.advantages import PoolMeanAdvantage
from ada_lightning.training.losses import ClippedPolicyLoss, ConstantReduction
from ada_lightning.training.policy import PolicyModule
from ada_lightning.training.updates import LinearSchedule
from tests.builders import packed, random_group
from tests.device import DEVICE

EXACT = {"atol": 2e-5, "rtol": 1e-4}  # float32 sums in another order, through 4 layers
GROUPS = [random_group(1, [1.0, 0.0, 0.0]), random_group(2, [0.0, 1.0]), random_group(3, [0.0, 0.0])]


def unloaded(tiny_path, *, cls=PolicyModule, lr=0.1, loss_options=None, **options):
    return cls(
        model_path=tiny_path,
        reference_path=tiny_path,
        **{
            "advantage": PoolMeanAdvantage(),
            "loss": ClippedPolicyLoss(reduction=ConstantReduction(token_scale=8), **(loss_options or {})),
            "optimizer": partial(torch.optim.SGD, lr=lr),
            "logprob_chunk_size": 4,
            "max_grad_norm": float("inf"),
            **options,
        },
    )


def make_policy(tiny_path, **options):
    policy = unloaded(tiny_path, **options)
    policy.configure_model()
    return policy.to(DEVICE)


def pack(groups=GROUPS, *, max_tokens=10**6, keep_all=False, advantage=None, **options):
    """Options of packing under shorter names, as the one batch of a list."""
    options |= {"max_tokens_per_microbatch": max_tokens, "keep_groups_without_signal": keep_all}
    return [packed(*groups, advantage=advantage or PoolMeanAdvantage(), **options).to(DEVICE)]


def move(policy, size=0.01):
    """Make the policy another one than its reference."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.add_(size * torch.randn(parameter.shape, generator=generator).to(DEVICE))


def gradients(policy, batches):
    policy.zero_grad()
    for batch in batches:
        for microbatch in batch:
            policy.microbatch_loss(microbatch, batch)[0].backward()
    return {name: p.grad.to("cpu", copy=True) for name, p in policy.model.named_parameters()}


@pytest.mark.parametrize("options", [{"max_tokens": 1}, {"share_prompts": False}, {"keep_all": True}])
def test_no_way_of_packing_changes_a_gradient(tiny_path, options):
    policy = make_policy(tiny_path)
    (whole,), (other,) = pack(), pack(**options)
    assert sum(m.num_computed_tokens for m in whole) < sum(m.num_computed_tokens for m in other)
    torch.testing.assert_close(gradients(policy, [whole]), gradients(policy, [other]), **EXACT)
    assert max(float(p.grad.abs().max()) for p in policy.model.parameters()) > 1e-4


def test_gradient_is_the_policy_gradient_computed_independently(tiny_path):
    """-sum_i (r_i - mean) sum_t log pi / (3 prompts * 8 tokens), by autograd through the model's own logits."""
    policy = make_policy(tiny_path, loss_options={"importance_cap": 0.0}, temperature=0.8)
    ours = gradients(policy, pack())
    policy.zero_grad()
    for group in GROUPS:
        rewards = [response.reward for response in group.pool.responses]
        for response in group.pool.responses:
            tokens = torch.tensor([(*group.pool.prompt.prompt_ids, *response.response_ids)], device=DEVICE)
            log_softmax = (policy.model(input_ids=tokens).logits[0, :-1] / 0.8).log_softmax(-1)
            first = len(group.pool.prompt.prompt_ids) - 1
            chosen = log_softmax[first:].gather(-1, tokens[0, first + 1 :, None]).sum()
            (-(response.reward - sum(rewards) / len(rewards)) * chosen / 24).backward()
    torch.testing.assert_close(ours, {n: p.grad.cpu() for n, p in policy.model.named_parameters()}, **EXACT)


def test_what_was_left_to_chance_is_undone_once(tiny_path):
    """A prompt sampled with probability 1/2, of which the first response was kept with probability 1/4."""
    pool = replace(GROUPS[0].pool, inverse_probability=2.0)
    first, *others = GROUPS[0].kept
    groups = [ResponseGroup(pool, (replace(first, inverse_probability=4.0), *others)), ResponseGroup(pool, ())]
    assert unloaded(tiny_path).advantages(groups) == [pytest.approx([16 / 3, -2 / 3, -2 / 3]), []]


class Batches(LightningDataModule):
    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def train_dataloader(self):
        return self

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return iter(self.batches)


QUIET = {
    "accelerator": DEVICE,
    "max_epochs": 1,
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


def fit(policy, batches, *callbacks, ckpt_path=None):
    trainer = Trainer(callbacks=list(callbacks), **QUIET)
    trainer.fit(policy, datamodule=Batches(batches), ckpt_path=ckpt_path)
    policy.to(DEVICE)  # Lightning leaves it on the CPU, and the optimiser's state
    for optimizer in trainer.optimizers:
        for state in optimizer.state.values():
            state |= {key: x.to(DEVICE) for key, x in state.items() if isinstance(x, torch.Tensor) and x.ndim}
    return trainer


def weights(policy):
    return {name: parameter.detach().to("cpu", copy=True) for name, parameter in policy.model.named_parameters()}


def test_a_stale_rollout_is_refused(tiny_path):
    with pytest.raises(
        RuntimeError,
        match="stale rollout: sampled by policy version 0, and after 0 updates with it the policy has version 1",
    ):
        fit(make_policy(tiny_path), [*pack(), *pack()])


def test_later_minibatches_use_the_old_logprobs(tiny_path):
    """Clip 0: any ratio on the wrong side of 1 is clipped, so a second update must see ratios that left 1."""
    policy = make_policy(tiny_path, lr=5.0, loss_options={"clip_low": 0.0, "clip_high": 0.0})
    trainer = Trainer(**QUIET)
    trainer.strategy._lightning_module = policy
    policy._trainer = trainer
    (batch,) = pack()
    scored = replace(policy.score_old(batch), has_old_logprobs=True)
    expected_K, _ = policy.token_logprobs(policy.model, batch.microbatches[0])
    torch.testing.assert_close(scored.microbatches[0].old_logprobs_K, expected_K.detach())
    _, first = policy.microbatch_loss(scored.microbatches[0], scored)
    fit(policy, [scored])
    _, second = policy.microbatch_loss(scored.microbatches[0], scored)
    assert float(first["clip_ratio"]) == 0
    assert float(second["clip_ratio"]) > 0


def test_a_gradient_that_is_not_finite_skips_the_update_and_keeps_the_count(tiny_path):
    policy = make_policy(tiny_path)
    (batch,) = pack()
    (microbatch,) = batch.microbatches
    broken = replace(microbatch, advantage_B=torch.full_like(microbatch.advantage_B, float("nan")))
    before = weights(policy)
    with pytest.warns(RuntimeWarning, match="update 1 is left out: its gradient norm is nan"):
        trainer = fit(policy, [replace(batch, microbatches=(broken,))])
    torch.testing.assert_close(weights(policy), before, atol=0, rtol=0)
    assert (policy.policy_version, policy.num_skipped_updates, trainer.global_step) == (1, 1, 0)


def test_a_batch_without_signal_changes_nothing(tiny_path):
    policy = make_policy(tiny_path)
    before = weights(policy)
    fit(policy, pack(GROUPS[2:]))
    torch.testing.assert_close(weights(policy), before, atol=0, rtol=0)
    assert policy.policy_version == 1


def test_the_logged_learning_rate_is_that_of_the_update(tiny_path):
    """Three steps of warm-up under a linear decay to a tenth."""
    used, logged = [], []

    class Noted(Callback):
        def on_before_optimizer_step(self, trainer, pl_module, optimizer):
            used.append(optimizer.param_groups[0]["lr"])

        def on_train_batch_end(self, trainer, pl_module, *_):
            logged.append(pl_module.update_metrics["train/lr"])

    policy = make_policy(tiny_path, lr=1e-3, warmup_steps=3, schedule=LinearSchedule(final=0.1))
    trainer = fit(policy, [replace(pack(policy_version=v)[0], share_done=v / 5) for v in range(5)], Noted())
    assert policy.policy_version == trainer.global_step == 5
    assert logged == used == pytest.approx([0.25e-3, 0.5e-3 * 0.82, 0.75e-3 * 0.64, 1e-3 * 0.46, 1e-3 * 0.28])


def test_logged_entropy_and_kl_are_means_over_the_pool(tiny_path):
    """Weights of 1 on the first response and 3 on the second, each in a microbatch of its own."""
    policy = make_policy(tiny_path, lr=1e-9, loss_options={"kl_coef": 1.0})
    (batch,) = pack()
    assert float(policy.microbatch_loss(batch.microbatches[0], batch)[1]["kl"]) == pytest.approx(0, abs=1e-6)
    move(policy)
    pool = random_group(1, [1.0, 0.0, 0.0, 0.0]).pool
    first, second = pool.responses[:2]
    weighted, total = {"entropy": 0.0, "kl": 0.0}, 0.0
    for response, weight in ((first, 1.0), (second, 3.0)):
        (alone,) = pack([ResponseGroup(pool, (KeptResponse(response, 1.0),))])
        logprobs_K, entropy_K = policy.token_logprobs(policy.model, alone.microbatches[0])
        reference_K, _ = policy.token_logprobs(policy.reference, alone.microbatches[0])
        gap_K = reference_K - logprobs_K
        weighted["entropy"] += weight * float(entropy_K.sum())
        weighted["kl"] += weight * float((gap_K.exp() - 1 - gap_K).sum())
        total += weight * len(response.response_ids)
    fit(policy, pack([ResponseGroup(pool, (KeptResponse(first, 1.0), KeptResponse(second, 3.0)))], max_tokens=1))
    for name, value in weighted.items():
        assert policy.update_metrics[f"train/{name}"] == pytest.approx(value / total, rel=1e-3)
    assert weighted["kl"] / total > 1e-3
    assert not any(parameter.requires_grad for parameter in policy.reference.parameters())


@pytest.mark.parametrize("option", ["gradient_checkpointing", pytest.param("compile", marks=pytest.mark.long)])
def test_faster_or_smaller_changes_no_gradient_and_no_name(tiny_path, option):
    """The same float32 operations, some of them fused by the compiler: sums in another order, as in EXACT."""
    plain, other = make_policy(tiny_path), make_policy(tiny_path, **{option: True})
    assert [name for name, _ in other.named_weights()] == [name for name, _ in plain.named_weights()]
    for share_prompts in (True, False):
        batches = pack(share_prompts=share_prompts)
        torch.testing.assert_close(gradients(other, batches), gradients(plain, batches), **EXACT)


def test_an_architecture_with_other_logits_is_refused(tiny_path):
    policy = make_policy(tiny_path)
    head = policy.model.get_output_embeddings()
    policy.model.forward = lambda input_ids, use_cache: type(
        "Output", (), {"logits": torch.ones(1, 8, head.out_features, device=DEVICE)}
    )
    with pytest.raises(ValueError, match="LlamaForCausalLM changes its logits after the output embedding"):
        fit(policy, pack())


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"warmup_steps": -1}, "warmup_steps must not be negative; got -1"),
        ({"max_grad_norm": 0}, "max_grad_norm must be positive"),
        ({"temperature": 0.0}, "temperature must be positive for training; got 0"),
        ({"logprob_chunk_size": 0}, "logprob_chunk_size must be at least 1; got 0"),
    ],
)
def test_settings_out_of_range_are_rejected(option, message):
    with pytest.raises(ValueError, match=message):
        unloaded(None, **option)
