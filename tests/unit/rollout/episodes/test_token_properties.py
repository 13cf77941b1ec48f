"""Tokens in, tokens out, over random templates, turns and answers; no engine."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ada_lightning.core.records import Outcome, Prompt, Request, Verdict
from ada_lightning.data.formats import ChatFormat
from ada_lightning.rollout.episodes.continuation import Continuation, ContinuationError
from ada_lightning.rollout.episodes.open_episodes import OpenEpisodes
from ada_lightning.rollout.episodes.worker import Reply
from ada_lightning.training.models.tiny import SPECIAL_TOKENS, byte_tokenizer

END = 2
ROLES = st.sampled_from(["user", "tool"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
HOSTILE = TEXTS | st.builds("{}{}".format, TEXTS, st.sampled_from(SPECIAL_TOKENS))
TURNS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5)
few = settings(max_examples=20, deadline=None, derandomize=True)


@st.composite
def pieces(draw):
    """What opens, separates and closes the turns of a template that only appends."""
    marks = {name: draw(st.text(":#[|ab\n ", max_size=3)) for name in ("first", "begin", "between", "after")}
    opener = draw(st.sampled_from(["<|im_start|>", "<|endoftext|>", ""]))
    return marks | {"opener": opener, "thinks": draw(st.sampled_from(["", "<think>\n"]))}


def template(first, opener, begin, between, thinks, after, content="m['content']", kept="thinks", of="messages"):
    def text(piece):
        return f"{{{{ {json.dumps(piece)} }}}}"  # as an expression: Jinja drops blanks of text around its blocks

    thinking, kept = text(thinks), text(thinks if kept == "thinks" else kept)
    opens, closes = text(opener + begin), text(between)
    thought = f"{{% if m['role'] == 'assistant' %}}{kept}{{% endif %}}"
    return (
        f"{first}{{% for m in {of} %}}{opens}{{{{ m['role'] }}}}{closes}{thought}"
        f"{{{{ {content} }}}}<|im_end|>{text(after)}{{% endfor %}}"
        f"{{% if add_generation_prompt %}}{opens}assistant{closes}{thinking}{{% endif %}}"
    )


def continuation(text, role="user"):
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = text
    return Continuation(tokenizer, ChatFormat(), [END], role), tokenizer


@few
@given(pieces(), ROLES, TURNS)
def test_a_template_that_only_appends_is_taken_and_its_parts_are_the_whole(found, role, turns):
    made, tokenizer = continuation(template(**found), role)
    messages = [{"role": "user", "content": "Hé?"}]
    ids = list(ChatFormat().token_ids(tokenizer, messages))
    for said, reply in turns:
        ids += [*tokenizer(said, add_special_tokens=False)["input_ids"], END, *made.after(reply)]
        messages += [{"role": "assistant", "content": said}, {"role": role, "content": reply}]
    assert ids == list(ChatFormat().token_ids(tokenizer, messages))


REWRITES = {
    "thoughts are dropped": {"content": "m['content'].split('</think>')[-1]"},
    "turns are shortened": {"content": "m['content'][:3]"},
    "turns are trimmed of their end": {"content": "m['content'][:-1]"},
    "turns are counted": {"first": "{{ messages | length }}"},
    "only the last turns are kept": {"of": "messages[-2:]"},
    "the prefill of an answer is forgotten": {"thinks": "<think>\n", "kept": ""},
}


@pytest.mark.parametrize("change", REWRITES)
@settings(max_examples=3, deadline=None, derandomize=True)
@given(pieces(), ROLES)
def test_a_template_that_rewrites_is_refused(change, found, role):
    with pytest.raises(ContinuationError):
        continuation(template(**found | REWRITES[change]), role)


@few
@given(pieces(), HOSTILE)
def test_an_answer_adds_text_and_never_a_control_token(found, reply):
    made, _ = continuation(template(**found))
    scaffold = made.after("")
    added = made.after(reply)
    controls = [token for token in added if token < len(SPECIAL_TOKENS)]
    assert controls == [token for token in scaffold if token < len(SPECIAL_TOKENS)]
    assert len(added) - len(scaffold) == len(reply.encode())


class Scripted:
    """Environments that answer in turn what they are given."""

    def __init__(self, replies):
        self.replies, self.ready = list(replies), []

    def submit(self, ticket, prompt, call):
        self.ready.append((ticket, self.replies.pop(0)))

    def poll(self):
        ready, self.ready = self.ready, []
        return ready


@few
@given(
    st.lists(st.tuples(st.lists(st.integers(0, 258), max_size=6), HOSTILE), min_size=1, max_size=6),
    st.lists(st.none() | st.integers(-3, 3), min_size=6, max_size=6),
)
def test_an_episode_is_what_was_sampled_with_what_was_said_between(turns, rewards):
    """Any ids, valid text or not; each request is what is known so far, and turns' rewards add up."""
    made, _ = continuation(template("", "<|im_start|>", "", "\n", "", "\n"))
    replies = [Reply(text, b"state", reward=reward) for (_, text), reward in zip(turns, rewards, strict=False)]
    end = Reply(is_end=True, grade=Verdict(0.5, answer="7"), reward=replies[-1].reward)
    environments = Scripted([*replies[:-1], end])
    open_episodes = OpenEpisodes(environments, made.after, max_turns=9, seed=0)
    step, prompt = SimpleNamespace(stage="train", step=0), Prompt("p", (), prompt_ids=(7, 8))
    request = Request(0, prompt, 0, 5, is_ahead=False)
    ids, is_sampled = [], []
    for number, (sampled, reply) in enumerate(turns, start=1):
        logprobs = tuple(-0.1 * (place + 1) for place in range(len(sampled)))
        open_episodes.note_turn("e", step, request, Outcome("text", tuple(sampled), logprobs, False))
        ids, is_sampled = ids + sampled, is_sampled + [True] * len(sampled)
        ended = list(open_episodes.receive(10**6))
        if number < len(turns):
            suffix = made.after(reply)
            ids, is_sampled = ids + suffix, is_sampled + [False] * len(suffix)
            ((_, turn),) = open_episodes.take_ready(9)
            assert (turn.ids, ended) == ((7, 8, *ids), [])
    ((_, _, found, is_graded),) = ended
    assert is_graded
    assert (found.response_ids, found.episode.is_sampled) == (tuple(ids), tuple(is_sampled))
    assert [value < 0 for value in found.sampling_logprobs] == is_sampled
    given_rewards = [reward for reward in rewards[: len(turns)] if reward is not None]
    assert (found.grade.reward, found.grade.answer) == (0.5 + sum(given_rewards), "7")
