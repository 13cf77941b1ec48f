"""Whole runs with hints, real trainer and checkpoints and scripted responses: stopped anywhere, they go on alike."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from ada_lightning.adapters.json_state import to_json
from ada_lightning.analysis.metrics.rollout import EstimatorCalibration, RolloutMetrics, effective_weights
from ada_lightning.callbacks.cost_preview import CostPreview
from ada_lightning.callbacks.evaluation import Evaluation
from ada_lightning.callbacks.prompt_log import PromptLog, read_prompts
from ada_lightning.core.hint import Solution
from ada_lightning.core.method import Method
from ada_lightning.core.records import Outcome, Prompt, SamplingSettings, Verdict
from ada_lightning.core.step_records import RolloutResult
from ada_lightning.methods.advantages import GroupNormalizedAdvantage
from ada_lightning.methods.curriculum import UniformCurriculum
from ada_lightning.methods.estimators import BetaHistory
from ada_lightning.methods.hints import PrefixHints
from ada_lightning.methods.published.sage import TextHints
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.methods.selection import AllSelection
from ada_lightning.rollout.service import RolloutService
from ada_lightning.training.losses import ClippedPolicyLoss, TokenMeanReduction
from research.scripted import ScriptedEngine
from tests.unit.callbacks.small_run import Leader
from tests.unit.callbacks.small_run import Policy as SmallPolicy
from tests.unit.scripted_run import Grader, Interrupting, Policy, train

NUM_PROMPTS = 24
SOLUTION = Solution("a\nb\nc\nd", (50, 51, 52, 53), ((2, 1), (4, 2), (6, 3)))
PROMPTS = [
    Prompt(f"p{index}", ({"role": "user", "content": "?"},), {"solution": "a"}, prompt_ids=(index,), solution=SOLUTION)
    for index in range(NUM_PROMPTS)
]
RATES = {index: (0.0, 0.02, 0.6)[index % 3] for index in range(NUM_PROMPTS)}
pytestmark = pytest.mark.filterwarnings("ignore")


def encode(prompt):
    """One token for the prompt, and one for each level of its hint."""
    bare, _, level = prompt.prompt_id.removeprefix("p").partition("#")
    return (int(bare), *range(50, 50 + int(level or 0)))


KINDS = {"prefix": PrefixHints, "text": TextHints}


class Helped(ScriptedEngine):
    """Right more often with every token of a hint."""

    def submit(self, request_id, prompt_ids, settings, seed):
        rates = {prompt_ids[0]: RATES[prompt_ids[0]] + 0.2 * (len(prompt_ids) - 1)}
        self._pass_rates = rates
        super().submit(request_id, prompt_ids, settings, seed)


class LastTokenGrader(Grader):
    """Right is what ends with a 1: what stands before it is the hint."""

    def submit(self, ticket, prompt, completion):
        assert completion.text[:-1] == ("" if prompt.hint is None else prompt.hint.text)
        self._ready.append((ticket, Verdict(float(completion.text.endswith("1")))))


class Small(Policy):
    def training_step(self, batch, batch_idx):
        self.batches = [*getattr(self, "batches", []), batch]
        if batch.microbatches:
            self.model(torch.ones(1, 1)).sum().backward()
        self._update(self.optimizers(), torch.tensor(0.0), torch.tensor(1.0), is_empty=not batch.microbatches)
        self.update_metrics = {"train/entropy": 1.0}

    def next_token_logprobs(self, token_ids, num_prefixes):
        return torch.full((num_prefixes, 2), -0.5)


class Watch(Interrupting):
    def __init__(self, *interrupts):
        super().__init__(*interrupts)
        self.results, self.figures = {}, {}

    def on_rollout_end(self, trainer, pl_module, result):
        self.results[result.step] = result

    def on_step_end(self, trainer, pl_module, figures):
        self.figures[len(self.figures)] = figures

    def groups(self):
        return {
            step: [
                (group.pool.slot, group.pool.prompt, [r.reward for r in group.pool.responses],
                 [kept.advantage for kept in group.kept])
                for group in result.groups
            ]
            for step, result in self.results.items()
        }  # fmt: skip


def fit(folder, *, hints="prefix", num_minibatches=1, num_steps=10, max_staleness=0, interrupts=(), resume=False):
    service = RolloutService(
        engine=lambda **options: Helped(pass_rates={}, max_num_seqs=7), max_model_tokens=64, seed=0,
        sampling=SamplingSettings(max_new_tokens=4), max_staleness=max_staleness,
    )  # fmt: skip
    part = KINDS[hints](p_min=0.3, doubt=0.5)
    part.connect(encode, has_turns=True)
    method = Method(estimator=BetaHistory(), sampler=UniformSampler(group_size=4), selection=AllSelection(), hints=part)
    policy = Small(folder, advantage=GroupNormalizedAdvantage(), loss=ClippedPolicyLoss(reduction=TokenMeanReduction()))
    watch = Watch(*interrupts)
    train(
        folder, policy, method, service, watch, grader=LastTokenGrader(), resume=resume, num_prompts=NUM_PROMPTS,
        listed=PROMPTS, prompts_per_step=8, num_steps=num_steps, num_minibatches=num_minibatches,
        curriculum=UniformCurriculum(),
    )  # fmt: skip
    watch.method, watch.policy = method, policy
    return watch


@pytest.fixture(scope="module", params=KINDS)
def whole(request, tmp_path_factory):
    return fit(tmp_path_factory.mktemp("whole"), hints=request.param)


def test_prompts_that_nobody_solves_are_reached_and_others_are_not(whole):
    given = {
        (group.pool.prompt.prompt_id.partition("#")[0], group.pool.hint)
        for result in whole.results.values()
        for group in result.groups
        if group.pool.hint
    }
    assert given
    assert all(int(prompt_id[1:]) % 3 < 2 for prompt_id, _ in given)
    assert {level for _, level in given} == {1, 2, 3}
    groups = [group for result in whole.results.values() for group in result.groups if group.pool.num_drawn]
    drawn = [group.pool.prompt.prompt_id for group in groups if group.pool.hint]
    figures = whole.figures[9]
    assert figures["hints/prompts_reached"] == len({prompt_id.partition("#")[0] for prompt_id in drawn})
    assert sum(each["hints/groups"] for each in whole.figures.values()) == len(drawn) > len(set(drawn))


def test_hints_keep_to_a_quarter_and_their_tokens_are_told_apart(whole):
    for result, figures in zip(whole.results.values(), whole.figures.values(), strict=True):
        num_hinted = sum(group.pool.num_drawn for group in result.groups if group.pool.hint)
        num_drawn = sum(group.pool.num_drawn for group in result.groups)
        num_written = sum(group.pool.prompt.hint.num_written for group in result.groups if group.pool.hint)
        assert figures["hints/share"] == (num_hinted + num_written) / (num_drawn + num_written) <= 0.25
        assert figures["rollout/num_sampled"] == num_drawn
        assert figures["hints/generated_tokens"] == result.stats.hinted_tokens == num_hinted  # one token each
        assert figures.get("hints/written_tokens", 0) == result.stats.written_tokens == num_written
        assert figures["rollout/generated_tokens"] == num_drawn + num_written
        assert figures["rollout/response_tokens"] == 1


def test_hinted_groups_train_and_count_in_no_denominator(whole):
    for result, batch in zip(whole.results.values(), whole.policy.batches, strict=True):
        bare = [group for group in result.groups if not group.pool.hint]
        assert batch.counts.num_prompts == len(bare) == 8
        assert batch.counts.num_response_tokens == batch.counts.num_responses == 32
        trained = sum(len(group.trained) for group in result.groups)
        assert sum(len(microbatch.rewards_B) for microbatch in batch.microbatches) == trained
    assert any(group.trained for result in whole.results.values() for group in result.groups if group.pool.hint)


def test_figures_of_prompts_and_rewards_are_those_of_a_step_without_the_hinted_groups(whole):
    result = next(result for result in whole.results.values() if any(group.pool.hint for group in result.groups))
    bare = tuple(group for group in result.groups if not group.pool.hint)
    stats = replace(result.stats, num_drawn=result.stats.num_drawn - result.stats.num_hinted)
    without = RolloutResult(result.step, 0, bare, stats)
    apart = ("rollout/num_sampled", "rollout/response_tokens", "rollout/generated_tokens", "rollout/empty_ratio")
    found, expected = RolloutMetrics()(result), RolloutMetrics()(without)
    assert {k: v for k, v in found.items() if k not in apart} == {k: v for k, v in expected.items() if k not in apart}
    assert effective_weights(result.groups) == effective_weights(bare)
    figures = next(each for each in whole.figures.values() if each["hints/groups"])
    calibration = EstimatorCalibration(sync_on_compute=False)
    calibration.update([group.pool for group in bare])
    assert figures["estimator/brier"] == pytest.approx(float(calibration.compute()["estimator/brier"]))


def test_no_history_holds_a_hinted_prompt_or_its_responses(whole):
    counts = whole.method.estimator.history_counts()
    assert set(counts) <= {prompt.prompt_id for prompt in PROMPTS}
    bare_visits = [group.pool for result in whole.results.values() for group in result.groups if not group.pool.hint]
    fresh = BetaHistory()
    for step in whole.results:
        fresh.update([pool for pool in bare_visits if pool.step == step])
    assert to_json(fresh.state_dict()) == to_json(whole.method.estimator.state_dict())


def test_the_prompt_log_tells_them_apart(whole, tmp_path):
    log = PromptLog(run_dir=tmp_path)
    for result in whole.results.values():
        log.on_rollout_end(Leader(), SmallPolicy(), result)
    rows = read_prompts(tmp_path)
    assert (rows.prompt_id.str.contains("#") == (rows.hint > 0)).all()
    assert rows[rows.hint == 0].groupby("step").size().eq(8).all()
    assert set(rows[rows.hint > 0].num_hints) == {3}


class Served:
    """A service whose responses are all wrong, and which plays whatever step it is asked for."""

    engine = SimpleNamespace(weights_of=lambda policy: None)
    takes_drafts = False
    settings = RolloutService(
        engine=partial(Helped, pass_rates={}), max_model_tokens=64, seed=0, sampling=SamplingSettings(max_new_tokens=4)
    ).settings

    def sample(self, begin, *, policy_version, stage, **others):
        step = begin(settings=self.settings, policy_version=policy_version, stage=stage, max_prompt_tokens=64)
        while requests := step.ask():
            for request in requests:
                step.tell(request, Outcome("0", (0,), (0.0,), False, Verdict(0.0)))
        return step


def test_evaluations_and_previews_never_hint():
    policy, asked = SimpleNamespace(policy_version=0, clock=None, interrupt_check=None), PROMPTS[:12]
    data = SimpleNamespace(step_prompts=lambda number: asked)
    evaluation = Evaluation(service=Served(), num_samples=2, sampling=SamplingSettings(max_new_tokens=4))
    preview = CostPreview(service=Served(), sampler=UniformSampler(group_size=2), selection=AllSelection())
    drawn = (
        evaluation._sample(asked, policy, evaluation._last, version=0),
        preview._rollout(policy, data, num_samples=2, index=0),
    )
    assert [[group.pool.prompt for group in result.groups] for result in drawn] == [asked, asked]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_staleness", [0, 1])
@pytest.mark.parametrize(("num_minibatches", "interrupts"), [(1, (3,)), (2, (-1, 9)), (2, (7,))])
def test_a_stopped_run_goes_on_as_one_that_never_stopped(num_minibatches, interrupts, max_staleness, kind, tmp_path):
    """Between two steps, within the updates of one, and between its two updates."""
    run = partial(fit, hints=kind, num_minibatches=num_minibatches, max_staleness=max_staleness, num_steps=8)
    whole = run(tmp_path / "whole")
    stopped = run(tmp_path / "parts", interrupts=interrupts)
    after = run(tmp_path / "parts", resume=True)
    assert any(group.pool.hint for result in after.results.values() for group in result.groups if group.pool.num_drawn)
    assert stopped.groups() | after.groups() == whole.groups()
    assert to_json(after.method.state_dict()) == to_json(whole.method.state_dict())
    assert whole.method.state_dict()["hints"]["progress"]
