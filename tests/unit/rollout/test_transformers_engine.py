"""The engine of transformers on the tiny model, in float32, on every device that is here."""

from __future__ import annotations

import math
import random
from types import SimpleNamespace

import pytest
import torch

from ada_lightning.core.records import SamplingSettings
from ada_lightning.rollout.engines.transformers_decoder import Decoder, attend, draw
from ada_lightning.rollout.engines.transformers_engine import TransformersEngine, check_layers
from tests.integration.test_vllm_engine import PROMPTS, generate, largest_gap, load, logprobs, move, named

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
SETTINGS = SamplingSettings(max_new_tokens=12)


@pytest.fixture(params=DEVICES)
def engine(request, tiny_path, tmp_path):
    """Fewer slots than the twelve prompts, which are of two to five tokens."""
    engine = open_engine(tiny_path, tmp_path, device=request.param)
    yield engine
    engine.close()


def open_engine(path, tmp_path, **options):
    return TransformersEngine(
        model_path=path,
        log_file=tmp_path / "engine.log",
        eos_token_ids=[2],
        **{"max_model_tokens": 64, "max_num_seqs": 5, "dtype": "float32", **options},
    )


@pytest.mark.parametrize("temperature", [1.0, 0.6, 0.0, 2])
def test_logprobs_are_those_of_one_sequence_at_a_time(engine, tiny_path, temperature):
    """Slots are reused, prompts are padded, and positions differ in a step: none of it shows. Greedy is untempered."""
    settings = SamplingSettings(max_new_tokens=12, temperature=temperature)
    expected = SamplingSettings(max_new_tokens=12, temperature=temperature or 1.0)
    model = load(tiny_path)
    drawn = generate(engine, settings=settings)
    for prompt, generation in zip(PROMPTS, drawn, strict=True):
        assert len(generation.response_ids) == 12 or generation.response_ids[-1] == 2
        own = logprobs(model, prompt, generation.response_ids, expected.temperature)
        assert (own - torch.tensor(generation.sampling_logprobs)).abs().max() < 1e-4
        if temperature == 0:
            whole = model(torch.tensor([[*prompt, *generation.response_ids]])).logits[0, len(prompt) - 1 : -1]
            assert whole.argmax(-1).tolist() == list(generation.response_ids)


def test_every_size_of_a_step_gives_the_same(tiny_path, tmp_path):
    """Prompts of 1 to 129 tokens in 20 slots: steps of 8, 16 and 20 rows, of 64, 128 and 200 positions, both ways."""
    model = load(tiny_path)
    prompts = [[1 + (7 * index + place) % 250 for place in range(1 + 8 * index % 130)] for index in range(40)]
    for device in DEVICES:
        engine = open_engine(tiny_path, tmp_path, device=device, max_model_tokens=200, max_num_seqs=20)
        for version in range(2):
            move(model, lambda name: True)
            engine.load_weights(named(model), policy_version=version)
            for prompt, generation in zip(prompts, generate(engine, prompts=prompts), strict=True):
                own = logprobs(model, prompt, generation.response_ids)
                assert (own - torch.tensor(generation.sampling_logprobs)).abs().max() < 1e-4
        engine.close()


def test_weights_are_replaced_those_of_a_tied_head_too(engine, tiny_path):
    model = load(tiny_path)
    move(model, lambda name: True)
    assert largest_gap(engine, model) > 0.1
    engine.load_weights(named(model), policy_version=1)
    assert largest_gap(engine, model) < 1e-4


def test_weights_that_do_not_all_come_are_refused(engine, tiny_path):
    some = [(name, tensor) for name, tensor in named(load(tiny_path)) if "layers.1.mlp.up_proj" not in name]
    with pytest.raises(RuntimeError, match=r"version 3 came without model\.layers\.1\.mlp\.up_proj\.weight"):
        engine.load_weights(some, policy_version=3)
    whole = dict(named(load(tiny_path)))
    with pytest.raises(RuntimeError, match=r"with x\.weight of shape \(1,\); the engine's model has no such weight"):
        engine.load_weights([("x.weight", torch.ones(1))], policy_version=3)
    with pytest.raises(RuntimeError, match=r"with model\.norm\.weight of shape \(1,\); the engine's model has \("):
        engine.load_weights((whole | {"model.norm.weight": torch.ones(1)}).items(), policy_version=3)
    engine.submit("r0", [1, 70], SETTINGS, seed=0)
    with pytest.raises(RuntimeError, match="1 requests in flight"):
        engine.load_weights(named(load(tiny_path)), policy_version=3)


