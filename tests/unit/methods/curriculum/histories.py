"""Prompts and beliefs about them for tests of curricula."""

from __future__ import annotations

from ada_lightning.core.records import Belief, Prompt

UNSEEN = Belief()


def prompts(total):
    return [Prompt(f"p{index}", (), prompt_ids=(index,)) for index in range(total)]


def seen(pass_rate, strength=100.0):
    return Belief(pass_rate * strength, (1 - pass_rate) * strength, is_seen=True)


def recalled(pass_rates):
    """Answer with well-known pass rates by prompt id; prompts that have none were never seen."""
    return lambda asked: [
        seen(pass_rates[prompt.prompt_id]) if prompt.prompt_id in pass_rates else UNSEEN for prompt in asked
    ]


def ids(chosen):
    return [prompt.prompt_id for prompt in chosen]
