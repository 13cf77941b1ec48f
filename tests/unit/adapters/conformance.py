"""What every adapter must reproduce: which responses train and what each weighs, in any order of finishing.

The policy is the scripted one of :mod:`tests.tapes.world`, a table of pass rates; the truth is the project's own loop
(rollout service, Lightning, loss and gradient), played by :mod:`tests.tapes.driver`. An adapter plays the same steps
and says what became of every response: the factor of its tokens' log-probabilities in the update, denominator included.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ada_lightning.adapters import Core, Pool, Pools
from ada_lightning.core.step_records import StepSettings
from tests.tapes import tape, world
from tests.tapes.cases import Case
from tests.tapes.compare import TOLERANCE

RULES = ("grpo", "ada_seq_balance", "ada_seq_pos", "ada_est_ema", "ada")
"""Uniform sampling, two stopping rules, an allocation by what is expected, and chosen prompts with their history."""
OBJECTIVES = ("log", "linear", "pass_at_k")
WITH_OBJECTIVE = ("ada_seq_balance", "ada_seq_pos", "ada_est_ema")
"""The others have none: their advantage follows its own rule."""
COMBINATIONS = [
    (rule, objective) for rule in RULES for objective in (OBJECTIVES if rule in WITH_OBJECTIVE else OBJECTIVES[:1])
]
PROMPTS = {f"p{number}": text for number, text in enumerate(world.TEXTS)}


@dataclass
class Played:
    """One step as an adapter did it."""

    prompts: list[str]
    drawn: list[int]
    """Responses of each prompt."""
    weights: dict[str, float] = field(default_factory=dict)
    """Factor of a token's log-probability in the update that is to be *increased*, by ``slot/index``."""


Order = Callable[[list[tuple[Pool, int]]], list[tuple[Pool, int]]]
ORDERS: dict[str, Order] = {
    "in order": lambda launched: launched,
    "last first": lambda launched: launched[::-1],
    "one at a time": lambda launched: launched,
    "shuffled": lambda launched: random.Random(7).sample(launched, len(launched)),
}


def outcome(prompt_id: str, seed: int, version: int, *, graded: bool) -> dict[str, Any]:
    """What the scripted policy and its grader say, as arguments of ``Pool.add``."""
    drawn = world.respond(int(prompt_id[1:]), seed, version, graded=graded)
    verdict = world.grade(world.text_of(drawn.token_ids))
    return {
        "reward": verdict.reward,
        "failed": verdict.failure if verdict.reward is None else "",
        "num_tokens": len(drawn.token_ids),
        "is_truncated": drawn.is_truncated,
        "answer": verdict.answer,
        "components": verdict.components,
        "logprobs": drawn.logprobs,
    }


def drive(core: Core, pools: Pools, order: str, *, graded: bool = False) -> None:
    """Draw a step to its end; responses finish in the given order."""
    flying: list[tuple[Pool, int]] = []
    while not pools.is_complete:
        for pool in pools:
            flying += [(pool, index) for index in pool.launch(pool.want())]
        flying = ORDERS[order](flying)
        number = 1 if order == "one at a time" else max(1, len(flying) // 2)
        for pool, index in flying[:number]:
            pool.add(index, payload=index, **outcome(pool.prompt_id, pool.seed(index), core.step, graded=graded))
        flying = flying[number:]


def play_core(core: Core, order: str, *, graded: bool = False, num_steps: int = world.NUM_STEPS) -> list[Played]:
    """The library's own loop."""
    steps = []
    for _ in range(num_steps):
        pools = core.choose(num_prompts=world.PROMPTS_PER_STEP)
        drive(core, pools, order, graded=graded)
        denominator = core.denominator(max_tokens=world.MAX_NEW_TOKENS)
        played = Played([pool.prompt_id for pool in pools], [pool.num_drawn for pool in pools])
        for pool in pools:
            played.weights |= {f"{pool.slot}/{row.payload}": row.advantage / denominator for row in pool.kept()}
        steps.append(played)
        core.tell(pools)
    return steps


@cache
def truth(rule: str, objective: str = "log") -> list[Played]:
    """What the project's own loop does: from its tape, or played anew where there is none."""
    name = rule if objective == "log" else f"objective_{objective}" if rule == "ada_seq_balance" else ""
    if name:
        return of_tape(name)
    from tests.tapes import driver  # loads torch and Lightning

    case = Case("", (f"+experiment={rule}", f"objective={objective}"))
    return list(_played(tape.split(driver.play(case, world.LATENCIES[0]))[0], "constant"))


def of_tape(name: str) -> list[Played]:
    """What the project's own loop did when its tape was recorded, weighed by its own reduction."""
    read = tape.read(tape.FOLDER / f"{name}.json.gz")
    return list(_played(read["steps"], read["case"]["choices"]["loss/reduction"][0]))


def _played(steps: Sequence[Any], rule: str) -> Iterator[Played]:
    for number, step in enumerate(steps):
        (update,) = step["updates"]
        slots = sorted(step["prompts"], key=int)
        played = Played([step["prompts"][s]["prompt"] for s in slots], [step["prompts"][s]["drawn"] for s in slots])
        for slot in slots:
            group = step["prompts"][slot]
            for index, advantage in zip(group["kept"], group["advantages"], strict=True):
                if advantage:
                    length = _length(number, int(slot), group["prompt"], index)
                    share = _token_share(rule, *update["denominators"], len(group["kept"]), length)
                    played.weights[f"{slot}/{index}"] = advantage * share
        yield played


def _length(step: int, slot: int, prompt_id: str, index: int) -> int:
    seed = StepSettings(seed=world.RUN_SEED).request_seed("train", step, slot, prompt_id, index)
    return len(world.respond(int(prompt_id[1:]), seed, step, graded=False).token_ids)


def _token_share(rule: str, prompts: float, responses: float, tokens: float, size: int, length: int) -> float:
    """Weight of a token under a rule of ``loss/reduction``, said once more."""
    return {
        "constant": 1 / (prompts * world.MAX_NEW_TOKENS),
        "prompt_mean": 1 / (prompts * world.MAX_NEW_TOKENS * size),
        "response_mean": 1 / (responses * length),
        "token_mean": 1 / tokens,
    }[rule]


def assert_same(found: Sequence[Played], wanted: Sequence[Played], tolerance: float = TOLERANCE) -> None:
    """Same prompts, same responses drawn and trained, same weights: tapes are of single precision."""
    assert len(found) == len(wanted)
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one.prompts == other.prompts, f"step {number}"
        assert one.drawn == other.drawn, f"step {number}"
        assert one.weights.keys() == other.weights.keys(), f"step {number}"
        for name, weight in other.weights.items():
            assert abs(one.weights[name] - weight) <= tolerance * abs(weight), f"step {number}, response {name}"
