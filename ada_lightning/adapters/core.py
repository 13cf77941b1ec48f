"""The core for your own loop: plain values in and out, no model, no engine, no threads, no clock."""

from __future__ import annotations

import json
import os
import warnings
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import cycle, islice, repeat
from types import MappingProxyType
from typing import Any

from ada_lightning.adapters.composed import compose_method
from ada_lightning.adapters.json_state import changes, check_whole, from_json, to_json
from ada_lightning.adapters.pools import Pool, Pools, Row
from ada_lightning.config.problems import ConfigError
from ada_lightning.core.checks import checked_whole, finite_number, whole_number
from ada_lightning.core.following import why_no_hint
from ada_lightning.core.named_state import load_named_state, named_state
from ada_lightning.core.options import OPTIONS
from ada_lightning.core.prompt_queue import PromptQueue, QueuePosition, StepPrompts
from ada_lightning.core.protocols import StepCosts
from ada_lightning.core.records import Belief, Prompt
from ada_lightning.data.solutions import cut_text
from ada_lightning.methods.recipe import Recipe
from ada_lightning.methods.sampling.planned import OneShotSampler
from ada_lightning.methods.sampling.uniform import UniformSampler

FORMAT = 1
"""Of :meth:`Core.state_dict`."""
_KEYS = ("method", "prompts", "step", "num_prompts", "picked", "queue", "parts", "curriculum")
"""Of every state of that format; ``settings`` and ``contents`` came later."""
ALLOW_CHANGES = "ADA_LIGHTNING_ALLOW_CHANGES"
"""Environment variable: ``1`` stands for ``allow_changes=True``, where a trainer loads the state."""


