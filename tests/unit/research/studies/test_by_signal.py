"""Distributions of pass rates by the share of groups with a signal."""

import pytest

from research.studies import by_signal
from research.studies.choose import DRAWN


@pytest.mark.parametrize(
    ("right", "share"),
    [(0, 0.0), (DRAWN, 0.0), (1, 4 / 16), (8, 1 - 2 * (8 * 7 * 6 * 5) / (16 * 15 * 14 * 13))],
)
def test_the_share_is_that_of_four_responses_drawn_of_sixteen(right, share):
    seen = [float(count == right) for count in range(DRAWN + 1)]
    assert by_signal.signal_share(seen) == pytest.approx(share)


def test_every_distribution_is_in_one_row_and_the_page_says_what_the_rows_say():
    rows = [line.split("|") for line in by_signal.table().splitlines()[2:]]
    assert sum(int(row[2]) for row in rows) == len(by_signal.costs(1.0)) == 203
    above = [cost for share, cost in by_signal.costs(1.0) if share >= 0.7]
    assert min(above) >= 0.85 - 0.005  # "none of them saves more than 15 %"
    below = [float(row[3].split()[0]) for row in rows[:3]]
    assert max(below) <= 0.75  # "the median saves a quarter or more"
