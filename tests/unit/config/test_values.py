"""Values that no part can mean: of another kind than a constructor's annotation says, infinite, or no number."""

from __future__ import annotations

import ast
import math
import re
from typing import Literal, Optional, Union

import pytest
from omegaconf import OmegaConf

from ada_lightning.config.evaluation import check_evaluation
from ada_lightning.config.prepare import check_prepare_config
from ada_lightning.config.problems import ConfigError
from ada_lightning.config.values import MAY_BE_INFINITE, kind_message, value_errors
from ada_lightning.config.view import ConfigView
from ada_lightning.programs.start import CONFIG_DIR as CONF
from tests.unit.config.composing import composed, problems

HERE = "tests.unit.config.test_values"
WORD = "is the word 'no', write true or false"


class Part:
    """Takes what configurations give, annotated in the ways that there are."""

    def __init__(
        self,
        *args: int,
        name: str = "",
        count: Optional[int] = None,  # noqa: UP045 - the older spelling is what this is about
        size: Union[int, Literal["auto"]] = 1,  # noqa: UP007
        limit: "float" = 0.0,  # noqa: UP037
        kind: Literal["a", "b"] = "a",
        weights: dict[str, int] | None = None,
        other: int | Unknown = 0,  # noqa: F821 - annotations are not evaluated
        is_on: bool = True,
        child: object = None,
    ) -> None:
        pass


def make_part(is_on: bool, **further: int) -> None:
    """Stand in for a ``_target_`` that is a function."""


@pytest.mark.thinned(12)
@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("policy.compile=no", WORD),
        ("preview=no", WORD),
        ("rollout.seed_requests=no", WORD),
        ("callbacks.alarms.bounds.no_signal.stops=no", WORD),
        ("policy.compile=1", "is the number 1, write true or false"),
        ("sampler.k_pos=2.5", "is the number 2.5, write a whole number"),
        ("sampler.k_pos=true", "is a truth value, write a whole number"),
        ("num_steps=1.5", "is the number 1.5, write a whole number"),
        ("seed=abc", "is the word 'abc', write a whole number"),
        ("rollout.engine.max_num_seqs=many", "is the word 'many', write a whole number"),
        ("policy.max_grad_norm=null", "is nothing, write a number"),
        ("policy.max_grad_norm=.inf", "is the word '.inf' (infinity is inf on a command line), write a number"),
        ("callbacks.budget.max_seconds=abc", "is the word 'abc', write a number"),
        ("optimizer.betas=0.9", "is the number 0.9, write a list, [a,b]"),
        ("data.source.tasks=nope", "is the word 'nope', write keys with values, {a: 1}"),
        ("rollout.sampling.temperature=hot", "is the word 'hot', write a number"),  # others refer to it
        ("data.source=null", "is null, where PromptSource is needed; leave it out to have the default"),
        ("loss.reduction=null", "is null, where LossReduction is needed; leave it out to have the default"),
        ("optimizer.lr=1e999", "is infinite, write a finite number"),
        ("rollout.sampling.temperature=inf", "is infinite, write a finite number"),
        ("loss.clip_high=nan", "is no number, write a finite one"),
        ("seed=-1", "is out of range: a seed is a whole number from 0 to 4294967295"),
        ("data.seed=4294967296", "is out of range: a seed is a whole number from 0 to 4294967295"),
    ],
)
def test_a_value_is_refused_once_by_the_key_that_was_typed_with_what_to_write(override, message):
    (found,) = problems(override)
    key, _, value = override.partition("=")
    assert found == f"{key}={value.replace('1e999', 'inf')} {message}"


def test_all_are_reported_together_and_beside_problems_of_other_kinds():
    found = problems("policy.compile=no", "sampler.k_pos=2.5", "+policy.temprature=1", "loss.clip_low=-1")
    assert [line.split(" ")[0] for line in found] == ["unknown", "sampler.k_pos=2.5", "policy.compile=no", "loss:"]
    assert problems("optimizer.betas=[0.9,nan]") == ["optimizer.betas.1=nan is no number, write a finite one"]


