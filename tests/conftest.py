from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

import pytest


@pytest.fixture(scope="session")
def tiny_path():
    """Folder of the tiny model, prepared once."""
    from ada_lightning.models.tiny import TinyLlama

    return TinyLlama(seed=0).prepare()
