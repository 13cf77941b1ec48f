"""Responses of a checkpoint, drawn by the engine in the trainer's precision: first a few of many prompts, then many."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ada_lightning.config.assembly import SamplingParts, assemble, read_data
from ada_lightning.core.records import Prompt, ResponsePool
from ada_lightning.methods.sampling import UniformSampler
from research.drive import collect, composed

NUM_SCREEN = 16
"""Responses of each prompt that is screened."""


@dataclass(frozen=True)
class DrawSizes:
    """How much is drawn."""

    num_screened: int
    """Training prompts that are screened, the first ones."""
    num_measured: int
    """Prompts whose gradients are taken."""
    num_drawn: int
    """Responses of each of those, fresh ones."""


@dataclass(frozen=True)
class DrawnPool:
    """Every response of one prompt."""

    prompt_id: str
    prompt_ids: tuple[int, ...]
    responses: tuple[tuple[int, ...], ...]
    """Token ids, in launch order."""
    is_positive: tuple[bool, ...]


def draw(model_path: Path, folder: Path, sizes: DrawSizes) -> tuple[list[int], list[DrawnPool]]:
    """Screen the training prompts of the default task, choose, and draw anew; what is on the disk is not drawn again.

    Returns:
        Positives of the screening, prompt by prompt, and the pools of the chosen prompts.
    """
    file = folder / "draws.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        screened, pools = _draw(model_path, folder / "engine.log", sizes)
        content = {"screened": screened, "pools": [asdict(pool) for pool in pools]}
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(content))
        partial.rename(file)
    content = json.loads(file.read_text())
    return content["screened"], [_read(pool) for pool in content["pools"]]


def evenly_chosen(positives: Sequence[int], num_screen: int, num_chosen: int) -> list[int]:
    """Choose prompts that were neither all right nor all wrong, at even steps of the order by their positives.

    Every such prompt then stands for as many others, whatever its pass rate (systematic sampling).

    Example:
        >>> evenly_chosen([0, 3, 1, 4, 2], num_screen=4, num_chosen=2)
        [2, 1]
    """
    mixed = [index for index, count in enumerate(positives) if 0 < count < num_screen]
    if len(mixed) < num_chosen:
        raise ValueError(f"only {len(mixed)} of {len(positives)} prompts were neither all right nor all wrong")
    mixed.sort(key=lambda index: (positives[index], index))
    return [mixed[int((place + 0.5) * len(mixed) / num_chosen)] for place in range(num_chosen)]


def _draw(model_path: Path, log_file: Path, sizes: DrawSizes) -> tuple[list[int], list[DrawnPool]]:
    from hydra.utils import instantiate

    from ada_lightning.run.terminal import quiet_libraries

    quiet_libraries()
    cfg = composed("prepare", ["rollout.engine.dtype=float32", "run_name=unused"])
    parts = assemble(cfg, model_path)
    prompts = list(read_data(cfg, parts.model.tokenizer, parts.grader).train_prompts[: sizes.num_screened])
    parts.grader.start()
    engine = instantiate(cfg.rollout.engine)(
        model_path=parts.model.path,
        log_file=log_file,
        max_model_tokens=cfg.rollout.max_model_tokens,
        eos_token_ids=parts.model.eos_token_ids,
    )
    try:
        screened = _collect(parts, engine, prompts, NUM_SCREEN, step=0)
        chosen = evenly_chosen([pool.num_positive for pool in screened], NUM_SCREEN, sizes.num_measured)
        pools = _collect(parts, engine, [prompts[index] for index in chosen], sizes.num_drawn, step=1)
    finally:
        engine.close()
        parts.grader.close()
    return [pool.num_positive for pool in screened], [_pool(pool) for pool in pools]


def _collect(
    parts: SamplingParts, engine: Any, prompts: Sequence[Prompt], num_samples: int, step: int
) -> list[ResponsePool]:
    groups, _ = collect(
        prompts,
        UniformSampler(group_size=num_samples),
        engine=engine,
        grader=parts.grader,
        settings=parts.service.sampling,
        decode=lambda ids: str(parts.model.tokenizer.decode(ids, skip_special_tokens=True)),
        step=step,
        positive_threshold=parts.service.settings.positive_threshold,
    )
    return [group.pool for group in groups]


def _pool(pool: ResponsePool) -> DrawnPool:
    return DrawnPool(
        pool.prompt.prompt_id,
        pool.prompt.prompt_ids,
        tuple(response.response_ids for response in pool.responses),
        tuple(response.is_positive for response in pool.responses),
    )


def _read(content: dict[str, Any]) -> DrawnPool:
    return DrawnPool(
        content["prompt_id"],
        tuple(content["prompt_ids"]),
        tuple(tuple(ids) for ids in content["responses"]),
        tuple(content["is_positive"]),
    )
