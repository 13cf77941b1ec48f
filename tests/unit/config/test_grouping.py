"""Tests that share what takes long to make stay together, which pytest-xdist has once stopped doing without a word."""

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
