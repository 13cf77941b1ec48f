from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ada_lightning.analysis.offline import ResponseStore, SamplingJob
from ada_lightning.core.records import Verdict
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.fixed_weights import draw
from ada_lightning.run.stopping import RunStoppedError, SamplingStoppedError
from tests.unit.analysis.offline.scripted_job import (
    NUM_SAMPLES,
    Engines,
    Grader,
    make_prompts,
    open_service,
    run_job,
)

NUM_PROMPTS = 23
PROMPTS = make_prompts(NUM_PROMPTS)


class StopAfter:
    """An interrupt check that wants to stop at its n-th call."""

    def __init__(self, num_calls):
        self.num_left = num_calls

    def __call__(self):
        self.num_left -= 1
        if self.num_left < 0:
            raise KeyboardInterrupt("SIGTERM")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Table of a job that nothing disturbed."""
    return run_job(tmp_path_factory.mktemp("whole") / "job", PROMPTS).table()


def test_every_prompt_gets_its_responses_with_what_became_of_them(whole):
    assert whole.num_rows == NUM_PROMPTS * NUM_SAMPLES
    rows = whole.to_pylist()
    assert [(row["position"], row["sample_index"]) for row in rows] == [
        (position, index) for position in range(NUM_PROMPTS) for index in range(NUM_SAMPLES)
    ]
    assert {row["prompt_id"] for row in rows if row["position"] == 5} == {"again"}
    assert rows[0] | {"text": "", "reward": 0.0, "answer": ""} == {
        "prompt_id": "p0", "position": 0, "task": "scripted", "sample_index": 0, "reward": 0.0, "failure": "",
        "answer": "", "components": '{"right": 1.0}', "is_truncated": False, "num_tokens": 1, "text": "",
        "prompt": "user: question 0", "turns": None,
    }  # fmt: skip
    for row in rows:
        is_ungradable = row["position"] == 4 and row["text"] == "0"
        assert row["failure"] == ("timeout" if is_ungradable else "")
        assert row["reward"] == (None if is_ungradable else float(row["text"]))
    assert sum(row["failure"] == "timeout" for row in rows) > 0


def test_a_prompt_that_the_list_holds_twice_gets_other_responses_each_time(whole):
    texts = {position: [] for position in range(NUM_PROMPTS)}
    for row in whole.to_pylist():
        if row["prompt_id"] == "again":
            texts[row["position"]].append(row["text"])
    drawn = [tuple(responses) for responses in texts.values() if responses]
    assert len(set(drawn)) > len(drawn) // 2


@pytest.mark.parametrize("prompts_per_file", [1, 7, 100])
def test_the_size_of_the_parts_changes_nothing(tmp_path, whole, prompts_per_file):
    engines = Engines(NUM_PROMPTS, max_num_seqs=prompts_per_file + 2)
    store = run_job(tmp_path, PROMPTS, prompts_per_file=prompts_per_file, engines=engines, grader=Grader(seed=3))
    assert store.table() == whole
    assert len(store.parts) == -(-NUM_PROMPTS // prompts_per_file)


@pytest.mark.parametrize("num_calls", [0, 5, 20, 40])
def test_a_stopped_job_goes_on_without_drawing_anything_twice(tmp_path, whole, num_calls):
    with pytest.raises(SamplingStoppedError, match=rf"^SIGTERM: \d+ of {NUM_PROMPTS} prompts are stored in .* same"):
        run_job(tmp_path, PROMPTS, interrupt_check=StopAfter(num_calls))
    num_stored = len(ResponseStore(tmp_path).finished())
    assert num_stored < NUM_PROMPTS
    if num_calls == 40:
        assert num_stored > 0
    grader = Grader(seed=1)
    store = run_job(tmp_path, PROMPTS, grader=grader)
    assert store.table() == whole
    assert grader.num_submitted == (NUM_PROMPTS - num_stored) * NUM_SAMPLES


def test_a_killed_process_loses_less_than_a_part_and_goes_on(tmp_path, whole):
    """SIGKILL at several moments: no handler of ours runs."""
    script = (
        "import sys, time; from pathlib import Path\n"
        "from tests.unit.analysis.offline.scripted_job import make_prompts, run_job\n"
        "run_job(Path(sys.argv[1]), make_prompts(int(sys.argv[2])), interrupt_check=lambda: time.sleep(0.02))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    for num_parts in (1, 3):
        process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path), str(NUM_PROMPTS)], env=environment)
        try:
            deadline = time.monotonic() + 120
            while len(ResponseStore(tmp_path).parts) < num_parts and time.monotonic() < deadline:
                assert process.poll() is None
                time.sleep(0.005)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == -signal.SIGKILL
        finished = ResponseStore(tmp_path).finished()
        assert len(finished) >= num_parts * 4
        assert len(finished) < NUM_PROMPTS
    assert run_job(tmp_path, PROMPTS).table() == whole


def test_the_engine_stays_full_to_the_end_of_the_list(tmp_path):
    """A part ends without the engine running empty: with a barrier after each part it would take twice the polls."""
    engines = Engines(NUM_PROMPTS, max_num_seqs=16)
    run_job(tmp_path, PROMPTS, engines=engines, prompts_per_file=2)
    (engine,) = engines.opened
    mean_polls = 5  # of a response, drawn uniformly from 1 to 9
    assert engine.fullest == 16
    assert engine.num_polls_done < 1.35 * NUM_PROMPTS * NUM_SAMPLES * mean_polls / 16 + 9


@pytest.mark.parametrize(("polls", "max_restarts"), [([10, 0], 2), ([15, 15, 15], 1)])
def test_a_broken_engine_is_replaced_and_what_it_owed_drawn_again(tmp_path, whole, polls, max_restarts):
    """Engines that break now and then do not add up."""
    engines = Engines(NUM_PROMPTS, polls_until_broken=polls)
    with pytest.warns(RuntimeWarning, match="out of memory"):
        store = run_job(tmp_path, PROMPTS, engines=engines, max_engine_restarts=max_restarts)
    assert len(engines.opened) == len(polls) + 1
    assert store.table() == whole


def test_an_engine_that_keeps_breaking_ends_the_job_and_loses_nothing_finished(tmp_path, whole):
    engines = Engines(NUM_PROMPTS, polls_until_broken=[30, 0, 0])
    with pytest.warns(RuntimeWarning), pytest.raises(EngineError, match="out of memory"):
        run_job(tmp_path, PROMPTS, engines=engines, max_engine_restarts=2)
    assert 0 < len(ResponseStore(tmp_path).finished()) < NUM_PROMPTS
    assert run_job(tmp_path, PROMPTS).table() == whole


def test_a_full_disk_says_so_and_the_job_continues(tmp_path, whole, monkeypatch):
    append = ResponseStore.append

    def append_once(store, drawn):
        if store.parts:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return append(store, drawn)

    with monkeypatch.context() as patched:
        patched.setattr(ResponseStore, "append", append_once)
        with pytest.raises(SamplingStoppedError, match=r"could not be written \(No space .*\): \d+ of \d+ prom"):
            run_job(tmp_path, PROMPTS)
    assert 0 < len(ResponseStore(tmp_path).finished()) < NUM_PROMPTS
    assert run_job(tmp_path, PROMPTS).table() == whole


class NeverInTime(Grader):
    """Every grade of it takes too long, which counts as wrong."""

    def submit(self, ticket, prompt, completion):
        self._pending.append((ticket, Verdict(0.0, failure="timeout")))


def test_what_is_left_of_a_stopped_job_need_not_be_gradable_where_the_rest_was(tmp_path):
    with pytest.raises(RunStoppedError, match="has graded none of the 184 responses drawn so far: timeout 184"):
        run_job(tmp_path, PROMPTS, grader=NeverInTime())
    assert not ResponseStore(tmp_path).finished()
    with pytest.raises(SamplingStoppedError):
        run_job(tmp_path, PROMPTS, interrupt_check=StopAfter(40))
    num_stored = len(ResponseStore(tmp_path).finished())
    assert 0 < num_stored < NUM_PROMPTS
    store = run_job(tmp_path, PROMPTS, grader=NeverInTime())
    assert len(store.finished()) == NUM_PROMPTS
    assert store.table(["failure"])["failure"].to_pylist().count("timeout") >= (NUM_PROMPTS - num_stored) * NUM_SAMPLES


def test_a_finished_job_needs_no_engine_and_a_list_that_lost_prompts_is_refused(tmp_path):
    store = run_job(tmp_path, PROMPTS)
    service = open_service(Engines(NUM_PROMPTS))
    service.close()
    options = {"num_samples": NUM_SAMPLES, "store": store, "service": service, "stage": "prepare"}
    job = SamplingJob(prompts=PROMPTS, **options)
    assert job.num_pending == 0
    job.run()
    with pytest.raises(ValueError, match="holds 23 prompts, and not all of them are in the list of 20"):
        SamplingJob(prompts=PROMPTS[:20], **options)


def test_another_seed_gives_other_responses(tmp_path, whole):
    assert run_job(tmp_path, PROMPTS, seed=1).table(["text"]) != whole.select(["text"])


def test_weights_of_a_training_run_are_not_taken_for_fixed_ones(tmp_path):
    service = open_service(Engines(NUM_PROMPTS))
    service.engine.loaded_version = 3
    with pytest.raises(RuntimeError, match="policy version 3"):
        next(draw(service, list(enumerate(PROMPTS)), num_samples=1, stage="prepare"))


def test_a_prompt_without_room_is_refused_before_anything_is_drawn(tmp_path):
    grader = Grader()
    too_long = [*PROMPTS, replace(PROMPTS[0], prompt_ids=(0,) * 29)]
    with pytest.raises(ValueError, match=r"longest prompt, 29 tokens, .*use rollout.max_model_tokens=33"):
        run_job(tmp_path, too_long, engines=Engines(24), grader=grader)
    assert grader.num_submitted == 0
