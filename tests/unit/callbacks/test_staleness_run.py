"""Whole runs whose responses come from older policies: real trainer, data and checkpoints, scripted responses.

The chance of a right answer is a function of the weights that the engine was given, so a wrong version shows.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections import Counter
from dataclasses import replace
from functools import cache, partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ada_lightning.core.method import Method
from ada_lightning.core.protocols import Sampler
from ada_lightning.core.records import Outcome, SamplingSettings
from ada_lightning.core.step import Step
from ada_lightning.methods.advantages import GroupNormalizedAdvantage
from ada_lightning.methods.curriculum import ExpectedUsefulness, Learnability, UniformCurriculum
from ada_lightning.methods.estimators import BetaHistory, ValueNetworkEstimator
from ada_lightning.methods.sampling import BalanceSampler, UniformSampler
from ada_lightning.methods.selection import AllSelection, BalancedSelection
from ada_lightning.rollout.engines.engine_pool import EnginePool
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.engines.host import EngineHost, TrainerProcess
from ada_lightning.rollout.engines.pool_place import PoolHost
from ada_lightning.rollout.service import RolloutService
from ada_lightning.training.losses import ClippedPolicyLoss, TokenMeanReduction
from research.scripted import ScriptedEngine
from tests.unit.rollout.thread_pool import ThreadPlace
from tests.unit.scripted_run import Interrupting, Policy, train

NUM_PROMPTS, PER_STEP, NUM_STEPS = 24, 4, 7
BALANCE = BalanceSampler(k_pos=1, k_neg=1, samples_per_round=2, n_max=8, group_size=2)
UNEVEN = BalanceSampler(k_pos=3, k_neg=3, samples_per_round=1, n_max=12, group_size=2)
CHOICE = ExpectedUsefulness(usefulness=Learnability())  # reads history, and holds no state
pytestmark = pytest.mark.filterwarnings("ignore")


class Engine(ScriptedEngine):
    """Answers by the weight it was given; takes as long as ``latency(prompt, is_positive)`` says, whatever the seed."""

    def __init__(self, latency, pause, **options):
        super().__init__(pass_rates={}, **options)
        self.latency, self.pause, self.loaded, self.finished = latency, pause, [], {}
        self.begun, self.num_left = set(), None

    def poll(self):
        self.pause()
        return super().poll()

    def close(self):
        self.num_left = self.num_in_flight()
        super().close()

    def load_weights(self, named_tensors, policy_version):
        self.pause()
        super().load_weights([], policy_version)
        self.weight = float(dict(named_tensors)["bias"])
        self.loaded.append((policy_version, self.weight))

    def submit(self, request_id, prompt_ids, settings, seed):
        logit = self.weight + 3 * (prompt_ids[0] / NUM_PROMPTS - 0.6)
        is_positive = random.Random(seed).random() < 1 / (1 + math.exp(-logit))
        at = self._clock + self.latency(prompt_ids[0], is_positive)
        self._running[request_id] = (
            at,
            Outcome("", (int(is_positive),), (-0.5,), is_truncated=False, request_id=request_id),
        )
        rollout, slot, *_ = request_id.split("/")
        if "canary" not in request_id:
            step = int(rollout.partition(".")[2])
            self.finished[step, int(slot)] = at
            self.begun.add(step)


class Elsewhere(EngineHost):
    """As a process of its own: the engine works while the trainer does. Only its clock is that of this process."""

    works_by_itself = True

    def open(self, engine, log_file):
        return engine(log_file=log_file)


class Pool(EnginePool):
    """Real, of engines in threads."""

    def close(self):
        assert self.num_in_flight() == 0 or not self._seats
        super().close()


class MovingPolicy(Policy):
    """An update moves its bias by what the responses were."""

    def configure_model(self):
        super().configure_model()
        torch.nn.init.zeros_(self.model.bias)
        if self.checkpoint_path:
            self.model.load_state_dict(torch.load(self.checkpoint_path / "policy/weights.pt"))
        self.weight_of = {} if self.checkpoint_path else {0: 0.0}

    def represent(self, asked):
        return torch.tensor([[float(prompt.prompt_ids[0]), float(self.model.bias.detach())] for prompt in asked])

    def next_token_logprobs(self, token_ids, num_prefixes):
        return torch.full((num_prefixes, 2), -0.5)

    def score_old(self, batch):
        """By its weight, so that another version's is told."""
        scored = [
            replace(microbatch, old_logprobs_K=torch.full_like(microbatch.old_logprobs_K, float(self.model.bias)))
            for microbatch in batch
        ]
        return replace(batch, microbatches=tuple(scored))

    def training_step(self, batch, batch_idx):
        self.check_version(batch)
        self.pause()
        self.batches = [*getattr(self, "batches", []), batch]
        share = sum(float(microbatch.rewards_B.mean()) for microbatch in batch) if batch.microbatches else 0.0
        (-self.model(torch.zeros(1, 1)).sum() * (0.2 + share)).backward()
        self._update(self.optimizers(), torch.tensor(0.0), torch.tensor(1.0), is_empty=False)
        self.weight_of[self.policy_version] = float(self.model.bias)
        self.update_metrics = {"train/entropy": 1.0}


