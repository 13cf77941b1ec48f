"""Choose prompts by forecast while that is shown to pay, and take them in uniform order while it is not."""

from __future__ import annotations

import math
import random
import statistics
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ada_lightning.core.options import option
from ada_lightning.core.prompt_columns import num_distinct
from ada_lightning.core.protocols import Recall, StepCosts
from ada_lightning.core.records import Belief, Prompt, ResponsePool
from ada_lightning.core.stopping import CappedRule, FixedRule
from ada_lightning.methods.checked import Check
from ada_lightning.methods.curriculum.alternatives import Alternatives
from ada_lightning.methods.curriculum.ranked import ExpectedUsefulness
from ada_lightning.methods.curriculum.trial import GroupResult, Mode, Trial
from ada_lightning.methods.curriculum.uniform import epoch_positions

MODES = (Mode.UNIFORM, Mode.TRIAL, Mode.CHOSEN)
"""In the order of their numbers in the logs: ``curriculum/mode`` 0, 1 and 2."""
FEWEST_PROMPTS = 2
"""Of a step: one control prompt and one that is chosen."""


class CostClock:
    """What a trained token costs in generated ones, from seconds; moves in steps that do not flicker.

    The median of the last 16 steps, rounded to a power of the square root of 2. It moves when two steps in a row say
    so. What was used is kept in checkpoints; what a clock says later is another matter.

    Example:
        >>> clock = CostClock()
        >>> for _ in range(5):
        ...     clock.add(generated=1000, trained=500, rollout_s=10.0, update_s=15.0)
        >>> round(clock.cost_ratio, 6)  # 0.03 seconds against 0.01
        2.828427
    """

    WINDOW, FEWEST, STEP = 16, 4, math.sqrt(2.0)

    def __init__(self) -> None:
        self.cost_ratio = 1.0
        self._seen: deque[float] = deque(maxlen=self.WINDOW)
        self._proposed = 1.0

    def add(self, *, generated: float, trained: float, rollout_s: float, update_s: float) -> None:
        """Learn from a step; one that trained nothing, or was not measured, says nothing.

        Args:
            generated: tokens.
            trained: tokens.
            rollout_s: seconds of the rollout.
            update_s: seconds of the updates.
        """
        if min(generated, trained, rollout_s, update_s) <= 0:
            return
        self._seen.append((update_s / trained) / (rollout_s / generated))
        if len(self._seen) < self.FEWEST:
            return
        exponent = round(math.log(statistics.median(self._seen), self.STEP))
        proposed = self.STEP**exponent
        if proposed == self._proposed:
            self.cost_ratio = proposed
        self._proposed = proposed

    def state_dict(self) -> dict[str, Any]:
        """What it uses and has seen."""
        return {"cost_ratio": self.cost_ratio, "seen": list(self._seen), "proposed": self._proposed}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self.cost_ratio, self._proposed = state["cost_ratio"], state["proposed"]
        self._seen = deque(state["seen"], maxlen=self.WINDOW)


