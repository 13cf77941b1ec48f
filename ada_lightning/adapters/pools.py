"""The prompts of one step as your own loop sees them: what to launch, what came back, what trains."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from reprlib import repr as brief
from typing import Any

from ada_lightning.adapters.composed import ComposedMethod
from ada_lightning.core.checks import checked_whole, finite_number, refuse, truth_value, whole_number
from ada_lightning.core.following import SLOTS, bare_id, share_of_prompts
from ada_lightning.core.records import Outcome, Prompt, Request, ResponseGroup, ResponsePool, Verdict
from ada_lightning.core.step import Step


class _NotTold(Enum):
    NOT_TOLD = "not told"


@dataclass(frozen=True, slots=True)
class Row:
    """A response that trains."""

    index: int
    """Position in the launch order of its prompt, from 0."""
    payload: Any
    """What :meth:`Pool.add` was given: token ids, log-probabilities, or a name for them."""
    reward: float
    advantage: float
    """Factor of each of its tokens' log-probabilities in the sum that is divided by :meth:`Pools.denominator`."""


class Pool:
    """One prompt of a step, from its first launch to what is kept of it. Made by :class:`Pools`."""

    def __init__(self, pools: Pools, slot: int, prompt: Prompt) -> None:
        self.slot = slot
        """Position in the step, from 0; in a step that is filled up, further prompts come behind the others."""
        self.prompt_id = prompt.prompt_id
        self.step = pools.step.step
        """Of the run, from 0."""
        self.bare_id = bare_id(prompt)
        """``prompt_id``, but where the prompt is drawn again with a hint: then ``prompt_id`` ends with its level."""
        self.hint = "" if prompt.hint is None else prompt.hint.text
        """Beginning of the response: generate what follows it, grade both together, count and train what follows."""
        self._pools = pools
        self._waiting: list[Request] = []
        self._launched: dict[int, Request] = {}
        self._payloads: dict[int, Any] = {}
        self._kept: list[Row] | None = None
        """What trains of it, once that is known; made once."""

    @property
    def num_open(self) -> int:
        """Responses launched and not added yet."""
        return len(self._launched) - len(self._payloads)

    def open_indices(self) -> list[int]:
        """Return the indices of those, in the order of launch."""
        return [index for index in self._launched if index not in self._payloads]

    def is_open(self, index: int) -> bool:
        """Whether this response was launched and not added yet."""
        return index in self._launched and index not in self._payloads

    def want(self) -> int:
        """Return how many responses to launch now.

        0 where the pool is complete, and where it waits: for what is in flight (:attr:`num_open`), or for other prompts
        of the step.
        """
        self._pools.ask()
        return len(self._waiting)

    def launch(self, number: int) -> list[int]:
        """Return the indices of the next responses, at most :meth:`want`.

        Raises:
            ValueError: more than are wanted.
        """
        count = whole_number(number)
        if count is None or not 0 <= count <= self.want():
            raise ValueError(
                f"prompt {self.prompt_id} wants {self.want()} responses now; launch({number!r}) is not that"
            )
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        self._launched |= {request.sample_index: request for request in taken}
        return [request.sample_index for request in taken]

    def seed(self, index: int) -> int:
        """Return the seed of a launched response: of 63 bits, a function of run, step, prompt and index alone."""
        return int(self._request(index).seed or 0)

    def add(
        self,
        index: int,
        reward: float | None = None,
        *,
        num_tokens: int,
        payload: Any = None,
        is_truncated: bool = False,
        failed: str = "",
        answer: str | _NotTold | None = _NotTold.NOT_TOLD,
        components: Mapping[str, float] | None = None,
        logprobs: Sequence[float] = (),
    ) -> None:
        """Say what became of a launched response, in any order; the pool takes them in the order of launch.

        Args:
            index: as :meth:`launch` returned it.
            reward: of the response; left out where ``failed`` says why there is none.
            num_tokens: of the response, the end-of-sequence token included.
            payload: comes back with the row where the response trains.
            is_truncated: whether the length limit cut it, as ``finish_reason == "length"``; ``rollout.truncated`` says
                what it then counts as. A truth value, of an array library too.
            failed: why there is no reward through no doing of the response, as ``"infrastructure"``: it then is no
                evidence (or a 0, with ``rollout.grader_failure="as_zero"``).
            answer: the answer found in it, None where there is none, for methods that take majority votes; their
                rewards are made of it, so none has to be given.
            components: of the reward by name, for methods that look at them.
            logprobs: of its tokens as it was drawn, in nats, for methods that look at them.

        Raises:
            ValueError: not launched, added before, an argument of the wrong kind, no finite reward, or without what the
                method looks at. Nothing is stored then, and the right result may follow.
        """
        request = self._request(index)
        index = request.sample_index
        who = f"response {index} of prompt {self.prompt_id}"
        if index in self._payloads:
            raise ValueError(f"{who} was added before")
        number, is_cut = whole_number(num_tokens), truth_value(is_truncated)
        refuse(
            (number is None or number < 0)
            and f"{who}: num_tokens must be a whole number of at least 0, as len(token_ids); got {num_tokens!r}",
            is_cut is None
            and f'{who}: is_truncated must be True or False; got {is_truncated!r}; write finish_reason == "length"',
            not isinstance(failed, str)
            and f"{who}: failed must be a text, the reason as 'infrastructure'; got {failed!r}; leave it out where "
            "there is a reward",
            not isinstance(answer, str | _NotTold | None)
            and f"{who}: answer must be a text, or None where there is none; got {answer!r}; write str(answer)",
        )
        parts, values = _components(who, components), _logprobs(who, logprobs)
        grade = self._grade(who, reward, failed, answer, parts, is_truncated=bool(is_cut))
        if self._pools.composed.needs and not failed:
            told = {"answer": not isinstance(answer, _NotTold), "components": components is not None}
            self._check_told(who, told | {"logprobs": len(values) == number}, parts, values)
        self._payloads[index] = payload
        ids: Any = range(number or 0)  # a step only counts them, and a range takes no room
        self._pools.tell(request, Outcome("", ids, values, bool(is_cut), grade))

    def kept(self) -> list[Row]:
        """Return the responses that train; none has an advantage of 0.

        Raises:
            RuntimeError: pools of the step are open: what one prompt keeps may depend on the others.
        """
        group = self._pools.group(self.slot)
        return [] if group is None else list(self._rows(group))

    def kept_alone(self) -> list[Row] | None:
        """Return them as soon as this pool is complete; None before (:meth:`Pools.alone`)."""
        group = self._pools.alone(self.slot)
        return None if group is None else list(self._rows(group))

    def _rows(self, group: ResponseGroup) -> list[Row]:
        if self._kept is not None:
            return self._kept
        share = self._pools.composed.reduction.share
        self._kept = [
            Row(
                kept.response.sample_index,
                self._payloads[kept.response.sample_index],
                kept.response.reward,
                float(kept.advantage or 0.0) * share(group, kept),
            )
            for kept in group.trained
        ]
        return self._kept

    @property
    def num_drawn(self) -> int:
        """Responses that count as drawn, once the step is complete."""
        group = self._pools.group(self.slot, is_training=False)
        return 0 if group is None else group.pool.num_drawn

    @property
    def num_positive(self) -> int:
        """Right ones among them, once the step is complete."""
        group = self._pools.group(self.slot, is_training=False)
        return 0 if group is None else group.pool.num_positive

    def offer(self, request: Request) -> None:
        """Take a request of the step's that waits to be launched."""
        self._waiting.append(request)

    def _grade(
        self,
        who: str,
        reward: Any,
        failed: str,
        answer: str | _NotTold | None,
        components: Mapping[str, float],
        *,
        is_truncated: bool,
    ) -> Verdict:
        composed = self._pools.composed
        is_asked = composed.settings.asks_grader(is_truncated=is_truncated)
        may_be_missing = failed or "answer" in composed.needs or not is_asked
        value = None if reward is None and may_be_missing else _finite(who, "reward", reward)
        if failed and value is not None:
            raise ValueError(f"{who} has a reward, and failed={failed!r}")
        if not is_asked:
            return Verdict(0.0)
        found = None if isinstance(answer, _NotTold) else answer
        return Verdict(None if failed else value or 0.0, found, components, failed)

    def _check_told(
        self, who: str, told: Mapping[str, bool], components: Mapping[str, float], logprobs: Sequence[float]
    ) -> None:
        """Look whether a response has all that the method looks at."""
        composed = self._pools.composed
        if missing := sorted(name for name in composed.needs if not told[name]):
            raise ValueError(
                f"{who}: this method looks at {' and '.join(missing)} of every response (logprobs: one for each "
                "token); give add() what it is"
            )
        component = getattr(composed.method.refill, "component", "")
        if component and components and component not in components:
            raise ValueError(
                f"{who}: this method looks at the component {component!r} of every response; components= has "
                f"{', '.join(components)}; add it, or set **{{'refill.component': ''}} to go by the reward"
            )
        if "logprobs" in composed.needs and not all(map(math.isfinite, logprobs)):
            raise ValueError(f"{who}: a log-probability is not finite")

    def _request(self, index: int) -> Request:
        number = whole_number(index)
        if number is None or number not in self._launched:
            raise ValueError(f"response {index!r} of prompt {self.prompt_id} was not launched")
        return self._launched[number]


