"""Questions and worked answers as a batch to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence


def labelled(tokenizer: Any, pairs: Sequence[tuple[str, str]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids and labels of questions and their answers, both ``(B, T)``; what is not answer is no label."""
    rows, labels = [], []
    for question, text in pairs:
        prompt = tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, tokenize=True, return_dict=False
        )
        answer = [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        rows.append(torch.tensor([*prompt, *answer]))
        labels.append(torch.tensor([-100] * len(prompt) + answer))
    padding = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    return (
        pad_sequence(rows, batch_first=True, padding_value=padding),
        pad_sequence(labels, batch_first=True, padding_value=-100),
    )
