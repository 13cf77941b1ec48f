"""Values of another kind than a constructor's annotation says."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Optional, Union

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from ada_lightning.config.evaluation import check_evaluation
from ada_lightning.config.prepare import check_prepare_config
from ada_lightning.config.problems import ConfigError
from ada_lightning.config.types import kind_message, type_errors
from tests.unit.config.composing import composed, problems

CONF = Path(__file__).resolve().parents[3] / "conf"
HERE = "tests.unit.config.test_types"


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


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("policy.compile=no", "policy.compile=no is the word 'no', write true or false"),
        (
            "policy.gradient_checkpointing=off",
            "policy.gradient_checkpointing=off is the word 'off', write true or false",
        ),
        ("preview=off", "preview=off is the word 'off', write true or false"),
        ("reproducible=no", "reproducible=no is the word 'no', write true or false"),
        ("selection.random_order=no", "selection.random_order=no is the word 'no', write true or false"),
        ("rollout.seed_requests=no", "rollout.seed_requests=no is the word 'no', write true or false"),
        ("data.share_prompts=maybe", "data.share_prompts=maybe is the word 'maybe', write true or false"),
        (
            "data.skip_groups_without_signal=no",
            "data.skip_groups_without_signal=no is the word 'no', write true or false",
        ),
        (
            "callbacks.alarms.bounds.no_signal.stops=no",
            "callbacks.alarms.bounds.no_signal.stops=no is the word 'no', write true or false",
        ),
        ("policy.compile=1", "policy.compile=1 is the number 1, write true or false"),
        ("sampler.k_pos=2.5", "sampler.k_pos=2.5 is the number 2.5, write a whole number"),
        ("sampler.k_pos=true", "sampler.k_pos=true is a truth value, write a whole number"),
        (
            "callbacks.evaluation.num_prompts=1.5",
            "callbacks.evaluation.num_prompts=1.5 is the number 1.5, write a whole",
        ),
        ("num_steps=1.5", "num_steps=1.5 is the number 1.5, write a whole number"),
        ("seed=abc", "seed=abc is the word 'abc', write a whole number"),
        ("rollout.positive_threshold=abc", "rollout.positive_threshold=abc is the word 'abc', write a number"),
        (
            "rollout.engine.max_num_seqs=many",
            "rollout.engine.max_num_seqs=many is the word 'many', write a whole number",
        ),
        ("policy.max_grad_norm=null", "policy.max_grad_norm=null is nothing, write a number"),
        (
            "policy.max_grad_norm=.inf",
            "policy.max_grad_norm=.inf is the word '.inf' (infinity is inf on a command line), write a number",
        ),
        ("optimizer.lr=abc", "optimizer.lr=abc is the word 'abc', write a number"),
        ("optimizer.betas=0.9", "optimizer.betas=0.9 is the number 0.9, write a list, [a,b]"),
        ("data.source.tasks=nope", "data.source.tasks=nope is the word 'nope', write keys with values, {a: 1}"),
    ],
)
def test_a_value_of_another_kind_is_refused_once_with_what_to_write(override, message):
    (found,) = problems(override)
    assert found.startswith(message)


def test_all_are_reported_together_and_beside_problems_of_other_kinds():
    found = problems("policy.compile=no", "sampler.k_pos=2.5", "+policy.temprature=1", "loss.clip_low=-1")
    assert [line.split(" ")[0] for line in found] == ["unknown", "sampler.k_pos=2.5", "policy.compile=no", "loss:"]


def test_a_value_that_others_refer_to_is_reported_where_it_was_written():
    (found,) = problems("rollout.sampling.temperature=hot")
    assert found == "rollout.sampling.temperature=hot is the word 'hot', write a number"


@pytest.mark.parametrize("option", ["trainer=fsdp", "reward=weighted", "data=mixture", "rollout=ray", "logger=csv"])
def test_shipped_options_have_values_of_the_right_kind(option):
    assert type_errors(composed(option)) == {}


def test_a_program_that_trains_nothing_refuses_words_for_truth_values_too():
    with initialize_config_dir(str(CONF), version_base="1.3"):
        prepare = compose("prepare", ["rollout.seed_requests=no", "run_name=x"])
        evaluate = compose("evaluate", ["rollout.seed_requests=no", "run_name=x", "label=x"])
        with pytest.raises(ConfigError, match="is the word 'no', write true or false"):
            check_prepare_config(prepare)
        with pytest.raises(ConfigError, match="is the word 'no', write true or false"):
            check_evaluation(evaluate)


def part(**values):
    return type_errors(OmegaConf.create({"part": {"_target_": f"{HERE}.Part", **values}}))


@pytest.mark.parametrize(
    "values",
    [
        {"count": None},
        {"count": 3},
        {"size": "auto"},
        {"size": 2},
        {"limit": 1},
        {"limit": float("inf")},
        {"kind": "c"},  # words are judged by the constructor, which says what they mean
        {"weights": {"a": "x"}},
        {"other": "x"},
        {"name": "no"},
        {"is_on": "${oc.decode:'true'}"},
        {"_partial_": True, "_args_": ["x"], "is_on": False},
    ],
    ids=str,
)
def test_what_an_annotation_allows_or_does_not_judge_passes(values):
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
    assert type_errors(cfg) == {"parts.0.child.is_on": "parts.0.child.is_on=off is the word 'off', write true or false"}


@pytest.mark.parametrize("value", ["${nothing.there}", "${part.is_on}", "???", "${missing}"])
def test_a_value_that_cannot_be_resolved_is_left_to_its_own_check(value):
    cfg = OmegaConf.create({"part": {"_target_": f"{HERE}.Part", "is_on": value}, "missing": "???"})
    assert type_errors(cfg) == {}


def test_values_at_the_top_count_without_anything_that_reads_them():
    cfg = composed("preview=no", "~callbacks.preview")
    assert type_errors(cfg) == {"preview": "preview=no is the word 'no', write true or false"}


def test_an_annotation_that_cannot_be_read_says_nothing():
    assert kind_message("a", "x", "int |") == ""
    assert kind_message("a", "x", "Path | list[int]") == ""
