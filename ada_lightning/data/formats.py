"""How chat turns become the tokens that the model continues."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ada_lightning.core.options import option
from ada_lightning.data.columns import as_json_like

TokenIds = tuple[int, ...]
NOT_FOR_TEMPLATES = frozenset(
    ("messages", "conversation", "add_generation_prompt", "continue_final_message", "tokenize", "chat_template",
     "padding", "truncation", "max_length", "return_tensors", "return_dict", "return_assistant_tokens_mask",
     "tokenizer_kwargs")
)  # fmt: skip
"""What ``apply_chat_template`` takes for itself or is told for every prompt."""


class PromptFormat(Protocol):
    """Turns messages into token ids. Holds no tokenizer, so that a configuration can be checked without one."""

    def prepare(self, tokenizer: Any) -> None:
        """Check once that this tokenizer can do it. ValueError where it cannot."""
        ...

    def token_ids(
        self, tokenizer: Any, messages: Sequence[Mapping[str, str]], arguments: Mapping[str, Any] = {}
    ) -> TokenIds:
        """Return what the model is asked to continue; ``arguments`` are a prompt's own, where it has some."""
        ...

    def reads(self, tokenizer: Any, name: str) -> bool:
        """Whether an argument of that name changes anything."""
        ...


@option("data/format", "chat", arguments={})
class ChatFormat:
    """A chat template, the tokenizer's own or a file's, with the header that opens the assistant's turn.

    For a thinking model that is not to think: ``data/format=chat +data.format.arguments.enable_thinking=false``.

    Args:
        template_file: a Jinja template in place of the tokenizer's own; None keeps that. The tokenizer takes it over,
            so that checkpoints of the run are served with it.
        arguments: what the template is given besides the messages; one that it does not read is refused.

    Raises:
        ValueError: the file cannot be read, or an argument that is not the user's to set.
    """

    def __init__(self, *, template_file: str | Path | None = None, arguments: Mapping[str, Any] | None = None) -> None:
        self.arguments: dict[str, Any] = as_json_like(arguments or {})
        for name in self.arguments:
            if name in NOT_FOR_TEMPLATES:
                raise ValueError(f"data.format.arguments.{name} cannot be set: it is not a variable of a template")
        self.template_file = template_file
        self._template: str | None = None
        if template_file is not None:
            try:
                self._template = Path(template_file).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ValueError(f"cannot read data.format.template_file = {template_file}: {error}") from error

    def prepare(self, tokenizer: Any) -> None:
        """Install the template file and look for the arguments in the template.

        Raises:
            ValueError: there is no template, or it does not read one of the arguments, which would do nothing.
        """
        if self._template is not None:
            tokenizer.chat_template = self._template
        template = _template_text(tokenizer)
        if not template:
            raise ValueError(
                "this tokenizer has no chat template; set data.format.template_file, or use data/format=plain as for a "
                "base model"
            )
        for name in self.arguments:
            if not self.reads(tokenizer, name):
                raise ValueError(
                    f"data.format.arguments.{name}: the chat template does not read {name!r}, so it would do nothing; "
                    "leave it out"
                )

    def reads(self, tokenizer: Any, name: str) -> bool:
        """Whether the template names it."""
        return re.search(rf"\b{re.escape(name)}\b", _template_text(tokenizer)) is not None

    def token_ids(
        self, tokenizer: Any, messages: Sequence[Mapping[str, str]], arguments: Mapping[str, Any] = {}
    ) -> TokenIds:
        """Return the rendered turns, and the header of the assistant's, or else what it has begun to say."""
        is_begun = bool(messages) and messages[-1]["role"] == "assistant"
        end = {"continue_final_message": True} if is_begun else {}
        encoding = tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            add_generation_prompt=not is_begun,
            tokenize=True,
            **{**self.arguments, **arguments, **end},
        )
        # transformers 5 returns a BatchEncoding, transformers 4 a list
        return _single_bos(tokenizer, encoding["input_ids"] if isinstance(encoding, Mapping) else encoding)


