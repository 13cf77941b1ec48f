"""What a step is, in its order: the loop driven by hand, without Lightning."""

from __future__ import annotations

import subprocess
import sys
from itertools import groupby
from pathlib import Path

import torch

from ada_lightning.core.method import Method
from ada_lightning.core.records import SamplingSettings
from ada_lightning.methods.advantages import GroupNormalizedAdvantage
from ada_lightning.methods.curriculum import UniformCurriculum
from ada_lightning.methods.estimators import BetaHistory
from ada_lightning.methods.sampling import BalanceSampler
from ada_lightning.methods.selection import BalancedSelection
from ada_lightning.parallel.ranks import Ranks
from ada_lightning.rollout.loop import Loop
from ada_lightning.rollout.service import RolloutService
from ada_lightning.run.phase_clock import PhaseClock
from ada_lightning.training.packing import pack_for_replicas
from research.scripted import ScriptedEngine, ScriptedGrader
from tests.builders import PACKING, decode, make_prompt

ORDER = ["choose", "believe", "sync", "generate", "select", "weigh", "report", "pack", "score", "score", "update",
         "update", "estimator", "sampler", "curriculum", "selection"]  # fmt: skip


def noting(cls, events, **methods):
    """A subclass whose methods, given with what to call them, say when they are called."""

    def saying(name, event):
        def call(self, *arguments, **options):
            events.append(event)
            return getattr(super(said, self), name)(*arguments, **options)

        return call

    said = type(cls.__name__, (cls,), {name: saying(name, event) for name, event in methods.items()})
    return said


class Policy:
    """A version, and nothing to sample from: the engine has a script."""

    needs_groups_without_signal = False

    def __init__(self, advantage, events):
        self.advantage, self.events, self.policy_version = advantage, events, 0
        self.ranks, self.clock, self.interrupt_check, self.represent = Ranks(), PhaseClock(), lambda: None, None

    def engine_weights(self, *, adapters_only):
        assert not adapters_only
        return iter([("bias", torch.tensor(0.0))])

    def advantages(self, groups):
        return self.advantage.weigh(groups)

    def score_old(self, batch):
        self.events.append("score")
        return batch

    def update(self, batch):
        self.events.append("update")
        assert batch.policy_version == self.policy_version - batch.updates_since_rollout
        self.policy_version += 1


class Data:
    """The same prompts in every step, in two minibatches."""

    prompts_per_step, num_steps, updates_per_rollout, epochs_per_rollout = 4, 3, 2, 1

    def __init__(self, curriculum, events):
        self.curriculum, self.events = curriculum, events

    def first_prompts(self, step, num_prompts):
        prompts = [make_prompt(key) for key in range(4)]
        return self.curriculum.choose(prompts, num_prompts, step=step, seed=0, recall=None)

    def is_over(self, step):
        return False

    def pack(self, groups, *, step, policy_version, num_replicas, keep_all, computed):
        self.events.append("pack")
        options = {"num_minibatches": 2, "policy_version": policy_version, "keep_groups_without_signal": keep_all}
        return pack_for_replicas(
            groups, num_replicas=num_replicas, is_computed=lambda group: False, **PACKING | options
        )


def run(num_done=0):
    """Drive a run of three steps; return what happened, what was reported and what was remembered."""
    events, reported = [], []

    class Engine(noting(ScriptedEngine, events, load_weights="sync", submit="generate")):
        def __init__(self, **completed):
            super().__init__(pass_rates={0: 0.0, 1: 0.3, 2: 0.6, 3: 1.0}, max_model_tokens=64)

    service = RolloutService(engine=Engine, max_model_tokens=64, sampling=SamplingSettings(max_new_tokens=4))
    method = Method(
        estimator=noting(BetaHistory, events, predict="believe", update="estimator")(memory=1.0),
        sampler=noting(BalanceSampler, events, learn="sampler")(
            k_pos=1, k_neg=1, samples_per_round=2, n_max=8, group_size=2
        ),
        selection=noting(BalancedSelection, events, select_all="select", learn="selection")(group_size=2),
    )
    data = Data(noting(UniformCurriculum, events, choose="choose", observe="curriculum")(), events)
    policy = Policy(noting(GroupNormalizedAdvantage, events, weigh="weigh")(), events)

    def report(result, groups, figures):
        events.append("report")
        reported.append((result, groups, figures))

    loop = Loop(method, policy=policy, data=data, service=service, report=report)
    tokenizer = type("Tokenizer", (), {"decode": staticmethod(lambda ids, **options: decode(ids))})
    service.open(
        model_path=Path(), tokenizer=tokenizer, eos_token_ids=(0,), grader=ScriptedGrader(), log_file=Path("engine.log")
    )
    policy.policy_version = num_done
    for batch in loop.updates(num_done):
        policy.update(batch)
        if batch.update_index == data.updates_per_rollout - 1:
            loop.learn({})
    service.close()
    return events, reported, method.estimator.history_counts()


def test_a_step_is_what_the_file_says_in_its_order_and_the_next_one_begins_when_it_is_learned():
    events, reported, counts = run()
    assert [event for event, _ in groupby(events)] == [event for event, _ in groupby(ORDER)] * 3
    assert events.count("score") == events.count("update") == 6
    for number, (result, groups, figures) in enumerate(reported):
        assert (result.step, result.policy_version) == (number, 2 * number)
        assert result.groups == groups
        assert all(kept.advantage is not None for group in groups for kept in group.kept)
        assert figures["curriculum/share_unseen"] == float(number == 0)  # what was believed before the step
        assert {group.pool.belief.is_seen for group in groups} == {number > 0}
    drawn = sum(group.pool.num_sampled for _, groups, _ in reported for group in groups)
    assert sum(responses for _, responses in counts.values()) == drawn  # every response was learned from, once


def test_a_run_that_goes_on_within_a_step_draws_that_step_anew():
    events, reported, _ = run(num_done=3)
    assert [result.step for result, _, _ in reported] == [1, 2]
    assert events.count("update") == 1 + 2


def test_none_of_it_needs_lightning():
    code = "import sys; sys.modules['lightning'] = None; from tests.unit.rollout.test_loop import run; run()"
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], check=True)