def test_a_response_is_its_seeds_whoever_runs_beside_it(engine):
    alone = generate(engine, prompts=[[1, 70, 9]], seed=5)[0]
    engine.submit("other", [1, 71, 9, 20], SamplingSettings(max_new_tokens=40), seed=77)
    engine.poll()
    beside = generate(engine, prompts=[[1, 70, 9], [1, 70, 9]], seed=5)
    assert beside[0].response_ids == alone.response_ids
    assert beside[1].response_ids != alone.response_ids


def test_without_seeds_responses_differ(engine):
    first, second = generate(engine, prompts=[[1, 70, 9]] * 2, seed=None)
    assert first.response_ids != second.response_ids


def test_an_end_token_ends_a_response_and_frees_its_slot(engine, tiny_path, tmp_path):
    greedy = SamplingSettings(max_new_tokens=12, temperature=0.0)
    whole = generate(engine, prompts=[[1, 70, 9]], settings=greedy)[0]
    assert whole.is_truncated == (whole.response_ids[-1] != 2)
    ending = open_engine(tiny_path, tmp_path, max_num_seqs=1)
    ending._eos_token_ids = {whole.response_ids[3]}
    num_tokens = whole.response_ids.index(whole.response_ids[3]) + 1
    for generation in generate(ending, prompts=[[1, 70, 9]] * 3, settings=greedy):
        assert generation.response_ids == whole.response_ids[:num_tokens]
        assert not generation.is_truncated


def test_aborted_requests_are_gone_with_what_they_had(engine):
    for index in range(7):
        engine.submit(f"r{index}", [1, 70 + index], SETTINGS, seed=index)
    engine.poll()
    engine.poll()
    assert engine.abort(["r0", "r6", "unknown"]) == 2  # r6 waits
    assert engine.num_in_flight() == 5
    done = set()
    while engine.num_in_flight():
        done |= {generation.request_id for generation in engine.poll()}
    assert done == {"r1", "r2", "r3", "r4", "r5"}
    assert engine.poll() == []


def test_logits_that_are_no_numbers_are_an_error(engine, tiny_path):
    broken = [(name, tensor * math.nan if "norm" in name else tensor) for name, tensor in named(load(tiny_path))]
    engine.load_weights(broken, policy_version=1)
    engine.submit("r0", [1, 70], SETTINGS, seed=0)
    with pytest.raises(RuntimeError, match="logits after 2 tokens are not finite"):
        engine.poll()


def test_prompts_are_computed_few_at_once_and_equal_ones_once(tiny_path, tmp_path, monkeypatch):
    engine = open_engine(tiny_path, tmp_path, max_num_seqs=16, max_prefill_tokens=8, device="cpu")
    sizes, tokens, prefill = [], [], engine._prefill

    def noted(slots_of):
        sizes.append(len(slots_of))
        tokens.append(len(slots_of) * max(map(len, slots_of)))
        prefill(slots_of)

    monkeypatch.setattr(engine, "_prefill", noted)
    model = load(tiny_path)
    assert largest_gap(engine, model) < 1e-4
    assert sum(sizes) == len({tuple(prompt) for prompt in PREFIXES}), "equal prefixes of one poll are computed once"
    assert max(tokens) <= 8


@pytest.mark.parametrize("is_padded", [False, True])
def test_a_prompt_that_a_slot_still_has_is_copied_and_never_with_other_weights(
    tiny_path, tmp_path, monkeypatch, is_padded
):
    """Requests come and end one by one, so that slots are free, moved and given on; padded steps write free ones."""
    engine = open_engine(tiny_path, tmp_path, max_num_seqs=6, device="cpu")
    if is_padded:
        monkeypatch.setattr(engine._decoder, "size", lambda number: 6)
    computed, prefill = [], engine._prefill
    monkeypatch.setattr(engine, "_prefill", lambda slots_of: (computed.extend(slots_of), prefill(slots_of)))
    model, generator = load(tiny_path), random.Random(0)
    prompts = [[1, 70, 9], [9, 71, 9, 20, 33], [33, 72], [20, 9, 70, 71], [5]]
    for version in range(3):
        move(model, lambda name: True)
        engine.load_weights(named(model), policy_version=version)
        computed.clear()
        waiting, found = list(range(120)), []
        while waiting or engine.num_in_flight():
            for _ in range(generator.randrange(3)):
                if waiting:
                    is_edge = len(waiting) in (1, 120)  # what the last one leaves would serve the first one of later
                    prompt = prompts[0 if is_edge else generator.randrange(len(prompts))]
                    settings = SamplingSettings(max_new_tokens=1 + generator.randrange(9))
                    engine.submit(f"{prompts.index(prompt)}/{waiting.pop()}", prompt, settings, seed=len(waiting))
            found += engine.poll()
        assert len(found) == 120
        for each in found:
            own = logprobs(model, prompts[int(each.request_id[0])], each.response_ids, 1.0)
            assert (own - torch.tensor(each.sampling_logprobs)).abs().max() < 1e-4
        assert 4 <= len(computed) < 60