class Watch(Interrupting):
    """Keeps every rollout."""

    def __init__(self, evaluate_after=(), **interrupts):
        super().__init__(**interrupts)
        self.results, self.figures, self.evaluated = {}, {}, {}
        self.evaluate_after = evaluate_after

    def on_rollout_end(self, trainer, pl_module, result):
        self.results[result.step] = result

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.figures[pl_module.policy_version] = {k: float(v) for k, v in trainer.callback_metrics.items()}
        if pl_module.policy_version in self.evaluate_after:
            begin = partial(
                Step, trainer.datamodule.train_prompts, sampler=UniformSampler(group_size=2), selection=AllSelection()
            )
            sampled = self.sampling.service.sample(
                begin, weights=pl_module.engine_weights, policy_version=pl_module.policy_version, stage="eval",
                clock=pl_module.clock,
            )  # fmt: skip
            self.evaluated[pl_module.policy_version] = [group.pool.num_positive for group in sampled.result().groups]
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)

    def outcome(self):
        """What must not depend on any clock: of each step prompts, beliefs, responses, what is kept and its weight."""
        return {
            step: [
                (
                    group.pool.prompt.prompt_id,
                    group.pool.belief,
                    [(response.is_positive, response.policy_version) for response in group.pool.responses],
                    [(kept.response.sample_index, kept.advantage) for kept in group.kept],
                )
                for group in result.groups
            ]
            for step, result in self.results.items()
        }


def fit(
    folder, k, *, latency=lambda prompt, is_positive: 1, num_minibatches=1, num_steps=NUM_STEPS, resume=False,
    estimator=None, curriculum=None, sampler=BALANCE, selection=None, beside=False, pause=lambda: None,
    update=lambda policy, engines: None, engine_type=Engine, max_engine_restarts=2, num_engines=0, limits=None,
    num_slots=6, **watching,
):  # fmt: skip
    policy = MovingPolicy(
        folder, lr=0.3, advantage=GroupNormalizedAdvantage(), loss=ClippedPolicyLoss(reduction=TokenMeanReduction()),
        checkpoint_path=folder / "checkpoints/last" if resume else None,
    )  # fmt: skip
    engines = []

    def member():
        engines.append(engine_type(latency, pause, max_num_seqs=num_slots))
        return engines[-1]

    def engine(**options):
        if not num_engines:
            return member()
        return Pool(ThreadPlace(*[member] * num_engines), PoolHost(num_engines=num_engines, **(limits or {})))

    service = RolloutService(
        engine=engine, max_model_tokens=64, seed=0, sampling=SamplingSettings(max_new_tokens=4), max_staleness=k,
        host=Elsewhere() if beside else TrainerProcess(), max_engine_restarts=max_engine_restarts,
    )  # fmt: skip
    policy.pause = partial(update, policy, engines)
    watch = Watch(**watching)
    method = Method(
        estimator=estimator or BetaHistory(), sampler=sampler, selection=selection or BalancedSelection(group_size=2)
    )
    trainer = train(
        folder, policy, method, service, watch, resume=resume, num_prompts=NUM_PROMPTS, prompts_per_step=PER_STEP,
        num_steps=num_steps, num_minibatches=num_minibatches, curriculum=curriculum or CHOICE,
    )  # fmt: skip
    watch.policy, watch.data, watch.engine = policy, trainer.datamodule, engines[0]
    watch.engines = engines
    assert num_engines or watch.engine.num_left == 0
    assert not any(thread.name.startswith("sampling") for thread in threading.enumerate())
    return watch


