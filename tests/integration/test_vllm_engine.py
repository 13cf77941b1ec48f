"""The real engine on the tiny model, in float32."""

from __future__ import annotations

import gc
import random
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from ada_lightning.core.records import Prompt, SamplingSettings
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.rollout.engines.vllm_engine import VllmEngine
from ada_lightning.rollout.episodes.open_episodes import OpenEpisodes
from ada_lightning.training.packing import group_microbatch
from tests import builders
from tests.unit.rollout.episodes.local import LocalEnvironments
from tests.unit.training.test_policy import make_policy

pytestmark = pytest.mark.vllm
SETTINGS = SamplingSettings(max_new_tokens=12)
PROMPTS = [[1, 70 + index, 9, 20, 33][: 2 + index % 4] for index in range(12)]


def open_engine(path, tmp_path, **options):
    return VllmEngine(
        model_path=path,
        log_file=tmp_path / "engine.log",
        eos_token_ids=[2],
        **{"max_model_tokens": 64, "max_num_seqs": 16, "kv_cache_gib": 0.05, "dtype": "float32", **options},
    )


@pytest.fixture(scope="module")
def engine(tiny_path, tmp_path_factory):
    engine = open_engine(tiny_path, tmp_path_factory.mktemp("engine"))
    yield engine
    engine.close()


def load(tiny_path):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(tiny_path, dtype=torch.float32)


def named(model):
    return ((name, parameter.detach()) for name, parameter in model.named_parameters())


def generate(engine, prompts=PROMPTS, settings=SETTINGS, seed=0):
    for index, prompt in enumerate(prompts):
        engine.submit(f"r{index}", prompt, settings, seed=None if seed is None else seed + index)
    done = {}
    while engine.num_in_flight():
        done |= {generation.request_id: generation for generation in engine.poll()}
    return [done[f"r{index}"] for index in range(len(prompts))]


def logprobs(model, prompt, response_ids, temperature=1.0):
    """The model's own, of every token of a response."""
    tokens = torch.tensor([[*prompt, *response_ids]])
    with torch.no_grad():
        log_softmax = (model(tokens).logits[0].float() / temperature).log_softmax(-1)
    return log_softmax[len(prompt) - 1 : -1].gather(-1, tokens[0, len(prompt) :, None])[:, 0]


def largest_gap(engine, model, settings=SETTINGS):
    """Largest difference between the engine's logprobs and the model's own, over every sampled token."""
    gaps = []
    for prompt, generation in zip(PROMPTS, generate(engine, settings=settings), strict=True):
        expected = logprobs(model, prompt, generation.response_ids, settings.temperature)
        gaps.append((expected - torch.tensor(generation.sampling_logprobs)).abs().max())
    return float(torch.stack(gaps).max())


def move(model, is_moved):
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if is_moved(name):
                parameter.add_(0.5 * parameter.std() * torch.randn_like(parameter))


@pytest.mark.parametrize(
    "is_moved",
    [
        lambda name: False,
        lambda name: "embed" in name,  # tied to the output head, which vLLM forgets to reload
        lambda name: "mlp" in name or "self_attn" in name,
        lambda name: "norm" in name,
        lambda name: True,
    ],
    ids=["none", "tied embedding", "layers", "norms", "all"],
)
def test_logprobs_equal_the_trainers_after_every_kind_of_weight_change(engine, tiny_path, is_moved):
    model = load(tiny_path)
    move(model, is_moved)
    engine.load_weights(named(model), policy_version=1)
    assert largest_gap(engine, model) < 1e-3


def test_a_stale_engine_would_be_noticed(engine, tiny_path):
    """The other side of the test above: without the sync the gap is far above its bound."""
    model = load(tiny_path)
    engine.load_weights(named(model), policy_version=1)
    move(model, lambda name: "embed" in name)
    assert largest_gap(engine, model) > 0.1


def test_logprobs_are_those_of_the_tempered_distribution(engine, tiny_path):
    model = load(tiny_path)
    engine.load_weights(named(model), policy_version=1)
    assert largest_gap(engine, model, SamplingSettings(max_new_tokens=12, temperature=0.6)) < 1e-3


