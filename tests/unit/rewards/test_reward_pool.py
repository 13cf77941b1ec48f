import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import closing

import pytest

from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.pool import RewardPool
from tests.unit.rewards.naughty_rewards import Obedient, OnSecondTry, SlowToImport, Unloadable

PROMPT = Prompt("id", ({"role": "user", "content": "?"},), {"bonus": 0})


@pytest.fixture(scope="module")
def shared_pool():
    pool = RewardPool(Obedient(), num_workers=1, time_limit_s=1.0)
    pool.start()
    yield pool
    pool.close()


@pytest.fixture
def pool(shared_pool):
    yield shared_pool
    shared_pool.discard_pending()


def grade_all(pool, texts, patience_s=60.0):
    for ticket, text in enumerate(texts):
        pool.submit(ticket, PROMPT, Completion(text))
    grades = {}
    deadline = time.monotonic() + patience_s
    while len(grades) < len(texts) and time.monotonic() < deadline:
        for ticket, grade in pool.wait(1.0):
            assert ticket not in grades, "a ticket came back twice"
            grades[ticket] = grade
    assert len(grades) == len(texts), f"only {sorted(grades)} came back"
    assert pool.num_pending == 0
    return [grades[ticket] for ticket in range(len(texts))]


def run_program(body, **options):
    """Run a program of its own around a ``pool``."""
    program = f"""
import os, signal, sys, time
from tests.unit.rewards.naughty_rewards import Obedient
from ada_lightning.rewards.pool import RewardPool
from ada_lightning.core.records import Completion, Prompt
if __name__ == "__main__":
    pool = RewardPool(Obedient(), time_limit_s=1000)
{textwrap.indent(textwrap.dedent(body), "    ")}
"""
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment, **options
    )


def drain(pool, patience_s=30.0):
    grades = {}
    deadline = time.monotonic() + patience_s
    while pool.num_pending and time.monotonic() < deadline:
        grades.update(pool.wait(1.0))
    return grades


def worker_pid(pool):
    pool.submit("pid", PROMPT, Completion("pid"))
    [(_, grade)] = pool.wait(60)
    return int(grade.reward)


def test_responses_come_back_with_their_own_rewards(pool):
    assert grade_all(pool, ["0.25", "1", "-3"]) == [Verdict(0.25), Verdict(1.0), Verdict(-3.0)]
    pool.submit("a", Prompt("id", (), {"bonus": 10}), Completion("1"))
    assert pool.wait(60) == [("a", Verdict(11.0))]


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        ("true", Verdict(1.0)),
        ("flood:300000", Verdict(1.0)),
        *((text, Verdict(0.0, failure="invalid_reward")) for text in ("nan", "inf", "none", "text", "nested")),
        ("raise:oops", Verdict(0.0, failure="ZeroDivisionError")),
        ("leave", Verdict(0.0, failure="SystemExit")),
        ("unsendable", Verdict(0.0, failure="UnsendableError")),  # an exception that cannot travel
        ("failed_in_handler", Verdict(0.0, failure="ValueError")),  # although a file was missing before
        ("spin", Verdict(0.0, failure="timeout")),
        ("exit:0", Verdict(0.0, failure="timeout")),  # leaves in peace in the middle of a grade
        *((death, Verdict(0.0, failure="crash")) for death in ("exit:3", "kill", "segfault")),
        ("refused", Verdict(None, failure="ConnectionRefusedError")),  # not the response's doing: no evidence
        ("refused_to_client", Verdict(None, failure="ClientError")),
        ("not_applicable", Verdict(None, failure="NotApplicableError")),
    ],
)
def test_whatever_a_response_does_costs_that_response_only(pool, text, grade):
    assert grade_all(pool, ["1", text, "0"]) == [Verdict(1.0), grade, Verdict(0.0)]


@pytest.mark.parametrize("chance", ["kill", "hang:1000", "refused", "refused_to_client"])
def test_what_succeeds_when_it_is_tried_once_more_is_graded(tmp_path, chance):
    with closing(RewardPool(OnSecondTry(str(tmp_path)), time_limit_s=1.0)) as pool:
        assert grade_all(pool, [f"{chance}#7", "true#8"]) == [Verdict(7.0), Verdict(1.0)]


def test_a_failure_comes_with_what_a_person_wants_to_read(pool):
    raised, hung, died = grade_all(pool, ["raise:seven", "spin", "exit:3"])
    assert "ZeroDivisionError: seven" in raised.detail
    assert hung.detail == "no verdict within reward.time_limit_s"
    assert died.detail == "its worker left with code 3"


def test_an_import_does_not_count_against_the_first_response_of_a_worker():
    with closing(RewardPool(SlowToImport(), time_limit_s=1.0)) as pool:
        assert grade_all(pool, ["?"]) == [Verdict(1.0)]


def test_two_workers_survive_a_crash_and_a_hang_at_once():
    with closing(RewardPool(Obedient(), num_workers=2, time_limit_s=1.0)) as pool:
        grades = grade_all(pool, ["kill", "hang:1000", *["1"] * 40, "kill", "raise"])
    assert [grade.failure for grade in grades] == ["crash", "timeout", *[""] * 40, "crash", "ZeroDivisionError"]


