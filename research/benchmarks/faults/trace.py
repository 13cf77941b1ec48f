"""Every token that a run samples and every weight that it makes, in a file that two runs are compared by."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning.pytorch import LightningModule, Trainer

from ada_lightning.callbacks.rollout_listener import RolloutListener

if TYPE_CHECKING:
    from ada_lightning.core.step_records import RolloutResult

FILE = "trace.jsonl"
"""Name in the run folder."""


class Trace(RolloutListener):
    """Appends a line for each rollout and one for each update to ``trace.jsonl``; repeated steps are all there."""

    def __init__(self, *, run_dir: str | Path) -> None:
        self.path = Path(run_dir) / FILE

    def on_rollout_end(self, trainer: Trainer, pl_module: LightningModule, result: RolloutResult) -> None:
        """Note prompts, tokens, the engine's log-probabilities to the last bit, and rewards."""
        pools = [group.pool for group in result.groups]
        responses = [response for pool in pools for response in pool.responses]
        self._write(
            kind="rollout",
            step=result.step,
            prompts=[pool.prompt.prompt_id for pool in pools],
            tokens=[list(response.response_ids) for response in responses],
            logprobs=[[value.hex() for value in response.sampling_logprobs] for response in responses],
            rewards=[response.reward for response in responses],
            generated_tokens=result.stats.generated_tokens + result.stats.wasted_tokens,
        )

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Note a digest of the weights after an update."""
        policy: Any = pl_module
        digest = hashlib.sha256()
        for _, tensor in policy.named_weights():
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
        metrics = policy.update_metrics
        self._write(
            kind="update",
            step=policy.policy_version,
            weights=digest.hexdigest(),
            loss=metrics["train/loss"],
            grad_norm=metrics["train/grad_norm"],
        )

    def _write(self, **record: Any) -> None:
        with self.path.open("ab", buffering=0) as file:
            file.write((json.dumps(record) + "\n").encode())


def read_trace(run_dir: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Read a trace; of a step that was repeated the last attempt counts.

    Returns:
        Each record by its kind and step.
    """
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for line in (run_dir / FILE).read_bytes().splitlines():
        try:
            record = json.loads(line)
        except ValueError:  # cut by a kill
            continue
        found[record["kind"], record["step"]] = record
    return found
