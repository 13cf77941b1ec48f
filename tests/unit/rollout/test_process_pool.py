from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
import torch

from ada_lightning.rollout.engines import process_pool
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.engines.host import TrainerProcess
from ada_lightning.rollout.engines.process_pool import ProcessPool
from ada_lightning.rollout.service import RolloutService
from tests.builders import SETTINGS, InstantGrader
from tests.processes import assert_gone, is_gone
from tests.unit.rollout import faulty_engines as engines
from tests.unit.rollout.test_engine_pool import finish
from tests.unit.rollout.test_service import Tokenizer, rollout

ROOT = Path(__file__).parents[3]
WEIGHTS = [
    ("small", torch.arange(6, dtype=torch.float32).reshape(2, 3)),
    ("large", torch.full((1000, 7), 0.5)),
    ("one number", torch.tensor(2.0)),
    ("nothing", torch.empty(0, 3)),
    ("integers", torch.arange(4)),
    ("last", torch.ones(5)),
]


@pytest.fixture
def opened(tmp_path):
    """Opens engines in child processes and leaves none."""
    made = []

    def open_engine(engine, **options):
        limits = {"start_timeout_s": 60, "call_timeout_s": 60, "num_threads": 1}
        made.append(ProcessPool(**(limits | options)).open(engines.as_a_host_opens(engine), tmp_path / "engine.log"))
        return made[-1]

    yield open_engine
    for engine in made:
        engine.close()


def run_all(engine, num=20):
    for index in range(num):
        engine.submit(f"r{index}", [1 + index, 0], SETTINGS, seed=index)
    return finish(engine)


def wait_for_replacement(pool):
    while pool.num_restarts == 0 or not all(seat.is_ready for seat in pool._seats):
        pool._listen(0.1)


def process_of(engine):
    engine.submit("who", [1], SETTINGS, seed=0)
    return finish(engine)["who"].response_ids


def test_the_same_responses_as_in_this_process(opened):
    engine = opened(engines.CoinEngine)
    assert (engine.max_model_tokens, engine.max_num_seqs) == (32, 8)
    assert run_all(engine) == run_all(engines.CoinEngine())
    assert engine.poll() == []


