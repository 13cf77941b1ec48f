"""An embedding that tells nothing: each prompt has the words of another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import xxhash

from ada_lightning.core.records import Prompt
from ada_lightning.methods.estimators import WordEmbedding

if TYPE_CHECKING:
    from torch import Tensor


class ShuffledWords(WordEmbedding):
    """Rows like those of the training prompts, and of the same prompt always the same, with no bearing on it."""

    def fit(self, prompts: Sequence[Prompt]) -> None:
        """Learn the words, and keep the prompts that lend them."""
        super().fit(prompts)
        self._lenders = list(prompts)

    def __call__(self, prompts: Sequence[Prompt], represent: Callable[[Sequence[Prompt]], Tensor]) -> Tensor:
        """Return the row of a training prompt that the id picks. Shape ``(P, H)``, float32."""
        picked = [xxhash.xxh64_intdigest(prompt.prompt_id.encode()) % len(self._lenders) for prompt in prompts]
        return super().__call__([self._lenders[index] for index in picked], represent)