def random_latency(number):
    """Seconds of another world: nothing else draws from its generator."""
    clock = random.Random(f"latency/{number}")
    return lambda prompt, is_positive: clock.randint(1, 12)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Undisturbed runs by lag."""
    return {k: fit(tmp_path_factory.mktemp(f"lag{k}"), k) for k in range(4)}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("k", range(4))
def test_every_step_samples_from_the_weights_of_exactly_k_steps_before(k, plain):
    run = plain[k]
    wanted = [max(0, step - k) for step in range(NUM_STEPS)]
    assert [result.policy_version for result in run.results.values()] == wanted
    assert {version for version, _ in run.engine.loaded} == set(wanted)
    assert all(weight == run.policy.weight_of[version] for version, weight in run.engine.loaded)
    assert len(set(run.policy.weight_of.values())) == NUM_STEPS + 1  # another version has another weight
    for step, result in run.results.items():
        assert {r.policy_version for group in result.groups for r in group.pool.responses} == {wanted[step]}
    if k:
        assert [run.figures[step + 1]["staleness/steps"] for step in range(NUM_STEPS)] == [
            min(step, k) for step in range(NUM_STEPS)
        ]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("k", range(4))
def test_no_latency_changes_anything(k, plain, tmp_path):
    for number in range(3):
        other = fit(tmp_path / str(number), k, latency=random_latency(number))
        assert other.outcome() == plain[k].outcome()
        assert other.policy.weight_of == plain[k].policy.weight_of


@pytest.mark.thinned(2)
@pytest.mark.parametrize("k", range(4))
def test_prompts_and_beliefs_of_a_step_know_the_steps_up_to_k_before_its_last(k, plain):
    run = plain[k]

    def as_chosen(step, num_known):
        estimator = BetaHistory()
        for known in range(num_known):
            estimator.update([group.pool for group in run.results[known].groups])
        chosen = CHOICE.choose(run.data.train_prompts, PER_STEP, step=step, seed=0, recall=estimator.recall)
        return list(zip(chosen, estimator.predict(chosen, None), strict=True))

    choices = {
        step: [(group.pool.prompt, group.pool.belief) for group in result.groups]
        for step, result in run.results.items()
    }
    assert choices == {step: as_chosen(step, max(0, step - k)) for step in choices}
    assert choices != {step: as_chosen(step, max(0, step - k - 1)) for step in choices}  # the lag is not longer
    assert k == 0 or choices != {step: as_chosen(step, step) for step in choices}


class Alternating(BalancedSelection):
    """Keeps more of the pools of every other step, by what it has learned when they train."""

    def __init__(self):
        super().__init__(group_size=2)

    def learn(self, metrics):
        self.group_size = 6 - self.group_size

    def state_dict(self):
        return {"group_size": self.group_size}

    def load_state_dict(self, state):
        self.group_size = state["group_size"]


def pauses(number):
    """Seconds of another world, too short for anything but another order of events."""
    clock, lock = random.Random(f"pause/{number}"), threading.Lock()

    def pause(*_):
        with lock:
            seconds = clock.choice((0, 0, 0, 0.0005, 0.002))
        time.sleep(seconds)

    return pause


def without_clock(run):
    """All logged figures but seconds, and what was thrown away of what was drawn ahead."""
    return {
        update: {name: value for name, value in row.items() if not name.endswith("_s") and "wast" not in name}
        for update, row in run.figures.items()
    }


@pytest.fixture(scope="module")
def emulated_run(tmp_path_factory):
    """Runs in which nothing overlaps, each made once."""
    return cache(lambda k, **options: fit(tmp_path_factory.mktemp("emulated"), k, **options, selection=Alternating()))


@pytest.mark.long
@settings(max_examples=8, deadline=None)
@given(
    k=st.integers(1, 3),
    num_minibatches=st.integers(1, 2),
    evaluate_after=st.sampled_from([(), (2, 5)]),
    number=st.integers(0, 10**6),
)
def test_steps_that_are_sampled_while_the_trainer_updates_are_those_of_the_emulation(
    k, num_minibatches, evaluate_after, number, emulated_run, tmp_path_factory
):
    """Whatever takes how long: the same tokens, groups, updates and weights, bit for bit."""
    options = {"num_minibatches": num_minibatches, "evaluate_after": evaluate_after}
    emulated = emulated_run(k, **options)
    run = fit(
        tmp_path_factory.mktemp("beside"), k, **options, selection=Alternating(), beside=True,
        latency=random_latency(number), pause=pauses(number), update=pauses(-number),
    )  # fmt: skip
    assert run.outcome() == emulated.outcome()
    assert run.policy.weight_of == emulated.policy.weight_of
    assert run.evaluated == emulated.evaluated
    assert without_clock(run) == without_clock(emulated)
    assert set(run.engine.loaded) == set(emulated.engine.loaded)


@pytest.mark.long
@settings(max_examples=8, deadline=None)
@given(
    k=st.integers(1, 3),
    num_engines=st.integers(2, 4),
    num_slots=st.integers(1, 6),
    num_minibatches=st.integers(1, 2),
    evaluate_after=st.sampled_from([(), (2, 5)]),
    number=st.integers(0, 10**6),
)
def test_engines_that_go_over_to_a_version_one_after_another_give_the_steps_of_the_emulation(
    k, num_engines, num_slots, num_minibatches, evaluate_after, number, emulated_run, tmp_path_factory
):
    """Several versions are sampled from at once, each response from the one of its step."""
    options = {"num_minibatches": num_minibatches, "evaluate_after": evaluate_after}
    emulated = emulated_run(k, **options)
    run = fit(
        tmp_path_factory.mktemp("rolling"), k, **options, selection=Alternating(), beside=True, num_engines=num_engines,
        num_slots=num_slots, latency=random_latency(number), pause=pauses(number), update=pauses(-number),
    )  # fmt: skip
    assert run.outcome() == emulated.outcome()
    assert run.policy.weight_of == emulated.policy.weight_of
    assert run.evaluated == emulated.evaluated
    assert without_clock(run) == without_clock(emulated)
    loaded = {each for engine in run.engines for each in engine.loaded}
    assert loaded == set(emulated.engine.loaded)


def test_a_step_is_sampled_by_its_version_while_the_one_before_is_by_an_older_one(tmp_path):
    """A response of step 1 waits until step 2 is sampled, which engines that drain would never come to."""
    begun = set()

    class Waiting(Engine):
        def submit(self, request_id, *request):
            super().submit(request_id, *request)
            begun.update(self.begun)

        def poll(self):
            wanted = [name for name in self._running if name.endswith(".1/0/0") and 2 not in begun]
            held = {name: self._running.pop(name) for name in wanted}
            time.sleep(0.001)
            found = super().poll()
            self._running |= held
            return found

    run = fit(tmp_path / "rolling", 1, beside=True, engine_type=Waiting, num_engines=2)
    assert run.outcome() == fit(tmp_path / "emulated", 1).outcome()


def test_what_waits_for_its_version_does_not_keep_an_older_step_from_its_end(tmp_path):
    """One slot an engine, and probes in between. Which step has a slot first, test_driver.py holds."""
    slow = {"latency": lambda prompt, is_positive: 20, "pause": lambda: time.sleep(0.0005)}
    run = fit(tmp_path / "rolling", 1, beside=True, num_engines=2, num_slots=1, sampler=UNEVEN, **slow)
    assert run.outcome() == fit(tmp_path / "emulated", 1, sampler=UNEVEN).outcome()


@pytest.mark.parametrize("k", [1, 2])
def test_an_update_and_the_sampling_of_the_next_step_happen_at_once(k, tmp_path):
    """The update of a step waits until the next one is being sampled, which no emulation could do."""

    def wait_for_next(policy, engines):
        while policy.policy_version + 1 < NUM_STEPS and policy.policy_version + 1 not in engines[0].begun:
            time.sleep(0.001)

    assert list(fit(tmp_path, k, beside=True, update=wait_for_next).results) == list(range(NUM_STEPS))


def test_an_engine_that_is_behind_gets_the_version_of_its_step_and_not_the_newest(tmp_path):
    """So does the sampler of a step not know what was learned since. The engine takes each version when the next is
    published and trained from."""
    training = []

    class Late(Engine):
        def load_weights(self, named_tensors, policy_version):
            while policy_version and policy_version + 1 not in training:
                time.sleep(0.001)
            super().load_weights(named_tensors, policy_version)

    run = fit(
        tmp_path / "late", 2, beside=True, engine_type=Late, sampler=Growing(),
        update=lambda policy, engines: training.append(policy.policy_version),
    )  # fmt: skip
    assert [version for version, _ in run.engine.loaded] == [0, 1, 2, 3, 4]
    assert all(weight == run.policy.weight_of[version] for version, weight in run.engine.loaded)
    assert run.outcome() == fit(tmp_path / "emulated", 2, sampler=Growing()).outcome()


@pytest.mark.parametrize("num_engines", [0, 2])
def test_nothing_is_sampled_beyond_the_last_step(num_engines, tmp_path):
    run = fit(tmp_path, 3, beside=True, num_steps=3, num_engines=num_engines)
    assert set.union(*(engine.begun for engine in run.engines)) == {0, 1, 2}


class Breaking(Engine):
    """Breaks when the weights of the second update come."""

    def load_weights(self, named_tensors, policy_version):
        if policy_version == 2:
            raise RuntimeError("out of memory")
        super().load_weights(named_tensors, policy_version)


@pytest.mark.parametrize("num_engines", [0, 2])
def test_what_breaks_beside_the_trainer_reaches_it_when_that_steps_turn_has_come(num_engines, tmp_path):
    """Or an earlier one's, which engines were also busy with that have several versions."""
    updates = []
    with pytest.raises(EngineError, match="out of memory"):
        fit(
            tmp_path, 2, beside=True, engine_type=Breaking, max_engine_restarts=0, num_engines=num_engines,
            update=lambda policy, engines: updates.append(policy.policy_version),
        )  # fmt: skip
    assert updates == [0, 1, 2, 3][: len(updates)]  # the version of update 2 samples step 4
    assert len(updates) == 4 or (num_engines and len(updates) >= 2)
    assert not any(thread.name.startswith("sampling") for thread in threading.enumerate())


