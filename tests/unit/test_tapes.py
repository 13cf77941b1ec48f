"""Every method does what its tape says. ``python -m tests.tapes.record`` records them anew: tests/tapes/README.md."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest

from ada_lightning.methods.catalog import names
from tests.tapes import cases, driver, tape, world
from tests.tapes.compare import differences
from tests.tapes.record import differences_now

TAPES = sorted(path.name.removesuffix(".json.gz") for path in tape.FOLDER.glob("*.json.gz"))
NOT_RECORDED = {"estimator/embedding": {"sentence"}}
"""Options by group that no tape has: this one needs a model from the hub."""


@cache
def recorded(name: str) -> dict[str, Any]:
    return tape.read(tape.FOLDER / f"{name}.json.gz")


def latency(name: str) -> world.Latency:
    """Of every tape another one: ``python -m tests.tapes.record --check`` plays all."""
    return world.LATENCIES[world.checksum(name) % len(world.LATENCIES)]


# By overrides, so that a configuration is composed once.
@pytest.mark.thinned(90)
@pytest.mark.parametrize("name", sorted(TAPES, key=lambda name: name.removesuffix(".graded")))
def test_method_does_what_its_tape_says(name):
    found = list(differences_now(name, [latency(name)]))
    shown = "\n".join(found[:12])
    assert not found, f"{len(found)} differences\n{shown}"


def test_every_method_and_every_part_has_a_tape_and_nothing_else_has():
    methods = {*cases.EXPERIMENTS, *cases.PARTS}
    assert methods - cases.GRADED_ONLY | {f"{name}.graded" for name in cases.GRADED_ONLY} <= {*TAPES}
    assert {name.removesuffix(".graded") for name in TAPES} == methods


@pytest.mark.parametrize("group", driver.PARTS_OF_A_METHOD)
def test_every_option_of_a_group_is_on_a_tape(group):
    options = {*names(cases.CONF, group)}
    chosen = {choice for name in TAPES for choice in recorded(name)["case"]["choices"].get(group, ())}
    assert options
    assert options - chosen == NOT_RECORDED.get(group, set())


# What the comparison must find: one number of a tape changed at a time.


def _steps() -> list[Any]:
    return copy.deepcopy(recorded("ada_seq_balance")["steps"])


def _first_kept(steps: list[Any]) -> dict[str, Any]:
    return next(group for group in steps[1]["prompts"].values() if any(group["advantages"]))


def test_equal_steps_have_no_difference_and_rounding_makes_none():
    steps = _steps()
    group = _first_kept(steps)
    group["advantages"] = [value * (1 + 3e-7) for value in group["advantages"]]
    assert list(differences(_steps(), steps)) == []


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("advantages", lambda values: [1.00001 * values[0], *values[1:]]),
        ("kept", lambda values: values[::-1]),
        ("rewards", lambda values: [1.0 - values[0], *values[1:]]),
        ("drawn", lambda value: value + 1),
        ("first_seed", lambda value: f"{value}1"),
        ("belief", lambda values: [values[0], values[1] + 0.01]),
        ("prompt", lambda value: f"{value}x"),
        ("is_resolved", lambda value: not value),
    ],
)
def test_a_changed_field_of_a_prompt_is_named_with_step_and_prompt(field, change):
    steps = _steps()
    group = _first_kept(steps)
    prompt = group["prompt"]
    group[field] = change(group[field])
    (line,) = differences(_steps(), steps)
    assert line.startswith("step 1, prompts: slot ")
    assert prompt in line
    assert field in line


def test_a_changed_sum_of_the_loss_is_named_with_its_response():
    steps = _steps()
    coefficients = steps[2]["updates"][0]["coefficients"]
    name = max(coefficients, key=lambda name: abs(coefficients[name]))
    coefficients[name] *= 1.0001
    (line,) = differences(_steps(), steps)
    assert line.startswith("step 2, update 0: coefficient of slot ")
    del coefficients[name]
    assert len(list(differences(_steps(), steps))) == 1


def test_a_changed_state_is_named():
    steps = _steps()
    counts = steps[3]["state"]["estimator"]
    counts[next(iter(counts))] = {}
    assert all("step 3, state.estimator" in line for line in differences(_steps(), steps))


def test_what_depends_on_latency_is_not_recorded():
    def play(case: cases.Case, latency: world.Latency) -> list[dict[str, Any]]:
        return [{"prompts": latency.slots, "launched": {}}]

    with pytest.raises(tape.LatencyMattersError, match="grpo: scattered differs from instant"):
        tape.record(cases.Case("grpo", ()), play, {})


def test_the_world_is_the_one_that_was_recorded():
    """Tapes of another world would compare nothing. Python's generator keeps its numbers between releases."""
    drawn = world.respond(5, 12345, 2, graded=True)
    assert (drawn.token_ids, world.checksum(str(drawn))) == ((8, 0, 22, 24, 29, 21, 27, 19), 975800145)
