"""Remembers grades of responses that came before."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import replace

from ada_lightning.core.protocols import Reward
from ada_lightning.core.records import Completion, Prompt, Verdict

CacheKey = tuple[str, bytes]
"""Prompt's task and id, digest of what the reward judges."""


class VerdictCache:
    """Least recently used grades, by prompt and by what the reward judges of the response.

    That is text and finish reason, or less where the reward defines ``cache_key(completion)``: a reward that first
    extracts an answer, and then does something dear with it, gives the answer. Prompts of one task and id
    have one reference; those of two tasks may have two rewards (:class:`~ada_lightning.rewards.by_task.TaskReward`).

    Args:
        reward: whose grades these are. One with a false ``cacheable`` is never remembered.
        size: most grades that are kept; 0 keeps none. One takes about half a kilobyte.

    Raises:
        ValueError: a negative size.

    Example:
        >>> from ada_lightning.rewards.exact_match import ExactMatchReward
        >>> from ada_lightning.rewards.extraction import LastNumber
        >>> cache = VerdictCache(ExactMatchReward(LastNumber()), size=10)
        >>> key = cache.key(Prompt("id", ()), Completion("12"))
        >>> cache.put(key, Verdict(1.0)), cache.get(key), cache.get(key).is_cached
        (None, Verdict(reward=1.0, answer=None, components={}, failure=''), True)
    """

    def __init__(self, reward: Reward, *, size: int) -> None:
        if size < 0:
            raise ValueError(f"reward.cache_size must be at least 0 (0 keeps nothing); got {size}")
        self.size = size if getattr(reward, "cacheable", True) else 0
        self._reward = reward
        self._grades: OrderedDict[CacheKey, Verdict] = OrderedDict()

    def key(self, prompt: Prompt, completion: Completion) -> CacheKey | None:
        """Name a response; None where it is not to be remembered."""
        if self.size == 0:
            return None
        try:
            data = judged_part(self._reward, completion).encode("utf-8", "surrogatepass")  # as tokenizers decode them
        except Exception:  # the worker will say what is wrong with this response
            return None
        return f"{prompt.task}/{prompt.prompt_id}", hashlib.blake2b(data, digest_size=16).digest()

    def get(self, key: CacheKey | None) -> Verdict | None:
        """Return an earlier grade, marked as such."""
        if key is None or key not in self._grades:
            return None
        self._grades.move_to_end(key)
        return self._grades[key]

    def put(self, key: CacheKey | None, grade: Verdict) -> None:
        """Remember a grade, unless it failed: the next try may not."""
        if key is None or grade.failure:
            return
        self._grades[key] = replace(grade, is_cached=True)
        self._grades.move_to_end(key)
        if len(self._grades) > self.size:
            self._grades.popitem(last=False)


def judged_part(reward: Reward, completion: Completion) -> str:
    """Name what a reward judges of a response: what its ``cache_key`` says, else text and finish reason."""
    key = getattr(reward, "cache_key", None)
    if not callable(key):
        return f"{completion.finish_reason} {completion.text}"
    judged = key(completion)
    return "" if judged is None else f"={judged}"
