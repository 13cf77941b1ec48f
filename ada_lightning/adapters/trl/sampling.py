"""Draws responses with the generator of the trainer: its own model, vLLM in its process, or a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accelerate.utils import gather_object

from ada_lightning.adapters.trl.rows import Drawn


def tokenize(trainer: Any, prompts: Sequence[Any]) -> list[list[int]]:
    """Return the token ids of prompts, as the trainer's own generation has them.

    Raises:
        ValueError: prompts with images.
    """
    ids, images, fields = trainer._tokenize_prompts(list(prompts))
    if images is not None or fields:
        raise ValueError("prompts with images are not supported by ada_lightning.adapters.trl")
    return [list(map(int, row)) for row in ids]


def generate(trainer: Any, prompt_ids: Sequence[list[int]], *, at_once: int) -> list[Drawn]:
    """Draw one response for each prompt given; the same prompt may come several times.

    Where processes generate together (a server, tensor parallelism), each calls this as often as the others, with as
    many prompts: those that want fewer repeat one, and drop what comes of it.

    Args:
        trainer: GRPOTrainer, with weights that are synchronised.
        prompt_ids: one list for every response.
        at_once: responses of one call.
    """
    wanted = [list(ids) for ids in prompt_ids]
    number = len(wanted)
    if is_collective(trainer):
        counts = gather_object([(len(wanted), wanted[:1])])
        spare = next((first[0] for _, first in counts if first), None)
        if spare is not None:
            wanted += [spare] * (max(count for count, _ in counts) - number)
    drawn: list[Drawn] = []
    for start in range(0, len(wanted), at_once):
        ids, logprobs = trainer._generate_single_turn(wanted[start : start + at_once], None, {}, 1)
        drawn += [
            Drawn(list(map(int, row)), None if logprobs is None else list(logprobs[place]))
            for place, row in enumerate(ids)
        ]
    return drawn[:number]


def is_collective(trainer: Any) -> bool:
    """Whether all processes must take part in every generation."""
    if not trainer.use_vllm or trainer.accelerator.num_processes == 1:
        return False
    return bool(trainer.vllm_mode == "server" or trainer.args.vllm_tensor_parallel_size > 1)
