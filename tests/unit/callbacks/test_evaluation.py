"""When the callback evaluates, seen by a service that only counts; tests/integration has a real one."""

from types import SimpleNamespace

import pytest
from lightning.pytorch import LightningDataModule, LightningModule

from ada_lightning.callbacks.evaluation import Evaluation
from ada_lightning.core.records import SamplingSettings
from ada_lightning.core.step_records import RolloutResult, RolloutStats
from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.parallel.ranks import Ranks
from ada_lightning.run.phase_clock import PhaseClock
from ada_lightning.training.policy import PolicyModule
from tests.builders import make_group, make_prompt


class Policy(PolicyModule):
    def __init__(self):
        LightningModule.__init__(self)
        self.policy_version, self.ranks, self.clock = 0, Ranks(), PhaseClock()
        self.interrupt_check = lambda: None


class Data(RolloutDataModule):
    updates_per_rollout = 1

    def __init__(self, num_steps):
        LightningDataModule.__init__(self)
        self.num_steps, self.num_updates_done, self.heldout_prompts = num_steps, 0, [make_prompt("a")]


class Service:
    """Notes which policy was evaluated; one that is to be interrupted is."""

    engine = SimpleNamespace(weights_of=lambda policy: None)

    def __init__(self, interrupted_at=-1):
        self.evaluated, self.interrupted_at = [], interrupted_at

    def sample(self, begin, *, policy_version, **_):
        if policy_version == self.interrupted_at:
            raise KeyboardInterrupt
        self.evaluated.append(policy_version)
        result = RolloutResult(0, policy_version, (make_group([1.0, 0.0]),), RolloutStats())
        return SimpleNamespace(result=lambda: result)


class Run:
    """Steps of 30 tokens, as a trainer drives the callback."""

    def __init__(self, service, *, state=None, first_step=0, **options):
        self.evaluation = Evaluation(
            service=service, num_samples=2, num_prompts=1, sampling=SamplingSettings(max_new_tokens=4), **options
        )
        self.policy, self.datamodule = Policy(), Data(num_steps=20)
        self.loggers, self.callbacks, self.should_stop = [], [], False
        self.policy.policy_version = self.datamodule.num_updates_done = first_step
        self.evaluation.setup(self, self.policy, "fit")
        if state is not None:
            self.evaluation.load_state_dict(state)
        if first_step < self.datamodule.num_steps:
            self.evaluation.on_train_start(self, self.policy)
        else:  # Lightning starts no training
            self.evaluation.on_nothing_left(self, self.policy)

    def sample(self):
        result = RolloutResult(0, self.policy.policy_version, (), RolloutStats(num_drawn=3, generated_tokens=30))
        self.evaluation.on_rollout_end(self, self.policy, result)

    def update(self):
        self.policy.policy_version += 1

    def end_step(self):
        self.evaluation.on_train_batch_end(self, self.policy, None, None, 0)

    def steps(self, number):
        """Take steps; return the state as each checkpoint would hold it, which comes before the evaluation."""
        states = []
        for _ in range(number):
            self.sample()
            self.update()
            states.append(self.evaluation.state_dict())
            self.end_step()
        return states


def test_evaluations_stand_at_equal_numbers_of_tokens():
    service = Service()
    Run(service, every_n_tokens=100).steps(9)
    assert service.evaluated == [0, 4, 8]


@pytest.mark.parametrize("last_step", [3, 4, 5])
def test_a_resumed_run_evaluates_where_the_whole_run_does(last_step):
    state = Run(Service(), every_n_tokens=100).steps(last_step)[-1]
    service = Service()
    Run(service, state=state, first_step=last_step, every_n_tokens=100).steps(9 - last_step)
    assert service.evaluated == [step for step in (4, 8) if step >= last_step]


def test_a_step_that_was_stopped_before_its_update_is_drawn_again_and_counts_once():
    run = Run(Service(), every_n_tokens=100)
    run.steps(1)
    run.sample()
    assert run.evaluation.state_dict()["tokens_since"] == 30
    run.update()
    assert run.evaluation.state_dict()["tokens_since"] == 60


def test_an_evaluation_that_was_interrupted_is_owed():
    run = Run(Service(interrupted_at=5), every_n_steps=5)
    with pytest.raises(KeyboardInterrupt):
        run.steps(5)
    service = Service()
    Run(service, state=run.evaluation.state_dict(), first_step=5, every_n_steps=5)
    assert service.evaluated == [5]


@pytest.mark.parametrize(("done", "evaluated", "expected"), [(20, 16, [20]), (20, 20, []), (19, 16, [])])
def test_a_run_that_was_killed_after_its_last_update_gets_its_final_figure(done, evaluated, expected):
    service = Service()
    Run(service, state={"evaluated_version": evaluated, "tokens_since": 0}, first_step=done)
    assert service.evaluated == expected