def test_responses_of_one_prompt_that_follow_one_another_have_it_computed_once(tiny_path, tmp_path, monkeypatch):
    engine = open_engine(tiny_path, tmp_path, max_num_seqs=4, device="cpu")
    computed, prefill = [], engine._prefill
    monkeypatch.setattr(engine, "_prefill", lambda slots_of: (computed.extend(slots_of), prefill(slots_of)))
    for index in range(24):
        settings = SamplingSettings(max_new_tokens=3 + 5 * index % 7)
        engine.submit(f"r{index}", [1, 70 + index // 8, 9], settings, seed=index)
    while engine.num_in_flight():
        engine.poll()
    assert computed == [(1, 70), (1, 71), (1, 72)]


PREFIXES = [[1, 70 + index, 9, 20, 33][: 1 + index % 4] for index in range(12)]


def test_requests_without_room_are_refused(engine):
    with pytest.raises(ValueError, match="need 65 tokens; the engine has room for 64"):
        engine.submit("r0", [1] * 53, SETTINGS, seed=0)
    with pytest.raises(ValueError, match="empty prompt"):
        engine.submit("r0", [], SETTINGS, seed=0)


def test_attention_that_is_not_computed_is_refused():
    query, key = torch.zeros(1, 2, 1, 4), torch.zeros(1, 1, 3, 4)
    with pytest.raises(ValueError, match="softcap"):
        attend(torch.nn.Identity(), query, key, key, torch.ones(1, 1, 1, 3, dtype=torch.bool), softcap=30.0)


def test_a_step_may_overwrite_the_logits_of_the_last(tiny_path, tmp_path, monkeypatch):
    """A graph on a GPU has one place for what it computes; here every step has the same, too."""
    step, place = Decoder.step, []

    def overwriting(*arguments):
        logits_BV = step(*arguments)
        if place and place[0].shape == logits_BV.shape:
            return place[0].copy_(logits_BV)
        place[:] = [logits_BV]
        return logits_BV

    monkeypatch.setattr(Decoder, "step", overwriting)
    engine = open_engine(tiny_path, tmp_path, device="cpu")
    assert largest_gap(engine, load(tiny_path)) < 1e-4


def test_query_heads_share_key_heads_in_order(tmp_path):
    """Six query heads on three key heads, and weights of the head that are not the embedding's."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"vocab_size": 300, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2}
    model = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=6, num_key_value_heads=3))
    move(model, lambda name: True)
    model.eval().save_pretrained(tmp_path / "model")
    for device in DEVICES:
        engine = open_engine(tmp_path / "model", tmp_path, device=device)
        assert largest_gap(engine, model) < 1e-4
        engine.close()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_num_seqs": 0}, "max_num_seqs must be positive; got 0"),
        ({"max_prefill_tokens": -1}, "max_prefill_tokens must be positive; got -1"),
        ({"dtype": "int8"}, "dtype must be one of auto, bfloat16, float16, float32; got int8"),
        ({"device": "tpu"}, "device must be one of auto, cpu, cuda; got tpu"),
    ],
)
def test_wrong_arguments_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        TransformersEngine.check_arguments(**wrong)


def saved(config, path):
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(path)
    return path


def test_architectures_that_go_their_own_way_are_refused_at_the_start(tmp_path):
    from transformers import BloomConfig, CodeGenConfig, Gemma2Config

    sizes = {"vocab_size": 300, "hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2}
    codegen = CodeGenConfig(vocab_size=300, n_embd=32, n_head=4, n_layer=2, rotary_dim=8)
    with pytest.raises(ValueError, match="codegen does not decode with rollout=transformers: it has attention of its"):
        open_engine(saved(codegen, tmp_path / "codegen"), tmp_path)
    gemma = Gemma2Config(**sizes, num_key_value_heads=1, intermediate_size=32, head_dim=16)
    with pytest.raises(ValueError, match=r"gemma2 does not decode with rollout=transformers .*softcap"):
        open_engine(saved(gemma, tmp_path / "gemma2"), tmp_path)
    bloom = BloomConfig(vocab_size=300, hidden_size=32, n_head=2, n_layer=2)
    with pytest.raises(ValueError, match="bloom does not decode with rollout=transformers"):
        open_engine(saved(bloom, tmp_path / "bloom"), tmp_path)


@pytest.mark.parametrize("name", ["step", "check"])
def test_a_model_that_decodes_or_checks_otherwise_than_it_reads_is_refused(tiny_path, tmp_path, monkeypatch, name):
    call = getattr(Decoder, name)
    monkeypatch.setattr(Decoder, name, lambda self, tokens, positions_B, *of: call(self, tokens, positions_B - 1, *of))
    with pytest.raises(ValueError, match=r"llama does not decode .* standard deviations"):
        open_engine(tiny_path, tmp_path, device="cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="torch sees no GPU"):
        TransformersEngine.check_arguments(device="cuda")


def test_layers_that_do_not_attend_to_everything_are_refused():
    config = SimpleNamespace(model_type="some", layer_types=["full_attention", "linear_attention"])
    with pytest.raises(ValueError, match="linear_attention"):
        check_layers(config, 64)
    config = SimpleNamespace(model_type="some", sliding_window=32)
    with pytest.raises(ValueError, match="attends to 32 tokens"):
        check_layers(config, 64)
    check_layers(config, 32)
    check_layers(SimpleNamespace(model_type="some", sliding_window=32, use_sliding_window=False), 64)
    check_layers(SimpleNamespace(model_type="some", layer_types=["full_attention"]), 64)
    with pytest.raises(ValueError, match=r"positions of some \(longrope\) depend on the longest sequence"):
        check_layers(SimpleNamespace(model_type="some", rope_parameters={"rope_type": "longrope"}), 64)


NUM_DRAWS = 10_000


def shares(settings, logits=(0.0, 1.0, 2.0, -math.inf, 3.0)):
    """How often each token is drawn by numbers that are spread evenly: its probability, to one draw."""
    uniforms = (torch.arange(NUM_DRAWS, dtype=torch.float64) + 0.5) / NUM_DRAWS
    tokens, logprobs = draw(torch.tensor([logits] * NUM_DRAWS), uniforms, settings)
    counts = torch.bincount(tokens, minlength=len(logits)) / NUM_DRAWS
    for token, logprob in zip(tokens.tolist(), logprobs.tolist(), strict=True):
        assert abs(math.exp(logprob) - counts[token]) < 1.1 / NUM_DRAWS
    return counts


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_tokens_are_drawn_with_their_probabilities(temperature):
    expected = (torch.tensor([0.0, 1.0, 2.0, -math.inf, 3.0]) / temperature).softmax(-1)
    assert (
        shares(SamplingSettings(max_new_tokens=1, temperature=temperature)) - expected
    ).abs().max() < 1.1 / NUM_DRAWS


def test_unlikely_tokens_are_left_out_where_that_is_asked():
    top_two = torch.tensor([0, 0, 2.0, 0, 3.0]).where(torch.tensor([0, 0, 1, 0, 1]).bool(), -math.inf).softmax(-1)
    for settings in ({"top_k": 2}, {"top_p": 0.8}):  # 0.644 and 0.237 reach 0.8
        assert (shares(SamplingSettings(max_new_tokens=1, **settings)) - top_two).abs().max() < 1.1 / NUM_DRAWS


def test_a_token_far_behind_is_drawn_as_often_as_it_should_be():
    """Of a vocabulary of several blocks, the last of which is not full; one token stands alone in its block."""
    logits = torch.full((700,), -math.inf)
    logits[[3, 255, 256, 600, 699]] = torch.tensor([0.0, 1.0, 2.0, 3.0, -1.0])
    assert (shares(SamplingSettings(max_new_tokens=1), logits.tolist()) - logits.softmax(-1)).abs().max() < 1.1e-4


def test_the_ends_of_the_unit_interval_draw_tokens_that_have_a_probability():
    logits = torch.tensor([[-math.inf, 0.0, 0.0, -math.inf]] * 2)
    tokens, _ = draw(logits, torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64), SamplingSettings(max_new_tokens=1))
    assert tokens.tolist() == [1, 2]