@pytest.mark.parametrize("k", [1, 2])
def test_engines_that_die_while_several_versions_are_sampled_change_nothing(k, tmp_path):
    """Three break with whatever they have; successors get the version that is wanted then."""
    broken = []

    class Mortal(Engine):
        def poll(self):
            if len(broken) < 3 and len(self.finished) > 1 and self not in broken:
                broken.append(self)
                raise RuntimeError("out of memory")
            return super().poll()

    with pytest.warns(RuntimeWarning, match="it is being replaced"):
        run = fit(tmp_path / "rolling", k, beside=True, engine_type=Mortal, num_engines=3, pause=pauses(k))
    assert len(broken) == 3
    emulated = fit(tmp_path / "emulated", k)
    assert run.outcome() == emulated.outcome()
    assert run.policy.weight_of == emulated.policy.weight_of


def test_a_pool_that_is_lost_is_replaced_and_its_steps_are_those_of_before(tmp_path):
    """With no engine left, a new pool gets the versions of all steps that are open, and draws what is missing."""
    num_lost = []

    class Mortal(Engine):
        def poll(self):
            if len(num_lost) < 2 and len({step for step, _ in self.finished}) > 2 - len(num_lost):
                num_lost.append(1)
                raise RuntimeError("out of memory")
            return super().poll()

    limits = {"max_restarts": 0}
    run = fit(tmp_path / "rolling", 2, beside=True, engine_type=Mortal, num_engines=2, limits=limits, pause=pauses(3))
    assert len(num_lost) == 2
    assert run.outcome() == fit(tmp_path / "emulated", 2).outcome()


