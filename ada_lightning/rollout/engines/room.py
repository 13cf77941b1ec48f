"""Whether a prompt and its response fit into an engine."""

from __future__ import annotations


def check_room(num_prompt_tokens: int, max_new_tokens: int, max_model_tokens: int) -> None:
    """Refuse a request whose longest response would not fit.

    Args:
        num_prompt_tokens: of the request.
        max_new_tokens: longest response, in tokens.
        max_model_tokens: of the engine, prompt and response together.

    Raises:
        ValueError: they exceed it.
    """
    needed = num_prompt_tokens + max_new_tokens
    if needed > max_model_tokens:
        raise ValueError(
            f"a prompt of {num_prompt_tokens} tokens and a response of {max_new_tokens} need {needed} "
            f"tokens; the engine has room for {max_model_tokens}: raise rollout.max_model_tokens "
            "or lower data.max_prompt_tokens"
        )