class TurnsOfFourTokens:
    """The engine, with turns that are complete at their length: one token in 259 would end one."""

    def __init__(self, engine):
        self.engine = engine

    def poll(self):
        return [replace(generation, is_truncated=False) for generation in self.engine.poll()]

    def __getattr__(self, name):
        return getattr(self.engine, name)


def test_logprobs_of_five_turns_are_the_trainers_in_one_pass_as_those_of_one_turn_are(engine, tiny_path, monkeypatch):
    """What the engine drew in five requests, each from the prefix that it had cached, is one document for the policy.

    The first turn is what a response of one turn is, so its mean gap is the yardstick (2e-7: rounding of float32). A
    mean of a hundred such gaps does not double; a token or a position out of place changes it a million times as much.
    """
    policy = make_policy(tiny_path)
    engine.load_weights(named(policy.model), policy_version=1)
    environments = LocalEnvironments(monkeypatch, "Echo", turns=5)
    scaffold = lambda text: [2, 1, *text.encode()[:4], 2, 1]  # noqa: E731
    settings = SamplingSettings(max_new_tokens=4)
    groups, _ = builders.collect(
        [Prompt(f"p{index}", (), prompt_ids=tuple(ids)) for index, ids in enumerate(PROMPTS)],
        TurnsOfFourTokens(engine), UniformSampler(group_size=2), settings=settings,
        episodes=OpenEpisodes(environments, scaffold, max_turns=5, seed=0),
    )  # fmt: skip
    gaps, turns = [], []
    for group in groups:
        batch = group_microbatch(group)
        with torch.no_grad():
            gaps.append((policy.token_logprobs(policy.model, batch)[0] - batch.sampling_logprobs_K).abs().numpy())
        for response in group.pool.responses:
            assert len(response.episode.turns) == 5
            is_sampled = np.array(response.episode.is_sampled, dtype=int)
            turns.append(np.cumsum(np.diff(is_sampled, prepend=0) == 1)[is_sampled == 1])
    gaps_K, turns_K = np.concatenate(gaps), np.concatenate(turns)
    first, *later = (float(gaps_K[turns_K == turn].mean()) for turn in range(1, 6))
    assert first < 1e-5
    assert max(later) < 2 * first, (first, later)


def test_a_prefix_of_the_old_policy_is_forgotten(engine, tiny_path):
    """Prompts longer than a block, so that a stale prefix would be hit."""
    long_prompts = [[1, *range(10, 50)]] * 2
    model = load(tiny_path)
    engine.load_weights(named(model), policy_version=1)
    before = generate(engine, long_prompts)
    move(model, lambda name: True)
    engine.load_weights(named(model), policy_version=2)
    (first, _), (old, _) = generate(engine, long_prompts), before
    tokens = torch.tensor([long_prompts[0] + list(first.response_ids)])
    with torch.no_grad():
        expected = model(tokens).logits[0].log_softmax(-1)[40:-1].gather(-1, tokens[0, 41:, None])[:, 0]
    torch.testing.assert_close(torch.tensor(first.sampling_logprobs), expected, atol=1e-3, rtol=0)
    assert first != old


def test_seeded_responses_do_not_depend_on_what_else_runs(engine):
    alone = [generate(engine, [prompt], seed=100 + index)[0] for index, prompt in enumerate(PROMPTS)]
    together = generate(engine, PROMPTS, seed=100)
    assert [g.response_ids for g in alone] == [g.response_ids for g in together]


def test_unseeded_responses_differ(engine):
    responses = {g.response_ids for g in generate(engine, [PROMPTS[3]] * 8, seed=None)}
    assert len(responses) > 1


def test_a_response_ends_with_its_end_token_or_is_marked_truncated(engine):
    generations = generate(engine, PROMPTS * 6, SamplingSettings(max_new_tokens=40))
    ended = [g for g in generations if not g.is_truncated]
    assert ended
    assert all(g.response_ids[-1] == 2 and 2 not in g.response_ids[:-1] for g in ended)
    cut = [g for g in generations if g.is_truncated]
    assert cut
    assert all(len(g.response_ids) == 40 and 2 not in g.response_ids for g in cut)
    assert all(len(g.sampling_logprobs) == len(g.response_ids) for g in generations)


