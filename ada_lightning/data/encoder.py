"""From chat turns to token ids."""

from __future__ import annotations

import datetime
import hashlib
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ada_lightning.core.records import Prompt
from ada_lightning.data.formats import AutomaticFormat, PromptFormat, TokenIds


class RefusedPromptError(ValueError):
    """The chat template does not take a prompt."""

    def __init__(self, prompt: Prompt, error: Exception) -> None:
        """Keep the prompt; ``reason`` says what is wrong and the way out."""
        self.prompt, self.reason = prompt, _explained(prompt, error)
        super().__init__(f"prompt {prompt.prompt_id}: {self.reason}")


class PromptEncoder:
    """Fills ``prompt_ids`` with what the model is asked to continue, and drops prompts that are too long.

    Args:
        tokenizer: a transformers tokenizer, or anything with its ``chat_template``, ``apply_chat_template`` and call.
        max_prompt_tokens: longest prompt that is kept, template included.
        prompt_format: how turns become tokens; None chooses by the tokenizer, see
            :class:`~ada_lightning.data.formats.AutomaticFormat`.

    Raises:
        ValueError: ``max_prompt_tokens`` is below 1, or the format does not go with the tokenizer.
    """

    def __init__(self, tokenizer: Any, *, max_prompt_tokens: int, prompt_format: PromptFormat | None = None) -> None:
        if max_prompt_tokens < 1:
            raise ValueError(f"max_prompt_tokens must be at least 1; got {max_prompt_tokens}")
        self.tokenizer = tokenizer
        self.max_prompt_tokens = max_prompt_tokens
        self.prompt_format: PromptFormat = AutomaticFormat() if prompt_format is None else prompt_format
        self.prompt_format.prepare(tokenizer)

    def encode(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        """Return the prompts that fit, with ``prompt_ids``, in their order; warns of those that do not.

        Raises:
            RefusedPromptError: the chat template does not take one of them.
            ValueError: there are prompts and none fits.
        """
        encoded = [replace(prompt, prompt_ids=self.token_ids(prompt)) for prompt in prompts]
        kept = [prompt for prompt in encoded if len(prompt.prompt_ids) <= self.max_prompt_tokens]
        if num_skipped := len(encoded) - len(kept):
            lengths = [len(prompt.prompt_ids) for prompt in encoded]
            if not kept:
                raise ValueError(
                    f"all {num_skipped} prompts are longer than data.max_prompt_tokens = {self.max_prompt_tokens}; the "
                    f"shortest has {min(lengths)} tokens, the longest {max(lengths)}"
                )
            warnings.warn(
                f"{num_skipped} of {len(encoded)} prompts are longer than data.max_prompt_tokens = "
                f"{self.max_prompt_tokens} and left out; the longest has {max(lengths)} tokens",
                stacklevel=2,
            )
        return kept

    def settings(self) -> str:
        """Return a checksum of all that decides what the tokens of a prompt are."""
        tokenizer, template = self.tokenizer, str(getattr(self.tokenizer, "chat_template", None))
        backend = getattr(tokenizer, "backend_tokenizer", None)
        vocabulary = sorted(tokenizer.get_vocab().items()) if backend is None else backend.to_str()
        today = datetime.date.today() if "strftime_now" in template else None
        shown = (type(tokenizer).__name__, vocabulary, template, today, self.max_prompt_tokens)
        said = (*shown, type(self.prompt_format).__name__, sorted(vars(self.prompt_format).items(), key=str))
        return hashlib.sha256(repr(said).encode()).hexdigest()

    def unread_arguments(self, prompts: Sequence[Prompt]) -> Counter[str]:
        """Return the prompts' own arguments of the chat template that it does not read, and how many have each."""
        names = Counter(name for prompt in prompts for name in prompt.template_arguments)
        return Counter({name: n for name, n in names.items() if not self.prompt_format.reads(self.tokenizer, name)})

    def token_ids(self, prompt: Prompt) -> TokenIds:
        """Return the tokens of one prompt, however many there are.

        Raises:
            RefusedPromptError: the chat template does not take it.
        """
        arguments = (prompt.template_arguments,) if prompt.template_arguments else ()
        try:
            return self.prompt_format.token_ids(self.tokenizer, prompt.messages, *arguments)
        except Exception as error:  # a template is a program, with errors of its own and of any kind
            raise RefusedPromptError(prompt, error) from error


def _explained(prompt: Prompt, error: Exception) -> str:
    roles = [message["role"] for message in prompt.messages]
    if type(error).__name__ == "TemplateSyntaxError":
        return f"the chat template is broken, at line {getattr(error, 'lineno', '?')}: {error}; {_ANOTHER}"
    is_system = roles[:1] == ["system"]
    system = "a model without system turns takes the text in data.source.prompt_template instead; " if is_system else ""
    return (
        f"the chat template does not take turns of {', '.join(roles)}: {type(error).__name__}: {error}; "
        f"{system}{_ANOTHER}"
    )


_ANOTHER = (
    "data/format=chat data.format.template_file=<file> gives another template, and data/format=plain none, as for a "
    "base model"
)
