"""From chat turns to token ids."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ada_lightning.types import Prompt

_TURN_SEPARATOR = "\n\n"


class PromptEncoder:
    """Fills ``prompt_ids`` with what the model is asked to continue, and drops prompts that are too long.

    With a chat template: the turns rendered by it, with the header that opens the assistant's turn. Without one (a base
    model): the contents of the turns joined by an empty line, tokenised with the tokenizer's own special tokens; that
    is warned about once, because a chat model whose tokenizer lost its template looks the same.

    Args:
        tokenizer: a transformers tokenizer, or anything with its ``chat_template``, ``apply_chat_template`` and call.
        max_prompt_tokens: longest prompt that is kept, template included.

    Raises:
        ValueError: ``max_prompt_tokens`` is below 1.
    """

    def __init__(self, tokenizer: Any, *, max_prompt_tokens: int) -> None:
        if max_prompt_tokens < 1:
            raise ValueError(f"max_prompt_tokens must be at least 1; got {max_prompt_tokens}")
        self.tokenizer = tokenizer
        self.max_prompt_tokens = max_prompt_tokens
        self._has_template = bool(getattr(tokenizer, "chat_template", None))
        if not self._has_template:
            warnings.warn(
                "this tokenizer has no chat template: the contents of each prompt's turns are joined by an empty line, "
                "without roles, as for a base model",
                stacklevel=2,
            )

    def encode(self, prompts: Sequence[Prompt]) -> tuple[list[Prompt], int]:
        """Tokenise every prompt.

        Returns:
            The prompts that fit, with ``prompt_ids``, in their order; and the number of those that do not.

        Raises:
            ValueError: there are prompts and none fits.
        """
        encoded = [replace(prompt, prompt_ids=self._token_ids(prompt.messages)) for prompt in prompts]
        kept = [prompt for prompt in encoded if len(prompt.prompt_ids) <= self.max_prompt_tokens]
        num_skipped = len(encoded) - len(kept)
        if num_skipped:
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
        return kept, num_skipped

    def _token_ids(self, messages: Sequence[Mapping[str, str]]) -> tuple[int, ...]:
        if self._has_template:
            encoding = self.tokenizer.apply_chat_template(
                [dict(message) for message in messages], add_generation_prompt=True, tokenize=True
            )
        else:
            encoding = self.tokenizer(_TURN_SEPARATOR.join(message["content"] for message in messages))
        # transformers 5 returns a BatchEncoding, transformers 4 a list
        return tuple(encoding["input_ids"] if isinstance(encoding, Mapping) else encoding)