@pytest.mark.long
def test_two_processes_share_the_cores_and_the_weights_and_so_does_one_that_replaces_another(opened, tmp_path):
    pool = opened(engines.TellingEngine, num_engines=2, num_threads=0, affinity=0)
    (first, others), cores = pool.pids(), os.sched_getaffinity(0)
    shares = [os.sched_getaffinity(pid) for pid in (first, others)]
    if len(cores) > 1:
        assert shares[0] & shares[1] == set()
    assert shares[0] | shares[1] <= cores
    assert sorted(path.name for path in tmp_path.iterdir()) == ["engine-0.log", "engine-1.log"]
    pool.load_weights(iter(WEIGHTS), policy_version=3)
    total = sum(float(tensor.sum()) for _, tensor in WEIGHTS)

    def answers():
        for index in range(pool.max_num_seqs):
            pool.submit(f"r{index}", [1 + index], SETTINGS, seed=index)
        return {(g.response_ids[0], g.response_ids[3], g.sampling_logprobs[0]) for g in finish(pool).values()}

    assert answers() == {(pid, max(1, len(cores) // 2), total) for pid in (first, others)}
    os.kill(first, signal.SIGKILL)
    with pytest.warns(RuntimeWarning, match=r"engine 0 broke \(ended by SIGKILL.*being replaced; .*engine-0\.log"):
        wait_for_replacement(pool)
    assert {found[2] for found in answers()} == {total}
    assert len(answers()) == 2


def test_a_poll_waits_for_no_token(opened):
    """One response takes three engine steps of 0.2 s; polls meanwhile return at once."""
    engine = opened(partial(engines.CoinEngine, poll_s=0.2))
    engine.submit("r", [1], SETTINGS, seed=0)
    seconds = []
    while engine.num_in_flight():
        started = time.monotonic()
        engine.poll()
        seconds.append(time.monotonic() - started)
    assert len(seconds) > 10
    assert sorted(seconds)[len(seconds) // 2] < 0.1


@pytest.mark.parametrize(
    ("weight_dtype", "num_bytes"),
    [pytest.param("", 8 + 5 * 4, marks=pytest.mark.long), ("bfloat16", 8 + 5 * 2)],
)
def test_weights_arrive_as_they_were_sent_in_the_engines_type(opened, weight_dtype, num_bytes):
    engine = opened(partial(engines.TellingEngine, weight_dtype=weight_dtype))
    for version in (0, 1):
        named = [(name, tensor * (version + 1)) for name, tensor in WEIGHTS]
        engine.load_weights(iter(named), policy_version=version)
        engine.submit("r", [1], SETTINGS, seed=0)
        generation = finish(engine)["r"]
        assert generation.sampling_logprobs[0] == sum(float(tensor.sum()) for _, tensor in named)
        assert generation.response_ids[-1] == num_bytes


@pytest.mark.filterwarnings("ignore:engine 0 broke")
def test_a_tensor_that_changed_on_its_way_is_an_error(opened, monkeypatch):
    """The memory is overwritten after the checksum was taken."""
    engine = opened(engines.TellingEngine, max_restarts=0)
    place = engine._place
    publish = place.publish

    def overwrite(*weights):
        published = publish(*weights)
        os.pwrite(place._memory.descriptor, b"\1", 100)
        return published

    monkeypatch.setattr(place, "publish", overwrite)
    with pytest.raises(EngineError, match="checksum"):
        engine.load_weights(WEIGHTS, policy_version=0)


@pytest.mark.filterwarnings("ignore:engine 0 broke")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (engines.UnloadableEngine, "shape of lm_head does not fit"),
        (partial(engines.TransferEngine, fails_at="init_weight_transfer_engine"), "RuntimeError: no peer"),
        (partial(engines.TransferEngine, fails_at="update_weights"), "RuntimeError: no peer"),
    ],
)
def test_a_failing_load_reads_every_tensor_to_its_end(opened, make, message):
    """Other training processes take part in gathering each."""
    engine, seen = opened(make, max_restarts=0), []
    named = ((seen.append(name), (name, tensor))[1] for name, tensor in WEIGHTS)
    with pytest.raises(EngineError, match=message):
        engine.load_weights(named, policy_version=0)
    assert seen == [name for name, _ in WEIGHTS]


def test_weights_that_cannot_be_read_are_an_error_and_the_next_ones_are_loaded_whole(opened):
    engine = opened(engines.TellingEngine)

    def named():
        yield WEIGHTS[0]
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        engine.load_weights(named(), policy_version=0)
    engine.load_weights(WEIGHTS, policy_version=1)
    assert len(run_all(engine)) == 20


def test_weights_by_a_transfer_connect_once_and_arrive_cast_in_order(opened):
    engine = opened(partial(engines.TransferEngine, weight_dtype="bfloat16"))
    for version in (1, 2):
        engine.load_weights(iter(WEIGHTS[:2]), policy_version=version)
    update = [
        ("start_weight_update", {}),
        ("update_weights", {"name": "small", "sum": 15.0, "dtype": "torch.bfloat16"}),
        ("update_weights", {"name": "large", "sum": 3500.0, "dtype": "torch.bfloat16"}),
        ("finish_weight_update", {}),
    ]
    engine.submit("r", [1], SETTINGS, seed=0)
    assert finish(engine)["r"].response_ids == (("init_weight_transfer_engine", {"num_workers": 3}), *update, *update)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.mark.filterwarnings("ignore:engine 0 broke")
@pytest.mark.parametrize("transfer_class", [engines.StoreTransfer, engines.UnclosableTransfer])
def test_a_broken_engine_gives_the_port_of_its_transfer_back_to_the_next(opened, transfer_class):
    """Also while somebody still refers to the broken one, as a traceback does; a failing close hides no error."""
    transfer = transfer_class(free_port())
    broken = opened(partial(engines.StoreEngine, transfer=transfer, num_polls_to_live=0))
    broken.load_weights(WEIGHTS, policy_version=-1)
    broken.submit("r", [1], SETTINGS, seed=0)
    is_closable = transfer_class is engines.StoreTransfer
    with (
        nullcontext() if is_closable else pytest.warns(RuntimeWarning, match="not close cleanly: the group is gone"),
        pytest.raises(EngineError, match="no block left"),
    ):
        finish(broken)
    following = opened(partial(engines.StoreEngine, transfer=engines.StoreTransfer(transfer.port)))
    following.load_weights(WEIGHTS, policy_version=-1)
    assert len(run_all(following)) == 20


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (engines.die, "ended by SIGKILL"),
        (engines.run_out_of_memory, "MemoryError: no block left"),
        (engines.hang, "made no progress for [23] s and was killed"),
    ],
)
def test_a_broken_engine_that_may_not_be_replaced_is_an_error_and_leaves_no_process(opened, fault, message):
    engine = opened(partial(engines.FaultyEngine, fault), call_timeout_s=2, max_restarts=0)
    (pid,) = engine.pids()
    engine.submit("r", [1], SETTINGS, seed=0)
    with (
        pytest.warns(RuntimeWarning, match=rf"{message}.*engine\.log may tell more"),
        pytest.raises(EngineError, match=message),
    ):
        finish(engine)
    assert is_gone(pid)
    assert engine.abort(["r"]) == 0
    with pytest.raises(EngineError):
        engine.submit("r", [1], SETTINGS, seed=0)