@pytest.mark.parametrize(
    "override",
    [
        *("trainer=fsdp", "reward=weighted", "data=mixture", "rollout=ray", "logger=csv"),
        *("policy.max_grad_norm=inf", "loss.dual_clip=inf", "callbacks.evaluation.every_n_tokens=inf"),
        "seed=4294967295",
    ],
)
def test_shipped_options_infinity_that_switches_a_limit_off_and_the_largest_seed_pass(override):
    assert value_errors(ConfigView(composed(override))) == {}


def test_every_setting_whose_shipped_comment_offers_infinity_takes_it():
    lines = [line for file in CONF.rglob("*.yaml") for line in file.read_text(encoding="utf-8").splitlines()]
    offered = {found[1] for line in lines if (found := re.match(r"\s*(\w+): .*\.inf", line))}
    assert offered
    assert offered <= MAY_BE_INFINITE


def test_messages_write_infinity_as_a_command_line_takes_it():
    """There ``.inf``, as YAML has it, is a word, and is refused."""
    root = CONF.parent
    files = [*(root / "ada_lightning").rglob("*.py"), *(root / "callbacks").rglob("*.py")]
    offering = set()
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        words = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
        if any(re.search(r"(?<![\w.])\.inf\b", node.value) for node in words if id(node) not in docstrings):
            offering.add(file.name)
    assert offering == {"values.py", "method.py"}  # says what to write instead; shows settings as YAML has them


def test_a_program_that_trains_nothing_refuses_words_for_truth_values_too():
    with pytest.raises(ConfigError, match=WORD):
        check_prepare_config(composed("rollout.seed_requests=no", program="prepare"))
    with pytest.raises(ConfigError, match=WORD):
        check_evaluation(composed("rollout.seed_requests=no", "label=x", program="evaluate"))


def part(**values):
    return value_errors(
        ConfigView(OmegaConf.create({"part": {"_target_": f"{HERE}.Part", **values}, "missing": "???"}))
    )


@pytest.mark.parametrize(
    "values",
    [
        {"count": None},
        {"count": 3},
        {"size": "auto"},
        {"limit": 1},
        {"kind": "c"},  # words are judged by the constructor, which says what they mean
        {"weights": {"a": "x"}},
        {"other": "x"},
        {"name": "no"},
        {"is_on": "${oc.decode:'true'}"},
        {"_partial_": True, "_args_": ["x"], "is_on": False},
        *({"is_on": value} for value in ("${nothing.there}", "${part.is_on}", "???", "${missing}")),
    ],
    ids=str,
)
def test_what_an_annotation_allows_or_does_not_judge_and_what_cannot_be_resolved_passes(values):
    assert part(**values) == {}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"count": "x"}, "part.count=x is the word 'x', write a whole number or null"),
        ({"size": "all"}, "part.size=all is the word 'all', write a whole number or 'auto'"),
        ({"size": None}, "part.size=null is nothing, write a whole number or 'auto'"),
        ({"limit": "x"}, "part.limit=x is the word 'x', write a number"),
        ({"_partial_": True, "is_on": "yes"}, "part.is_on=yes is the word 'yes', write true or false"),
        ({"is_on": [True]}, "part.is_on=[True] is a list, write true or false"),
    ],
    ids=str,
)
def test_what_no_member_of_an_annotation_allows_is_found(values, message):
    assert list(part(**values).values()) == [message]


def test_functions_lists_and_nested_parts_are_looked_into():
    node = {"_target_": f"{HERE}.make_part", "is_on": "off", "further": "x"}
    cfg = OmegaConf.create({"parts": [{"_target_": f"{HERE}.Part", "child": node}]})
    assert value_errors(ConfigView(cfg)) == {
        "parts.0.child.is_on": "parts.0.child.is_on=off is the word 'off', write true or false"
    }


def test_a_part_of_ones_own_may_mean_something_by_infinity_but_never_by_no_number():
    cfg = OmegaConf.create({"part": {"_target_": "my.Part", "limit": math.inf, "seed": -1, "share": math.nan}})
    assert value_errors(ConfigView(cfg)) == {"part.share": "part.share=nan is no number, write a finite one"}


def test_an_annotation_that_cannot_be_read_says_nothing():
    assert kind_message("a", "x", "int |") == ""
    assert kind_message("a", "x", "Path | list[int]") == ""
