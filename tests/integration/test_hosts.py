"""Engines on hosts of their own: network namespaces of this machine, with a real network between them."""

from __future__ import annotations

import os
import re
import subprocess
import time
from dataclasses import dataclass

import pytest

from research.hosts.cluster import TRANSFORMERS, Training, cluster, column, differences
from research.hosts.network import network, wait_for, why_not
from tests.integration.conftest import ROOT

ASKED = "TEST_HOSTS"
"""Set to 1 to run these tests: alone on a machine they take two minutes, next to others Ray may not start in time."""
WHY_NOT = why_not() if os.environ.get(ASKED) == "1" else f"runs alone: {ASKED}=1 pytest tests/integration/test_hosts.py"
pytestmark = [pytest.mark.vllm, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "hosts can be made")]

OPTIONS = ("num_steps=4", "rollout.sampling.max_new_tokens=24", "rollout.engine.max_num_seqs=4", "+optimizer.eps=1e-3")
"""Enough tokens for a fault to come in the middle of a rollout. Adam makes whole steps of gradients that are rounding
alone, unless its ``eps`` is larger than those."""
CUT, KILLED = "rollout-1", "rollout-2"
CUT_S = 4


@dataclass(frozen=True)
class Broken:
    """A run whose engine on ``c`` was cut off in one rollout, and killed in the next."""

    compared: dict[str, float]
    """With a run on one host that nothing broke."""
    seconds: list[float]
    """Of each rollout."""
    printed: str


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """Both runs at once: the one on one host needs no Ray, whose start takes a while."""
    pytest.importorskip("ray")
    with cluster(folder=tmp_path_factory.mktemp("hosts")) as ray:
        options = ("rollout=vllm_process", "rollout.host.num_threads=1", *TRANSFORMERS, *OPTIONS)
        alone = Training(ray.hosts["a"], ray.folder, "alone", options)
        ray.start("b", "c")
        moments = (
            "+callbacks.moments._target_=research.hosts.moments.Moments", f"+callbacks.moments.folder={ray.folder}",
            "+callbacks.moments.host=c", "+callbacks.moments.num_hosts=2",
            f"+callbacks.moments.wanted=[{CUT},{KILLED}]",
        )  # fmt: skip
        run = ray.train("broken", *OPTIONS, *moments, engine=TRANSFORMERS)
        when(run, CUT)
        ray.hosts.cut("c")
        (ray.folder / f"{CUT}.go").touch()
        time.sleep(CUT_S)
        ray.hosts.mend("c")
        when(run, KILLED)
        ray.hosts["c"].kill()
        (ray.folder / f"{KILLED}.go").touch()
        compared = differences(run.finish(200), alone.finish(200))
        yield Broken(compared, column(run.run_dir, "time/rollout_s"), run.printed())


def when(run, moment):
    """Wait for it; the run then waits for ``.go``."""
    file = run.run_dir.parent / moment
    wait_for(lambda: file.exists() or run.process.poll() is not None, 200, moment)
    assert file.exists(), run.printed()[-4000:]


def test_a_run_with_engines_on_other_hosts_is_that_of_one_host(broken):
    assert broken.compared["responses"] > 30
    assert broken.compared["weights"] < 1e-5
    assert broken.compared["logprob_gap"] < 1e-4


def test_a_host_that_is_cut_off_for_some_seconds_costs_nothing_but_these(broken):
    """The step waits, by the clock of the one that cuts."""
    assert broken.seconds[1] > CUT_S - 1
    assert (broken.compared["missing"], broken.compared["twice"], broken.compared["differ"]) == (0, 0, 0)


def test_a_host_that_is_killed_is_named_and_the_other_one_does_its_work(broken):
    line = r"engine \d on c \([\d.]+\) broke .* unfinished requests, which others finish"
    assert len(re.findall(line, broken.printed)) == 1  # the cut broke nothing


def test_nothing_listens_on_the_machine_itself_and_all_ends_with_the_block():
    with network(("a", "b")) as hosts:
        listening = hosts["a"].start("python", "-m", "http.server", "8123", log=ROOT / "/dev/null")
        asked = ("import socket; socket.create_connection(('a', 8123), 5)",)
        for _ in range(50):
            try:
                hosts["b"].run("python", "-c", *asked)
                break
            except RuntimeError:
                time.sleep(0.2)
        else:
            raise AssertionError("b does not reach a")
        outside = subprocess.run(["ip", "-brief", "address"], capture_output=True, text=True, check=True).stdout
        assert hosts["a"].address not in outside
        hosts.cut("a")
        with pytest.raises(RuntimeError, match=r"timed out|No route"):
            hosts["b"].run("python", "-c", asked[0])
    assert listening.wait(10) != 0