def test_aborted_requests_return_how_many_tokens_they_had_and_others_finish(engine):
    for index in range(4):
        engine.submit(f"a{index}", [1, 5, 6], SETTINGS, seed=index)
    engine.poll()
    assert 0 <= engine.abort(["a0", "a1", "unknown"]) <= 2 * SETTINGS.max_new_tokens
    finished = set()
    while engine.num_in_flight():
        finished |= {generation.request_id for generation in engine.poll()}
    assert finished == {"a2", "a3"}
    assert engine.poll() == []


def test_a_prompt_without_room_is_refused_with_the_way_out(engine):
    with pytest.raises(ValueError, match=r"60 tokens and a response of 12 need 72 tokens; .* raise rollout\.max_model"):
        engine.submit("long", [5] * 60, SETTINGS, seed=0)
    assert engine.num_in_flight() == 0


def test_weights_are_not_changed_under_running_requests(engine, tiny_path):
    engine.submit("running", [1, 5], SETTINGS, seed=0)
    with pytest.raises(RuntimeError, match="1 requests in flight"):
        engine.load_weights(named(load(tiny_path)), policy_version=1)
    engine.abort(["running"])


def test_starting_an_engine_leaves_the_process_as_it_was(engine, tiny_path, tmp_path, capfd, monkeypatch):
    asked = []
    monkeypatch.setattr(gc, "freeze", lambda: asked.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: asked.append("unfreeze"))
    random.seed(3), np.random.seed(3), torch.manual_seed(3)
    expected = random.random(), np.random.rand(), torch.rand(1).item()
    random.seed(3), np.random.seed(3), torch.manual_seed(3)
    num_threads = torch.get_num_threads()
    second = open_engine(tiny_path, tmp_path)
    try:
        assert (random.random(), np.random.rand(), torch.rand(1).item()) == expected
        assert torch.get_num_threads() == num_threads
        out, err = capfd.readouterr()
        assert out + err == ""
        assert "LlamaForCausalLM" in (tmp_path / "engine.log").read_text()
        assert len(generate(second)) == len(PROMPTS)
    finally:
        second.close()
        second.close()
    assert not [t for t in threading.enumerate() if "EngineCore" in t.name]
    assert "unfreeze" not in asked  # else all imports are looked through for garbage until the process ends


@pytest.mark.parametrize("option", ["max_model_tokens", "max_num_seqs", "kv_cache_gib", "block_size"])
def test_limits_must_be_positive(tiny_path, tmp_path, option):
    with pytest.raises(ValueError, match=f"{option} must be positive; got 0"):
        open_engine(tiny_path, tmp_path, **{option: 0})


def test_norms_on_a_cpu_are_the_c_kernels_and_compute_the_same(engine):
    """Both round once to the tensor's type at the end, so they may differ by one unit in the last place."""
    from vllm import ir

    assert ir.ops.rms_norm.get_priority()[0] == "vllm_c_on_cpu"
    assert ir.ops.fused_add_rms_norm.get_priority()[0] == "vllm_c_on_cpu"
    generator = torch.Generator().manual_seed(0)
    x, residual = (torch.randn(33, 192, generator=generator) for _ in range(2))
    weight = torch.rand(192, generator=generator) + 0.5
    for name, inputs in (("rms_norm", (x,)), ("fused_add_rms_norm", (x, residual))):
        impls = getattr(ir.ops, name).impls
        ours, native = (
            impls[provider].impl_fn(*(tensor.clone() for tensor in inputs), weight, 1e-5)
            for provider in ("vllm_c_on_cpu", "native")
        )
        torch.testing.assert_close(ours, native, rtol=2 * torch.finfo(torch.float32).eps, atol=1e-6)


def test_what_has_a_setting_of_its_own_cannot_be_set_past_it(tiny_path, tmp_path):
    with pytest.raises(TypeError, match="multiple values for keyword argument 'logprobs_mode'"):
        open_engine(tiny_path, tmp_path, extra={"logprobs_mode": "raw_logprobs"})
