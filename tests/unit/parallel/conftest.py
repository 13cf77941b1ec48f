from __future__ import annotations

import pytest

from tests.unit.parallel.pair import Pair


@pytest.fixture(scope="session")
def pair():
    """Two processes for all tests of the folder: starting them costs more than most tests."""
    started = Pair()
    yield started
    started.close()
