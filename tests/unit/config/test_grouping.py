"""What pytest-xdist has stopped doing without a word: tests that share something stay together, workers the cores."""

import os

import pytest


@pytest.fixture(scope="module")
def made_once():
    return os.getpid()


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="there is one process")
def test_the_group_of_a_test_is_part_of_its_id(made_once, request):
    assert not request.config.getvalue("loadgroup") or request.node.nodeid.endswith(
        "@tests/unit/config/test_grouping.py"
    )


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="there is one process")
def test_workers_share_the_cores():
    """Threads that outnumber the cores wait for each other: a test of a tenth of a second took five."""
    num_workers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    assert int(os.environ["OMP_NUM_THREADS"]) == max(1, os.cpu_count() // num_workers)