@option("curriculum", "auto", choices={"usefulness": "learnability"})
@dataclass(kw_only=True, eq=False)
class AutoCurriculum(ExpectedUsefulness):
    """Half of a step's prompts by forecast, half in uniform order, until it is shown which half gives more.

    More is: comparisons of right with wrong responses, for the same cost of generated and trained tokens. Where chosen
    prompts give more, nine tenths of the places go to them, and a watch goes on. Where they do not, the step's prompts
    are exactly those of ``curriculum=uniform``, and a new trial follows, ever more seldom. The chance of ever choosing
    though it never pays is at most ``alpha``. Needs fixed groups (``sampler=uniform``) and an estimator that remembers
    prompts; ``similar_prompts`` for prompts that come once.

    Control prompts train as all others do. Nothing is weighed back.

    Raises:
        ValueError: a value outside its range; or a step that has nothing to choose.

    Source:
        Ours: :mod:`ada_lightning.methods.curriculum.trial`, docs/auto.md.
    """

    revisit_ratio: float = 0.0
    """Not used: control prompts come in turn."""
    alpha: float = 0.05
    """Chance of ever choosing though it never pays, over all trials. The bet that choosing has become worse ends at
    ``1 / alpha`` too, but begins anew while it loses, so giving up has no such bound."""
    cost_ratio: float | None = None
    """Cost of a trained token in generated ones. None: from the run's clocks, and 1 until four steps are measured."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.trial = Trial(alpha=self.alpha)
        self.alternatives = Alternatives()
        self.clock = CostClock()
        self._control: dict[int, list[int]] = {}
        """Slots of the control prompts, by step, of steps that are not learned from yet."""
        self._costs = StepCosts({})
        self._seed = 0
        self._group_size = 0

    def _checks(self) -> Iterator[Check]:
        yield from super()._checks()
        yield 0 < self.alpha < 1, f"curriculum.alpha must be above 0 and below 1; got {self.alpha}"
        yield (
            self.cost_ratio is None or 0 <= self.cost_ratio < math.inf,
            f"curriculum.cost_ratio must be 0 or more and finite, or null to measure it; got {self.cost_ratio}",
        )
        yield (
            self.revisit_ratio == 0,
            f"curriculum.revisit_ratio = {self.revisit_ratio} does not go with curriculum=auto: its control prompts "
            "come in turn. Use curriculum.revisit_ratio=0",
        )

    @property
    def used_cost_ratio(self) -> float:
        """What is given, or what the clocks say by now."""
        return self.clock.cost_ratio if self.cost_ratio is None else self.cost_ratio

    def check_prompts(self, prompts: Sequence[Prompt], num_prompts: int) -> None:
        """Refuse a step that has nothing to choose.

        Raises:
            ValueError: the step has one prompt, or all there are.
        """
        if num_prompts < FEWEST_PROMPTS:
            raise ValueError(
                f"curriculum=auto compares prompts within a step and needs at least {FEWEST_PROMPTS} of them; got "
                f"{num_prompts}. Use {FEWEST_PROMPTS} prompts a step or more (data.prompts_per_step), "
                "or curriculum=uniform"
            )
        if (num_known := num_distinct(prompts)) <= num_prompts:
            raise ValueError(
                f"curriculum=auto has nothing to choose: there are {num_known} training prompts, and a step takes "
                f"{num_prompts}. Use fewer prompts a step (data.prompts_per_step), or curriculum=uniform"
            )

    def num_candidates(self, num_prompts: int) -> int | None:
        """Return the same number where it does not choose, and ``candidate_ratio`` times as many where it does."""
        return num_prompts if self.trial.mode is Mode.UNIFORM else super().num_candidates(num_prompts)

    def choose(
        self, prompts: Sequence[Prompt], num_prompts: int, *, step: int, seed: int, recall: Recall
    ) -> list[Prompt]:
        """Return the step's prompts, and note which of them are control."""
        self._seed = seed
        if self.trial.mode is Mode.UNIFORM:
            self._control[step] = list(range(num_prompts))
            return [
                prompts[position]
                for position in epoch_positions(len(prompts), step * num_prompts, num_prompts, str(seed))
            ]
        places = self._places(prompts, num_prompts, step, seed, recall)
        self._control[step] = [slot for slot, (_, is_control) in enumerate(places) if is_control]
        return [prompts[position] for position, _ in places]

    def _revisited(self, total: int, num_prompts: int, step: int, seed: int) -> dict[int, None]:
        """The control prompts: a random part of those that uniform order has for this step."""
        uniform = epoch_positions(total, step * num_prompts, num_prompts, str(seed))
        return dict.fromkeys(
            random.Random(f"{seed}/control/{step}").sample(uniform, self.trial.num_control(num_prompts))
        )

    def note_costs(self, costs: StepCosts) -> None:
        """Keep them for :meth:`observe`."""
        self._costs = costs

    def observe(self, pools: Sequence[ResponsePool]) -> None:
        """Let the trial, the watch and the clocks learn from a step.

        Raises:
            ValueError: groups have no fixed size.
        """
        costs, self._costs = self._costs, StepCosts({})
        if not pools:
            return
        step = pools[0].step
        control = set(self._control.get(step, ()))
        self._control = {number: slots for number, slots in self._control.items() if number > step}
        kinds: tuple[list[GroupResult], list[GroupResult]] = ([], [])
        is_hard = []
        for pool in pools:
            self._group_size = max(self._group_size, _group_size(pool))
            result = GroupResult(
                pool.num_positive,
                pool.num_negative,
                float(sum(response.num_tokens for response in pool.responses)),
                float(costs.trained_tokens.get(pool.slot, 0)),
            )
            kinds[pool.slot in control].append(result)
            if pool.slot in control:
                is_hard.append(pool.belief.mean < 0.5)
        self.trial.observe(
            *kinds,
            cost_ratio=self.used_cost_ratio,
            group_size=self._group_size,
            generator=random.Random(f"{self._seed}/blocks/{step}"),
        )
        self.alternatives.observe(kinds[True], group_size=self._group_size, is_hard=is_hard)
        if self.cost_ratio is None:  # for the next step: this one was judged by what was known before it
            self.clock.add(
                generated=sum(result.generated for kind in kinds for result in kind),
                trained=sum(result.trained for kind in kinds for result in kind),
                rollout_s=costs.rollout_s,
                update_s=costs.update_s,
            )

    def figures(self, beliefs: Sequence[Belief]) -> Mapping[str, float]:
        """What the next step is made of, and what that rests on; docs/auto.md has the table."""
        trial, cost_ratio = self.trial, self.used_cost_ratio
        found = {
            **super().figures(beliefs),
            "mode": float(MODES.index(trial.mode)),
            "trial_number": float(trial.number),
            "log_better": trial.better.log_wealth,
            "log_worse": trial.worse.log_wealth,
            "ratio": trial.ratio(cost_ratio),
            "ratio_low": trial.ratio_low,
            "gain": trial.gain,
            "cost_ratio": cost_ratio,
        }
        return found | {f"worth_{name}": worth for name, worth in self.alternatives.worths(cost_ratio).items()}

    def state_dict(self) -> dict[str, Any]:
        """The trial, what was added up, the clock, and the control prompts of steps under way."""
        return {
            "trial": self.trial.state_dict(),
            "alternatives": self.alternatives.state_dict(),
            "clock": self.clock.state_dict(),
            "control": [[step, list(slots)] for step, slots in self._control.items()],
            "seed": self._seed,
            "group_size": self._group_size,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self.trial.load_state_dict(state["trial"])
        self.alternatives.load_state_dict(state["alternatives"])
        self.clock.load_state_dict(state["clock"])
        self._control = {int(step): list(slots) for step, slots in state["control"]}
        self._seed, self._group_size = state["seed"], state["group_size"]

    def caveat(self) -> str:
        """What decides, and what the objective is then."""
        return (
            f"curriculum: {self._preference()}, while a trial says that this pays (alpha = {self.alpha:g}). A prompt "
            f"counts by how often it comes, at most {self.candidate_ratio + 1:g} times as often as in uniform order. "
            "Nothing undoes that, so the objective is the mean of f(p) with these weights, which depend on the run"
        )


def _group_size(pool: ResponsePool) -> int:
    """Responses drawn for a prompt, of a sampler that draws the same number for each."""
    rule = pool.rule.inner if isinstance(pool.rule, CappedRule) else pool.rule  # capped: a response was no evidence
    if not isinstance(rule, FixedRule):
        raise ValueError("curriculum=auto compares groups of one fixed size; use sampler=uniform with it")
    return pool.num_drawn


def sentence_of_change(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Say that the mode has changed, with the figures it was decided by; empty where it has not.

    Args:
        before: figures of a step by their names in the log, ``curriculum/mode`` and the others.
        after: those of the next step.

    Example:
        >>> before = {"curriculum/mode": 1.0, "curriculum/ratio": 1.0, "curriculum/cost_ratio": 1.0}
        >>> print(sentence_of_change(before, {**before, "curriculum/mode": 2.0, "curriculum/ratio": 1.31}))
        auto: from here on most prompts are chosen (lately 1.31 times the signal of uniform ones; cost ratio 1)
    """
    name = "curriculum/mode"
    if name not in before or name not in after or before[name] == after[name]:
        return ""
    told = {
        Mode.CHOSEN: "most prompts are chosen",
        Mode.UNIFORM: "prompts come in uniform order",
        Mode.TRIAL: "a new trial chooses half of the prompts",
    }[MODES[int(after[name])]]
    if MODES[int(after[name])] is Mode.TRIAL:
        return f"auto: from here on {told}"
    ratio, cost_ratio = after["curriculum/ratio"], after["curriculum/cost_ratio"]
    return (
        f"auto: from here on {told} (lately {ratio:.2f} times the signal of uniform ones; cost ratio {cost_ratio:.2g})"
    )
