import itertools
from types import SimpleNamespace

import pytest

from tests.thinned import leave_for_later


def case(number, name="test.py::test_a", **params):
    found = SimpleNamespace(nodeid=f"{name}[{params}]", callspec=SimpleNamespace(params=params), marks=[])
    found.get_closest_marker = lambda _: number and pytest.mark.thinned(number).mark
    found.add_marker = lambda mark: found.marks.append(mark.name)
    return found


def test_so_many_cases_stay_with_every_value_and_the_same_ones_every_time():
    kept = []
    for _ in range(2):
        grid = [case(4, x=x, y=y) for x, y in itertools.product(range(4), range(3))]
        others = [case(2, "test.py::test_b", x=x) for x in range(5)]
        plain = [case(None, "test.py::test_c", x=x) for x in range(5)]
        leave_for_later([*others, *grid, *plain])
        stay = [[each.callspec.params for each in cases if not each.marks] for cases in (grid, others, plain)]
        assert list(map(len, stay)) == [4, 2, 5]
        assert {params["x"] for params in stay[0]} == {0, 1, 2, 3}
        assert {params["y"] for params in stay[0]} == {0, 1, 2}
        assert {mark for each in [*grid, *others] for mark in each.marks} == {"long"}
        kept.append(stay)
    assert kept[0] == kept[1]


def test_more_than_there_are_is_a_mistake():
    with pytest.raises(ValueError, match="empty"):
        leave_for_later([case(3, x=0), case(3, x=1)])
