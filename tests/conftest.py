from __future__ import annotations

import os

# Workers that run side by side share the cores. Not in the process that starts them: they would inherit its number, and
# two processes of two threads on two cores wait for each other a hundred times as long as they compute.
if workers := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // int(workers))))

import pytest
from hypothesis import settings

from tests.heap import settle_imports
from tests.thinned import leave_for_later

settings.register_profile("here", max_examples=30, deadline=None)  # a busy machine is no failure
settings.load_profile("here")


def pytest_itemcollected(item):
    """With ``--dist loadgroup``, tests that share what takes long to make go to one worker: it is made once.

    Marked here, before xdist reads the marks in its own ``pytest_collection_modifyitems``.
    """
    if shared := {"programs", "pair"} & set(getattr(item, "fixturenames", ())):  # processes that take long to start
        item.add_marker(pytest.mark.xdist_group("-".join(sorted(shared))))
        return
    definitions = getattr(item, "_fixtureinfo", None)
    made = definitions.name2fixturedefs.values() if definitions else ()
    if any(fixture.scope == "module" for fixtures in made for fixture in fixtures):
        item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is marked
def pytest_collection_modifyitems(items):
    """Whole runs come first: short tests then fill the time until the last worker is through."""
    leave_for_later(items)
    items.sort(key=lambda item: "integration" not in item.path.parts)


def pytest_runtest_setup():
    settle_imports()


@pytest.fixture(scope="session", autouse=True)
def _composes_once():
    from tests.composed_once import compose_once

    undo = compose_once()
    yield
    undo()


@pytest.fixture(scope="session")
def tiny_path():
    """Folder of the tiny model, prepared once."""
    from ada_lightning.training.models.tiny import TinyLlama

    return TinyLlama(seed=0).prepare()


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Starts this project's programs without the seconds of their imports."""
    from tests.integration.warm import Warm

    warm = Warm(tmp_path_factory.mktemp("programs"))
    yield warm
    warm.close()
