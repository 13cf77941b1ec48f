"""The policy on a real, tiny Llama in float32."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import pytest
import torch
from lightning.pytorch import Callback, LightningDataModule, Trainer

from ada_lightning.core.records import KeptResponse, Prompt, Response, ResponseGroup, ResponsePool
from ada_lightning.methods.advantages import PoolMeanAdvantage
from ada_lightning.training.attention import FlexAttention, SdpaAttention
from ada_lightning.training.losses import ClippedPolicyLoss, ConstantReduction
from ada_lightning.training.packing import pack_groups
from ada_lightning.training.policy import PolicyModule
from ada_lightning.training.updates import LinearSchedule
from tests.builders import weighed

EXACT = {"atol": 2e-5, "rtol": 1e-4}  # float32 sums in another order, through 4 layers


def random_group(key, rewards):
    generator = random.Random(key)
    prompt_ids = tuple(generator.randrange(3, 250) for _ in range(generator.randrange(3, 12)))
    pool = ResponsePool(Prompt(f"p{key}", (), prompt_ids=prompt_ids), slot=key)
    for index, reward in enumerate(rewards):
        num_tokens = generator.randrange(1, 9)
        ids = tuple(generator.randrange(3, 250) for _ in range(num_tokens))
        logprobs = (-5.5,) * num_tokens
        pool.add(Response(f"p{key}", index, 0, ids, logprobs, "", False, reward, reward > 0.7, 0))
    return ResponseGroup(pool, tuple(KeptResponse(response, 1.0) for response in pool.responses))


GROUPS = [random_group(1, [1.0, 0.0, 0.0]), random_group(2, [0.0, 1.0]), random_group(3, [0.0, 0.0])]


def make_policy(tiny_path, *, lr=0.1, loss_options=None, **options):
    policy = PolicyModule(
        model_path=tiny_path,
        reference_path=tiny_path,
        loss=ClippedPolicyLoss(reduction=ConstantReduction(token_scale=8), **(loss_options or {})),
        attention=SdpaAttention(),
        optimizer=partial(torch.optim.SGD, lr=lr),
        **{
            "advantage": PoolMeanAdvantage(),
            "logprob_chunk_size": 4,
            "max_grad_norm": float("inf"),
            **options,
        },
    )
    policy.configure_model()
    return policy


def pack(
    groups=GROUPS,
    *,
    max_tokens=10_000,
    num_minibatches=1,
    policy_version=0,
    share_prompts=True,
    keep_all=False,
    advantage=None,
):
    return pack_groups(
        weighed(advantage or PoolMeanAdvantage(), groups),
        num_minibatches=num_minibatches,
        max_tokens_per_microbatch=max_tokens,
        policy_version=policy_version,
        shuffle_seed=0,
        keep_groups_without_signal=keep_all,
        share_prompts=share_prompts,
    )


def one_by_one_logprobs(policy, group):
    expected = []
    for kept in group.kept:
        prompt_ids, response_ids = group.pool.prompt.prompt_ids, kept.response.response_ids
        logits = policy.model(input_ids=torch.tensor([(*prompt_ids, *response_ids)])).logits[0].float()
        log_softmax = (logits / policy.temperature).log_softmax(-1)
        expected += [log_softmax[len(prompt_ids) - 1 + i, token] for i, token in enumerate(response_ids)]
    return torch.stack(expected)


@pytest.mark.parametrize("share_prompts", [True, False])
def test_a_batch_gives_the_logprobs_of_one_by_one(tiny_path, share_prompts):
    policy = make_policy(tiny_path, temperature=0.8)
    group = random_group(1, [1.0, 0.0, 0.0, 1.0])
    (batch,) = pack([group], share_prompts=share_prompts)
    (microbatch,) = batch.microbatches
    assert len(microbatch.document_lengths) == (1 if share_prompts else 4)
    logprobs_K, _ = policy.token_logprobs(policy.model, microbatch)
    order = {ids: i for i, ids in enumerate(k.response.response_ids for k in group.kept)}
    expected = one_by_one_logprobs(policy, group).split([len(k.response.response_ids) for k in group.kept])
    for index in range(4):
        mine = microbatch.response_K == index
        ids = tuple(microbatch.token_ids_K[mine].tolist())
        torch.testing.assert_close(logprobs_K[mine], expected[order[ids]], **EXACT)


def test_sharing_prompts_changes_no_gradient(tiny_path):
    policy = make_policy(tiny_path)
    shared, repeated = (gradients(policy, pack(share_prompts=share)) for share in (True, False))
    torch.testing.assert_close(shared, repeated, **EXACT)
    num_shared, num_repeated = (pack(share_prompts=s)[0].microbatches[0].num_computed_tokens for s in (True, False))
    assert num_shared < num_repeated


def test_skipping_groups_without_signal_changes_no_gradient(tiny_path):
    policy = make_policy(tiny_path)
    skipped, whole = (gradients(policy, pack(keep_all=keep_all)) for keep_all in (False, True))
    torch.testing.assert_close(skipped, whole, **EXACT)
    num_skipped, num_whole = (pack(keep_all=k)[0].microbatches[0].num_computed_tokens for k in (False, True))
    assert num_skipped < num_whole


def gradients(policy, batches):
    policy.zero_grad()
    for batch in batches:
        for microbatch in batch:
            loss, _ = policy.microbatch_loss(microbatch, batch)
            loss.backward()
    return {name: p.grad.clone() for name, p in policy.model.named_parameters()}


def test_any_split_into_microbatches_gives_the_same_gradient(tiny_path):
    policy = make_policy(tiny_path)
    whole = gradients(policy, pack())
    one_by_one = gradients(policy, pack(max_tokens=1))
    assert len(pack(max_tokens=1)[0].microbatches) == 5
    torch.testing.assert_close(whole, one_by_one, **EXACT)
    assert max(float(g.abs().max()) for g in whole.values()) > 1e-4


def test_gradient_is_the_policy_gradient_computed_independently(tiny_path):
    """-sum_i (r_i - mean) sum_t log pi / (3 prompts * 8 tokens), by autograd through the model's own logits."""
    policy = make_policy(tiny_path, loss_options={"importance_cap": 0.0})
    ours = gradients(policy, pack())
    policy.zero_grad()
    for group in GROUPS:
        rewards = [response.reward for response in group.pool.responses]
        for response in group.pool.responses:
            tokens = torch.tensor([(*group.pool.prompt.prompt_ids, *response.response_ids)])
            log_softmax = policy.model(input_ids=tokens).logits[0, :-1].log_softmax(-1)
            first = len(group.pool.prompt.prompt_ids) - 1
            chosen = log_softmax[first:].gather(-1, tokens[0, first + 1 :, None]).sum()
            (-(response.reward - sum(rewards) / len(rewards)) * chosen / 24).backward()
    torch.testing.assert_close(ours, {n: p.grad for n, p in policy.model.named_parameters()}, **EXACT)


