"""When the callback evaluates, seen by a service that only counts; tests/integration has a real one."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import LightningDataModule, LightningModule

from ada_lightning.callbacks.evaluation import Evaluation
from ada_lightning.callbacks.rollout_listener import RolloutListener
from ada_lightning.core.records import Prompt, SamplingSettings
from ada_lightning.core.step_records import RolloutResult, RolloutStats
from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.parallel.ranks import Ranks
from ada_lightning.rollout.drafts import responses_of
from ada_lightning.rollout.engines.transformers_decoder import Decoder
from ada_lightning.rollout.engines.transformers_engine import TransformersEngine
from ada_lightning.rollout.service import RolloutService
from ada_lightning.run.phase_clock import PhaseClock
from ada_lightning.training.policy import PolicyModule
from tests.builders import InstantGrader, make_group, make_prompt
from tests.integration.test_vllm_engine import PROMPTS, load, named


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

    engine = SimpleNamespace(weights_of=lambda policy: None, max_num_seqs=8)

    def __init__(self, interrupted_at=-1, *, takes_drafts=False):
        self.evaluated, self.interrupted_at = [], interrupted_at
        self.drafts, self.takes_drafts = [], takes_drafts

    def sample(self, begin, *, policy_version, drafts, **_):
        if policy_version == self.interrupted_at:
            raise KeyboardInterrupt
        self.evaluated.append(policy_version)
        self.drafts.append(drafts)
        result = RolloutResult(0, policy_version, (make_group([1.0, 0.0]),), RolloutStats())
        return SimpleNamespace(result=lambda: result)


class Run:
    """Steps of 30 tokens, as a trainer drives the callback."""

    def __init__(self, service, *, state=None, first_step=0, policy=None, prompts=(), max_new_tokens=4, **options):
        self.evaluation = Evaluation(
            service=service, num_samples=2, num_prompts=len(prompts) or 1,
            sampling=SamplingSettings(max_new_tokens=max_new_tokens), **options,
        )  # fmt: skip
        self.policy, self.datamodule = policy or Policy(), Data(num_steps=20)
        self.datamodule.heldout_prompts = prompts or self.datamodule.heldout_prompts
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


LAST = {("p7", 0): (5, 6), ("p7", 1): (5, 6)}


def test_the_responses_of_an_evaluation_are_the_drafts_of_the_next():
    service = Service(takes_drafts=True)
    run = Run(service, every_n_steps=2)
    run.steps(4)
    assert (service.evaluated, service.drafts) == ([0, 2, 4], [{}, LAST, LAST])
    resumed = Service(takes_drafts=True)
    Run(resumed, state=run.evaluation.state_dict(), first_step=4, every_n_steps=2).steps(2)
    assert resumed.drafts == [{}], "none are in a checkpoint"
    without = Service()
    Run(without, every_n_steps=2).steps(4)
    assert without.drafts == [None] * 3


class Model(Policy):
    """The tiny model."""

    def __init__(self, path):
        super().__init__()
        self.language_model = load(path)

    def engine_weights(self, *, adapters_only):
        return named(self.language_model)


class Results(RolloutListener):
    def __init__(self):
        self.found = []

    def on_evaluation_end(self, trainer, pl_module, result):
        self.found.append(result)


def test_figures_are_those_of_an_evaluation_without_drafts(tiny_path, tmp_path, monkeypatch):
    """A second evaluation of weights that have moved a little, with the first one's responses and without any."""
    step, num_rows = Decoder.step, []
    monkeypatch.setattr(Decoder, "step", lambda self, *given: num_rows.append(len(given[0])) or step(self, *given))
    service = RolloutService(
        engine=partial(TransformersEngine, max_num_seqs=4, dtype="float32", device="cpu"), max_model_tokens=64
    )
    service.open(
        model_path=tiny_path, tokenizer=SimpleNamespace(decode=lambda ids, **_: str(sum(ids) % 2)), eos_token_ids=[2],
        grader=InstantGrader(), log_file=tmp_path / "engine.log",
    )  # fmt: skip
    prompts = [Prompt(str(ids), (), prompt_ids=tuple(ids)) for ids in PROMPTS[:4]]
    run, results = Run(service, policy=Model(tiny_path), prompts=prompts, max_new_tokens=12), Results()
    plain = Evaluation(service=service, num_samples=2, num_prompts=4, sampling=run.evaluation.sampling)
    before = run.evaluation._last.drafts(1)
    run.callbacks.append(results)
    with torch.no_grad():
        for parameter in run.policy.language_model.parameters():
            parameter.mul_(1.01)
    run.update()
    costs = []
    for evaluation in (run.evaluation, plain):
        num_rows.clear()
        evaluation._evaluate(run, run.policy)
        costs.append(sum(num_rows))
    service.close()
    with_drafts, without = results.found
    assert with_drafts.metrics == without.metrics
    assert responses_of(with_drafts.groups) == responses_of(without.groups) != before, "and some drafts are wrong"
    assert costs[0] < (1 - run.evaluation._last.kept_ratio + 0.1) * costs[1], "what was right is not decoded again"
