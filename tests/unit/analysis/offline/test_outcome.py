from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

from ada_lightning.analysis.offline.preparation import OutcomeRule, history_of
from ada_lightning.analysis.offline.response_store import SCHEMA
from ada_lightning.core.records import Outcome, Verdict
from ada_lightning.core.step import Step
from ada_lightning.core.step_records import StepSettings
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.methods.selection import AllSelection
from tests.builders import make_prompt

# position 0: right, wrong, truncated and right, truncated and ungradable, ungradable; position 1: partly right
ROWS = [
    (0, 1.0, "", False),
    (0, 0.0, "", False),
    (0, 1.0, "", True),
    (0, None, "timeout", True),
    (0, None, "ValueError", False),
    (1, 0.7, "", False),
    (1, 0.8, "", False),
]


def table():
    rows = [
        {"prompt_id": f"p{row[0]}", "task": "t", "sample_index": index, "num_tokens": 10 + index}
        | dict(zip(("position", "reward", "failure", "is_truncated"), row, strict=True))
        for index, row in enumerate(ROWS)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def outcomes(truncated, grader_failure, positive_threshold=0.7):
    return list(OutcomeRule(positive_threshold, truncated, grader_failure).outcomes(table()).itertuples())


@pytest.mark.parametrize(
    ("truncated", "grader_failure", "num_positive", "num_counted", "failures"),
    [
        ("grade", "exclude", 2, 3, ("timeout", "ValueError")),
        ("grade", "as_zero", 2, 5, ("timeout", "ValueError")),
        ("mask", "exclude", 2, 3, ("timeout", "ValueError")),
        ("zero", "exclude", 1, 4, ("ValueError",)),
        ("zero", "as_zero", 1, 5, ("ValueError",)),
        ("exclude", "exclude", 1, 2, ("ValueError",)),
        ("exclude", "as_zero", 1, 3, ("ValueError",)),
    ],
)
def test_responses_count_as_they_would_in_training(truncated, grader_failure, num_positive, num_counted, failures):
    first, _ = outcomes(truncated, grader_failure)
    assert (first.num_positive, first.num_counted, first.failures) == (num_positive, num_counted, failures)
    assert first.pass_rate == num_positive / num_counted
    assert (first.num_samples, first.num_truncated, first.num_tokens) == (5, 2, 60)


def test_partial_credit_is_positive_above_the_threshold_only():
    _, second = outcomes("grade", "exclude")
    assert (second.num_positive, second.mean_reward) == (1, pytest.approx(0.75))
    _, second = outcomes("grade", "exclude", positive_threshold=0.5)
    assert second.num_positive == 2


def test_history_adds_up_over_places_of_one_prompt_and_leaves_out_what_does_not_count():
    rule = OutcomeRule(0.7, "grade", "exclude")
    found = rule.outcomes(table())
    assert history_of(pd.concat([found, found[:1]])) == {"p0": (4, 6), "p1": (1, 2)}
    none = rule.outcomes(table().filter(pa.compute.equal(table()["failure"], "timeout")))
    assert none.num_counted.tolist() == [0]
    assert none[["pass_rate", "mean_reward"]].isna().all(axis=None)
    assert history_of(none) == {}


@pytest.mark.parametrize("truncated", ["grade", "zero", "exclude", "mask"])
@pytest.mark.parametrize("grader_failure", ["exclude", "as_zero"])
def test_the_same_counts_as_a_step_of_a_training_run(truncated, grader_failure):
    settings = StepSettings(seed=0, truncated=truncated, grader_failure=grader_failure)
    sampler, selection = UniformSampler(group_size=5), AllSelection()
    step = Step([make_prompt(1)], sampler=sampler, selection=selection, settings=settings)
    while not step.is_complete:
        for request in step.ask():
            _, reward, failure, is_truncated = ROWS[request.sample_index]
            grade = (
                Verdict(reward, failure=failure) if settings.asks_grader(is_truncated=is_truncated) else Verdict(0.0)
            )
            step.tell(request, Outcome("text", (1,), (-0.5,), is_truncated, grade))
    (group,) = step.finish()
    first, _ = outcomes(truncated, grader_failure)
    assert (first.num_positive, first.num_counted) == (group.pool.num_positive, group.pool.num_sampled)
    assert len(first.failures) == step.stats.num_failed