def test_what_was_left_to_chance_is_undone_once(tiny_path):
    """A prompt sampled with probability 1/2, of which the first response was kept with probability 1/4."""
    pool = replace(GROUPS[0].pool, inverse_probability=2.0)
    first, *others = GROUPS[0].kept
    groups = [ResponseGroup(pool, (replace(first, inverse_probability=4.0), *others)), ResponseGroup(pool, ())]
    assert make_policy(tiny_path).advantages(groups) == [pytest.approx([16 / 3, -2 / 3, -2 / 3]), []]


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


def fit(policy, batches, *callbacks):
    trainer = Trainer(
        accelerator="cpu",
        callbacks=list(callbacks),
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(policy, datamodule=Batches(batches))
    return trainer


def weights(policy):
    return {name: parameter.detach().clone() for name, parameter in policy.model.named_parameters()}


def test_training_raises_the_probability_of_what_was_rewarded(tiny_path):
    policy = make_policy(tiny_path, loss_options={"importance_cap": 0.0})
    (batch,) = pack()
    (microbatch,) = batch.microbatches
    advantages_B = microbatch.advantage_B

    def objective():
        with torch.no_grad():
            logprobs_K, _ = policy.token_logprobs(policy.model, microbatch)
        return float((advantages_B[microbatch.response_K] * logprobs_K).sum())

    before = objective()
    trainer = fit(policy, [batch])
    assert objective() > before
    assert policy.policy_version == trainer.global_step == 1


def test_a_stale_rollout_is_refused(tiny_path):
    with pytest.raises(
        RuntimeError,
        match="stale rollout: sampled by policy version 0, and after 0 updates with it the policy has version 1",
    ):
        fit(make_policy(tiny_path), [*pack(), *pack()])


def test_later_minibatches_use_the_old_logprobs(tiny_path):
    """Clip 0: any ratio on the wrong side of 1 is clipped, so a second update must see ratios that left 1."""
    policy = make_policy(tiny_path, lr=5.0, loss_options={"clip_low": 0.0, "clip_high": 0.0})
    trainer = Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
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


def test_gradients_are_clipped_to_the_norm(tiny_path):
    policy = make_policy(tiny_path, lr=1.0, max_grad_norm=1e-3)
    before = weights(policy)
    fit(policy, pack())
    after = weights(policy)
    moved = torch.sqrt(sum((after[name] - before[name]).square().sum() for name in after))
    assert float(moved) == pytest.approx(1e-3, rel=1e-2)


def test_learning_rate_warms_up_linearly(tiny_path):
    policy = make_policy(tiny_path, lr=1.0, warmup_steps=3)
    config = policy.configure_optimizers()
    seen = []
    for _ in range(5):
        seen.append(config["optimizer"].param_groups[0]["lr"])
        config["optimizer"].step()
        config["lr_scheduler"].step()
    assert seen == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])


