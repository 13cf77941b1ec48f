from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

from ada_lightning.analysis.offline.outcome import OutcomeRule, history_of
from ada_lightning.analysis.offline.response_store import SCHEMA
from ada_lightning.core.records import Generation, Grade, SamplingSettings
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.methods.selection import AllSelection
from tests.builders import Collector, make_prompt

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
        {
            "prompt_id": f"p{position}",
            "position": position,
            "task": "t",
            "sample_index": index,
            "reward": reward,
            "failure": failure,
            "is_truncated": is_truncated,
            "num_tokens": 10 + index,
        }
        for index, (position, reward, failure, is_truncated) in enumerate(ROWS)
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


def test_the_same_counts_as_the_collector_of_a_training_run():
    """One response each way through the collector's own code."""

    class Engine:
        max_model_tokens, max_num_seqs = 64, 8

        def __init__(self):
            self.names = []

        def submit(self, request_id, prompt_ids, settings, seed):
            self.names.append(request_id)

        def poll(self):
            names, self.names = self.names, []
            places = [int(name.rpartition("/")[2]) for name in names]
            return [
                Generation(name, (place,), (-0.5,), ROWS[place][3]) for name, place in zip(names, places, strict=True)
            ]

    class Grader:
        def __init__(self):
            self.ready = []

        def submit(self, ticket, prompt, completion):
            _, reward, failure, _ = ROWS[int(completion.text)]
            self.ready.append((ticket, Grade(reward, failure)))

        def poll(self):
            ready, self.ready = self.ready, []
            return ready

        def wait(self, timeout_s):
            return self.poll()

    for truncated in ("grade", "zero", "exclude", "mask"):
        for grader_failure in ("exclude", "as_zero"):
            collector = Collector(
                decode=lambda ids: str(ids[0]),
                seed=0,
                truncated=truncated,
                grader_failure=grader_failure,
            )
            (group,), stats = collector.collect(
                [make_prompt(1)],
                engine=Engine(),
                grader=Grader(),
                sampler=UniformSampler(group_size=5),
                selection=AllSelection(),
                settings=SamplingSettings(max_new_tokens=4),
                stage="train",
                step=0,
                policy_version=0,
            )
            first, _ = outcomes(truncated, grader_failure)
            pool = group.pool
            assert (first.num_positive, first.num_counted) == (pool.num_positive, pool.num_sampled), truncated
            assert len(first.failures) == stats.num_failed
