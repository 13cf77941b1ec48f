"""A draft changes the time of a response and nothing else: the engine of transformers on the tiny model, in float32."""

from __future__ import annotations

import random

import pytest
import torch

from ada_lightning.core.records import SamplingSettings
from ada_lightning.rollout.drafts import LastResponses
from ada_lightning.rollout.engines import transformers_engine
from ada_lightning.rollout.engines.transformers_decoder import Decoder
from tests.builders import make_group
from tests.integration.test_vllm_engine import PROMPTS, load, logprobs
from tests.unit.rollout.test_transformers_engine import open_engine

ENDS = tuple(range(2, 12))
"""Ten of 259 tokens: responses end at all lengths, a third of them at the limit."""
SETTINGS = SamplingSettings(max_new_tokens=30)
OTHERS = (SamplingSettings(max_new_tokens=7, temperature=0.6), SamplingSettings(max_new_tokens=30, top_k=20, top_p=0.9))


@pytest.fixture(scope="module")
def engine(tiny_path, tmp_path_factory):
    """Of five slots, for twelve prompts."""
    engine = open_engine(tiny_path, tmp_path_factory.mktemp("engine"), device="cpu")
    engine._eos_token_ids = frozenset(ENDS)
    yield engine
    engine.close()


@pytest.fixture
def passes(monkeypatch):
    """Shapes of the passes of the engine, by kind."""
    found = {"step": [], "check": []}

    def noting(name, call):
        def noted(self, tokens, *others):
            found[name].append(tuple(tokens.shape))
            return call(self, tokens, *others)

        return noted

    for name in found:
        monkeypatch.setattr(Decoder, name, noting(name, getattr(Decoder, name)))
    return found


def generate(engine, drafts=None, settings=(SETTINGS,), prompts=PROMPTS):
    for index, prompt in enumerate(prompts):
        options = {"draft": drafts[index]} if drafts else {}
        engine.submit(str(index), prompt, settings[index % len(settings)], seed=index, **options)
    done = {}
    while engine.num_in_flight():
        done |= {int(outcome.request_id): outcome for outcome in engine.poll()}
    return [done[index] for index in range(len(prompts))]


def draft(kind, response_ids, number):
    generator = random.Random(number)
    noise = [generator.randrange(-300, 600) for _ in range(60)]
    place = generator.randrange(len(response_ids))
    return {
        "right": response_ids,
        "its beginning": response_ids[:place],
        "wrong from some place on": (*response_ids[:place], *noise),
        "one token wrong": (*response_ids[:place], 77, *response_ids[place + 1 :]),
        "past its end": (*response_ids, *noise),
        "ends too early": (*response_ids[:place], 2, *response_ids[place:]),
        "random": noise,
        "an end": (2,),
        "empty": (),
    }[kind]


KINDS = ("right", "its beginning", "wrong from some place on", "one token wrong", "past its end", "ends too early",
         "random", "an end", "empty")  # fmt: skip


def test_a_response_is_the_same_with_any_draft(engine, monkeypatch):
    """Checked in parts of twelve tokens, of three rows at most; every kind is given to some requests.

    The second prompt and its longest response fill a slot, and are checked beside rows that are longer.
    """
    monkeypatch.setattr(transformers_engine, "_FIRST_CHECK", 12)
    monkeypatch.setattr(transformers_engine, "_MOST_LOGITS", 40 * 259)
    settings = (SETTINGS, *OTHERS)
    prompts = [PROMPTS[0], [1, *[71] * 56], *PROMPTS[2:]]
    plain = generate(engine, settings=settings, prompts=prompts)
    assert {outcome.is_truncated for outcome in plain} == {True, False}
    for turn in (0, 3, 6):
        kinds = [KINDS[(index + turn) % len(KINDS)] for index in range(len(prompts))]
        drafts = [draft(kind, each.response_ids, turn) for kind, each in zip(kinds, plain, strict=True)]
        for kind, one, other in zip(kinds, plain, generate(engine, drafts, settings, prompts), strict=True):
            assert (one.response_ids, one.is_truncated) == (other.response_ids, other.is_truncated), kind
            # 5e-7 is what was seen: rounding of float32 logits around 0.
            assert one.sampling_logprobs == pytest.approx(other.sampling_logprobs, abs=1e-5), kind


