"""From chat turns to the tokens that a model continues."""

from collections import UserDict

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from ada_lightning.core.records import Prompt
from ada_lightning.data.encoder import PromptEncoder
from ada_lightning.data.formats import AutomaticFormat, ChatFormat, PlainFormat
from ada_lightning.training.models.tiny import byte_tokenizer


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


def prompt(content, system=None):
    turns = [] if system is None else [{"role": "system", "content": system}]
    return Prompt(content, (*turns, {"role": "user", "content": content}), {"answer": "1"}, "task")


@pytest.mark.parametrize("tokenizer", [ChatTokenizer(), ListTokenizer()])
def test_a_chat_template_frames_the_turns_and_opens_the_answer(tokenizer):
    [encoded] = PromptEncoder(tokenizer, max_prompt_tokens=10).encode([prompt("ab", system="c")])
    assert encoded.prompt_ids == (1, 99, 2, 97, 98, 9)
    assert (encoded.prompt_id, encoded.task, encoded.reference) == ("ab", "task", {"answer": "1"})


def test_a_prompt_at_the_limit_stays_and_a_longer_one_is_left_out_and_counted():
    encoder = PromptEncoder(ChatTokenizer(), max_prompt_tokens=5)
    with pytest.warns(UserWarning, match=r"1 of 3 prompts are longer than .* 5 .*longest has 6 tokens"):
        kept = encoder.encode([prompt("abc"), prompt("abcd"), prompt("a")])
    assert [p.prompt_id for p in kept] == ["abc", "a"]


def test_no_prompt_that_fits_is_an_error_with_the_lengths():
    encoder = PromptEncoder(ChatTokenizer(), max_prompt_tokens=2)
    assert encoder.encode([]) == []
    with pytest.raises(ValueError, match=r"all 2 prompts .* = 2; the shortest has 3 tokens, the longest 4"):
        encoder.encode([prompt("a"), prompt("ab")])
    with pytest.raises(ValueError, match="max_prompt_tokens must be at least 1; got 0"):
        PromptEncoder(ChatTokenizer(), max_prompt_tokens=0)


MESSAGES = ({"role": "system", "content": "A"}, {"role": "user", "content": "B"})
THINKING = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>"
    "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}{% endif %}"
)


def text(prompt_format, tokenizer):
    prompt_format.prepare(tokenizer)
    return tokenizer.decode(prompt_format.token_ids(tokenizer, MESSAGES))


def with_bos(template=None):
    """A tokenizer that puts its first token before every text, as Llama's does."""
    vocab = {word: index for index, word in enumerate(["<s>", "?", "A", "B"])}
    words = Tokenizer(WordLevel(vocab, unk_token="?"))
    words.pre_tokenizer = Whitespace()
    words.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", unk_token="?", chat_template=template)


def test_arguments_reach_the_template():
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = THINKING
    assert text(ChatFormat(), tokenizer) == "<system>A<user>B<assistant>"
    assert text(ChatFormat(arguments={"enable_thinking": False}), tokenizer).endswith("<assistant><think></think>")


def test_a_template_file_replaces_the_tokenizers_and_goes_into_checkpoints(tmp_path):
    (tmp_path / "chat.jinja").write_text("{{ messages[-1].content }}!")
    tokenizer = byte_tokenizer()
    assert text(ChatFormat(template_file=tmp_path / "chat.jinja"), tokenizer) == "B!"
    tokenizer.save_pretrained(tmp_path / "saved")
    assert (tmp_path / "saved" / "chat_template.jinja").read_text() == "{{ messages[-1].content }}!"


def test_a_base_model_gets_the_contents_whatever_template_its_tokenizer_has():
    assert text(PlainFormat(), byte_tokenizer()) == "A\n\nB"
    assert text(PlainFormat(separator=" "), byte_tokenizer()) == "A B"


def test_automatic_follows_the_tokenizer():
    assert text(AutomaticFormat(), byte_tokenizer()) == text(ChatFormat(), byte_tokenizer())
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = None
    with pytest.warns(UserWarning, match="no chat template.*data/format=plain"):
        assert text(AutomaticFormat(), tokenizer) == "A\n\nB"


@pytest.mark.parametrize(
    ("prompt_format", "template", "content"),
    [
        (PlainFormat(), None, "B"),
        (PlainFormat(), None, "<s>B"),
        (ChatFormat(), "{{ bos_token }}{{ messages[0].content }}", "B"),
        (ChatFormat(), "{{ bos_token }}{{ messages[0].content }}", "<s>B"),
    ],
)
def test_the_first_token_of_a_model_is_there_once(prompt_format, template, content):
    encoder = PromptEncoder(with_bos(template), max_prompt_tokens=9, prompt_format=prompt_format)
    [encoded] = encoder.encode([Prompt("id", ({"role": "user", "content": content},))])
    assert encoded.prompt_ids == (0, 3)


def test_what_would_be_ignored_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"arguments\.enable_thinking: the chat template does not read"):
        ChatFormat(arguments={"enable_thinking": False}).prepare(byte_tokenizer())
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(
        ValueError, match=r"no chat template; set data\.format\.template_file, or use data/format=plain"
    ):
        ChatFormat().prepare(tokenizer)
    with pytest.raises(ValueError, match=r"cannot read data\.format\.template_file = .*none"):
        ChatFormat(template_file=tmp_path / "none")
    with pytest.raises(ValueError, match=r"arguments\.add_generation_prompt cannot be set"):
        ChatFormat(arguments={"add_generation_prompt": False})