@pytest.mark.long
def test_time_in_which_nobody_listened_does_not_count(opened):
    engine = opened(partial(engines.CoinEngine, poll_s=0.3), call_timeout_s=2)
    engine.submit("r", [1], SETTINGS, seed=0)
    (pid,) = engine.pids()
    os.killpg(pid, signal.SIGSTOP)  # as a job is that a scheduler suspends
    time.sleep(2.5)
    os.killpg(pid, signal.SIGCONT)
    assert len(finish(engine)) == 1


@pytest.mark.parametrize(
    ("fault", "timeout_s", "message"),
    [(engines.run_out_of_memory, 30, "MemoryError: no block left"), (engines.hang, 1.5, "made no progress for")],
)
def test_an_engine_that_does_not_start_is_an_error(opened, fault, timeout_s, message):
    with pytest.raises(EngineError, match=message):
        opened(partial(engines.FaultyEngine, fault, at_start=True), start_timeout_s=timeout_s)


def test_the_child_knows_nothing_of_the_trainers_rank_and_ignores_ctrl_c(opened, monkeypatch):
    for name, value in (("LOCAL_WORLD_SIZE", "2"), ("TORCHELASTIC_RUN_ID", "x"), ("LD_PRELOAD", "")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as torchrun sets it
    engine = opened(engines.TellingEngine, num_threads=3, environment={"GIVEN": 5})
    pid, ignores, knows, num_threads, given, _ = process_of(engine)
    assert (ignores, knows, num_threads, given) == (1, 0, 3, 5)
    assert os.getpgid(pid) != os.getpgid(0)
    os.kill(pid, signal.SIGINT)
    assert process_of(engine)[0] == pid
    engine.close()
    engine.close()
    assert is_gone(pid)


@pytest.mark.long
def test_a_sync_does_not_write_to_fresh_memory_of_the_child(opened):
    engine = opened(engines.ForgettingEngine)
    weights = [("large", torch.zeros(12 * 2**20))]  # 48 MiB, which the C library would map anew each time
    for version in range(2):
        engine.load_weights(weights, version)
    (num_pages,) = process_of(engine)
    assert num_pages * os.sysconf("SC_PAGE_SIZE") < 12 * 2**20


def test_the_child_ends_with_its_parent_even_in_a_step_that_hangs(tmp_path):
    program = f"""
from pathlib import Path
from ada_lightning.rollout.engines.process_pool import ProcessPool
from ada_lightning.core.records import SamplingSettings
from tests.unit.rollout.faulty_engines import FaultyEngine, completed, hang
engine = ProcessPool(num_threads=1).open(completed(FaultyEngine, fault=hang), Path({str(tmp_path / "engine.log")!r}))
engine.submit("r", [1], SamplingSettings(max_new_tokens=4), seed=0)
print(engine.pids()[0], flush=True)
engine.poll()
import time; time.sleep(100)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    child = int(parent.stdout.readline())
    assert not is_gone(child)
    parent.kill()
    parent.wait()
    assert_gone(child)


@pytest.mark.parametrize("max_restarts", [pytest.param(0, marks=pytest.mark.long), 2])
def test_a_step_in_which_the_child_dies_ends_the_same(tmp_path, max_restarts):
    """The pool replaces it, or where that may not, the service opens another pool and repeats the step."""
    host = ProcessPool(call_timeout_s=60, num_threads=1, max_restarts=max_restarts)
    services = [
        RolloutService(engine=engine, sampling=SETTINGS, max_model_tokens=32, seed=0, host=place)
        for engine, place in (
            (lambda **completed: engines.CoinEngine(), TrainerProcess()),
            (engines.FirstDies(tmp_path / "died"), host),
        )
    ]
    results = []
    for service in services:
        service.check()
        service.open(
            model_path=Path(), tokenizer=Tokenizer(), eos_token_ids=[2], grader=InstantGrader(),
            log_file=tmp_path / "engine.log",
        )  # fmt: skip
        with pytest.warns(RuntimeWarning, match="ended by SIGKILL") if results else nullcontext():
            results.append(rollout(service, 4).groups)
        num_restarts = service.engine.num_restarts
        service.close()
    assert results[0] == results[1]
    assert num_restarts == 1


def test_more_engines_than_cores_are_refused_before_a_model_loads(monkeypatch):
    monkeypatch.setattr(process_pool, "num_cores", lambda: 4)
    ProcessPool(num_engines=4).check()
    ProcessPool(num_engines=1, num_threads=8).check()
    with pytest.raises(ValueError, match=r"num_engines = 3 .*num_threads = 2 needs 6 cores, .* gives 4"):
        ProcessPool(num_engines=3, num_threads=2).check()