@pytest.mark.thinned(2)
@pytest.mark.parametrize("num_minibatches", [1, 2])
@pytest.mark.parametrize("beside", [{}, {"beside": True}, {"beside": True, "num_engines": 3}])
@pytest.mark.parametrize("k", [1, 2])
def test_a_killed_run_goes_on_as_one_that_never_stopped(k, beside, num_minibatches, tmp_path):
    """Wherever its engine lives when it goes on."""
    options = {"num_minibatches": num_minibatches}
    whole = fit(tmp_path / "whole", k, **options)
    before = fit(tmp_path / "parts", k, **options, **beside, interrupt_after=3 * num_minibatches)
    after = fit(tmp_path / "parts", k, **options, beside=not beside, resume=True)
    assert list(after.results) == [3, 4, 5, 6]
    assert before.outcome() | after.outcome() == whole.outcome()
    assert after.policy.weight_of.items() <= whole.policy.weight_of.items()
    assert after.policy.weight_of[num_minibatches * NUM_STEPS] == whole.policy.weight_of[num_minibatches * NUM_STEPS]
    with pytest.raises(ValueError, match=rf"max_staleness = {k + 1}, but .* continue with rollout.max_staleness={k}"):
        fit(tmp_path / "parts", k + 1, **options, resume=True)


