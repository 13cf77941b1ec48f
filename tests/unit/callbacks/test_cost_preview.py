from __future__ import annotations

from types import SimpleNamespace

import pytest

from ada_lightning.callbacks.cost_preview import (
    CostPreview,
    StepCosts,
    computes_all_groups,
    expected_prompts,
    tallies,
    trained_tokens,
    update_passes,
)
from ada_lightning.core.records import Prompt
from ada_lightning.core.step_records import RolloutResult, RolloutStats
from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.methods.advantages import GroupNormalizedAdvantage, HistoryBaselineAdvantage
from ada_lightning.methods.curriculum import UniformCurriculum
from ada_lightning.methods.published.greso import AdaptiveDynamicSampling
from ada_lightning.methods.refill import DynamicSampling, NoRefill
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.methods.sampling.forecast import Forecast
from ada_lightning.methods.selection import AllSelection
from ada_lightning.rollout.engine_speed import EngineSpeed
from ada_lightning.rollout.grader import FirstGrades
from ada_lightning.run.phase_clock import PhaseClock
from tests.builders import make_group


@pytest.mark.parametrize(
    ("refill", "signal_ratio", "expected"),
    [
        (NoRefill(), 0.5, 32),
        (DynamicSampling(refill_ratio=0.0), 0.5, 64),
        (DynamicSampling(refill_ratio=1.0), 0.3, 128),  # 96 have 28.8
        (DynamicSampling(oversampling=3, refill_ratio=3, max_ratio=30), 0.5, 96),
        (DynamicSampling(), 0.0, 320),
        (AdaptiveDynamicSampling(), 0.5, 68),  # 48 have 24; 8 missing, 20 more
    ],
)
def test_a_filled_up_step_is_forecast_by_its_own_waves(refill, signal_ratio, expected):
    assert expected_prompts(refill, 32, signal_ratio) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 1),
        ({"num_minibatches": 4}, 4 / 3),  # all responses once more, forward alone, before the first update
        ({"epochs_per_rollout": 2}, 7 / 3),
        ({"num_minibatches": 4, "epochs_per_rollout": 2}, 7 / 3),
    ],
)
def test_the_update_is_forecast_with_all_its_passes(options, expected):
    data = RolloutDataModule(source=None, prompts_per_step=8, max_prompt_tokens=8, num_steps=1, seed=0, **options)
    assert update_passes(data) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("advantage", "needs_all", "skips", "expected"),
    [
        (GroupNormalizedAdvantage(), False, True, False),
        (GroupNormalizedAdvantage(), True, True, True),  # KL, entropy, flowrl, a baseline from history
        (GroupNormalizedAdvantage(), False, False, True),  # data.skip_groups_without_signal=false
        (HistoryBaselineAdvantage(), False, True, True),  # assigned: experiment=ada
    ],
)
def test_groups_of_equal_rewards_count_where_the_update_computes_them(advantage, needs_all, skips, expected):
    policy = SimpleNamespace(advantage=advantage, needs_groups_without_signal=needs_all)
    assert computes_all_groups(policy, SimpleNamespace(skip_groups_without_signal=skips)) is expected


def test_a_prompt_is_computed_once_where_it_is_shared_whether_it_has_a_signal_or_not():
    expected = Forecast(num_sampled=4, num_trained=4, signal_ratio=0.25, trained_ratio=1.0)
    assert trained_tokens(expected, prompt_tokens=10, response_tokens=5, share_prompts=True) == 30
    assert trained_tokens(expected, prompt_tokens=10, response_tokens=5, share_prompts=False) == 60


LENGTH = 8


