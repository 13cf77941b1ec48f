"""The rows of one update of TRL's asynchronous trainer: as many as it takes, and what fills them up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from trl.experimental.async_grpo.async_rollout_worker import RolloutSample


def filler(token: int, version: int, group_id: int) -> RolloutSample:
    """Return a row of two tokens that trains nothing; its second one is masked.

    Args:
        token: any, as the one that ends a response.
        version: of the policy that the row trains with, so that it is not too old.
        group_id: of a prompt of the step.
    """
    return RolloutSample(
        prompt=[],
        completion=[],
        input_ids=np.array([token, token], dtype=np.int64),
        completion_mask=np.array([0, 0], dtype=np.int64),
        old_log_probs=np.zeros(2, dtype=np.float32),
        advantage=0.0,
        model_version=version,
        group_id=group_id,
        metrics={"reward": math.nan},
    )


@dataclass(frozen=True, slots=True)
class Arrangement:
    """How many rows an update takes. TRL packs them by number, so each update is of one step."""

    rows: int
    """Of an update, over all processes."""
    microbatch: int
    """Of one forward pass, over all processes."""
    processes: int

    def arrange(self, kept: Sequence[RolloutSample], blank: RolloutSample) -> list[RolloutSample]:
        """Spread a step's rows over the forward passes of its update, and fill these up.

        TRL's loss takes a maximum over the rows of a process, so each needs a token that counts. Where a forward pass
        has fewer prompts than processes, a filler's token counts, with an advantage of 0.

        Args:
            kept: rows that train.
            blank: a filler.

        Raises:
            ValueError: the update has no room for them.
        """
        if len(kept) > self.rows:
            raise ValueError(
                f"a step has {len(kept)} rows to train, and an update takes {self.rows}: raise "
                "gradient_accumulation_steps. Conversations that TRL divides into several rows need room for them"
            )
        number = self.rows // self.microbatch
        found: list[RolloutSample] = []
        for place in range(number):
            part = list(kept[place::number])
            is_enough = len({row.group_id for row in part}) >= self.processes
            mask = np.array([0, int(not is_enough)], dtype=np.int64)
            found += part
            found += [replace(blank, completion_mask=mask) for _ in range(self.microbatch - len(part))]
        return found