def _finite(who: str, name: str, value: Any) -> float:
    number = finite_number(value)
    if number is None:
        raise ValueError(f"{who} needs a finite {name}, or failed='why'; got {value!r}")
    return number


def _components(who: str, components: Mapping[str, float] | None) -> dict[str, float]:
    if components is None:
        return {}
    if not isinstance(components, Mapping) or not all(isinstance(name, str) for name in components):
        raise ValueError(f"{who}: components must be numbers by name, as {{'correct': 1.0}}; got {components!r}")
    return {name: _finite(who, f"component {name}", part) for name, part in components.items()}


def _logprobs(who: str, logprobs: Sequence[float]) -> tuple[float, ...]:
    try:
        return tuple(array("d", tuple(logprobs)))  # which takes numbers of any library, and no texts
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise ValueError(f"{who}: logprobs must be numbers, one for each token; got {brief(logprobs)}") from None


class Pools(Sequence[Pool]):
    """The pools of one step, in the order of its prompts. In a step that is filled up further ones join behind.

    Args:
        step: not asked for anything yet.
        prompts: of its first wave.
        composed: what the step is of.
    """

    def __init__(self, step: Step, prompts: Sequence[Prompt], composed: ComposedMethod) -> None:
        self.step, self.composed = step, composed
        self._pools = {slot: Pool(self, slot, prompt) for slot, prompt in enumerate(prompts)}
        self._in_order = list(self._pools.values())
        self._offered: dict[int, Pool] = {}
        """Pools that may have something to launch, by slot, in the order in which they were offered it."""
        self._longest = 0
        """Tokens of the longest response added."""
        self._weighs_alone = not composed.step_wide()
        self._groups: dict[int, ResponseGroup] | None = None
        self._training: dict[int, ResponseGroup] = {}
        self._complete: dict[int, ResponsePool] = {}
        self._weighed: dict[int, ResponseGroup] = {}
        """What trains of complete prompts, by slot, of methods without step-wide parts."""

    def __len__(self) -> int:
        self.ask()
        return len(self._pools)

    def __getitem__(self, place: Any) -> Any:
        self.ask()
        return self._in_order[place]

    def __iter__(self) -> Iterator[Pool]:
        self.ask()
        place = 0
        while place < len(self._in_order) or place < len(self):  # asked again at the end: it may grow meanwhile
            yield self._in_order[place]
            place += 1

    def at(self, slot: int) -> Pool:
        """Return the pool at a slot of the step. A hinted one stands far behind: its prompt's slot plus 2^20."""
        return self._pools[slot]

    def hinted(self, slot: int) -> Pool | None:
        """Return the pool of the prompt at a slot that has a hint; None where it is not drawn again."""
        return self._pools.get(slot + SLOTS)

    @property
    def is_complete(self) -> bool:
        """Whether no prompt wants more, and nothing is in flight."""
        return self.step.is_complete

    def is_ended(self, slot: int) -> bool:
        """Whether a prompt is complete, and nothing that becomes of the others lets it want more."""
        return self.step.is_ended(slot)

    def ask(self) -> None:
        """Hand what the step asks for to its pools."""
        for request in self.step.ask():
            if request.slot not in self._pools:
                self._pools[request.slot] = Pool(self, request.slot, request.prompt)
                self._in_order.append(self._pools[request.slot])
            self._offered[request.slot] = self._pools[request.slot]
            self._pools[request.slot].offer(request)

    def next_wanting(self) -> Pool | None:
        """Return a pool that wants something now, those that have waited longest first; None where none does."""
        self.ask()
        while self._offered:
            slot, pool = next(iter(self._offered.items()))
            if pool.want():
                return pool
            del self._offered[slot]
        return None

    def tell(self, request: Request, outcome: Outcome) -> None:
        """Tell the step what became of a request."""
        self._longest = max(self._longest, outcome.num_tokens)
        self.step.tell(request, outcome)

    def finish(self) -> tuple[ResponseGroup, ...]:
        """Select, and assign what each kept response weighs, once for the whole step.

        Returns:
            The groups that count in the denominator, those without a signal included.

        Raises:
            RuntimeError: pools are open.
        """
        self._select()
        return tuple(self._training.values())

    def group(self, slot: int, *, is_training: bool = True) -> ResponseGroup | None:
        """Return what a complete step has made of a prompt; None where it counts for nothing."""
        groups = self._select()
        return (self._training if is_training else groups).get(slot)

    def alone(self, slot: int) -> ResponseGroup | None:
        """Return what trains of a prompt that is complete, whatever the step's others are; None before that.

        For methods without step-wide parts (:meth:`ComposedMethod.step_wide`), of which it is what the whole step says.
        """
        self._complete |= {pool.slot: pool for pool in self.step.ended()}
        if slot in self._complete and slot not in self._weighed:
            pool = self._complete[slot]
            (kept,) = self.composed.method.selection.select_all([pool])
            group = ResponseGroup(pool, kept)
            (weights,) = self.composed.advantage.weigh([group])
            self._weighed[slot] = group.with_advantages(weights)
        return self._weighed.get(slot)

    def weigh_early(self, slot: int) -> None:
        """Weigh a prompt as soon as it is complete, where the others cannot change that: less is left for the end."""
        if self._weighs_alone and self.is_ended(slot):
            self._pools[slot].kept_alone()  # which keeps the rows that it makes

    def pools_drawn(self) -> list[ResponsePool]:
        """Return the pools of the complete step, for those who learn from it."""
        return [group.pool for group in self._select().values()]

    def _select(self) -> dict[int, ResponseGroup]:
        """Return the groups of the complete step by slot; what trains of them is made with them, once."""
        if self._groups is None and self._weighs_alone and self.is_complete:
            self._complete |= {pool.slot: pool for pool in self.step.ended()}
            weighed = {slot: self.alone(slot) for slot in sorted(self._complete)}
            self._groups = self._training = {slot: group for slot, group in weighed.items() if group is not None}
        elif self._groups is None:
            self._groups = {group.pool.slot: group for group in self.step.finish()}
            division = self.step.division
            trained = None if division is None else {pool.slot for pool in division.trained}
            groups = [group for slot, group in self._groups.items() if trained is None or slot in trained]
            weights = self.composed.advantage.weigh(groups)
            self._training = {
                group.pool.slot: group.with_advantages(row) for group, row in zip(groups, weights, strict=True)
            }
        return self._groups

    def denominator(self, max_tokens: int, *, is_limit: bool = True) -> float:
        """Return what the sum over all rows is divided by.

        Args:
            max_tokens: longest response, in tokens. The rule ``constant``, which most methods have, divides by it times
                the number of prompts, those without a signal included; of the others ``prompt_mean`` asks for it too.
                Groups with a hint come on top: they are not counted.
            is_limit: whether no response can be longer. False where one may consist of several sequences, each of at
                most ``max_tokens``.

        Raises:
            RuntimeError: pools are open.
            ValueError: ``max_tokens`` is no whole number of at least 1, or below the longest response added.
        """
        number = checked_whole("max_tokens", max_tokens, least=1)
        groups = self.finish()
        if is_limit and number < self._longest:
            raise ValueError(
                f"max_tokens={number} is below the longest response added, of {self._longest} tokens: give the length "
                "limit of your engine"
            )
        return self.composed.reduction.denominator(groups, number) * share_of_prompts(groups)
