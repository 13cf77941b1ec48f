"""What does not go with a policy that samples some steps behind the one that trains."""

from __future__ import annotations

from collections.abc import Iterator

from ada_lightning.analysis.statement.staleness import has_trust_region
from ada_lightning.config.view import ConfigView
from ada_lightning.core.protocols import Refill, Sampler
from ada_lightning.rollout.engines.weight_transfer import Reload
from ada_lightning.training.losses import PolicyLoss

_KEY = "rollout.max_staleness"


def staleness_errors(run: ConfigView) -> Iterator[str]:
    """Yield one message per problem; none without a lag. Parts that cannot be made are reported by themselves."""
    k = run.number(_KEY)
    if not k:
        return
    own = f"{_KEY} = {k}"
    yield from _place_errors(run, own)
    refill, sampler = run.part("refill"), run.kind("sampler")
    if isinstance(refill, Refill) and refill.is_on:
        yield (
            f"{own}: a step that is filled up decides where the prompts of the next one begin, and that one is "
            f"prepared before it is sampled; use refill=none or {_KEY}=0"
        )
    if issubclass(sampler, Sampler) and sampler.connect is not Sampler.connect:
        yield (
            f"{own}: {sampler.__name__} reads the policy between its stages, and the one it would read is not the one "
            f"that samples; use another sampler or {_KEY}=0"
        )
    loss, updates = run.part("loss"), [run.number(f"data.{name}") for name in ("num_minibatches", "epochs_per_rollout")]
    num_updates = int(updates[0] or 1) * int(updates[1] or 1)
    if isinstance(loss, PolicyLoss) and not has_trust_region(loss, num_updates=num_updates):
        yield (
            f"{own}: nothing bounds how far the policy moves from the one that sampled: with one update per rollout "
            f"every ratio of {type(loss).__name__} is 1, and a cap alone bounds one side; use loss.anchor=behaviour "
            "loss.importance_cap=0 with a loss that clips, or loss/importance=sequence_rejection "
            "loss.importance.floor=0.5, or loss=divergence_tv"
        )


def _place_errors(run: ConfigView, own: str) -> Iterator[str]:
    """One process trains, holds the older policies, and gives an engine the one whose turn it is."""
    transfer = run.kind("rollout.engine.weight_transfer")
    if transfer is not object and not issubclass(transfer, Reload):
        yield (
            f"{own} keeps older weights in memory of the CPU, and rollout.engine.weight_transfer: {transfer.__name__} "
            f"reads those of the trainer's GPU; use rollout/weight_transfer=reload, or {_KEY}=0"
        )
    if run.value("rollout.seed_requests") is False:
        yield (
            f"{own}: a step that is drawn again after a stop must be the same, which takes a seed for every response; "
            "use rollout.seed_requests=true"
        )
    processes = (run.number("trainer.devices") or 1) * (run.number("trainer.num_nodes") or 1)
    if processes > 1:
        yield (
            f"{own} keeps older weights in one training process, and trainer.devices x trainer.num_nodes = "
            f"{processes}; use trainer.devices=1 trainer.num_nodes=1, or {_KEY}=0"
        )
    if level := run.number("rollout.engine.sleep_level"):
        yield (
            f"{own} loads an older policy at every step, and rollout.engine.sleep_level = {level} gives the memory of "
            f"weights back in between; use rollout.engine.sleep_level=0"
        )
