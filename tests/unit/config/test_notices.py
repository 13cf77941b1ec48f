from __future__ import annotations

import pytest

from ada_lightning.config.notices import settings_notices
from ada_lightning.config.setup import Setup
from tests.unit.config.composing import composed


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["data.prompts_per_step=512"], ["estimator.num_visits = 512", "estimator.drift_visits = 256"]),
        (
            ["data.prompts_per_step=256"],
            ["estimator.drift_visits = 256 counts prompts sampled"],
        ),
        (["data.prompts_per_step=512", "estimator.num_visits=2048", "estimator.drift_visits=2048"], []),
        (["data.prompts_per_step=128"], []),
    ],
)
def test_a_step_that_is_all_the_memory_there_is(overrides, said):
    found = list(settings_notices(Setup(composed("+experiment=ada_similar", *overrides))))
    assert len(found) == len(said)
    assert all(notice.startswith(start) for notice, start in zip(found, said, strict=True))


def test_other_estimators_count_no_time_in_prompts():
    assert list(settings_notices(Setup(composed("+experiment=ada", "data.prompts_per_step=4096")))) == []
