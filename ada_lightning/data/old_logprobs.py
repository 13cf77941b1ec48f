"""Old log-probabilities of a rollout, so that a resume between two of its updates goes on with the same ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ada_lightning.training.batch import Microbatch, TrainingBatch


@dataclass(frozen=True, slots=True)
class OldLogprobs:
    """What the policy said of every response of a step before the first update with it."""

    step: int
    by_response: Mapping[int, tuple[Tensor, Tensor]]
    """By the response's name in its run (``identity_B``): its tokens and their log-probabilities in nats."""

    @classmethod
    def of(cls, step: int, batches: Sequence[TrainingBatch]) -> OldLogprobs:
        """Read them from the scored minibatches of a step."""
        found: dict[int, tuple[Tensor, Tensor]] = {}
        for microbatch in (microbatch for batch in batches for microbatch in batch):
            sizes = microbatch.num_tokens_B.long().tolist()
            columns = microbatch.token_ids_K.split(sizes), microbatch.old_logprobs_K.split(sizes)
            found |= zip(microbatch.identity_B.tolist(), zip(*columns, strict=True), strict=True)
        return cls(step, found)

    def put_into(self, batch: TrainingBatch) -> tuple[TrainingBatch, int]:
        """Replace what a batch was scored with, however it is packed.

        Returns:
            The batch, and how many of its responses are not those of this rollout, token for token. Those keep what
            they were scored with.
        """
        filled, num_others = [], 0
        for microbatch in batch:
            old_logprobs_K, num_other = self._of(microbatch)
            filled.append(replace(microbatch, old_logprobs_K=old_logprobs_K))
            num_others += num_other
        return replace(batch, microbatches=tuple(filled)), num_others

    def _of(self, microbatch: Microbatch) -> tuple[Tensor, int]:
        parts = list(microbatch.old_logprobs_K.split(microbatch.num_tokens_B.long().tolist()))
        tokens = microbatch.token_ids_K.split([len(part) for part in parts])
        num_other = 0
        for index, name in enumerate(microbatch.identity_B.tolist()):
            known = self.by_response.get(name)
            if known is not None and torch.equal(known[0], tokens[index]):
                parts[index] = known[1]
            else:
                num_other += 1
        return torch.cat(parts), num_other

    def state_dict(self) -> dict[str, Any]:
        """Return the step and its responses end to end, as tensors."""
        tokens, logprobs = zip(*self.by_response.values(), strict=True) if self.by_response else ((), ())
        return {
            "step": self.step,
            "responses": torch.tensor(list(self.by_response), dtype=torch.int64),
            "num_tokens": torch.tensor([len(each) for each in tokens], dtype=torch.int64),
            "token_ids": torch.cat(tokens) if tokens else torch.empty(0, dtype=torch.int64),
            "logprobs": torch.cat(logprobs) if logprobs else torch.empty(0),
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> OldLogprobs:
        """Read :meth:`state_dict`."""
        sizes = state["num_tokens"].tolist()
        columns = zip(state["token_ids"].split(sizes), state["logprobs"].split(sizes), strict=True)
        return cls(int(state["step"]), dict(zip(state["responses"].tolist(), columns, strict=True)))
