"""One core behind another trainer: it chooses prompts, hands out what to draw, and takes results in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from ada_lightning.adapters.brain_records import FinishedStep, Handout, TrainingRow
from ada_lightning.adapters.core import Core
from ada_lightning.adapters.json_state import check_whole
from ada_lightning.adapters.pools import Pool, Pools, Row
from ada_lightning.config.problems import ConfigError
from ada_lightning.core.checks import checked_whole, whole_number
from ada_lightning.methods.recipe import Recipe


class Brain:
    """The method of a run behind a trainer that has its own loop: every adapter with a memory drives one.

    A trainer can hold it in its driver's process, or in an actor: it takes and returns plain values, keeps no thread
    and no clock, and never waits. It is used in one of two ways.

    **A step at a time** (verl's and SkyRL's synchronous trainers, TRL). The update is exact where the trainer makes one
    of each step and takes all rows as they are::

        for handout in brain.choose(): ...              # one for each prompt of the step
        while not brain.is_whole:
            brain.add(step, slot, {index: {"reward": 1.0, "num_tokens": 9}})    # any order
            handout = brain.hand_out(step, slot)        # what the same prompt wants next; or None
        finished = brain.finish()                       # rows with their weights; the core has learned

    **Driven** (asynchronous trainers). Such a trainer asks whenever it has room, and tells when something came back::

        handout = brain.hand_out(most=4)                # any prompt that wants something, of any open step; or None
        brain.add(handout.step, handout.slot, {...})    # any order, of any step and policy version
        brain.give_up("stale", step, slot)              # it will not come back: ungraded, and no evidence
        while (finished := brain.finish()) is not None: ...     # steps in their order, each once it is whole
        brain.drop("stale", rows)                       # rows that were given back and did not train after all

    With ``open_steps`` above 1 the next steps begin before the first has been learned from, so that ``hand_out`` has
    an answer. Rows are held back until their step is whole, since what one prompt keeps and weighs may depend on the
    others. So nothing is chosen by how soon it was finished. What the trainer itself drops by age is. It is named in
    the figures and in :meth:`statement`, as :attr:`reasons` are.

    Nothing is counted twice. Results of a step that is over, of a response that has one, or of one that was never
    handed out change nothing, and :meth:`add` does not count them. Nothing is lost: the state is that of the last
    step learned from. Whoever goes on from there draws the open steps anew, with the same prompts and seeds.

    Args:
        method: a recipe, or the name of one.
        prompts: their ids, stable over runs; or what they say by id, for methods that look at words.
        num_prompts: of a step.
        max_tokens: of the longest response, which most methods divide by. It is not compared with what is added, since
            a trainer may count several sequences as one response.
        seed: of the choice of prompts and of the method's own draws.
        open_steps: most steps under way at once; 1 is exact.
        trainer: its name, for messages.
        answers: whether the trainer tells the answer found in every response.
        components: whether it tells the components of every reward.
        can_refill: whether it can let further prompts join a step, as one that calls :meth:`hand_out` for any prompt.
        **overrides: as of :class:`~ada_lightning.adapters.core.Core`.

    Raises:
        ConfigError: the method cannot work, or not with this trainer.
        ValueError: prompts or numbers that cannot be used.

    Example:
        >>> brain = Brain("grpo", ["a", "b"], num_prompts=2, max_tokens=8, group_size=2)
        >>> for handout in brain.choose():
        ...     results = {index: {"reward": float(index), "num_tokens": 3} for index in handout.indices}
        ...     _ = brain.add(handout.step, handout.slot, results)
        >>> [(row.prompt_id, row.index, round(row.weight, 3)) for row in brain.finish().rows]
        [('a', 0, -0.044), ('a', 1, 0.044), ('b', 0, -0.044), ('b', 1, 0.044)]
    """

    def __init__(
        self,
        method: str | Recipe,
        prompts: Iterable[str] | Mapping[str, str],
        *,
        num_prompts: int,
        max_tokens: int,
        seed: int = 0,
        open_steps: int = 1,
        trainer: str = "this trainer",
        answers: bool = False,
        components: bool = True,
        can_refill: bool = False,
        **overrides: Any,
    ) -> None:
        self.num_prompts = checked_whole("num_prompts", num_prompts, least=1)
        self.max_tokens = checked_whole("max_tokens", max_tokens, least=1)
        self.core = Core(method, prompts, seed=seed, open_steps=open_steps, **overrides)
        self.open_steps, self.trainer = self.core.open_steps, trainer
        problems = [
            f"{text}, which {trainer} does not give" for text in self.core.unmet(answers=answers, refill=can_refill)
        ]
        if self.open_steps > 1 and self.core.fills_up:
            problems.append(
                f"{self.core.method_name}: a step that is filled up ends before the next is known; use open_steps=1"
            )
        if problems:
            raise ConfigError(problems)
        self.reasons: list[str] = []
        """Why the trainer's update is not exactly what the statement says; an adapter puts its own here."""
        self._steps: dict[int, Pools] = {}
        """Open ones, oldest first."""
        self._versions: dict[int, dict[tuple[int, int], int]] = {}
        self._num_late = 0
        self._dropped: Counter[str] = Counter()
        self._num_rows = 0
        self._new_drops: Counter[str] = Counter()

    @property
    def step(self) -> int:
        """Steps that are done and learned from."""
        return self.core.step

    @property
    def is_whole(self) -> bool:
        """Whether the oldest open step is complete, so that :meth:`finish` has an answer."""
        return self.core.step in self._steps and self._steps[self.core.step].is_complete

    def choose(self) -> list[Handout]:
        """Begin the next step.

        Returns:
            One handout for each of its prompts, by slot, with all that it wants at once. A prompt that an allocation
            gives nothing has no indices.

        Raises:
            RuntimeError: as many steps are open as may be.
        """
        return [self._handout(pool) for pool in self._begin()]

    def hand_out(
        self, step: int | None = None, slot: int | None = None, *, most: int = 0, before: int | None = None
    ) -> Handout | None:
        """Hand out what a prompt wants now.

        Args:
            step: and ``slot``: of the prompt. Without them any prompt is taken, oldest step first and in order, and the
                next step is begun where no prompt wants anything.
            slot: see ``step``.
            most: responses of one handout; 0: all that are wanted.
            before: number of the first step that may not begin yet, for trainers that wait for an update instead of
                dropping by age; None: as many begin as may be open.

        Returns:
            None where nothing can be drawn before more results are there.

        Raises:
            ValueError: no such prompt in an open step.
        """
        if step is not None and slot is not None:
            if step < self.core.step:
                return None  # it is over, and a worker comes late
            handout = self._handout(self._pool(step, slot), most)
            return handout if handout.indices else None
        while True:
            for pools in self._steps.values():
                if (pool := pools.next_wanting()) is not None:
                    return self._handout(pool, most)
            ahead = self.core.step + len(self._steps)
            if len(self._steps) >= self.open_steps or (before is not None and ahead >= before):
                return None
            self._begin()

    def add(self, step: int, slot: int, results: Mapping[int, Mapping[str, Any]], *, version: int | None = None) -> int:
        """Say what became of responses of one prompt, in any order.

        Args:
            step: of the handout.
            slot: of the handout.
            results: by index, the keywords of :meth:`ada_lightning.adapters.pools.Pool.add`: ``reward`` or ``failed``,
                ``num_tokens``, and what else the method looks at (``is_truncated``, ``answer``, ``components``,
                ``logprobs``, ``payload``).
            version: number of the policy version that drew them, for the figures.

        Returns:
            How many were counted. Late and repeated results are not.

        Raises:
            ValueError: a result that cannot be counted, as one without a reward or with an unknown keyword. The others
                were. Or the version is no whole number; then nothing was counted.
        """
        if version is not None and whole_number(version) is None:
            raise ValueError(f"version must be the whole number of a policy version, or None; got {version!r}")
        pools = self._steps.get(step)
        if pools is None or not 0 <= slot < len(pools):
            self._num_late += len(results)
            return 0
        pool, counted, problems = pools[slot], 0, []
        for index, told in results.items():
            if not pool.is_open(index):
                self._num_late += 1
                continue
            try:
                pool.add(index, **told)
            except TypeError as error:  # a keyword is missing or unknown
                problems.append(f"response {index} of prompt {pool.prompt_id}: {error}")
                continue
            except ValueError as error:
                problems.append(str(error))
                continue
            counted += 1
            if version is not None:
                self._versions.setdefault(step, {})[slot, index] = version
        pools.weigh_early(slot)
        if problems:
            raise ValueError("; ".join(problems))
        return counted

    def waiting(self, step: int | None = None) -> dict[tuple[int, int], list[int]]:
        """Return what was handed out and did not come back: indices by (step, slot), of one step or of all."""
        return {
            (known, pool.slot): indices
            for known, pools in self._steps.items()
            if step in (None, known)
            for pool in pools
            if (indices := pool.open_indices())
        }

    def is_done(self, step: int, slot: int) -> bool:
        """Whether a prompt wants nothing more, whatever becomes of the others; of a step that is over all are done."""
        pools = self._steps.get(step)
        return pools is None or pools.is_ended(slot)

    def give_up(self, why: str, step: int | None = None, slot: int | None = None, *, for_good: bool = False) -> int:
        """Count what was handed out and did not come back as ungraded: it is no evidence, and trains nothing.

        For time-outs, dead workers, and groups that a trainer drops by age before anybody saw their rewards.

        Args:
            why: one word for the figures, as ``"timeout"`` or ``"stale"``.
            step: of which step; None: of all.
            slot: of which prompt; None: of all of the step.
            for_good: also what the rule wants in their place, until it wants nothing: nobody can draw it any more.

        Returns:
            How many responses were given up.
        """
        number = 0
        for known, pools in self._steps.items():
            chosen = [pool for pool in pools if slot in (None, pool.slot)] if step in (None, known) else []
            while True:
                for pool in chosen if for_good else ():
                    if number_wanted := pool.want():
                        pool.launch(number_wanted)
                lost = [(pool, index) for pool in chosen for index in pool.open_indices()]
                for pool, index in lost:
                    pool.add(index, failed=why, num_tokens=0)
                number += len(lost)
                if not (lost and for_good):
                    break
        return number

    def finish(self, *, version: int | None = None, learn: bool = True) -> FinishedStep | None:
        """Return the oldest open step, once it is whole; the core has then learned from it.

        Args:
            version: number of the policy version that the rows will train, for the figures.
            learn: False where a checkpoint may be written between the step's first update and its last. Call
                :meth:`learn` after the last one.

        Returns:
            None where no step is whole. Its figures are sums and means over the step. ``responses`` and ``tokens`` were
            drawn. ``reward`` is their mean, ``pass_rate`` the mean over prompts. ``signal`` is the share of prompts of
            which something trains, and ``rows`` their number. ``ungraded`` responses are named by why
            (``ungraded/timeout``). ``late`` results were not counted. ``dropped/stale`` rows of earlier steps did not
            train. ``lag`` and ``lag_max`` are the policy versions between drawing and training.
        """
        if not self.is_whole:
            return None
        number = self.core.step
        pools = self._steps[number]
        denominator = pools.denominator(self.max_tokens, is_limit=False)
        rows = tuple([_row(pool, row, denominator) for pool in pools for row in pool.kept()])
        figures = self._figures(pools, rows) | self._lags(number, rows, version)
        finished = FinishedStep(
            number,
            tuple(pool.prompt_id for pool in pools),
            tuple(pool.num_drawn for pool in pools),
            rows,
            denominator,
            figures,
        )
        if learn:
            self.learn()
        return finished

    def rows_of(self, step: int, slot: int) -> list[TrainingRow] | None:
        """Return what trains of one prompt before its step is whole, for trainers that cannot hold rows back.

        Only of methods that weigh a prompt by itself (:meth:`Core.step_wide` is empty), which is for the caller to
        check. The step is learned from as ever, by :meth:`finish`.

        Returns:
            None where the prompt is not complete, or its step is over.
        """
        pools = self._steps.get(step)
        if pools is None or (rows := pools[slot].kept_alone()) is None:
            return None
        return [_row(pools[slot], row, float(self.num_prompts * self.max_tokens)) for row in rows]

    def learn(self) -> None:
        """Let the core learn from the oldest open step, after :meth:`finish` with ``learn=False``.

        Raises:
            RuntimeError: it is not whole.
        """
        if not self.is_whole:
            raise RuntimeError(f"step {self.core.step} is not whole, so there is nothing to learn from yet")
        pools = self._steps[self.core.step]
        self.core.tell(pools)
        del self._steps[self.core.step - 1]
        self._versions.pop(self.core.step - 1, None)
        self._num_rows += sum([len(pool.kept()) for pool in pools])

    def drop(self, why: str, rows: Sequence[TrainingRow] | int) -> None:
        """Name rows that :meth:`finish` gave back and that did not train, as a trainer drops them by age.

        The core has learned from their outcomes all the same. Which rows are dropped depends on their length, so the
        update is approximate from then on.

        Args:
            why: one word for the figures, as ``"stale"``.
            rows: or how many.
        """
        number = len(rows) if isinstance(rows, Sequence) else checked_whole("rows", rows, least=0)
        self._dropped[why] += number
        self._new_drops[why] += number

    def abandon(self) -> None:
        """Forget the open steps: they are drawn again, with the same prompts and seeds."""
        self.core.abandon()
        self._steps.clear()
        self._versions.clear()

    def statement(self, adapter: str = "") -> str:
        """Say what the update follows, and why it is approximate where it is. Imports torch.

        Args:
            adapter: what becomes of the rows; stands in the first line.
        """
        reasons = list(self.reasons)
        if self.open_steps > 1:
            reasons.append(f"up to {self.open_steps} steps are open at once: rows may be of older policy versions")
        for why, number in sorted(self._dropped.items()):
            reasons.append(f"{number} of {self._num_rows} rows did not train ({why}); long responses are dropped first")
        how = f"{adapter or self.trainer} ({'approximate' if reasons else 'exact'})"
        return "\n".join([self.core.statement(how), *(f"  approximate: {reason}" for reason in reasons)])

    def state_dict(self) -> dict[str, Any]:
        """What outlives a step, as JSON has it: nothing of open steps, which are drawn anew from here."""
        return {
            "core": self.core.state_dict(between_steps=False),
            "dropped": dict(self._dropped),
            "rows": self._num_rows,
        }

    def load_state_dict(self, state: Mapping[str, Any], *, allow_changes: bool = False) -> None:
        """Go on where another one with the same arguments stopped; what is open here is forgotten.

        Args:
            state: as :meth:`state_dict` returned it.
            allow_changes: as of :meth:`ada_lightning.adapters.core.Core.load_state_dict`.

        Raises:
            ValueError: no whole state, or one that the core refuses.
        """
        check_whole(state, ["core", "dropped", "rows"])
        self.abandon()
        self.core.load_state_dict(state["core"], allow_changes=allow_changes)
        self._dropped, self._num_rows = Counter(state["dropped"]), int(state["rows"])
        self._new_drops, self._num_late = Counter(), 0

    def _begin(self) -> Pools:
        pools = self.core.choose(self.num_prompts)
        self._steps[self.core.step + len(self._steps)] = pools
        return pools

    def _pool(self, step: int, slot: int) -> Pool:
        pools = self._steps.get(step)
        if pools is None or not 0 <= slot < len(pools):
            opened = ", ".join(map(str, self._steps)) or "none"
            raise ValueError(f"there is no prompt {slot} in an open step {step}; open steps: {opened}")
        pool: Pool = pools[slot]
        return pool

    def _handout(self, pool: Pool, most: int = 0) -> Handout:
        wanted = pool.want()
        indices = tuple(pool.launch(min(wanted, most) if most else wanted))
        seeds = tuple([pool.seed(index) for index in indices])
        return Handout(pool.step, pool.slot, pool.prompt_id, indices, seeds)

    def _figures(self, pools: Pools, rows: Sequence[TrainingRow]) -> dict[str, float]:
        drawn, stats = pools.pools_drawn(), pools.step.stats
        rewards = [response.reward for pool in drawn for response in pool.responses]
        rates = [pool.num_positive / pool.num_sampled for pool in drawn if pool.num_sampled]
        figures = {
            "responses": float(stats.num_drawn),
            "tokens": float(stats.drawn_tokens),
            "reward": fmean(rewards) if rewards else 0.0,
            "pass_rate": fmean(rates) if rates else 0.0,
            "signal": len({row.slot for row in rows}) / max(len(drawn), 1),
            "rows": float(len(rows)),
            "ungraded": float(stats.num_failed),
            "late": float(self._num_late),
        }
        figures |= {f"ungraded/{why}": float(number) for why, number in sorted(stats.failures.items())}
        figures |= {f"dropped/{why}": float(number) for why, number in sorted(self._new_drops.items())}
        self._num_late, self._new_drops = 0, Counter()
        return figures

    def _lags(self, step: int, rows: Sequence[TrainingRow], version: int | None) -> dict[str, float]:
        known = self._versions.get(step, {})
        places = [(row.slot, row.index) for row in rows]
        lags = [version - known[place] for place in places if place in known] if version is not None else []
        return {"lag": fmean(lags), "lag_max": float(max(lags))} if lags else {}


def _row(pool: Pool, row: Row, denominator: float) -> TrainingRow:
    weight = row.advantage / denominator
    return TrainingRow(pool.slot, pool.prompt_id, row.index, row.reward, row.advantage, weight, row.payload)
