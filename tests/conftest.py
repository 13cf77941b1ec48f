from __future__ import annotations

import os

# Workers that run side by side share the cores.
os.environ.setdefault(
    "OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))))
)

import pytest


@pytest.fixture(scope="session")
def tiny_path():
    """Folder of the tiny model, prepared once."""
    from ada_lightning.models.tiny import TinyLlama

    return TinyLlama(seed=0).prepare()
