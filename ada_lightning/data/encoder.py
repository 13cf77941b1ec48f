"""From chat turns to token ids."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ada_lightning.core.records import Prompt
from ada_lightning.data.formats import AutomaticFormat, PromptFormat


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
            ValueError: there are prompts and none fits.
        """
        encoded = [
            replace(prompt, prompt_ids=self.prompt_format.token_ids(self.tokenizer, prompt.messages))
            for prompt in prompts
        ]
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
