from __future__ import annotations

import pytest

from ada_lightning import malloc
from ada_lightning.malloc import FreedMemory, keep_freed_memory

GIB = 2**30


class Library:
    """Counts what is given back."""

    num_trims = 0

    def malloc_trim(self, padding):
        Library.num_trims += 1


@pytest.fixture
def trims_at(monkeypatch):
    """Run steps with the given resident sizes in GiB; returns the steps after which pages were given back."""

    def run(sizes):
        monkeypatch.setattr(malloc.ctypes, "CDLL", lambda name: Library())
        freed, trims = FreedMemory(max_growth_gib=1.0), []
        for step, size in enumerate(sizes):
            monkeypatch.setattr(malloc, "_resident_bytes", lambda size=size: int(size * GIB))
            before = Library.num_trims
            freed.end_step()
            trims += [step] * (Library.num_trims - before)
        return trims

    return run


def test_pages_are_given_back_only_after_growth(trims_at):
    assert trims_at([4.0, 4.5, 4.9, 5.0, 4.2]) == []
    assert trims_at([4.0, 4.5, 5.1, 4.0, 4.5, 5.2]) == [2, 5]


def test_the_real_library_takes_both_calls():
    assert keep_freed_memory()
    freed = FreedMemory(max_growth_gib=-1.0)
    freed.end_step()
    freed.end_step()  # grown by more than -1 GiB: calls malloc_trim for real
    assert freed._baseline == 0
    assert malloc._resident_bytes() > 10**6