def test_an_idle_worker_that_dies_is_replaced_and_the_broken_pool_rebuilt(pool):
    os.kill(worker_pid(pool), signal.SIGKILL)
    time.sleep(0.5)  # the pool finds out by itself, and breaks: it cannot say which response did it
    assert grade_all(pool, ["1", "0"]) == [Verdict(1.0), Verdict(0.0)]


@pytest.mark.parametrize(
    "stop",
    [lambda processes: processes._pool_manager.worker_manager.close_channels(), lambda processes: processes.stop()],
    ids=["breaks", "stops without a word"],
)
def test_responses_pending_when_the_pool_ends_are_graded_by_the_next_one(pool, stop):
    worker_pid(pool)
    for ticket in range(20):
        pool.submit(ticket, PROMPT, Completion("hang:0.02"))
    stop(pool._processes)
    grades = drain(pool)
    assert sorted(grades) == list(range(20))
    assert {grade.failure for grade in grades.values()} == {"invalid_reward"}  # graded: sleep returns None


def test_responses_whose_pool_breaks_twice_are_left_out(pool):
    worker_pid(pool)
    pool.submit("a", PROMPT, Completion("hang:0.3"))
    for _ in range(2):
        pool._rebuild()
    assert pool.wait(60) == [("a", Verdict(None, failure="pool_broken"))]
    assert grade_all(pool, ["1"]) == [Verdict(1.0)]


def test_workers_ignore_interrupts_sent_to_the_whole_process_group():
    body = """
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores interrupts
        pool.start()
        pool.submit("slow", Prompt("id", ()), Completion("hang:0.5"))
        pool.submit("pid", Prompt("id", ()), Completion("pid"))
        time.sleep(0.2)
        try:
            os.killpg(os.getpgrp(), signal.SIGINT)
            time.sleep(10)
        except KeyboardInterrupt:
            print("interrupted")
        grades = {}
        while pool.num_pending:
            grades.update(pool.wait(10))
        print(grades["slow"].failure, grades["pid"].reward > 0)
        pool.close()
    """
    done = run_program(body, start_new_session=True)
    assert done.stdout.split("\n")[:2] == ["interrupted", "invalid_reward True"], done.stderr
    assert "Traceback" not in done.stderr


def test_workers_hold_no_torch_even_when_the_trainer_does():
    pytest.importorskip("torch")
    with closing(RewardPool(Obedient())) as pool:
        assert grade_all(pool, ["has_torch"]) == [Verdict(0.0)]


def test_polling_returns_at_once_with_nothing_finished(pool):
    pool.submit("slow", PROMPT, Completion("hang:0.4"))
    assert pool.poll() == []
    assert pool.num_pending == 1
    assert pool.wait(0.0) == []
    assert [ticket for ticket, _ in pool.wait(60)] == ["slow"]


def test_waiting_for_nothing_returns(pool):
    assert pool.wait(1000) == []


def test_a_ticket_can_be_pending_only_once(pool):
    pool.submit("a", PROMPT, Completion("hang:0.2"))
    with pytest.raises(ValueError, match="'a' is pending already"):
        pool.submit("a", PROMPT, Completion("1"))


def test_discarded_tickets_never_come_back_and_can_be_used_again(pool):
    for ticket in range(5):
        pool.submit(ticket, PROMPT, Completion("hang:0.2"))
    pool.discard_pending()
    assert pool.num_pending == 0
    assert grade_all(pool, ["1"] * 5) == [Verdict(1.0)] * 5


def test_closing_twice_with_work_in_every_pipe_ends_the_workers():
    pool = RewardPool(Obedient(), num_workers=1, time_limit_s=1000)
    pid = worker_pid(pool)
    for ticket in range(50):
        pool.submit(ticket, PROMPT, Completion("hang:1000" + " " * 50_000))
    pool.close()
    pool.close()
    assert not os.path.exists(f"/proc/{pid}")
    assert pool.num_pending == 0
    assert pool.poll() == []


def test_a_closed_pool_starts_again_when_used():
    with closing(RewardPool(Obedient())) as pool:
        pool.start()
        pool.close()
        assert grade_all(pool, ["1"]) == [Verdict(1.0)]


def test_a_reward_that_cannot_be_loaded_fails_at_start():
    pool = RewardPool(Unloadable())
    with pytest.raises(RuntimeError, match="cannot load Unloadable: FileNotFoundError: no such answer key"):
        pool.start()
    assert pool.poll() == []


def test_checking_runs_the_reward_s_own_check():
    with pytest.raises(FileNotFoundError, match="answer key"):
        RewardPool(Unloadable()).check()
    RewardPool(Obedient()).check()


def test_a_reward_that_cannot_travel_is_refused_at_construction():
    with pytest.raises(ValueError, match="cannot be sent to worker processes"):
        RewardPool(lambda prompt, completion: 1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_workers": 0}, "num_workers must be at least 1; got 0"),
        ({"time_limit_s": 0}, "time_limit_s must be a positive number of seconds; got 0"),
        ({"time_limit_s": float("inf")}, "got inf"),
        ({"memory_limit_gb": 0}, "memory_limit_gb must be a positive number of gigabytes, or null; got 0"),
        ({"cache_size": -1}, r"cache_size must be at least 0 \(0 keeps nothing\); got -1"),
    ],
)
def test_impossible_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        RewardPool(Obedient(), **arguments)
