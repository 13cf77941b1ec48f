"""Whole runs that fill their steps up, with real trainer and checkpoints and scripted responses."""

from __future__ import annotations

import pytest
import torch

from ada_lightning.core.method import Method
from ada_lightning.core.records import SamplingSettings
from ada_lightning.methods.advantages import GroupNormalizedAdvantage
from ada_lightning.methods.curriculum import UniformCurriculum
from ada_lightning.methods.estimators import BetaHistory, ValueNetworkEstimator
from ada_lightning.methods.published.greso import AdaptiveDynamicSampling, GresoCurriculum
from ada_lightning.methods.published.rollout_bandits import BanditSelection
from ada_lightning.methods.refill import DynamicSampling, NoRefill
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.methods.selection import AllSelection
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.service import RolloutService
from ada_lightning.training.losses import ClippedPolicyLoss, TokenMeanReduction
from research.scripted import ScriptedEngine
from tests.unit.methods.curriculum.histories import ids
from tests.unit.scripted_run import Interrupting, Policy, train

NUM_PROMPTS = 30
MIXED = {index: (0.0, 0.5, 1.0)[index % 3] for index in range(NUM_PROMPTS)}
SATURATED = dict.fromkeys(range(NUM_PROMPTS), 1.0)


class RepresentingPolicy(Policy):
    def represent(self, asked):
        self.represented = [*getattr(self, "represented", []), *ids(asked)]
        return torch.tensor([[float(prompt.prompt_ids[0]), 1.0] for prompt in asked])

    def training_step(self, batch, batch_idx):
        self.batches = [*getattr(self, "batches", []), batch]
        optimizer = self.optimizers()
        if batch.microbatches:
            self.model(torch.ones(1, 1)).sum().backward()
        self._update(optimizer, torch.tensor(0.0), torch.tensor(1.0), is_empty=not batch.microbatches)
        self.update_metrics = {"train/entropy": 1.0}


class Watch(Interrupting):
    """Keeps each step's groups and figures."""

    def __init__(self, *interrupts):
        super().__init__(*interrupts)
        self.drawn, self.trained, self.figures, self.of_steps, self.is_complete = {}, {}, {}, [], False

    def on_rollout_end(self, trainer, pl_module, result):
        self.drawn[result.step] = [group.pool.prompt.prompt_id for group in result.groups]
        self.trained[result.step] = [
            (group.pool.prompt.prompt_id, tuple(kept.response.is_positive for kept in group.kept))
            for group in result.groups
            if group.kept
        ]

    def rollout_figures(self, result):
        return {"rollout/of_a_listener": float(result.step)}

    def on_step_end(self, trainer, pl_module, figures):
        self.of_steps.append(figures)

    def on_nothing_left(self, trainer, pl_module):
        self.is_complete = True

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        figures = {name: float(value) for name, value in trainer.callback_metrics.items()}
        if batch.update_index == 0:
            self.figures[(pl_module.policy_version - 1) // trainer.datamodule.num_minibatches] = figures
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)


def fit(
    folder, refill, *, curriculum=None, estimator=None, selection=None, pass_rates=MIXED, num_minibatches=1,
    num_steps=8, interrupt_after=-1, interrupt_in_update=-1, resume=False, engine=ScriptedEngine,
    advantage=None, grader=None,
):  # fmt: skip
    policy = RepresentingPolicy(
        folder, advantage=advantage or GroupNormalizedAdvantage(), warmup_steps=3,
        loss=ClippedPolicyLoss(reduction=TokenMeanReduction()),
    )  # fmt: skip
    service = RolloutService(
        engine=lambda **options: engine(pass_rates=pass_rates, max_num_seqs=16), max_model_tokens=64, seed=0,
        sampling=SamplingSettings(max_new_tokens=4),
    )  # fmt: skip
    method = Method(
        estimator=estimator or BetaHistory(), sampler=UniformSampler(group_size=4),
        selection=selection or AllSelection(), refill=refill,
    )  # fmt: skip
    watch = Watch(interrupt_after, interrupt_in_update)
    watch.trainer = train(
        folder, policy, method, service, watch, grader=grader, resume=resume, num_prompts=NUM_PROMPTS,
        prompts_per_step=4, num_steps=num_steps, num_minibatches=num_minibatches,
        curriculum=curriculum or UniformCurriculum(),
    )  # fmt: skip
    watch.policy, watch.service = policy, service
    return watch


