from __future__ import annotations

import pytest

from ada_lightning.config.notices import _percentage_notices, settings_notices
from ada_lightning.config.view import ConfigView
from ada_lightning.rewards.combined import CombinedReward
from ada_lightning.rewards.function import FunctionReward
from tests.unit.config.composing import composed
from tests.unit.rewards.calls_math_verify import grade


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["data.prompts_per_step=512"], ["estimator.num_visits = 512", "estimator.drift_visits = 256"]),
        (
            ["data.prompts_per_step=256"],
            ["estimator.drift_visits = 256 counts sampled prompts"],
        ),
        (["data.prompts_per_step=512", "estimator.num_visits=2048", "estimator.drift_visits=2048"], []),
        (["data.prompts_per_step=128"], []),
    ],
)
def test_a_step_that_is_all_the_memory_there_is(overrides, said):
    found = list(settings_notices(ConfigView(composed("+experiment=ada_similar", *overrides))))
    assert len(found) == len(said)
    assert all(notice.startswith(start) for notice, start in zip(found, said, strict=True))


def test_other_estimators_count_no_time_in_prompts():
    assert list(settings_notices(ConfigView(composed("+experiment=ada", "data.prompts_per_step=4096")))) == []


CALLS = "tests.unit.rewards.calls_math_verify.grade"


@pytest.mark.parametrize(
    ("overrides", "is_said"),
    [
        (["reward=function", f"reward.reward.path={CALLS}"], True),
        (["reward=function", "reward.reward.path=tests.unit.rewards.user_functions.by_column"], False),
        (["reward=function", "reward.reward.path=no.such.function"], False),  # the check says that
        (["reward=math"], False),  # whose parser is another
        (None, True),  # inside of another reward
    ],
)
def test_a_function_that_calls_math_verify_is_told_of_its_percentages(overrides, is_said):
    assert grade("$50\\%$", "$0.5$") == 0.0  # and 1.0 where Hydra is not installed
    assert grade("$\\frac{1}{2}$", "$0.5$") == 1.0
    if overrides is None:
        found = list(_percentage_notices(CombinedReward({"": CombinedReward({"inner": FunctionReward(CALLS)})})))
    else:
        found = [text for text in settings_notices(ConfigView(composed(*overrides))) if "math-verify" in text]
    assert len(found) == is_said
    assert all(text.startswith(f"{CALLS} calls math-verify: ") and "takes 50\\% for 50" in text for text in found)