class Service:
    """An engine that takes its time by rule, and far longer while it is cold."""

    def __init__(self, *, per_step, per_token, num_slots, right_from=0):
        self.per_step, self.per_token, self.num_slots, self.right_from = per_step, per_token, num_slots, right_from
        self.first_grades = FirstGrades(None)
        self.num_rollouts = 0
        self.engine = SimpleNamespace(
            opened=lambda: SimpleNamespace(max_num_seqs=num_slots), weights_of=lambda policy: None
        )

    def sample(self, begin, **others):
        (prompts,), sampler, step = begin.args, begin.keywords["sampler"], begin.keywords["step"]
        right = float(self.num_rollouts >= self.right_from)
        groups = tuple(group_of(prompt, slot, sampler.group_size, right) for slot, prompt in enumerate(prompts))
        num_tokens = len(prompts) * sampler.group_size * LENGTH
        num_steps = LENGTH * -(-len(prompts) * sampler.group_size // self.num_slots)
        self.num_rollouts += 1
        seconds = num_steps * self.per_step + num_tokens * self.per_token + (100.0 if self.num_rollouts == 1 else 0.0)
        stats = RolloutStats(num_drawn=num_tokens // LENGTH, generated_tokens=num_tokens, seconds=seconds)
        return SimpleNamespace(result=lambda: RolloutResult(step, 0, groups, stats))


def group_of(prompt, slot, num_responses, right=1.0):
    group = make_group([right * (index % 2) for index in range(num_responses)], num_tokens=[LENGTH] * num_responses)
    group.pool.prompt, group.pool.slot = prompt, slot
    return group


def printed(capsys, speed, group_size, curriculum=None):
    """Preview 16 prompts of a step by 4 of them with 2 responses each."""
    prompts = [Prompt(f"p{index}", (), (1, 2)) for index in range(16)]
    data = RolloutDataModule(
        source=None, prompts_per_step=16, max_prompt_tokens=8, num_steps=1, seed=0, curriculum=curriculum
    )
    data.train_prompts = prompts
    policy = SimpleNamespace(
        policy_version=0, engine_weights=None, clock=PhaseClock(), interrupt_check=None, rehearse=lambda batch: None,
        ranks=SimpleNamespace(num_replicas=1), advantage=GroupNormalizedAdvantage(), needs_groups_without_signal=False,
        loss=SimpleNamespace(needs_groups_without_signal=False),
    )  # fmt: skip
    preview = CostPreview(
        service=Service(**speed), sampler=UniformSampler(group_size=group_size), selection=AllSelection(),
        num_prompts=4, num_samples=2,
    )  # fmt: skip
    preview._preview(policy, data)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("speed", "group_size", "expected"),
    [
        ({"per_step": 0.125, "per_token": 0.0, "num_slots": 64}, 4, "1.0s"),  # as long for 64 as for 4
        ({"per_step": 0.125, "per_token": 0.0, "num_slots": 32}, 4, "2.0s"),
        ({"per_step": 0.125, "per_token": 0.0625, "num_slots": 64}, 4, "33.0s"),
        ({"per_step": 0.0, "per_token": 0.0625, "num_slots": 16}, 8, "64.0s"),
    ],
)
def test_seconds_of_a_rollout_are_those_of_a_warm_engine_with_as_many_sequences(speed, group_size, expected, capsys):
    """16 prompts of 4 or 8 responses of 8 tokens, from 4 prompts of 2 responses that a cold engine took 100 s for."""
    out = printed(capsys, speed, group_size)
    # 2 of each, 1 of a quarter of them, and as many of each as fill the step or the slots
    num_responses = 8 + 1 + 4 * min(4 * group_size, speed["num_slots"] // 4)
    assert f"preview: 4 prompts, {num_responses} responses, {LENGTH} tokens each" in out
    (this_run,) = [line.split() for line in out.splitlines() if "this run" in line]
    assert this_run[2:5] == [str(16 * group_size), str(16 * group_size * LENGTH), expected]


@pytest.mark.parametrize(("right_from", "is_said"), [(0, False), (2, False), (3, True)])
def test_rewards_are_called_equal_where_those_of_all_rollouts_are(right_from, is_said, capsys):
    """The last of three rollouts has most of the responses: 64 of 73, of which half may be right."""
    out = printed(capsys, {"per_step": 0.125, "per_token": 0.0, "num_slots": 64, "right_from": right_from}, 4)
    assert ("warning: all 73 rewards of the preview are 0, so there is nothing to learn from" in out) == is_said
    assert ("rewards of the preview" in out) == is_said


def test_what_a_curriculum_will_have_learned_is_not_forecast_and_said_so(capsys):
    class Learning(UniformCurriculum):
        def observe(self, pools):
            raise AssertionError("a preview is no step")

    speed, line = {"per_step": 0.125, "per_token": 0.0, "num_slots": 64}, "the run will choose prompts by what it"
    assert line in printed(capsys, speed, 4, Learning())
    assert line not in printed(capsys, speed, 4)


def test_all_responses_to_a_prompt_count_together():
    prompt, other = Prompt("p", (), (1,)), Prompt("q", (), (1,))
    rollouts = [(group_of(prompt, 0, 4), group_of(other, 1, 2)), (group_of(prompt, 0, 3),)]
    results = [RolloutResult(0, 0, groups, RolloutStats()) for groups in rollouts]
    assert tallies(results) == [(3, 7), (1, 2)]


def test_an_update_is_as_uncertain_as_the_share_of_prompts_with_a_signal():
    costs = StepCosts(
        engine=EngineSpeed(seconds_per_step=0.0, seconds_per_token=0.25, num_slots=8), response_tokens=10.0,
        computed_share=1.0, longest_response=10, prompt_tokens=20.0, update_tokens_per_s=15.0, share_prompts=True,
    )  # fmt: skip
    steps = [
        Forecast(num_sampled=4, num_trained=4 * share, signal_ratio=share, trained_ratio=share)
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    # A prompt that trains has 20 + 4 * 10 tokens, 4 s; 10 and 90 % of five evenly spaced values are 0.1 and 0.9.
    assert costs.row("this run", steps, 8).split()[2:] == ["32", "320", "80.0s", "3.2-28.8s", "10-90%"]
    assert costs.row("this run", steps[2:3], 8).split()[-2:] == ["16.0s", "50%"]