REFILLS = {
    "dynamic": lambda: DynamicSampling(refill_ratio=0.25),
    "oversampling": lambda: DynamicSampling(oversampling=2, refill_ratio=1),
    "greso": lambda: AdaptiveDynamicSampling(),
}

pytestmark = pytest.mark.filterwarnings("ignore")


def test_figures_of_other_callbacks_are_among_those_of_the_step(tmp_path):
    """There alarms find them, and the loggers get them with the rest."""
    watch = fit(tmp_path, NoRefill(), num_steps=2, num_minibatches=2)
    assert [figures["rollout/of_a_listener"] for figures in watch.of_steps] == [0.0, 1.0]
    assert [figures["rollout/of_a_listener"] for figures in watch.figures.values()] == [0.0, 1.0]


def test_those_that_listen_hear_that_nothing_is_left(tmp_path):
    """A run that was killed after its last update may owe an evaluation, and Lightning starts no training."""
    assert not fit(tmp_path, NoRefill(), num_steps=2).is_complete
    watch = fit(tmp_path, NoRefill(), num_steps=2, resume=True)
    assert watch.is_complete
    assert watch.drawn == {}


@pytest.fixture(scope="module")
def dynamic(tmp_path_factory):
    """Eight steps that nothing disturbed."""
    return fit(tmp_path_factory.mktemp("dynamic"), REFILLS["dynamic"]())


def test_every_step_trains_on_as_many_groups_as_it_should_and_counts_all_it_drew(dynamic):
    watch = dynamic
    # Steps of the run and of the learning rate are updates and not waves.
    assert watch.policy.policy_version == watch.trainer.global_step == watch.policy.lr_schedulers().last_epoch == 8
    for step, figures in watch.figures.items():
        drawn = len(watch.drawn[step])
        assert len(watch.trained[step]) == figures["rollout/trained_groups"] == 4
        assert figures["rollout/num_sampled"] == figures["rollout/generated_tokens"] == 4 * drawn
        assert figures["rollout/refilled_prompts"] == drawn - 4
        filtered = figures["rollout/filtered_all_correct"] + figures["rollout/filtered_all_wrong"]
        assert figures["rollout/filtered_groups"] == filtered > 0
        assert drawn == 4 + filtered + figures["rollout/surplus_groups"]
        assert figures["rollout/refill_capped"] == 0.0
        assert figures["rollout/signal_share"] == pytest.approx((4 + figures["rollout/surplus_groups"]) / drawn)
        assert len(set(watch.drawn[step])) == drawn
    for batch in watch.policy.batches:
        assert batch.counts.num_prompts == 4
        assert batch.counts.num_response_tokens == 16  # what was filtered is in no denominator


def test_prompts_come_in_epochs_however_many_a_step_took(dynamic):
    seen = [prompt for step in range(8) for prompt in dynamic.drawn[step]]
    assert len(seen) > 2 * NUM_PROMPTS
    for epoch in range(2):
        assert len(set(seen[epoch * NUM_PROMPTS : (epoch + 1) * NUM_PROMPTS])) >= NUM_PROMPTS - 4


@pytest.mark.thinned(3)
@pytest.mark.parametrize("curriculum", [UniformCurriculum, GresoCurriculum])
@pytest.mark.parametrize("name", REFILLS)
def test_a_killed_run_goes_on_as_one_that_never_stopped(name, curriculum, tmp_path):
    """Between two steps: the same prompts and groups; the policy here never changes. Within one: below."""
    whole = fit(tmp_path / "whole", REFILLS[name](), curriculum=curriculum())
    before = fit(tmp_path / "parts", REFILLS[name](), curriculum=curriculum(), interrupt_after=3)
    after = fit(tmp_path / "parts", REFILLS[name](), curriculum=curriculum(), resume=True)
    assert list(after.drawn) == [3, 4, 5, 6, 7]
    for kept in ("drawn", "trained"):
        assert getattr(before, kept) | getattr(after, kept) == getattr(whole, kept)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", REFILLS)
