from collections import UserDict

import pytest

from ada_lightning.core.records import Prompt
from ada_lightning.data.encoder import PromptEncoder


class ChatTokenizer:
    """One token per character; roles become 1 (system), 2 (user), and 9 opens the assistant's turn."""

    chat_template = "yes"

    def apply_chat_template(self, messages, *, add_generation_prompt, tokenize):
        assert tokenize
        assert all(type(message) is dict for message in messages)
        ids = []
        for message in messages:
            ids += [{"system": 1, "user": 2}[message["role"]], *map(ord, message["content"])]
        return UserDict(input_ids=ids + [9] * add_generation_prompt, attention_mask=[1] * len(ids))


class ListTokenizer(ChatTokenizer):
    def apply_chat_template(self, messages, **kwargs):
        return super().apply_chat_template(messages, **kwargs)["input_ids"]


class BaseTokenizer:
    chat_template = None

    def __call__(self, text):
        return {"input_ids": [0, *map(ord, text)]}


def prompt(content, system=None):
    turns = [] if system is None else [{"role": "system", "content": system}]
    return Prompt(content, (*turns, {"role": "user", "content": content}), {"answer": "1"}, "task")


@pytest.mark.parametrize("tokenizer", [ChatTokenizer(), ListTokenizer()])
def test_a_chat_template_frames_the_turns_and_opens_the_answer(tokenizer):
    [encoded], num_skipped = PromptEncoder(tokenizer, max_prompt_tokens=10).encode([prompt("ab", system="c")])
    assert encoded.prompt_ids == (1, 99, 2, 97, 98, 9)
    assert num_skipped == 0
    assert (encoded.prompt_id, encoded.task, encoded.reference) == ("ab", "task", {"answer": "1"})


def test_without_a_chat_template_the_turns_are_joined_and_that_is_said():
    with pytest.warns(UserWarning, match="no chat template"):
        encoder = PromptEncoder(BaseTokenizer(), max_prompt_tokens=10)
    [encoded], _ = encoder.encode([prompt("b", system="a")])
    assert encoded.prompt_ids == (0, 97, 10, 10, 98)


def test_a_prompt_at_the_limit_stays_and_a_longer_one_is_left_out_and_counted():
    encoder = PromptEncoder(ChatTokenizer(), max_prompt_tokens=5)
    with pytest.warns(UserWarning, match=r"1 of 3 prompts are longer than .* 5 .*longest has 6 tokens"):
        kept, num_skipped = encoder.encode([prompt("abc"), prompt("abcd"), prompt("a")])
    assert [p.prompt_id for p in kept] == ["abc", "a"]
    assert num_skipped == 1


def test_no_prompt_that_fits_is_an_error_with_the_lengths():
    encoder = PromptEncoder(ChatTokenizer(), max_prompt_tokens=2)
    with pytest.raises(ValueError, match=r"all 2 prompts .* = 2; the shortest has 3 tokens, the longest 4"):
        encoder.encode([prompt("a"), prompt("ab")])


def test_nothing_to_encode_is_no_error():
    assert PromptEncoder(ChatTokenizer(), max_prompt_tokens=2).encode([]) == ([], 0)


def test_a_limit_below_one_is_refused():
    with pytest.raises(ValueError, match="max_prompt_tokens must be at least 1; got 0"):
        PromptEncoder(ChatTokenizer(), max_prompt_tokens=0)
