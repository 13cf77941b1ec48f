"""Of tests with many cases, ``make test`` runs some; ``make test-all`` runs all."""

from __future__ import annotations

import random

import pytest


def leave_for_later(items):
    """Mark as ``long`` all cases but so many of each test that is marked ``thinned(number)``.

    Those that stay are the same on every machine. Cases with values that none before them had come first.
    """
    families = {}
    for item in items:
        if item.get_closest_marker("thinned"):
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, cases in families.items():
        [number] = cases[0].get_closest_marker("thinned").args
        random.Random(name).shuffle(cases)
        seen = set()
        for _ in range(number):
            best = max(cases, key=lambda case: len(_values(case) - seen))
            seen |= _values(best)
            cases.remove(best)
        for case in cases:
            case.add_marker(pytest.mark.long)


def _values(case):
    return {(name, repr(value)) for name, value in case.callspec.params.items()}
