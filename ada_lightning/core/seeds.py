"""One seed per response, so that what is sampled does not depend on how it is scheduled."""

from __future__ import annotations

from hashlib import blake2b


def request_seed(*, run_seed: int, stage: str, step: int, slot: int, prompt_id: str, sample_index: int) -> int:
    """Derive the seed of one response.

    The slot is part of it: a prompt drawn twice in one step must not get identical responses. A killed and resumed
    run, and a barrier and a continuous schedule, give the same seeds and so the same responses.

    Returns:
        An integer in [0, 2**63).

    Example:
        >>> one = dict(run_seed=0, stage="train", step=3, slot=1, prompt_id="a", sample_index=0)
        >>> request_seed(**one) == request_seed(**one)
        True
        >>> request_seed(**one) == request_seed(**{**one, "slot": 2})
        False
    """
    key = "\x1f".join(map(str, (run_seed, stage, step, slot, prompt_id, sample_index)))
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) >> 1