def old_logprobs(run):
    """What each update's ratios begin at, by response."""
    return [
        {
            name: old_logprobs_K.tolist()
            for microbatch in batch
            for name, old_logprobs_K in zip(
                microbatch.identity_B.tolist(), microbatch.old_logprobs_K.split(1), strict=True
            )
        }
        for batch in run.policy.batches
    ]


@pytest.mark.parametrize(("num_minibatches", "stop_in"), [(2, 7), pytest.param(4, 14, marks=pytest.mark.long)])
def test_a_rollout_that_was_stopped_between_its_updates_goes_on_as_it_was(num_minibatches, stop_in, tmp_path):
    """Drawn again from the policy that drew it, and its ratios begin at the policy of before its first update."""
    whole = fit(tmp_path / "whole", 1, num_minibatches=num_minibatches)
    fit(tmp_path / "parts", 1, num_minibatches=num_minibatches, interrupt_in_update=stop_in)
    after = fit(tmp_path / "parts", 1, num_minibatches=num_minibatches, resume=True)
    assert list(after.results) == [3, 4, 5, 6]
    assert after.outcome() == {step: whole.outcome()[step] for step in after.results}
    assert old_logprobs(after) == old_logprobs(whole)[stop_in:]
    assert len({tuple(old) for batch in old_logprobs(whole) for old in batch.values()}) == NUM_STEPS
    assert after.policy.weight_of[num_minibatches * NUM_STEPS] == whole.policy.weight_of[num_minibatches * NUM_STEPS]


def test_a_complete_run_that_is_continued_is_the_longer_run(tmp_path):
    whole = fit(tmp_path / "whole", 2)
    fit(tmp_path / "parts", 2, num_steps=4)
    after = fit(tmp_path / "parts", 2, resume=True)
    assert after.outcome() == {step: whole.outcome()[step] for step in range(4, NUM_STEPS)}