@option("data/format", "plain")
class PlainFormat:
    """The contents of the turns, joined, without roles, with the tokenizer's own special tokens: for base models.

    Args:
        separator: between two turns.
    """

    def __init__(self, *, separator: str = "\n\n") -> None:
        self.separator = separator

    def prepare(self, tokenizer: Any) -> None:
        """Every tokenizer can do it."""

    def reads(self, tokenizer: Any, name: str) -> bool:
        """Nothing: there is no template."""
        return False

    def token_ids(
        self, tokenizer: Any, messages: Sequence[Mapping[str, str]], arguments: Mapping[str, Any] = {}
    ) -> TokenIds:
        """Return the tokens of the joined contents."""
        encoding = tokenizer(self.separator.join(message["content"] for message in messages))
        return _single_bos(tokenizer, encoding["input_ids"])


@option("data/format", "auto")
class AutomaticFormat:
    """The tokenizer's chat template where it has one, else the contents of the turns without roles, with a warning.

    That is :class:`ChatFormat` or :class:`PlainFormat`. A chat model whose tokenizer lost its template looks the same
    as a base model.
    """

    def __init__(self) -> None:
        self._format: PromptFormat = PlainFormat()

    def prepare(self, tokenizer: Any) -> None:
        """Choose."""
        self._format = ChatFormat() if getattr(tokenizer, "chat_template", None) else PlainFormat()
        if isinstance(self._format, PlainFormat):
            warnings.warn(
                "this tokenizer has no chat template: the contents of each prompt's turns are joined by an empty line, "
                "without roles, as for a base model; data/format=plain says that this is meant",
                stacklevel=3,
            )

    def reads(self, tokenizer: Any, name: str) -> bool:
        """Whether the chosen format does."""
        return self._format.reads(tokenizer, name)

    def token_ids(
        self, tokenizer: Any, messages: Sequence[Mapping[str, str]], arguments: Mapping[str, Any] = {}
    ) -> TokenIds:
        """Return what the chosen format returns."""
        return self._format.token_ids(tokenizer, messages, arguments)


def warn_of_other_end(tokenizer: Any, prompt_format: PromptFormat | None, eos_token_ids: Collection[int]) -> None:
    """Warn where the chat template ends turns with none of the tokens that end a response.

    A base model's tokenizer may have a template whose last token its own configuration does not know: what the model
    writes behind it counts as the response, up to the length limit.
    """
    if isinstance(prompt_format, PlainFormat) or not _template_text(tokenizer):
        return
    said = "42"
    turns = [{"role": "user", "content": "1 + 1 ="}, {"role": "assistant", "content": said}]
    try:
        end = str(tokenizer.apply_chat_template(turns, tokenize=False)).rpartition(said)[2].strip()
        ids = tokenizer(end, add_special_tokens=False)["input_ids"]
    except Exception:  # a template that takes no such turns says so where it is given the prompts
        return
    if end and not set(ids) & set(eos_token_ids):
        ends = ", ".join(repr(tokenizer.decode([token])) for token in eos_token_ids)
        warnings.warn(
            f"the chat template ends a turn with {end!r}, and a response ends with {ends}: a model that ends its turn "
            "goes on behind it up to the length limit. Add the template's token to eos_token_id in the model's "
            "generation_config.json, or use data/format=plain as for a base model",
            stacklevel=2,
        )


def _template_text(tokenizer: Any) -> str:
    if not getattr(tokenizer, "chat_template", None):
        return ""
    if isinstance(tokenizer.chat_template, str):
        return tokenizer.chat_template
    return str(tokenizer.get_chat_template())  # several templates by name: the one used without tools


def _single_bos(tokenizer: Any, token_ids: Sequence[int]) -> TokenIds:
    """Drop a second beginning-of-sequence token, which a text that has one already would get from the tokenizer."""
    bos = getattr(tokenizer, "bos_token_id", None)
    doubled = bos is not None and list(token_ids[:2]) == [bos, bos]
    return tuple(token_ids[1:] if doubled else token_ids)
