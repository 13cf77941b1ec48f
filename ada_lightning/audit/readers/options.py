"""What a person may say about a log that it does not say itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ada_lightning.audit.untrusted import Limits

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class Options:
    """Given on the command line."""

    rewards: dict[str, float] = field(default_factory=dict)
    """Weight by name of a reward's column or part; empty: as the reader finds them."""
    group_size: int | None = None
    """Responses per prompt, for logs that do not mark groups."""
    tokenizer: Tokenizer | None = None
    """Counts tokens where the log does not."""
    limits: Limits = field(default_factory=Limits)

    def num_tokens(self, text: str) -> int | None:
        """Count the tokens of a text; None without a tokenizer. Special tokens are not in a decoded text."""
        return len(self.tokenizer.encode(text, add_special_tokens=False).ids) if self.tokenizer else None