@pytest.mark.parametrize("num_minibatches", [1, 2])
def test_no_more_weights_are_held_than_later_steps_need(num_minibatches, tmp_path):
    run = fit(tmp_path, 2, num_minibatches=num_minibatches)
    state = run.sampling.state_dict()["ahead"]
    assert sorted(state["weights"]["tensors"]) == [num_minibatches * step for step in (5, 6)]
    assert [step["step"] for step in state["steps"]] == [7, 8]


@pytest.mark.parametrize("stop", [{}, {"interrupt_after": 3}])
def test_an_estimator_learns_by_what_it_was_told_of_the_steps_own_prompts(stop, tmp_path):
    """The policy's view of the prompts of step s is that of the version which samples it; it was asked others since."""
    estimator = ValueNetworkEstimator()
    options = {"estimator": estimator, "curriculum": UniformCurriculum()}
    run = fit(tmp_path, 2, **options, **stop)
    if stop:
        run = fit(
            tmp_path, 2, resume=True, estimator=(estimator := ValueNetworkEstimator()), curriculum=UniformCurriculum()
        )
    rows = estimator.state_dict()["features"].split(PER_STEP)
    assert len(rows) == NUM_STEPS
    for step, result in run.results.items():
        asked = [
            [group.pool.prompt.prompt_ids[0], run.policy.weight_of.get(max(0, step - 2))] for group in result.groups
        ]
        if asked[0][1] is not None:  # of a version before the stop, which the second session has not seen
            assert rows[step].tolist() == asked


class Growing(Sampler):
    """Draws one response more for every step that it has learned from."""

    group_size, samples_per_round = 2, 16

    def __init__(self):
        self.num_learned = 0

    def num_to_draw(self, pool):
        return 0 if pool.num_drawn else 1 + self.num_learned

    def learn(self, pools):
        self.num_learned += 1

    def state_dict(self):
        return {"num_learned": self.num_learned}

    def load_state_dict(self, state):
        self.num_learned = state["num_learned"]


@pytest.mark.parametrize("stop", [{}, {"interrupt_after": 3}])
def test_a_step_is_sampled_by_what_its_sampler_had_learned_when_it_was_prepared(stop, tmp_path):
    run = fit(tmp_path, 2, sampler=Growing(), **stop)
    if stop:
        run = fit(tmp_path, 2, sampler=Growing(), resume=True)
    sizes = {step: {group.pool.num_drawn for group in result.groups} for step, result in run.results.items()}
    assert sizes == {step: {1 + max(0, step - 2)} for step in range(3 if stop else 0, NUM_STEPS)}


def test_quick_right_answers_and_slow_hard_prompts_bias_nothing(plain, tmp_path):
    """Where the groups that finish first are trained, as in a queue of arrivals, the easy prompts are."""

    def slow(prompt, is_positive):
        return (1 if is_positive else 10) * (10 if prompt < NUM_PROMPTS / 2 else 1)

    run = fit(tmp_path, 2, latency=slow)
    counts = [Counter(len(group.pool.responses) for group in each.results[step].groups)
              for each in (run, plain[2]) for step in range(NUM_STEPS)]  # fmt: skip
    assert counts[:NUM_STEPS] == counts[NUM_STEPS:]
    gaps = []
    for step, result in run.results.items():
        admitted = [group.pool for group in result.groups]
        assert [group.pool.prompt.prompt_id for group in result.groups] == [
            group[0] for group in plain[2].outcome()[step]
        ]
        by_end = sorted(admitted, key=lambda pool: run.engine.finished[step, pool.slot])
        is_easy = [pool.prompt.prompt_ids[0] >= NUM_PROMPTS / 2 for pool in by_end]
        gaps.append(sum(is_easy[: PER_STEP // 2]) / (PER_STEP // 2) - sum(is_easy) / PER_STEP)
    assert sum(gaps) / len(gaps) > 0.15  # the control: the first half to finish is easier than what was admitted
