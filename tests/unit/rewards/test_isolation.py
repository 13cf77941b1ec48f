"""Rewards that fork, leave, spawn, hoard and print, in real processes."""

import signal
from contextlib import closing

import pytest

from ada_lightning.core.records import Verdict
from ada_lightning.rewards.pool import RewardPool
from tests.processes import assert_gone, is_gone
from tests.unit.rewards.naughty_rewards import Leaking, Obedient
from tests.unit.rewards.test_reward_pool import grade_all, run_program

LIMIT_GB = 0.5


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    pool = RewardPool(
        Obedient(),
        time_limit_s=120.0,  # not a requirement: what is slow here must not count as hanging
        memory_limit_gb=LIMIT_GB,
        output_file=tmp_path_factory.mktemp("pool") / "printed.log",
    )
    pool.start()
    yield pool
    pool.close()


def assert_nobody_survives(pool, tmp_path, end, failure):
    assert grade_all(pool, [f"spawn:{tmp_path / 'pid'}:{end}", "1"]) == [Verdict(0.0, failure=failure), Verdict(1.0)]
    child, worker = map(int, (tmp_path / "pid").read_text().split())
    assert_gone(worker)
    assert_gone(child)


@pytest.mark.parametrize("end", ["kill", "segfault", "exit:3"])
def test_what_a_dying_worker_started_does_not_survive_it(pool, tmp_path, end):
    assert_nobody_survives(pool, tmp_path, end, "crash")


def test_what_a_worker_started_that_runs_out_of_time_does_not_survive_it(tmp_path):
    with closing(RewardPool(Obedient(), time_limit_s=2.0)) as pool:
        assert_nobody_survives(pool, tmp_path, "hang:1000", "timeout")


def test_what_a_worker_started_lives_on_between_responses_and_ends_with_the_pool(tmp_path):
    with closing(RewardPool(Obedient())) as pool:
        assert grade_all(pool, [f"spawn:{tmp_path / 'pid'}:true", "1"]) == [Verdict(1.0)] * 2
        child, _ = map(int, (tmp_path / "pid").read_text().split())
        assert not is_gone(child)
    assert_gone(child)


def test_a_killed_trainer_takes_a_busy_worker_and_its_children_along(tmp_path):
    done = run_program(f"""
        pool.submit("a", Prompt("id", ()), Completion("spawn:{tmp_path / "pid"}:hang:1000"))
        while not os.path.exists("{tmp_path / "pid"}") or not open("{tmp_path / "pid"}").read():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert done.returncode == -signal.SIGKILL
    for pid in map(int, (tmp_path / "pid").read_text().split()):
        assert_gone(pid)


def test_a_fork_that_comes_back_does_not_become_a_second_worker(pool, tmp_path):
    texts = [f"fork:{tmp_path / 'log'}", *["pid"] * 20]
    grades = grade_all(pool, texts)
    assert grades[0] == Verdict(1.0)
    assert (tmp_path / "log").read_text() == "child\n"
    assert len({grade.reward for grade in grades[1:]}) == 1


def test_a_reward_that_waits_for_all_its_children_meets_only_its_own(pool):
    assert grade_all(pool, ["wait_for_children"]) == [Verdict(1.0)]


def test_a_worker_leads_a_session_of_its_own(pool):
    assert grade_all(pool, ["session"]) == [Verdict(1.0)]


def test_a_forgotten_alarm_does_not_strike_the_next_response(pool):
    pids = grade_all(pool, ["pid", "alarm", "hang:1.2", "pid"])
    assert pids[0] == pids[-1]
    assert pids[2].failure == "invalid_reward"  # slept to its end and returned None


@pytest.mark.parametrize("greed", ["hoard", "allocate:600"])
def test_memory_is_limited_and_a_new_worker_goes_on(pool, greed):
    failed, small = grade_all(pool, [greed, "allocate:200"])
    assert failed == Verdict(0.0, failure="memory")
    assert failed.detail == "the response needs more than reward.memory_limit_gb"
    assert small == Verdict(1.0)


def test_what_earlier_responses_left_behind_fails_no_other_one():
    with closing(RewardPool(Leaking(), memory_limit_gb=LIMIT_GB, cache_size=0)) as pool:
        assert {grade.failure for grade in grade_all(pool, ["150"] * 8)} == {""}


def test_without_a_limit_the_same_response_is_graded():
    with closing(RewardPool(Obedient())) as pool:
        assert grade_all(pool, ["allocate:600"]) == [Verdict(1.0)]


def test_a_limit_that_the_reward_does_not_fit_in_is_named_at_start():
    pool = RewardPool(Obedient(), memory_limit_gb=0.001)
    with pytest.raises(RuntimeError, match=r"no room for a response; raise reward\.memory_limit_gb"):
        pool.start()


def test_what_a_reward_prints_goes_to_the_file(pool):
    before = pool.output_file.read_text()
    assert grade_all(pool, ["flood:1000", "1"]) == [Verdict(1.0), Verdict(1.0)]
    assert pool.output_file.read_text().removeprefix(before) == 2 * ("x" * 1000 + "\n")


def test_what_a_reward_prints_does_not_reach_the_terminal():
    done = run_program("""
        pool.submit("a", Prompt("id", ()), Completion("flood:1000"))
        [(_, grade)] = pool.wait(60)
        pool.close()
        print(grade.reward)
    """)
    assert done.stdout == "1.0\n", done.stderr
    assert "x" * 10 not in done.stderr
