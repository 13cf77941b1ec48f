from __future__ import annotations

import json
from itertools import pairwise

import pandas as pd
import pyarrow.parquet as pq
import pytest

from ada_lightning.analysis.offline import ResponseStore
from ada_lightning.analysis.offline.band import PassRateBand
from ada_lightning.analysis.offline.preparation import OutcomeRule, bins, histogram_lines, prepare
from ada_lightning.core.records import Outcome, Verdict
from ada_lightning.data.encoded_prompts import OnlyPrompts
from ada_lightning.data.reasoning_gym import ReasoningGymSource
from ada_lightning.methods.estimators.history_file import HistoryFile
from ada_lightning.rollout.fixed_weights import DrawnPrompt
from tests.builders import jsonl_source
from tests.unit.analysis.offline.scripted_job import SETTINGS

NUM_SAMPLES = 4
RULE = OutcomeRule(0.7, "grade", "exclude")
BAND = PassRateBand(min_positive=1, max_pass_rate=0.5)


def small_source(tmp_path, **options):
    rows = [{"prompt": f"{i} + 1 =", "answer": i + 1, "level": {"name": f"l{i}", "é": [i]}} for i in range(6)]
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    return jsonl_source(file, num_heldout=0, seed=0, **options)


@pytest.fixture
def store(tmp_path):
    store = ResponseStore(tmp_path / "job")
    store.claim(SETTINGS)
    yield store
    store.release()


def fill(store, prompts, num_positives):
    """Prompt i has so many positives; None is ungradable."""
    for position, (prompt, num_positive) in enumerate(zip(prompts, num_positives, strict=True)):
        grades = [
            Verdict(None, failure="timeout") if num_positive is None else Verdict(float(index < num_positive))
            for index in range(NUM_SAMPLES)
        ]
        ids = (7,) * (10 + position)
        draws = tuple(Outcome("text", ids, (), index == 0, grade) for index, grade in enumerate(grades))
        store.append([DrawnPrompt(position, prompt, draws)])


def test_pass_rates_stand_beside_the_prompts_where_data_only_and_estimators_read_them(store, tmp_path):
    prompts = small_source(tmp_path).train_prompts()
    fill(store, prompts, [0, 1, 2, 3, 4, None])
    made = prepare(store, prompts, num_samples=NUM_SAMPLES, rule=RULE, band=BAND)
    assert made.selected == [1, 2]
    rows = pq.read_table(store.folder / "prompts.parquet").to_pylist()
    assert [row["pass_rate"] for row in rows] == [0, 0.25, 0.5, 0.75, 1, None]
    assert rows[5] | {"columns": None} == {
        "prompt_id": prompts[5].prompt_id, "position": 5, "task": prompts[5].task, "prompt": "user: 5 + 1 =",
        "answer": "6", "columns": None, "num_samples": 4, "num_counted": 0, "num_positive": 0, "num_failed": 4,
        "pass_rate": None, "mean_reward": None, "mean_tokens": 15.0, "truncated_ratio": 0.25, "is_selected": False,
    }  # fmt: skip
    assert json.loads(rows[1]["columns"])["level"] == {"name": "l1", "é": [1]}
    selected = pq.read_table(store.folder / "selected.parquet")
    assert selected["prompt_id"].to_pylist() == [prompts[1].prompt_id, prompts[2].prompt_id]
    summary = made.summary()
    assert summary["failures"] == {"timeout": 4}
    assert (summary["num_never_positive"], summary["num_always_positive"]) == (1, 1)
    assert (summary["num_prompts_without_evidence"], summary["mean_pass_rate"]) == (1, 0.5)
    assert summary["prompts_by_positives"] == {"0": 1, "1": 1, "2": 1, "3": 1, "4": 1}
    lines = made.lines(BAND, failure_alarm_ratio=0.1)
    assert lines[-2:] == [
        "selected: 2 prompts (1 <= positives, pass rate <= 0.5)",
        "warning: 4 of 24 responses could not be graded (timeout 4); check the reward function",
    ]
    assert (store.folder / "pass_rates.png").read_bytes().startswith(b"\x89PNG")
    assert OnlyPrompts(store.folder).keep(prompts) == [prompts[1], prompts[2]]
    counts = HistoryFile(store.folder / "history.json").counts
    assert counts == {prompt.prompt_id: (float(index), 4.0) for index, prompt in enumerate(prompts[:5])}


@pytest.mark.parametrize("options", [{}, {"prompt_template": "Q: {prompt} A:", "system_prompt": "Be brief."}])
def test_json_lines_give_the_very_prompts_that_were_measured(store, tmp_path, options):
    """No template twice, and rewards see the same answer and columns."""
    prompts = small_source(tmp_path, **options).train_prompts()
    fill(store, prompts, [0, 1, 2, 3, 4, 4])
    prepare(store, prompts, num_samples=NUM_SAMPLES, rule=RULE, band=BAND)
    file = store.folder / "selected.jsonl"
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert [(line["num_positive"], line["pass_rate"]) for line in lines] == [(1, 0.25), (2, 0.5)]
    again = jsonl_source(file, num_heldout=0, seed=0).train_prompts()
    assert [prompt.messages for prompt in again] == [prompts[1].messages, prompts[2].messages]
    for measured, read in zip(prompts[1:3], again, strict=True):
        assert read.reference["answer"] == measured.reference["answer"]
        assert measured.reference["columns"].items() <= read.reference["columns"].items()
    if not options:
        assert [prompt.prompt_id for prompt in again] == [prompts[1].prompt_id, prompts[2].prompt_id]


def test_prompts_that_columns_cannot_hold_are_left_to_data_only(store):
    tasks = {"chain_sum": {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 2}}
    prompts = ReasoningGymSource(tasks, num_train=6, num_heldout=0, seed=0).train_prompts()
    fill(store, prompts, [0, 1, 2, 3, 4, 4])
    (store.folder / "selected.jsonl").write_text("of another start")
    prepare(store, prompts, num_samples=NUM_SAMPLES, rule=RULE, band=BAND)
    assert not (store.folder / "selected.jsonl").exists()
    assert OnlyPrompts(store.folder).keep(prompts) == [prompts[1], prompts[2]]


def outcomes(num_positives, num_samples, selected):
    frame = pd.DataFrame({"num_positive": num_positives, "num_samples": num_samples, "num_counted": num_samples})
    return frame.assign(num_tokens=num_samples, num_truncated=0, is_selected=frame.index.isin(selected))


@pytest.mark.parametrize("num_samples", [1, 2, 16, 17, 64, 256])
def test_bins_hold_every_prompt_once_and_the_ends_alone(num_samples):
    histogram = bins(outcomes(range(num_samples + 1), num_samples, [0]), num_samples)
    assert histogram.num_prompts.sum() == num_samples + 1
    assert len(histogram) <= 17
    ends = [[int(end) for end in label.split("-")] for label in histogram.index]
    assert (ends[0], ends[-1]) == ([0], [num_samples])
    assert all(after[0] == before[-1] + 1 for before, after in pairwise(ends))
    assert [after[-1] - after[0] + 1 for after in ends] == histogram.num_prompts.tolist()


def test_the_terminal_marks_what_is_selected():
    lines = histogram_lines(bins(outcomes([0] * 4 + [1] * 4 + [2] * 4, 2, [4, 5]), 2))
    assert lines[1:] == [
        "         0        4         0  " + "-" * 40,
        "         1        4         2  " + "#" * 20 + "-" * 20,
        "         2        4         0  " + "-" * 40,
    ]
