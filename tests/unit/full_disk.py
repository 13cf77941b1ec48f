"""A file layer without room: writes beyond a size take what fits, then fail, as on a full disk."""

from __future__ import annotations

import resource
from contextlib import contextmanager


@contextmanager
def files_end_at(num_bytes):
    """No file of this process grows beyond ``num_bytes``; Python ignores the signal that comes with it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
