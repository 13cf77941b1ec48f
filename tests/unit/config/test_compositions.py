"""Every option, experiment and documented command line composes what it did when it was recorded."""

from __future__ import annotations

import gzip
import json

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


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_command_line_composes_what_it_did(name):
    case = CASES[name]
    program, overrides = case["program"], case["overrides"]
    changes = difference(program, overrides) if overrides else {k: [v] for k, v in written(program, ()).items()}
    different = {
        key: (case["changes"].get(key, ["as plain"]), changes.get(key, ["as plain"]))
        for key in case["changes"].keys() | changes.keys()
        if not same(key, case["changes"].get(key), changes.get(key))
    }
    assert different == {}