class Core:
    """Chooses prompts, says how often each is sampled and what trains, and learns from what came of it.

    One step after another: :meth:`choose`, then ``want``, ``launch`` and ``add`` of its pools until none wants more,
    then the rows of ``kept`` with :meth:`denominator` for the update, then :meth:`tell`. ``docs/own_loop.md`` has the
    loop.

    Every choice is a function of the seed and of what was added, in whatever order. Two cores with the same arguments
    that are told the same do the same, so the processes of a group may each have one.

    Args:
        method: a recipe (:mod:`ada_lightning.methods.recipes`), or the name of one. One that asks the policy itself,
            or consists of a loss, is refused.
        prompts: their ids, stable over runs; or what they say by id, for methods that expect something of a prompt by
            its words.
        seed: of every choice.
        open_steps: steps that may be under way at once, for trainers that cannot wait for one to end. They are told in
            their order. A step that begins meanwhile does not know what those before it will teach.
        solutions: worked solutions by prompt id, for ``hints="prefix"``: cut behind their lines. A pool with a
            :attr:`~ada_lightning.adapters.pools.Pool.hint` is then one more of a step.
        answers: by prompt id; beginnings of solutions that show them are left out. Whether one is graded right by
            itself only your loop could say.
        **overrides: another part by its group (``sampler=PositiveSampler``, ``objective="linear"``), a setting by its
            dotted key (``**{"estimator.memory": 0.9}``), or one of the sampler's by its bare name (``group_size=8``).

    Raises:
        ConfigError: something that cannot work, or would have no effect here; all in one message.
        ValueError: no prompts, or one twice; or ``open_steps`` is no whole number of at least 1.

    Example:
        >>> core = Core("grpo", ["a", "b"], seed=0, group_size=2)
        >>> pools = core.choose(num_prompts=2)
        >>> for pool in pools:
        ...     for index in pool.launch(pool.want()):
        ...         pool.add(index, reward=float(index), num_tokens=3, payload=f"{pool.prompt_id}{index}")
        >>> sorted((row.payload, round(row.advantage, 3)) for pool in pools for row in pool.kept())
        [('a0', -0.707), ('a1', 0.707), ('b0', -0.707), ('b1', 0.707)]
        >>> core.denominator(max_tokens=8)
        16.0
        >>> core.tell(pools)
    """

    def __init__(
        self,
        method: str | Recipe,
        prompts: Iterable[str] | Mapping[str, str],
        *,
        seed: int = 0,
        open_steps: int = 1,
        solutions: Mapping[str, str] = MappingProxyType({}),
        answers: Mapping[str, Any] = MappingProxyType({}),
        **overrides: Any,
    ) -> None:
        self.open_steps = checked_whole("open_steps", open_steps, least=1)
        """Steps that may be under way at once."""
        texts = _texts(prompts)
        composed = compose_method(method, overrides, seed=seed)
        self.method_name = method if isinstance(method, str) else method.name
        self.seed = composed.settings.seed
        if composed.needs_texts and not all(texts.values()):
            raise ValueError(
                f"method {self.method_name!r} looks at the words of prompts: give prompts as "
                "{id: text}, each with a text"
            )
        self._composed, self._method = composed, composed.method
        hints = composed.method.hints
        if hints.writes:
            raise ConfigError(
                [
                    f"{self.method_name}: {type(hints).__name__} has the policy write a hint before a group is drawn, "
                    "and only runs of train.py ask it to; use hints=prefix, whose hints are the solution's own lines"
                ]
            )
        _check_known({"a solution": solutions, "an answer": answers}, texts, are_read=hints.is_on)
        known = {
            prompt_id: cut_text(text, answers.get(prompt_id), num_levels=hints.num_levels)
            for prompt_id, text in solutions.items()
        }
        self._prompts = {
            prompt_id: Prompt(
                prompt_id, ({"role": "user", "content": text},), solution=known.get(prompt_id) if hints.is_on else None
            )
            for prompt_id, text in texts.items()
        }
        self._method.check_prompts(list(self._prompts.values()))
        self._step = 0
        self._num_prompts = 0
        self._queue: PromptQueue | None = None
        self._picked: deque[list[str]] = deque()
        self._open: deque[Pools] = deque()

    @property
    def step(self) -> int:
        """Steps that are done."""
        return self._step

    @property
    def needs_logprobs(self) -> bool:
        """Whether every response must come with its log-probabilities."""
        return "logprobs" in self._composed.needs

    @property
    def draws_once(self) -> bool:
        """Whether a prompt wants all of its responses when its step begins."""
        return isinstance(self._method.sampler, UniformSampler | OneShotSampler)

    @property
    def fills_up(self) -> bool:
        """Whether further prompts join a step."""
        return self._method.refill.is_on

    def unmet(
        self,
        *,
        metrics: bool = False,
        refill: bool = False,
        hints: bool = False,
        answers: bool = False,
        components: bool = True,
    ) -> list[str]:
        """Say what the method needs of a loop that has not all of it.

        Args:
            metrics: the loop hands over figures of its updates.
            refill: it lets prompts join a step.
            hints: it draws prompts again with a part of their solution.
            answers: it tells the answer found in every response.
            components: it tells the parts of every reward, by name.
        """
        composed = self._composed
        found = []
        if composed.needs_metrics and not metrics:
            found.append(
                f"{self.method_name}: {type(self._method.selection).__name__} learns from the update's figures"
            )
        if self._method.refill.is_on and not refill:
            found.append(f"{self.method_name}: {type(self._method.refill).__name__} lets further prompts join a step")
        if self._method.hints.is_on and not hints:
            found.append(f"{self.method_name}: {type(self._method.hints).__name__} draws prompts again with a hint")
        if "answer" in composed.needs and not answers:
            found.append(f"{self.method_name}: {type(self._method.sampler).__name__} goes by answers")
        if "components" in composed.needs and not components:
            found.append(f"{self.method_name} looks at the components of every reward")
        return found

    @property
    def max_kept(self) -> int:
        """Most responses of one prompt that train in a step, those with a hint included; 0 where nobody says."""
        return self._composed.max_kept * (2 if self._method.hints.is_on else 1)

    def step_wide(self) -> list[str]:
        """Return names of parts by which what trains of one prompt depends on the others of its step."""
        return self._composed.step_wide()

    def draws_one_group(self, size: int) -> bool:
        """Whether every prompt of a step is drawn that often at once, and no more."""
        sampler = self._method.sampler
        return type(sampler) is UniformSampler and sampler.group_size == size

    def pick(self, num_prompts: int) -> list[str]:
        """Let the curriculum choose the prompts of the step after the last one picked.

        For loops that have to name prompts before the step in front is done, as behind a data loader that reads ahead;
        :meth:`choose` does it by itself. What is picked early does not know what the step in front will teach.

        Raises:
            ValueError: another number than in the steps before; or below 1.
            RuntimeError: a step that is filled up takes as many as it needs, so the next one cannot be known.
        """
        self._check_number(num_prompts)
        ahead = self._step + len(self._picked)
        if self._method.refill.is_on and ahead > self._step:
            raise RuntimeError("a step with refill takes as many prompts as it needs, so pick() the next step after it")
        queue = self._queue_at(ahead)
        taken = [prompt.prompt_id for prompt in queue.first(self._method.refill.first_wave(num_prompts))]
        self._picked.append(taken)
        return list(taken)

    def picked(self, step: int, num_prompts: int) -> list[str]:
        """Return the prompts of a step that has not begun or is under way, picked now where they were not before.

        Of a step that is done nobody knows them any more, and any are returned: for data loaders that are wound on.

        Raises:
            ValueError, RuntimeError: as :meth:`pick`; or the step is no whole number of at least 0.
        """
        step = checked_whole("step", step, least=0)
        if step < self._step:
            return list(islice(cycle(self._prompts), checked_whole("num_prompts", num_prompts, least=1)))
        while step - self._step >= len(self._picked):
            self.pick(num_prompts)
        return list(self._picked[step - self._step])

    def choose(self, num_prompts: int) -> Pools:
        """Begin a step of so many prompts: chosen, with what is believed of each, and planned.

        Raises:
            ValueError, RuntimeError: as :meth:`pick`.
            RuntimeError: the step before has not been told.
        """
        self._check_room()
        if len(self._picked) <= len(self._open):
            self.pick(num_prompts)
        self._check_number(num_prompts)
        return self.begin()

    def begin(self, prompt_ids: Sequence[str] | None = None) -> Pools:
        """Begin a step of the prompts picked first; or of others, where something else than this core chooses.

        Raises:
            RuntimeError: the step before has not been told, or nothing was picked.
            ValueError: other prompts than those picked, or unknown ones.
        """
        self._check_room()
        ahead = len(self._open)
        if len(self._picked) <= ahead:
            raise RuntimeError("no prompts were picked; choose() does both")
        number, ids = self._step + ahead, self._picked[ahead]
        if prompt_ids is not None and list(prompt_ids) != ids:
            raise ValueError(f"these are not the prompts that were picked for step {number}: {ids}")
        picked = [self._prompts[prompt_id] for prompt_id in ids]
        estimator, settings = self._method.estimator, self._composed.settings
        options: dict[str, Any] = {}
        if self._method.refill.is_on:
            queue = self._queue_at(self._step)
            source = StepPrompts(queue.first, estimator, _no_policy)
            drawn = source.draw(0, len(picked))
            options = {"draw": source.draw, "num_groups": self._num_prompts}
            beliefs: Sequence[Belief] = [belief for _, belief in drawn]
        else:
            beliefs = estimator.predict(picked, _no_policy)
        step = self._method.begin(
            picked, settings=settings, beliefs=beliefs, step=number, policy_version=number, **options
        )
        self._open.append(Pools(step, picked, self._composed))
        return self._open[-1]

    def denominator(self, max_tokens: int) -> float:
        """Return what the sum over all rows of the step is divided by (:meth:`Pools.denominator`).

        Raises:
            RuntimeError: no step is complete.
            ValueError: ``max_tokens`` is no whole number of at least 1, or below the longest response added.
        """
        if not self._open:
            raise RuntimeError("no step was begun; choose() begins one")
        return self._open[0].denominator(max_tokens)

    def tell(
        self, pools: Pools, *, metrics: Mapping[str, float] | None = None, seconds: tuple[float, float] = (0.0, 0.0)
    ) -> None:
        """Let beliefs, sampler, selection and curriculum learn from a step: after its update, and once.

        Args:
            pools: of the step, complete.
            metrics: figures of the update, for methods whose selection learns from them.
            seconds: of the rollout and of the update, for methods that weigh their costs; zeros are not measured.

        Raises:
            RuntimeError: pools are open.
            ValueError: the pools are not of the step under way, or figures that are needed are missing, or there
                are some that nothing reads; or seconds are no two finite numbers of at least 0; or metrics are no
                finite numbers. Nothing is learned then.
        """
        if not self._open or pools is not self._open[0]:
            raise ValueError("these pools do not belong to the step under way")
        if bool(metrics) != self._composed.needs_metrics:
            raise ValueError(
                "this method's selection learns from rollout/reward_first_round and train/entropy: give tell() metrics"
                if self._composed.needs_metrics
                else "nothing of this method reads metrics; leave them out"
            )
        measured = [finite_number(value) for value in seconds] if isinstance(seconds, Sequence) else []
        if len(measured) != 2 or any(value is None or value < 0 for value in measured):
            raise ValueError(
                f"seconds must be (of the rollout, of the update), both finite and at least 0; got {seconds!r}"
            )
        figures = _finite_figures(metrics)
        drawn = pools.pools_drawn()
        if self._method.refill.is_on:
            self._queue_at(self._step).num_used = pools.step.stats.num_prompts
        groups, curriculum = pools.finish(), self._method.curriculum
        weighs_costs = curriculum is not None and curriculum.weighs_costs
        costs = StepCosts.of(groups, *map(float, seconds)) if weighs_costs else None
        if len(self._open) > 1:  # an estimator learns from the prompts that it predicted last
            self._method.estimator.predict([pool.prompt for pool in drawn], _no_policy)
        self._method.learn(drawn, figures, costs=costs)
        self._picked.popleft()
        self._step += 1
        self._open.popleft()

    def abandon(self) -> None:
        """Forget what is under way: the next step is of the same prompts, with the same seeds."""
        self._open.clear()

    def statement(self, adapter: str = "own loop: sum of advantage * log-probability / denominator") -> str:
        """Say what the update follows, with every caveat, if the loop is what ``adapter`` says. Imports torch.

        Args:
            adapter: what becomes of the rows; stands in the first line.
        """
        from ada_lightning.analysis.statement import describe_update
        from ada_lightning.training.losses import ReinforceLoss

        option = OPTIONS["loss/reduction"][self._composed.cfg["loss"]["reduction"]]
        reduction = option.kind(**({"token_scale": 1} if "token_scale" in option.values else {}))
        lines = describe_update(
            advantage=self._composed.advantage,
            sampler=self._method.sampler,
            selection=self._method.selection,
            loss=ReinforceLoss(reduction=reduction, importance_cap=0.0),
            num_minibatches=1,
            max_grad_norm=float("inf"),
            truncated=self._composed.settings.truncated,
            curriculum=self._method.curriculum,
            refill=self._method.refill,
            hints=self._method.hints,
            corrects_engine=False,
        )
        return "\n".join([f"{adapter}; one update for each step, of the policy that drew it", *lines])

    def state_dict(self, *, between_steps: bool = True) -> dict[str, Any]:
        """What outlives a step, as JSON has it.

        Args:
            between_steps: refuse while a step is under way. False: nothing is kept of that step, and whoever goes on
                from here draws it anew, with the same prompts and seeds.

        Raises:
            RuntimeError: a step is under way.
        """
        if between_steps:
            self._check_closed()
        queue = self._queue_at(self._step) if self._queue is not None and not self._picked else self._queue
        position = None if queue is None else queue.now()
        return {
            "format": FORMAT,
            "method": self.method_name,
            "prompts": _digest(list(self._prompts)),
            "settings": to_json(self._composed.cfg),
            "contents": self._contents,
            "step": self._step,
            "num_prompts": self._num_prompts,
            "picked": [list(ids) for ids in self._picked],
            "queue": None
            if position is None
            else [position.step, position.next_stretch, [prompt.prompt_id for prompt in position.waiting]],
            "parts": to_json(self._method.state_dict()),
            "curriculum": to_json(self._curriculum_state()),
        }

    def load_state_dict(self, state: Mapping[str, Any], *, allow_changes: bool = False) -> None:
        """Go on where another core with the same arguments stopped.

        Args:
            state: as :meth:`state_dict` returned it, or as JSON gave it back. One of an earlier version has no
                settings to compare.
            allow_changes: go on with another seed, other settings, texts or solutions, and name them in a warning. What
                the parts remember is kept; no part can read what one of another class remembers. The environment
                variable ``ADA_LIGHTNING_ALLOW_CHANGES=1`` does the same.

        Raises:
            ValueError: no whole state; of another format, method or prompts; of another seed, other settings, texts or
                solutions, without ``allow_changes``; or of parts that read it otherwise.
            RuntimeError: a step is under way.
        """
        self._check_closed()
        check_whole(state, ["format"])
        if state["format"] != FORMAT:
            raise ValueError(f"the state has format {state['format']!r}, and this version reads {FORMAT}")
        check_whole(state, _KEYS)
        if state["prompts"] != _digest(list(self._prompts)):
            raise ValueError("the state belongs to other prompts, so what it remembers by id would be lost or wrong")
        if state["method"] != self.method_name:
            raise ValueError(
                f"the state is of method {state['method']!r}, and this core is {self.method_name!r}: make "
                f"Core({state['method']!r}, ...) to go on, or begin anew without the state"
            )
        step = checked_whole("the state's step", state["step"], least=0)
        num_prompts = checked_whole("the state's num_prompts", state["num_prompts"], least=0)
        try:
            self._check_changes(state, allow_changes=allow_changes)
            picked = deque([[self._prompts[prompt_id].prompt_id for prompt_id in ids] for ids in state["picked"]])
            position = self._position(state["queue"])
            self._method.load_state_dict(from_json(state["parts"]))
            curriculum = self._method.curriculum
            if curriculum is not None and curriculum.learns:
                load_named_state(curriculum, from_json(state["curriculum"]), setting="curriculum")
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(
                f"the state cannot be read ({type(error).__name__}: {error}): make the core anew and load another state"
            ) from error
        self._step, self._num_prompts, self._picked = step, num_prompts, picked
        self._queue = None if position is None else self._new_queue(position)

    def _check_changes(self, state: Mapping[str, Any], *, allow_changes: bool) -> None:
        """Compare what a state says of the core that left it; one of an earlier version says nothing."""
        found = list(changes(from_json(state.get("settings", {})), from_json(to_json(self._composed.cfg))))
        known = state.get("contents", {})
        found += [f"the {name} of prompts" for name, now in self._contents.items() if known.get(name, now) != now]
        if not found:
            return
        said = f"other settings than the state's: {'; '.join(found)}"
        if not (allow_changes or os.environ.get(ALLOW_CHANGES) == "1"):
            raise ValueError(
                f"this core has {said}; give the old values again, or go on with the new ones by "
                f"load_state_dict(state, allow_changes=True), or {ALLOW_CHANGES}=1 in the environment of a trainer "
                "that loads the state itself"
            )
        warnings.warn(f"this core goes on with {said}", RuntimeWarning, stacklevel=3)

    @cached_property
    def _contents(self) -> dict[str, str]:
        """Digests of what the method reads of prompts."""
        read: dict[str, Any] = {}
        if self._composed.needs_texts:
            read["texts"] = [prompt.messages for prompt in self._prompts.values()]
        if self._method.hints.is_on:
            known = [prompt.solution for prompt in self._prompts.values()]
            read["solutions"] = [solution and (solution.text, solution.levels) for solution in known]
        return {name: _digest(values) for name, values in read.items()}

    def _position(self, queue: Any) -> QueuePosition | None:
        if queue is None:
            return None
        step, stretch, waiting = queue
        return QueuePosition(int(step), int(stretch), tuple([self._prompts[prompt_id] for prompt_id in waiting]))

    def _curriculum_state(self) -> dict[str, Any]:
        curriculum = self._method.curriculum
        return named_state(curriculum) if curriculum is not None and curriculum.learns else {}

    def _check_closed(self) -> None:
        if self._open:
            raise RuntimeError(f"step {self._step} is under way: tell() it, or abandon() it, first")

    def _check_room(self) -> None:
        if len(self._open) >= self.open_steps:
            self._check_closed()

    def _check_number(self, num_prompts: int) -> None:
        number = whole_number(num_prompts)
        if number is None or number < 1 or self._num_prompts not in (0, number):
            raise ValueError(
                f"num_prompts must be a whole number of at least 1, the same in all steps (epochs are counted by it); "
                f"got {num_prompts!r}{f' after {self._num_prompts}' if self._num_prompts else ''}"
            )
        hints = self._method.hints
        if hints.is_on and (problem := why_no_hint(hints, self._method.sampler, number)):
            raise ValueError(problem)
        if self._num_prompts == 0 and self._method.curriculum is not None:
            self._method.curriculum.check_prompts(list(self._prompts.values()), number)
        self._num_prompts = number

    def _queue_at(self, step: int) -> PromptQueue:
        if self._queue is None:
            self._queue = self._new_queue(QueuePosition(step, step))
        self._queue.go_to(step)
        return self._queue

    def _new_queue(self, position: QueuePosition) -> PromptQueue:
        return PromptQueue(
            stretch=self._stretch, num_plain=self._num_prompts, num_distinct=len(self._prompts), position=position
        )

    def _stretch(self, number: int) -> list[Prompt]:
        curriculum = self._method.curriculum
        assert curriculum is not None  # every experiment has one
        return curriculum.choose(
            list(self._prompts.values()), self._num_prompts, step=number, seed=self.seed, recall=self._recall
        )

    def _recall(self, prompts: Sequence[Prompt]) -> Sequence[Belief]:
        estimator = self._method.estimator
        if estimator.remembers_prompts:
            return estimator.recall(prompts)
        return [Belief() for _ in prompts]


