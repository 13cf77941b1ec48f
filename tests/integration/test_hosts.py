"""Engines on hosts of their own: network namespaces of this machine, with a real network between them."""

from __future__ import annotations

import os
import re
import subprocess
import time

import pytest

from research.hosts.cluster import TRANSFORMERS, Training, cluster, differences
from research.hosts.faults import Fault, fill
from research.hosts.network import network, why_not
from tests.integration.conftest import ROOT

ASKED = "TEST_HOSTS"
"""Set to 1 to run these tests: alone on a machine they take three minutes, next to others Ray may not start in time."""
WHY_NOT = why_not() if os.environ.get(ASKED) == "1" else f"runs alone: {ASKED}=1 pytest tests/integration/test_hosts.py"
pytestmark = [pytest.mark.vllm, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "hosts can be made")]

OPTIONS = ("num_steps=3", "rollout.sampling.max_new_tokens=24", "rollout.engine.max_num_seqs=4", "+optimizer.eps=1e-3")
"""Enough tokens for a fault to come in the middle of a rollout. Adam makes whole steps of gradients that are rounding
alone, unless its ``eps`` is larger than those."""


@pytest.fixture(scope="module")
def ray(tmp_path_factory):
    pytest.importorskip("ray")
    with cluster(folder=tmp_path_factory.mktemp("hosts")) as made:
        made.start("b", "c")
        yield made


@pytest.fixture(scope="module")
def undisturbed(ray):
    return ray.train("undisturbed", *OPTIONS, engine=TRANSFORMERS).finish(200)


def test_a_run_with_engines_on_other_hosts_is_that_of_one_host(ray, undisturbed):
    options = ("rollout=vllm_process", "rollout.host.num_threads=1", *TRANSFORMERS, *OPTIONS)
    alone = Training(ray.hosts["a"], ray.folder, "alone", options).finish(200)
    found = differences(undisturbed, alone)
    assert found["responses"] > 30
    assert (found["missing"], found["twice"], found["differ"]) == (0, 0, 0)
    assert found["weights"] < 1e-5
    assert found["logprob_gap"] < 1e-4


def test_a_host_that_is_cut_off_for_some_seconds_costs_nothing_but_these(ray, undisturbed):
    """The step waits, by the clock of the one that cuts."""

    def mend(ray):
        time.sleep(4)
        ray.hosts.mend("c")

    fault = Fault("cut", "rollout-1", lambda ray: ray.hosts.cut("c"), mend)
    row = fill(ray, "cut", fault, undisturbed, OPTIONS, engine=TRANSFORMERS)
    assert (row["lost"], row["twice"], row["old_weights"]) == (0, 0, 0)
    assert row["seconds"] > 3
    assert row["logprob_gap"] < 1e-4


def test_a_host_that_is_killed_is_named_and_the_other_one_does_its_work(ray, undisturbed):
    fault = Fault("killed", "rollout-1", lambda ray: (ray.hosts["c"].kill(), None)[1])
    row = fill(ray, "killed", fault, undisturbed, OPTIONS, engine=TRANSFORMERS)
    assert (row["lost"], row["twice"], row["old_weights"]) == (0, 0, 0)
    assert row["logprob_gap"] < 1e-4
    assert re.search(r"engine \d on c \([\d.]+\) broke .* unfinished requests, which others finish", row["line"])


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