def test_a_step_that_was_stopped_half_way_is_done_again_with_the_same_prompts(name, tmp_path):

    def run(folder, **options):
        return fit(tmp_path / folder, REFILLS[name](), curriculum=GresoCurriculum(), num_minibatches=2, **options)

    whole = run("whole")
    stopped = run("parts", interrupt_in_update=7)
    after = run("parts", resume=True)
    assert list(after.drawn) == [3, 4, 5, 6, 7]
    assert after.drawn[3] == stopped.drawn[3] == whole.drawn[3]
    assert after.drawn == {step: whole.drawn[step] for step in after.drawn}


@pytest.mark.parametrize("name", REFILLS)
def test_saturated_data_ends_with_steps_that_train_on_nothing(name, tmp_path):
    watch = fit(tmp_path, REFILLS[name](), pass_rates=SATURATED, num_steps=3, num_minibatches=2)
    assert watch.policy.policy_version == 6
    assert all(trained == [] for trained in watch.trained.values())
    for step, figures in watch.figures.items():
        assert figures["rollout/refill_capped"] == 1.0
        assert figures["rollout/filtered_all_correct"] == len(watch.drawn[step]) == NUM_PROMPTS  # all there are
    assert watch.policy.lr_schedulers().last_epoch == 0  # nothing was updated


def test_few_groups_with_a_signal_train_and_the_rest_of_the_minibatches_is_empty(tmp_path):
    rates = SATURATED | {3: 0.5}
    watch = fit(tmp_path, DynamicSampling(refill_ratio=1), pass_rates=rates, num_steps=3, num_minibatches=4)
    trained = [batch for batch in watch.policy.batches if batch.microbatches]
    assert trained
    assert {(batch.update_index, batch.counts.num_prompts) for batch in trained} == {(0, 1)}
    assert max(figures["rollout/trained_groups"] for figures in watch.figures.values()) == 1


def test_an_estimator_that_represents_prompts_sees_each_once_and_learns_of_all(tmp_path):
    estimator = ValueNetworkEstimator()
    watch = fit(tmp_path, REFILLS["dynamic"](), estimator=estimator, num_steps=2)
    drawn = [prompt for step in range(2) for prompt in watch.drawn[step]]
    assert watch.policy.represented == drawn
    assert len(estimator.state_dict()["sizes"]) == len(drawn)


def test_a_broken_engine_repeats_the_step_with_the_same_prompts(tmp_path):
    class Breaking(ScriptedEngine):
        num_polls_of_all = 0

        def poll(self):
            type(self).num_polls_of_all += 1
            if type(self).num_polls_of_all == 3:
                raise EngineError("broken")
            return super().poll()

    whole = fit(tmp_path / "whole", REFILLS["oversampling"]())
    broken = fit(tmp_path / "broken", REFILLS["oversampling"](), engine=Breaking)
    assert broken.service.engine.num_restarts == 1
    assert (broken.drawn, broken.trained) == (whole.drawn, whole.trained)


def test_a_bandit_is_paid_by_the_figures_of_whole_steps(tmp_path):
    """With several minibatches the rollout's figures come with the first and the last ends the step."""
    bandit = BanditSelection(group_size=2)
    fit(tmp_path, NoRefill(), selection=bandit, num_minibatches=2)
    assert any(worth != 0 for worth in bandit.worth.values())


def test_greso_skips_prompts_that_had_no_signal(tmp_path):
    curriculum = GresoCurriculum()
    watch = fit(tmp_path, REFILLS["greso"](), curriculum=curriculum, num_steps=24)
    late = [prompt for step in range(12, 24) for prompt in watch.drawn[step]]
    share = sum(int(prompt[1:]) % 3 == 1 for prompt in late) / len(late)
    assert share > 0.45  # 1/3 of the prompts have a signal
    assert watch.figures[23]["curriculum/without_signal"] > 10
    assert 0.05 <= watch.figures[23]["curriculum/p_easy"] < 0.5
