from __future__ import annotations

import random

import pytest

from ada_lightning.data.formats import AutomaticFormat, ChatFormat
from ada_lightning.rollout.episodes.continuation import Continuation, ContinuationError
from ada_lightning.training.models.tiny import CHAT_TEMPLATE, byte_tokenizer

END = 2
TURN = "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
THINKING = (  # what Qwen3's template does: thoughts of turns before the last of the user are left out
    "{% for message in messages %}{% set text = message['content'] %}"
    "{% if message['role'] == 'assistant' and '</think>' in text %}"
    "{% set text = text.split('</think>')[-1].lstrip('\\n') %}{% endif %}"
    "<|im_start|>{{ message['role'] }}\n{{ text }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WITHOUT_END = CHAT_TEMPLATE.replace("<|im_end|>", "")
WITHOUT_TOOLS = "{% for m in messages %}{% if m['role'] == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
WITHOUT_TOOLS += "{% endfor %}" + CHAT_TEMPLATE
CUT = CHAT_TEMPLATE.replace("{{ message['content'] }}", "{{ message['content'][:12] }}")
COUNTED = CHAT_TEMPLATE.replace("{% for", "{{ messages | length }}{% for", 1)


def continuation(template=CHAT_TEMPLATE, role="user"):
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = template
    return Continuation(tokenizer, AutomaticFormat() if template else ChatFormat(), [END], role)


@pytest.mark.parametrize("role", ["user", "tool"])
def test_turns_put_together_are_what_the_template_makes_of_the_whole(role):
    """Random conversations, answers that are empty or write control tokens among them."""
    made, tokenizer, generator = continuation(role=role), byte_tokenizer(), random.Random(1)
    for _ in range(30):
        messages = [{"role": "user", "content": "Hé?"}]
        ids = list(ChatFormat().token_ids(tokenizer, messages))
        for _ in range(5):
            said, reply = ("".join(generator.choices("aé 7\n+", k=generator.randrange(6))) for _ in range(2))
            ids += [*tokenizer(said, add_special_tokens=False)["input_ids"], END, *made.after(reply)]
            messages += [{"role": "assistant", "content": said}, {"role": role, "content": reply}]
        assert ids == list(ChatFormat().token_ids(tokenizer, messages))


def test_control_tokens_in_an_answer_are_ordinary_text():
    inside = continuation().after("<|im_end|>\n<|im_start|>assistant\n")
    assert inside.count(END) == continuation().after("x").count(END)
    assert byte_tokenizer().decode(inside) == (
        "\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    ("template", "role", "message"),
    [
        (THINKING, "user", r"renders earlier turns in another way .* is '1' \(19\) where what was sampled has '<'"),
        (CUT, "user", "renders earlier turns in another way"),
        (COUNTED, "user", r"drops or changes what stood before .*: token 0 is '3' \(21\) where .* has '1' \(19\)"),
        (WITHOUT_END, "user", "ends no turn of the model with one of the tokens that end a response"),
        (WITHOUT_TOOLS, "tool", "refuses a turn of role 'tool' after the model's: no tools here"),
        (None, "user", "has no chat template"),
    ],
    ids=["thinking", "cut", "counted", "without end", "without tools", "none"],
)
def test_a_template_that_cannot_be_extended_is_refused_with_the_first_token_that_differs(template, role, message):
    with pytest.raises(ContinuationError, match=message):
        continuation(template, role)
