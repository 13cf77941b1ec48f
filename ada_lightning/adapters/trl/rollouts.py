"""The rollout function, the data set, the reward function and the callback of an adaptive GRPOTrainer."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from accelerate.utils import gather_object
from datasets import IterableDataset
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from ada_lightning.adapters.core import Core
from ada_lightning.adapters.pools import Pool, Pools
from ada_lightning.adapters.trl.arguments import approximations, refusals, updates_of_a_rollout
from ada_lightning.adapters.trl.figures import figures_of
from ada_lightning.adapters.trl.grading import Grading, RewardFunction
from ada_lightning.adapters.trl.rows import Drawn, PromptRows, Rows
from ada_lightning.adapters.trl.sampling import generate, tokenize
from ada_lightning.config.problems import ConfigError
from ada_lightning.core.following import SLOTS
from ada_lightning.core.records import Verdict

Sample = Callable[[Sequence[list[int]], Sequence[int]], Sequence[tuple[Sequence[int], Sequence[float] | None]]]
"""``(prompt ids, seeds) -> (completion ids, log-probabilities or None)``, one for each response."""


class AdaRollouts:
    """Adaptive sampling for TRL's GRPOTrainer, on its public arguments.

    A rollout draws rounds until no prompt of the step wants more, keeps what the method selects, and hands TRL groups
    of one size whose advantages are the method's. Every process has a core of its own that is told of all responses,
    so rules that look at a whole step work across processes, and all take part in the same number of rounds.

    Args:
        method: a name of ``conf/experiment``.
        rows: the training set in TRL's format: ``prompt`` and the columns that the reward asks for.
        reward: a reward function in TRL's format, or several whose rewards are added up. A function that returns None
            adds nothing; a response for which all do is left out.
        num_prompts: of a step, over all processes.
        seed: of the choice of prompts and of the method's own draws.
        reward_weights: of several reward functions.
        eval_rows: further rows that the trainer may evaluate on (``eval_dataset``).
        id_column: of the training set, with a name of each row that outlives changes of the data; by default a hash of
            all that stands in the row.
        sample: draws the responses, instead of the trainer's own generation.
        solution_column: of the training set, with worked solutions for ``hints="prefix"``.
        answer_column: with the answers that no part of a solution that is given may show.
        **overrides: as of :class:`~ada_lightning.adapters.core.Core`.

    Raises:
        ConfigError: the method cannot work, or not here.
        ValueError: a data set that cannot be used, or a reward function that asks for what it does not have.
    """

    def __init__(
        self,
        method: str,
        rows: Iterable[Mapping[str, Any]],
        *,
        reward: RewardFunction | Sequence[RewardFunction],
        num_prompts: int,
        seed: int = 0,
        reward_weights: Sequence[float] | None = None,
        eval_rows: Iterable[Mapping[str, Any]] = (),
        id_column: str | None = None,
        sample: Sample | None = None,
        solution_column: str | None = None,
        answer_column: str | None = None,
        **overrides: Any,
    ) -> None:
        self.rows = PromptRows(rows, id_column)
        self._eval_rows = PromptRows(held_out) if (held_out := list(eval_rows)) else self.rows
        self._grading = Grading(reward, reward_weights)
        for known in (self.rows, self._eval_rows):
            self._grading.check_columns(next(iter(known.by_id.values())))
        self._sample = sample
        self.num_prompts = num_prompts
        given = {"solutions": solution_column, "answers": answer_column}
        columns: dict[str, Any] = {
            name: self.rows.column(column) for name, column in given.items() if column is not None
        }
        self.core = Core(method, prompts=self.rows.texts(), seed=seed, **columns, **overrides)
        self._check_method()
        if num_prompts < 1:
            raise ValueError(f"num_prompts must be at least 1; got {num_prompts}")
        self.dataset = IterableDataset.from_generator(_Stream(self))
        """``train_dataset`` of the trainer: the prompts that are chosen, one step ahead."""
        self.callback = AdaState(self.core, learn=self.learn, abandon=self.abandon)
        """For ``callbacks`` of the trainer."""
        self.reasons: list[str] = []
        """Why the update is not exactly what the statement says; known once a rollout was made."""
        self.figures: dict[str, float] = {}
        """Of the last rollout; the trainer logs them."""
        self._pools: Pools | None = None
        self._updates_to_come = 0
        self._prompt_ids: dict[str, list[int]] = {}
        self._has_checked = False

    def config(self, *, num_processes: int = 1, rows_per_device: int | None = None) -> dict[str, Any]:
        """Return arguments of GRPOConfig with which rows mean what the method says.

        Args:
            num_processes: that train.
            rows_per_device: ``per_device_train_batch_size``; a group by default.

        Raises:
            ValueError: prompts or rows that do not divide.
        """
        group = self.core.max_kept + 1
        rows = rows_per_device or group
        per_process = self.num_prompts * group // num_processes
        if self.num_prompts % num_processes or per_process % rows:
            raise ValueError(
                f"num_prompts = {self.num_prompts} must divide by num_processes = {num_processes}, and the "
                f"{per_process} rows of a process by rows_per_device = {rows}"
            )
        return {
            "num_generations": group,
            "per_device_train_batch_size": rows,
            "gradient_accumulation_steps": per_process // rows,
            "loss_type": "dr_grpo",
            "scale_rewards": "none",
            "num_iterations": 1,
            "beta": 0.0,
            "shuffle_dataset": False,
            "vllm_importance_sampling_mode": "token_truncate",
        }

    def trainer_arguments(self) -> dict[str, Any]:
        """Return what GRPOTrainer is given of this: data set, rollout function, reward function and callback."""
        return {
            "train_dataset": self.dataset,
            "rollout_func": self.rollout,
            "reward_funcs": [self.advantages],
            "callbacks": [self.callback],
        }

    def check(self, trainer: Any) -> list[str]:
        """Compare a trainer's arguments with what the statement assumes.

        Returns:
            Why the update is approximate; empty where it is exact.

        Raises:
            ConfigError: rows would mean something else.
        """
        found = list(
            refusals(
                trainer,
                dataset=self.dataset,
                reward=self.advantages,
                max_kept=self.core.max_kept,
                num_prompts=self.num_prompts,
            )
        )
        if self.callback not in trainer.callback_handler.callbacks:
            found.append(
                "callbacks must hold ada.callback: without it nothing is learned, and checkpoints lack its state"
            )
        if found:
            raise ConfigError(found)
        self.reasons = list(approximations(trainer))
        return self.reasons

    def statement(self) -> str:
        """Say what the update follows, and why it is approximate where it is."""
        about = "exact" if not self.reasons else "approximate"
        reasons = [f"  approximate: {reason}" for reason in self.reasons]
        return "\n".join([self.core.statement(f"TRL's GRPOTrainer, rows as asked for ({about})"), *reasons])

    def rollout(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        """Draw a step: ``rollout_func`` of the trainer.

        Args:
            prompts: this process's, each repeated as often as its group has rows.
            trainer: GRPOTrainer.

        Raises:
            ConfigError: at the first call, arguments with which rows would mean something else.
            ValueError: other prompts than those chosen for the step.
        """
        if not trainer.model.training:
            return self._evaluate(prompts, trainer)
        if not self._has_checked:
            self.check(trainer)
            self._has_checked = True
            if trainer.accelerator.is_main_process:
                print(self.statement(), flush=True)
        local = [self.rows.id_of(prompt) for prompt in prompts[:: trainer.num_generations]]
        self._pools = pools = self.core.begin([str(prompt_id) for prompt_id in gather_object(local)])
        self._updates_to_come = updates_of_a_rollout(trainer.args)
        first = trainer.accelerator.process_index * len(local)
        mine = range(first, first + len(local))
        num_graded = 0
        while not pools.is_complete:
            launched = [(pool, index) for pool in pools for index in pool.launch(pool.want())]
            if not launched:
                raise RuntimeError(
                    "a step is not complete, but its sampler asks for no response and would wait for ever"
                )
            num_graded += self._round([each for each in launched if each[0].slot % SLOTS in mine], pools, trainer)
        output = self._output([pools.at(slot) for slot in mine], pools, trainer)
        self.figures = figures_of(pools)
        if not num_graded and trainer.accelerator.is_main_process:
            text = f"no response of step {self.core.step} has a reward: every reward function returned None or NaN"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        return output

    def advantages(
        self,
        completions: Sequence[Any],
        ada: Sequence[float],
        ada_extra: Sequence[Mapping[str, Any]] = (),
        log_metric: Any = None,
        log_extra: Any = None,
        **others: Any,
    ) -> list[float]:
        """Hand a rollout's advantages over as rewards: ``reward_funcs`` of the trainer.

        What the reward functions logged goes to the trainer's own ``log_metric`` and ``log_extra``, the figures of the
        rollout too.
        """
        if len(ada) != len(completions):
            raise ValueError(f"{len(ada)} advantages for {len(completions)} rows")
        if log_metric is not None:
            logged = {name: [value] for name, value in self.figures.items()} | self._grading.metrics
            for name, values in logged.items():
                for value in values:
                    log_metric(name, value)
            self._grading.metrics.clear()
        if log_extra is not None:
            for column in dict.fromkeys(name for extra in ada_extra for name in extra):
                log_extra(column, [extra.get(column) for extra in ada_extra])
        return list(ada)

    def learn(self) -> None:
        """Let the core learn from the last rollout, once; the callback calls it after every update."""
        self._updates_to_come -= 1
        if self._pools is not None and self._updates_to_come <= 0:
            self.core.tell(self._pools)
            self._pools = None

    def abandon(self) -> None:
        """Forget a rollout that was not learned from, and what its reward functions logged."""
        self.core.abandon()
        self._grading.metrics.clear()
        self._pools = None

    def _check_method(self) -> None:
        problems = self.core.unmet(metrics=False, refill=False, hints=True, answers=False)
        if problems:
            raise ConfigError([f"{problem}, which TRL's trainer does not give" for problem in problems])

    def _round(self, launched: Sequence[tuple[Pool, int]], pools: Pools, trainer: Any) -> int:
        """Draw and grade this process's part of a round, tell the core of all parts, and count who has a reward."""
        drawn = self._draw(launched, trainer)
        rows = [self.rows.by_id[pool.bare_id] for pool, _ in launched]
        told = []
        graded = self._grade(rows, drawn, trainer, [pool.hint for pool, _ in launched])
        for (pool, index), response, (verdict, extra) in zip(launched, drawn, graded, strict=True):
            response.extra = extra
            outcome = {
                "reward": verdict.reward,
                "failed": verdict.failure,
                "num_tokens": len(response.completion_ids),
                "is_truncated": _is_truncated(response.completion_ids, trainer),
                "components": verdict.components,
                "logprobs": response.logprobs if self.core.needs_logprobs else (),
            }
            told.append((pool.slot, index, outcome))
        own = {(pool.slot, index): response for (pool, index), response in zip(launched, drawn, strict=True)}
        everybodys = gather_object(told)
        for slot, index, outcome in everybodys:
            pools.at(slot).add(index, payload=own.get((slot, index)), **outcome)
        return sum(outcome["reward"] is not None for _, _, outcome in everybodys)

    def _draw(self, launched: Sequence[tuple[Pool, int]], trainer: Any) -> list[Drawn]:
        ids = self._tokenized([pool for pool, _ in launched], trainer)
        if self._sample is None:
            return generate(trainer, ids, at_once=self._rows_of_process(trainer))
        seeds = [pool.seed(index) for pool, index in launched]
        return [Drawn(list(c), None if p is None else list(p)) for c, p in self._sample(ids, seeds)]

    def _rows_of_process(self, trainer: Any) -> int:
        return int(trainer.args.generation_batch_size) // int(trainer.accelerator.num_processes)

    def _tokenized(self, pools: Sequence[Pool], trainer: Any) -> list[list[int]]:
        """Tokens of each pool's prompt, and behind them of its hint."""
        new = [prompt_id for prompt_id in dict.fromkeys(p.bare_id for p in pools) if prompt_id not in self._prompt_ids]
        if new:
            ids = tokenize(trainer, [self.rows.by_id[prompt_id]["prompt"] for prompt_id in new])
            self._prompt_ids |= dict(zip(new, ids, strict=True))
        encode = trainer.processing_class
        return [
            [*self._prompt_ids[p.bare_id], *(encode(p.hint, add_special_tokens=False)["input_ids"] if p.hint else ())]
            for p in pools
        ]

    def _grade(
        self, rows: Sequence[dict[str, Any]], drawn: Sequence[Drawn], trainer: Any, hints: Sequence[str] = ()
    ) -> list[tuple[Verdict, dict[str, Any]]]:
        ids = [response.completion_ids for response in drawn]
        texts = trainer.processing_class.batch_decode(ids, skip_special_tokens=True) if ids else []
        whole = [hint + text for hint, text in zip(hints, texts, strict=True)] if hints else texts
        return self._grading(rows, whole, ids, trainer.state)

    def _output(self, own: Sequence[Pool], pools: Pools, trainer: Any) -> dict[str, Any]:
        # TRL divides by rows times the longest completion, over all processes; the core by its own rule.
        length, group_size = int(trainer.max_completion_length), int(trainer.num_generations)
        scale = self.num_prompts * group_size * length / self.core.denominator(max_tokens=length)
        rows, eos = Rows(), int(trainer.eos_token_ids[0])
        for pool in own:
            # A hinted group stands in the rows of its prompt, behind what that keeps.
            parts = [part for part in (pool, pools.hinted(pool.slot)) if part is not None]
            found = [(ids, part.kept()) for ids, part in zip(self._tokenized(parts, trainer), parts, strict=True)]
            rows.add_group(found, scale=scale, group_size=group_size, eos_token_id=eos)
        return rows.output(with_logprobs=bool(trainer.use_vllm))

    def _evaluate(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        """Draw each prompt as often as it is given, and hand its reward over as it is."""
        self.figures = {}
        found = [self._eval_rows.id_of(prompt) for prompt in prompts]
        if None in found:
            raise ValueError("the trainer evaluates on prompts that AdaRollouts was not given: pass eval_rows")
        rows = [self._eval_rows.by_id[str(prompt_id)] for prompt_id in found]
        ids = tokenize(trainer, prompts)
        drawn = generate(trainer, ids, at_once=len(prompts))
        output, eos = Rows(), int(trainer.eos_token_ids[0])
        for prompt_ids, response, (verdict, extra) in zip(ids, drawn, self._grade(rows, drawn, trainer), strict=True):
            response.extra = extra
            output.add_response(prompt_ids, response, float("nan") if verdict.reward is None else verdict.reward, eos)
        return output.output(with_logprobs=bool(trainer.use_vllm))

    def stream(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of the run's prompts from its first step on, each step chosen when it is asked for.

        A resumed trainer winds forward past the steps that are done; what those were made of matters to nobody.
        """
        number = 0
        while True:
            yield from (self.rows.by_id[prompt_id] for prompt_id in self.core.picked(number, self.num_prompts))
            number += 1


class _Stream:
    """A generator function that data sets may copy and fingerprint without looking at what it holds."""

    def __init__(self, owner: AdaRollouts) -> None:
        self._owner = owner

    def __call__(self) -> Iterator[dict[str, Any]]:
        return self._owner.stream()

    def __reduce__(self) -> Any:
        return (str, (f"{type(self).__name__} of {id(self._owner)}",))


def _is_truncated(completion_ids: Sequence[int], trainer: Any) -> bool:
    return not completion_ids or completion_ids[-1] not in trainer.eos_token_ids


class AdaState(TrainerCallback, ExportableState):
    """Says when an update is done, and keeps the core's state in ``trainer_state.json``.

    Args:
        core: what remembers.
        learn: called when an update is done.
        abandon: called before training begins, which may be after an interrupt in the middle of a rollout.
    """

    def __init__(self, core: Core, *, learn: Callable[[], object], abandon: Callable[[], object]) -> None:
        self._core, self._learn, self._abandon = core, learn, abandon

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Go on where the checkpoint was written.

        Raises:
            ValueError: a checkpoint of a run without this callback, or of another data set.
        """
        self._abandon()
        if state.global_step == 0:
            return
        saved = state.stateful_callbacks.get(type(self).__name__)
        if saved is None:
            raise ValueError("the checkpoint has no state of ada.callback: was the run started without it?")
        self._core.load_state_dict(json.loads(saved["attributes"]["core"]))

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Say that an update has just been made."""
        self._learn()

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds: nothing of a rollout whose last update is still to come; it is drawn anew."""
        return {"args": {}, "attributes": {"core": json.dumps(self._core.state_dict(between_steps=False))}}