def test_log_probabilities_of_a_checked_draft_are_those_of_the_whole_text(engine, tiny_path):
    drafts = [outcome.response_ids for outcome in generate(engine)]
    model = load(tiny_path)
    for prompt, outcome in zip(PROMPTS, generate(engine, drafts), strict=True):
        own = logprobs(model, prompt, outcome.response_ids)
        assert (own - torch.tensor(outcome.sampling_logprobs)).abs().max() < 1e-4


def test_right_drafts_leave_nothing_to_decode_of_requests_that_wait_either(engine, passes):
    """Twelve requests, five slots: the others are let in while the same poll goes on."""
    drafts = [outcome.response_ids for outcome in generate(engine)]
    passes["step"].clear()
    for index, prompt in enumerate(PROMPTS):
        engine.submit(str(index), prompt, SETTINGS, seed=index, draft=drafts[index])
    assert len(engine.poll()) == len(PROMPTS)
    assert passes["step"] == []
    assert all(rows > 1 for rows, _ in passes["check"][:1]), "those that are let in together are checked together"


def test_a_long_draft_is_checked_in_parts_that_grow_with_what_was_right(engine, passes, monkeypatch):
    monkeypatch.setattr(transformers_engine, "_FIRST_CHECK", 4)
    engine._eos_token_ids = frozenset()
    try:
        settings = SamplingSettings(max_new_tokens=40)
        engine.submit("0", [1, 70], settings, seed=0)
        ids = finish(engine)
        passes["check"].clear()
        engine.submit("0", [1, 70], settings, seed=0, draft=ids)
        assert finish(engine) == ids
        assert passes["check"] == [(1, 4), (1, 4), (1, 8), (1, 16), (1, 8)]
        passes["check"].clear()
        engine.submit("0", [1, 70], settings, seed=0, draft=[(ids[0] + 1) % 259, *ids[1:]])
        assert finish(engine) == ids
        assert passes["check"] == [(1, 4)], "the rest of a wrong draft is not computed"
        passes["check"].clear()
        monkeypatch.setattr(transformers_engine, "_MOST_LOGITS", 6 * 259)
        for index in range(3):
            engine.submit(str(index), [1, 70], settings, seed=index, draft=[200] * 40)
        finish(engine)
        assert passes["check"] == [(1, 4)] * 3, "logits of two rows would be more than may be there at once"
    finally:
        engine._eos_token_ids = frozenset(ENDS)


def finish(engine):
    done = []
    while engine.num_in_flight():
        done += engine.poll()
    return done[-1].response_ids


def test_drafts_are_taken_where_they_were_measured(engine):
    assert engine.takes_drafts


def test_the_least_share_that_pays_is_that_of_a_decoding_step_to_a_check():
    last = LastResponses()
    last.note([make_group([1.0, 0.0], num_tokens=[3, 4])])
    assert last.drafts(32) == {("p7", 0): (5, 6, 7), ("p7", 1): (5, 6, 7, 8)}
    assert last.drafts(33) == {}, "half of the tokens are taken to stay until it is known"
    last.note([make_group([1.0, 0.0], num_tokens=[6, 4])])  # 3 + 4 of 10
    assert last.kept_ratio == 0.7
    assert [bool(last.drafts(number)) for number in (8, 32, 74, 75, 128)] == [True, True, True, False, False]
    assert last.drafts(8) == {("p7", 0): (5, 6, 7, 8, 9, 10), ("p7", 1): (5, 6, 7, 8)}
