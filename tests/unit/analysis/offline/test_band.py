from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from hydra.utils import instantiate

from ada_lightning.analysis.offline.band import PassRateBand
from ada_lightning.methods.catalog import entries, names

CONF = Path(__file__).parents[4] / "conf"


def preset(name):
    return instantiate(entries()[f"band/{name}"].node)


def kept(band, num_counted, counts=None):
    """Numbers of positives that are kept, of all there can be or of some."""
    counts = list(range(num_counted + 1)) if counts is None else counts
    keeps = band.keeps(pd.DataFrame({"num_positive": counts, "num_counted": num_counted}))
    return [count for count, is_kept in zip(counts, keeps, strict=True) if is_kept]


@pytest.mark.parametrize(
    ("name", "num_samples", "counts"),
    [
        ("hard", 16, [1, 2]),
        ("easy", 16, [1, 2, 3, 4, 5]),
        ("paper_v3", 16, [1, 2, 3, 4, 5, 6]),
        ("solved", 16, list(range(1, 17))),
        ("all", 16, list(range(17))),
        ("hard", 8, [1]),
        ("hard", 32, [1, 2, 3, 4]),
        ("easy", 8, [1, 2]),
        ("easy", 32, list(range(1, 11))),
        ("paper_v3", 8, [1, 2, 3]),
    ],
)
def test_presets_keep_the_published_counts_and_the_like_for_other_numbers_of_samples(name, num_samples, counts):
    preset(name).check_samples(num_samples)
    assert kept(preset(name), num_samples) == counts


def test_every_preset_is_known_here():
    assert names(CONF, "band") == ["all", "easy", "hard", "paper_v3", "solved"]


def test_bounds_are_included_and_combine_and_a_rate_is_over_what_could_be_graded():
    band = PassRateBand(min_positive=2, max_positive=6, min_pass_rate=0.3, max_pass_rate=0.5)
    assert kept(band, 10) == [3, 4, 5]  # 3 / 10 is not below 0.3
    assert kept(band, 20) == [6]
    assert kept(PassRateBand(max_positive=0), 4) == [0]
    assert (kept(preset("hard"), 16, [2]), kept(preset("hard"), 15, [2])) == ([2], [])  # 2 / 15 is 0.133
    assert kept(PassRateBand(), 0) == []  # without evidence in no band


@pytest.mark.parametrize(("name", "num_samples"), [("hard", 4), ("hard", 7), ("easy", 3)])
def test_a_band_that_no_prompt_can_be_in_is_said_beforehand(name, num_samples):
    with pytest.raises(ValueError, match=rf"keeps no prompt with num_samples = {num_samples}: .*1 <= positives, pass"):
        preset(name).check_samples(num_samples)


def test_impossible_bounds_are_refused_together():
    with pytest.raises(ValueError, match=r"min_positive must not be negative; got -1.*min_pass_rate = 0.6, max_pass"):
        PassRateBand(min_positive=-1, min_pass_rate=0.6, max_pass_rate=0.5)
    with pytest.raises(ValueError, match=r"max_positive = 1 is below band\.min_positive = 2"):
        PassRateBand(min_positive=2, max_positive=1)