def test_the_logged_learning_rate_is_that_of_the_update(tiny_path):
    class Noted(Callback):
        rates = []  # noqa: RUF012 - of one test

        def on_train_batch_end(self, trainer, pl_module, *_):
            self.rates.append(pl_module.update_metrics["train/lr"])

    policy = make_policy(tiny_path, lr=1e-3, warmup_steps=3, schedule=LinearSchedule(final=0.1))
    batches = [replace(pack(policy_version=version)[0], share_done=version / 5) for version in range(5)]
    fit(policy, batches, Noted())
    assert Noted.rates == pytest.approx([0.25e-3, 0.5e-3 * 0.82, 0.75e-3 * 0.64, 1e-3 * 0.46, 1e-3 * 0.28])


def test_a_loss_with_other_terms_computes_groups_without_an_advantage(tiny_path):
    assert not make_policy(tiny_path).needs_groups_without_signal
    assert make_policy(tiny_path, loss_options={"kl_coef": 1.0}).needs_groups_without_signal


@pytest.mark.parametrize("max_tokens", [10_000, 1])
def test_logged_entropy_and_kl_are_means_over_the_pool(tiny_path, max_tokens):
    """Weights of 1 on the first response and 3 on the second, whatever the split; other figures stay per token."""
    policy = make_policy(tiny_path, lr=1e-9, loss_options={"kl_coef": 1.0})
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    pool = random_group(1, [1.0, 0.0, 0.0, 0.0]).pool
    first, second = pool.responses[:2]
    (batch,) = pack([ResponseGroup(pool, (KeptResponse(first, 1.0), KeptResponse(second, 3.0)))], max_tokens=max_tokens)
    weighted = {"entropy": 0.0, "kl": 0.0}
    total = 0.0
    for response, weight in ((first, 1.0), (second, 3.0)):
        (alone,) = pack([ResponseGroup(pool, (KeptResponse(response, 1.0),))])
        logprobs_K, entropy_K = policy.token_logprobs(policy.model, alone.microbatches[0])
        reference_K, _ = policy.token_logprobs(policy.reference, alone.microbatches[0])
        gap_K = reference_K - logprobs_K
        weighted["entropy"] += weight * float(entropy_K.sum())
        weighted["kl"] += weight * float((gap_K.exp() - 1 - gap_K).sum())
        total += weight * len(response.response_ids)
    fit(policy, [batch])
    for name, value in weighted.items():
        assert policy.update_metrics[f"train/{name}"] == pytest.approx(value / total, rel=1e-3)
    assert "train/pool_weight" not in policy.update_metrics
    assert policy.update_metrics["train/importance_weight"] <= 2.0


def test_kl_pulls_towards_the_frozen_reference(tiny_path):
    policy = make_policy(tiny_path, loss_options={"kl_coef": 1.0})
    (batch,) = pack()
    _, at_reference = policy.microbatch_loss(batch.microbatches[0], batch)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    _, moved = policy.microbatch_loss(batch.microbatches[0], batch)
    assert float(at_reference["kl"]) == pytest.approx(0, abs=1e-6)
    assert float(moved["kl"]) > 1e-3
    assert not any(parameter.requires_grad for parameter in policy.reference.parameters())


def test_gradient_checkpointing_changes_no_gradient(tiny_path):
    plain = gradients(make_policy(tiny_path), pack())
    recomputed = gradients(make_policy(tiny_path, gradient_checkpointing=True), pack())
    torch.testing.assert_close(plain, recomputed, **EXACT)


def test_compiled_layers_change_no_gradient_and_no_name(tiny_path):
    """The same float32 operations, some of them fused: sums in another order, as in EXACT."""
    plain, compiled = make_policy(tiny_path), make_policy(tiny_path, compile=True)
    assert [name for name, _ in compiled.named_weights()] == [name for name, _ in plain.named_weights()]
    torch.testing.assert_close(gradients(compiled, pack()), gradients(plain, pack()), **EXACT)
    torch.testing.assert_close(
        gradients(compiled, pack(share_prompts=False)), gradients(plain, pack(share_prompts=False)), **EXACT
    )


def test_an_attention_that_needs_a_gpu_does_not_start_without_one(tiny_path):
    policy = make_policy(tiny_path)
    policy.attention = FlexAttention()
    with pytest.raises(ValueError, match="FlexAttention needs a GPU, and this run has none"):
        policy.on_fit_start()


def test_an_architecture_with_other_logits_is_refused(tiny_path):
    policy = make_policy(tiny_path)
    head = policy.model.get_output_embeddings()
    policy.model.forward = lambda input_ids, use_cache: type(
        "Output", (), {"logits": torch.ones(1, 8, head.out_features)}
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
        PolicyModule(
            model_path=None,
            reference_path=None,
            advantage=PoolMeanAdvantage(),
            loss=ClippedPolicyLoss(reduction=ConstantReduction(token_scale=8)),
            attention=SdpaAttention(),
            optimizer=partial(torch.optim.SGD, lr=1.0),
            **option,
        )
