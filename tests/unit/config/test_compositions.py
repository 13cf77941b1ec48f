"""Every option, experiment and documented command line composes what it did when it was recorded."""

from __future__ import annotations

import gzip
import json
import re

import pytest

from ada_lightning.config.keys import locate
from tests.unit.config.compositions import RECORDED, difference, written

CASES = json.loads(gzip.decompress(RECORDED.read_bytes()))


def same(key, before, now):
    """A class may have moved; a name by which it was stored still leads to it."""
    return located(key, before) == located(key, now)


def located(key, value):
    """The value, with classes in the place of their names."""
    if isinstance(value, dict):
        return {name: located(name, each) for name, each in value.items()}
    if isinstance(value, list):
        return [located(key, each) for each in value]
    return locate(value) if key.rpartition(".")[2] == "_target_" and isinstance(value, str) else value


def heads(case):
    """The parts of a configuration that a command line names or changes."""
    return {re.split("[./=]", word.lstrip("+~"))[0] for word in (*case["overrides"], *case["changes"])}


def together():
    """Command lines as lists of cases: options of different parts are composed at once, an experiment alone."""
    alone, rows = [], []
    for name, case in sorted(CASES.items()):
        if case["program"] != "train" or not case["overrides"] or "experiment" in heads(case):
            alone.append([name])
        elif fitting := [row for row in rows if all(heads(case).isdisjoint(heads(CASES[other])) for other in row)]:
            fitting[0].append(name)
        else:
            rows.append([name])
    return alone + rows


@pytest.mark.thinned(70)
@pytest.mark.parametrize("names", together(), ids=" + ".join)
def test_a_command_line_composes_what_it_did(names):
    cases = [CASES[name] for name in names]
    program, overrides = cases[0]["program"], [word for case in cases for word in case["overrides"]]
    before = {key: value for case in cases for key, value in case["changes"].items()}
    changes = difference(program, overrides) if overrides else {k: [v] for k, v in written(program, ()).items()}
    different = {
        key: (before.get(key, ["as plain"]), changes.get(key, ["as plain"]))
        for key in before.keys() | changes.keys()
        if not same(key, before.get(key), changes.get(key))
    }
    assert different == {}
