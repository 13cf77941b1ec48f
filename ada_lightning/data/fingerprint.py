"""Whether a run that is continued has the prompts that it began with."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ada_lightning.core.records import Prompt


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Checksums of the encoded prompts of a run, in their order: a few bytes, however many prompts there are."""

    num_train: int
    train: str
    """Of the ids of the training prompts, which are made of their texts and answers."""
    heldout: str
    """The same of the held-out prompts."""
    tokens: str
    """Of what the model is shown of both."""

    @classmethod
    def of(cls, train: Sequence[Prompt], heldout: Sequence[Prompt]) -> Fingerprint:
        """Return that of some prompts."""
        tokens = hashlib.sha256()
        for prompt in (*train, *heldout):
            tokens.update(array("q", (len(prompt.prompt_ids), *prompt.prompt_ids)).tobytes())
        return cls(len(train), _of_ids(train), _of_ids(heldout), tokens.hexdigest()[:16])

    def as_dict(self) -> dict[str, Any]:
        """Return it as a checkpoint keeps it."""
        return asdict(self)

    def difference(self, earlier: Mapping[str, Any]) -> str:
        """Return in words how an earlier one differs; nothing where it does not."""
        found = []
        if self.train != earlier["train"]:
            found.append(
                f"{self.num_train} training prompts, {earlier['num_train']} then; rows were added, removed, changed or "
                "put in another order"
            )
        if self.heldout != earlier["heldout"]:
            found.append("other held-out prompts, so that evaluations before and after do not compare")
        if not found and self.tokens != earlier["tokens"]:
            found.append("the same texts become other tokens, as with another template, or one that prints the date")
        return "; ".join(found)


def _of_ids(prompts: Sequence[Prompt]) -> str:
    return hashlib.sha256("\n".join(prompt.prompt_id for prompt in prompts).encode()).hexdigest()[:16]