def _texts(prompts: Iterable[str] | Mapping[str, str]) -> Mapping[str, str]:
    """Return what prompts say by id; empty texts where only ids are given."""
    if isinstance(prompts, str):
        raise ValueError(f"the prompts are the text {prompts!r}: give their ids, or what they say by id")
    given = list(prompts.items() if isinstance(prompts, Mapping) else zip(prompts, repeat("")))
    texts: dict[str, str] = {}
    for prompt_id, text in given:
        if not isinstance(prompt_id, str) or not isinstance(text, str):
            raise ValueError(
                f"ids and what prompts say must be texts; got {prompt_id!r} and {text!r}: name prompts by str(number), "
                "and give what a chat says as one text"
            )
        if prompt_id in texts:
            raise ValueError(f"prompt {prompt_id!r} is there twice: ids tell prompts apart")
        texts[prompt_id] = text
    if not texts:
        raise ValueError("there are no prompts")
    return texts


def _digest(values: Sequence[Any]) -> str:
    return blake2b(json.dumps(values).encode(), digest_size=16).hexdigest()


def _finite_figures(metrics: Mapping[str, float] | None) -> dict[str, float]:
    given = metrics or {}
    found = {name: finite_number(value) for name, value in given.items()} if isinstance(given, Mapping) else {"": None}
    if None in found.values():
        raise ValueError(f"metrics must be finite numbers by name; got {metrics!r}")
    return {name: value for name, value in found.items() if value is not None}


def _check_known(given: Mapping[str, Mapping[str, Any]], texts: Mapping[str, str], *, are_read: bool) -> None:
    for name, values in given.items():
        if values and not are_read:
            raise ValueError(f'nothing here reads {name.split()[1]}s: choose hints="prefix", or leave them out')
        if unknown := values.keys() - texts.keys():
            raise ValueError(f"there is {name} of {min(unknown, key=str)!r}, which is not among the prompts")


def _no_policy(prompts: Sequence[Prompt]) -> Any:
    raise RuntimeError("there is no policy to ask; methods that need one are refused when a core is made")


__all__ = ["FORMAT", "Core", "Pool", "Pools", "Row"]
