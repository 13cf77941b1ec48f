"""A generator around SkyRL's own: it draws each prompt as often as a memory wants, and hands over what trains of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from skyrl.train.generators.base import GeneratorInterface

from ada_lightning.adapters.brain import Brain
from ada_lightning.adapters.brain_records import FinishedStep, Handout, TrainingRow
from ada_lightning.adapters.skyrl.prompts import AdaPrompts

ROWS = (
    "prompt_token_ids",
    "response_ids",
    "rewards",
    "loss_masks",
    "stop_reasons",
    "rollout_logprobs",
    "trajectory_ids",
)
"""Of what a generator returns: one entry for each row."""


class AdaGenerator(GeneratorInterface):
    """Asks a generator for what the memory wants, and returns the rows of a step once it is whole.

    A prompt's rows are what the method keeps of it and, up to the number that SkyRL asked for, rows of one masked
    token. Their reward is the advantage, scaled so that SkyRL's division by rows and length is the method's own.

    Args:
        inner: SkyRL's generator, with rewards of whole responses.
        prompts: the data set, which knows what each uid stands for.
        eos_token_id: of rows that fill a group.
        learn: whether a step is learned from at once. Otherwise a callback says when its update is done.
        timeout: seconds of one call of ``inner``; responses of one that takes longer are ungraded.
    """

    def __init__(
        self,
        inner: Any,
        prompts: AdaPrompts,
        *,
        eos_token_id: int,
        learn: bool,
        timeout: float = 3600.0,
    ) -> None:
        self._inner, self._prompts, self._eos, self._learn = inner, prompts, eos_token_id, learn
        self._timeout = timeout
        self.on_finish: Callable[[FinishedStep], object] = _nothing
        """Called with a step that became whole and was learned from."""
        self._brain: Brain = prompts.brain
        self._news = asyncio.Condition()
        self._finished: dict[int, dict[int, list[TrainingRow]]] = {}
        self._left: dict[int, int] = {}
        self._denominators: dict[int, float] = {}
        self._figures: dict[str, float] = {}

    async def generate(self, input_batch: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """Draw prompts of a step, all or one of them, and wait for the others of it.

        Args:
            input_batch: SkyRL's. An evaluation is drawn as ``inner`` does.
            **options: for ``inner``.

        Raises:
            ValueError: a prompt keeps more rows than its group has.
        """
        if input_batch["batch_metadata"].training_phase == "eval":
            found: dict[str, Any] = await self._inner.generate(input_batch, **options)
            return found
        ids = input_batch["trajectory_ids"]
        groups = [list(rows) for _, rows in groupby(range(len(ids)), key=lambda row: ids[row].instance_id)]
        if not self._learn and len(groups) != self._brain.num_prompts:
            raise ValueError(
                f"SkyRL hands over {len(groups)} of the {self._brain.num_prompts} prompts of a step: "
                "train_batch_size * n_samples_per_prompt must divide by the number of training processes"
            )
        handouts = [self._prompts.handed.pop(ids[rows[0]].instance_id) for rows in groups]
        pairs = zip(groups, handouts, strict=True)
        await asyncio.gather(*(self._draw(input_batch, rows[0], handout, options) for rows, handout in pairs))
        output: dict[str, list[Any]] = {name: [] for name in ROWS}
        async with self._news:
            await self._news.wait_for(lambda: self._is_next(handouts[0].step))
            for rows, handout in zip(groups, handouts, strict=True):
                self._add_group(output, handout, [ids[row] for row in rows])
            self._news.notify_all()  # nothing is awaited from here on: SkyRL queues this before the next step's
        logprobs = output.pop("rollout_logprobs")
        return {
            **output,
            "rollout_logprobs": logprobs if all(each is not None for each in logprobs) else None,
            "rollout_metrics": {f"ada/{name}": value for name, value in self._figures.items()},
        }

    async def _draw(
        self, batch: Mapping[str, Any], row: int, handout: Handout | None, options: Mapping[str, Any]
    ) -> None:
        """Draw one prompt in rounds until it wants no more, or the whole step is done."""
        assert handout is not None
        step, slot, version = handout.step, handout.slot, int(batch["batch_metadata"].global_step)
        while handout is not None:
            if handout.indices:
                await self._round(batch, row, handout, options, version)
            async with self._news:
                self._finish()
                self._news.notify_all()
                while (handout := self._more(step, slot)) is None and not self._is_over(step):
                    await self._news.wait()

    async def _round(
        self, batch: Mapping[str, Any], row: int, handout: Handout, options: Mapping[str, Any], version: int
    ) -> None:
        picked = _picked(batch, [row] * len(handout.indices))
        picked["sampling_params"] = batch["sampling_params"]
        try:
            drawn = await asyncio.wait_for(self._inner.generate(picked, **options), self._timeout)
        except TimeoutError:
            results = {index: {"failed": "timeout", "num_tokens": 0} for index in handout.indices}
        else:
            rows = [
                {name: drawn[name][at] for name in ROWS if drawn.get(name) is not None}
                for at in range(len(handout.indices))
            ]
            results = {index: _result(one) for index, one in zip(handout.indices, rows, strict=True)}
        self._brain.add(handout.step, handout.slot, results, version=version)

    def _more(self, step: int, slot: int) -> Handout | None:
        return None if self._is_over(step) else self._brain.hand_out(step, slot)

    def _is_over(self, step: int) -> bool:
        return step in self._finished

    def _is_next(self, step: int) -> bool:
        """Whether a step is whole, and all of the steps before it were handed over."""
        return step in self._finished and step == min(self._finished)

    def _finish(self) -> None:
        """Take the rows of the steps that are whole, in their order."""
        while self._brain.step not in self._finished:
            finished = self._brain.finish(learn=self._learn)
            if finished is None:
                return
            rows: dict[int, list[TrainingRow]] = {slot: [] for slot in range(len(finished.prompt_ids))}
            for row in finished.rows:
                rows[row.slot].append(row)
            self._finished[finished.step], self._left[finished.step] = rows, len(rows)
            self._figures = finished.figures
            self.on_finish(finished)

    def _add_group(self, output: dict[str, list[Any]], handout: Handout, ids: Sequence[Any]) -> None:
        kept = self._finished[handout.step].get(handout.slot, [])
        if len(kept) > len(ids):
            raise ValueError(f"a prompt keeps {len(kept)} rows; raise generator.n_samples_per_prompt = {len(ids)}")
        # SkyRL divides by rows times the longest response; the weight is divided already.
        scale = len(ids) * self._brain.num_prompts * self._brain.max_tokens
        rows = [{**row.payload, "rewards": row.weight * scale} for row in kept]
        filler = {
            "prompt_token_ids": rows[0]["prompt_token_ids"] if rows else [self._eos], "response_ids": [self._eos],
            "rewards": 0.0, "loss_masks": [0], "stop_reasons": "stop", "rollout_logprobs": [0.0],
        }  # fmt: skip
        rows += [filler] * (len(ids) - len(rows))
        for row, trajectory_id in zip(rows, ids, strict=True):
            for name in ROWS:
                output[name].append(trajectory_id if name == "trajectory_ids" else row.get(name))
        self._left[handout.step] -= 1
        if not self._left[handout.step]:
            del self._finished[handout.step], self._left[handout.step]


def _nothing(finished: FinishedStep) -> None:
    """Do nothing with a step that became whole."""


def _picked(batch: Mapping[str, Any], rows: Sequence[int]) -> dict[str, Any]:
    """Rows of a generator's input, a row as often as it is named."""
    return {name: [value[row] for row in rows] if isinstance(value, list) else value for name, value in batch.items()}


def _result(row: dict[str, Any]) -> dict[str, Any]:
    reward, mask = row["rewards"], row["loss_masks"]
    logprobs = row.get("rollout_logprobs") or ()
    return {
        "reward": float(sum(reward) if isinstance(reward, list) else reward),
        "num_tokens": sum(mask),
        "payload": row,
        "is_truncated": row.get("stop_reasons") == "length",
        "logprobs": [value for value, trains in zip(logprobs, mask, strict=False) if trains],
    }
