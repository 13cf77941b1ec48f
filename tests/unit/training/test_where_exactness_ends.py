"""A toy policy whose true gradient is known: what keeps the update exact, and what bends it.

A response is one of six symbols with lengths of their own, drawn by a softmax; the score of symbol k is e_k - pi. Real
collector, sampler, selection and estimator make the updates; only engine and grader are made up.
"""

from __future__ import annotations

import math
import random
import statistics

import pytest
import torch

from ada_lightning.core.records import Outcome, Prompt, SamplingSettings, Verdict
from ada_lightning.core.stopping import CappedRule
from ada_lightning.methods.advantages import ExactAdvantage, PoolMeanAdvantage
from ada_lightning.methods.objectives import LinearObjective, LogObjective
from ada_lightning.methods.objectives.support import supported_weight
from ada_lightning.methods.sampling import BalanceSampler
from ada_lightning.methods.selection import BalancedSelection
from ada_lightning.training.losses import SequenceRejection, TokenTerms
from research.scripted import ScriptedEngine
from tests.builders import Collector, InstantGrader, assigned

POLICY = torch.softmax(torch.tensor([0.3, -1.2, -0.9, 0.8, 0.1, 0.6], dtype=torch.float64), dim=0)
IS_RIGHT = torch.tensor([0, 1, 1, 0, 0, 0], dtype=torch.bool)
SCORES = torch.eye(6, dtype=torch.float64) - POLICY  # row k: grad log pi(k)
GRADIENT = (POLICY[IS_RIGHT, None] * SCORES[IS_RIGHT]).sum(0)  # of the pass rate
LENGTHS = torch.tensor([1, 2, 6, 1, 5, 3])
CUT_SYMBOLS = (2, 4)  # what an engine that cuts long responses would cut
BALANCE = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4)
NUM_PROMPTS = 3000
EXACT = ExactAdvantage(objective=LogObjective())
IS_FINISHED = torch.tensor([symbol not in CUT_SYMBOLS for symbol in range(6)])
LIMIT = statistics.NormalDist().inv_cdf(1 - 0.001 / (2 * 6))  # six components, one in a thousand for all


def wanted(policy=POLICY, is_right=IS_RIGHT, objective=LogObjective()):  # noqa: B008 - has no state
    """The scores of all symbols, and what the update should be on average."""
    scores = torch.eye(6, dtype=torch.float64) - policy
    gradient = (policy[is_right, None] * scores[is_right]).sum(0)
    return scores, supported_weight(objective, BALANCE.quota, float(policy[is_right].sum())) * gradient


class ToyEngine(ScriptedEngine):
    """Draws symbols from the policy, long ones slowly; some symbols may count as cut."""

    def __init__(self, cut=(), **options):
        super().__init__(pass_rates={0: 0.5}, **options)
        self._cut = cut

    def submit(self, request_id, prompt_ids, settings, seed):
        generator = random.Random(seed)
        (symbol,) = generator.choices(range(6), weights=POLICY.tolist())
        generation = Outcome("", (symbol,), (-0.5,), is_truncated=symbol in self._cut, request_id=request_id)
        self._running[request_id] = (self._clock + int(LENGTHS[symbol]), generation)


def collect(*, sampler=BALANCE, num_prompts=NUM_PROMPTS, cut=(), step=0, **options):
    collector = Collector(decode=lambda ids: str(ids[0]), seed=0, **options)
    groups, _ = collector.collect(
        [Prompt("toy", (), prompt_ids=(0,))] * num_prompts,
        engine=ToyEngine(cut),
        grader=InstantGrader(lambda text: Verdict(float(IS_RIGHT[int(text)]))),
        sampler=sampler,
        selection=BalancedSelection(group_size=4),
        settings=SamplingSettings(max_new_tokens=8),
        stage="train",
        step=step,
        policy_version=0,
    )
    return groups


def updates(groups, advantage=EXACT, scores=SCORES):
    """Sum over kept responses of advantage times score, per prompt. Shape (P, 6)."""
    rows = torch.zeros(len(groups), 6, dtype=torch.float64)
    with_signal = [index for index, group in enumerate(groups) if group.trained]
    weights = torch.from_numpy(assigned(advantage, *(groups[index] for index in with_signal)))
    kept = [(index, one.response.response_ids[0]) for index in with_signal for one in groups[index].kept]
    prompts, symbols = torch.tensor(kept).T
    return rows.index_add_(0, prompts, weights[:, None] * scores[symbols])


def largest_deviation(rows, target):
    """In standard errors, over the components that vary."""
    error = rows.std(0) / math.sqrt(len(rows))
    difference = (rows.mean(0) - target).abs()
    assert difference[error == 0].sum() == 0
    return float((difference / error)[error > 0].max())


def cosine(rows, target):
    return float(torch.cosine_similarity(rows.mean(0), target, dim=0))


@pytest.fixture(scope="module")
def groups():
    return collect()


@pytest.mark.parametrize("objective", [LinearObjective(), LogObjective()], ids=["linear", "log"])
def test_the_update_is_the_gradient_of_the_objective(groups, objective):
    rows = updates(groups, ExactAdvantage(objective=objective))
    assert largest_deviation(rows, wanted(objective=objective)[1]) < LIMIT


def test_the_official_rule_points_the_same_way_with_another_length(groups):
    rows = updates(groups, PoolMeanAdvantage())
    assert cosine(rows, GRADIENT) > 0.995
    assert largest_deviation(rows, 4 * GRADIENT) > LIMIT  # four kept responses of the linear objective


def test_dividing_by_a_response_own_length_turns_the_update(groups):
    rows = updates(groups, scores=SCORES / LENGTHS[:, None])
    assert cosine(rows, GRADIENT) < 0.97


def test_dividing_by_the_tokens_of_a_batch_is_a_ratio_that_needs_many_prompts(groups):
    """Sum over prompts divided by their kept tokens, against the ratio of expectations."""
    rows = updates(groups) @ GRADIENT
    tokens = torch.tensor(
        [sum(float(LENGTHS[kept.response.response_ids[0]]) for kept in group.kept) for group in groups]
    ).double()
    bias = {}
    for num_prompts in (1, 32):
        sums = rows[: len(rows) // num_prompts * num_prompts].view(-1, num_prompts).sum(1)
        counts = tokens[: len(rows) // num_prompts * num_prompts].view(-1, num_prompts).sum(1)
        bias[num_prompts] = float((sums / counts).mean() / (rows.mean() / tokens.mean())) - 1
    assert abs(bias[1]) > 0.01
    assert abs(bias[32]) < abs(bias[1]) / 5


@pytest.mark.long
def test_truncated_responses_are_exact_for_what_the_setting_says():
    """Excluded: the pass rate among finished ones. Zero: finishing and being right. Masked: nothing.

    A thousand prompts tell: the targets lie a hundred standard errors and more from that of whole responses, and
    chance turns an update by less than a ten-thousandth of its cosine.
    """

    def collected(truncated):
        return collect(cut=CUT_SYMBOLS, truncated=truncated, num_prompts=1000)

    finished = torch.where(IS_FINISHED, POLICY, 0.0)
    scores, target = wanted(policy=finished / finished.sum())
    assert largest_deviation(updates(collected("exclude"), scores=scores), target) < LIMIT
    _, target = wanted(is_right=IS_RIGHT & IS_FINISHED)
    assert largest_deviation(updates(collected("zero")), target) < LIMIT
    assert cosine(updates(collected("mask")), GRADIENT) < 0.97


@pytest.mark.long
def test_a_budget_that_cuts_prompts_off_keeps_their_weight_only_with_the_rule_that_cut_them():
    """32 prompts a step, 12 responses each on average where 15 are wanted; linear objective."""
    sampler = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4, budget_per_step=32 * 8)
    collections = [collect(sampler=sampler, num_prompts=32, step=step) for step in range(125)]
    groups = [group for collection in collections for group in collection]
    exact = ExactAdvantage(objective=LinearObjective())
    rows = updates(groups, exact)
    was_cut = torch.tensor([isinstance(group.pool.rule, CappedRule) for group in groups])
    assert 0.1 < was_cut.double().mean() < 0.9
    weight = float(rows.mean(0) @ GRADIENT / (GRADIENT @ GRADIENT))
    without = float((rows * ~was_cut[:, None]).mean(0) @ GRADIENT / (GRADIENT @ GRADIENT))
    assert weight == pytest.approx(1.0, abs=0.05)  # the reference found 0.98 to 1.00
    assert without < 0.9


class TestOffPolicy:
    """Two-token responses, drawn from one policy and weighted towards another: closed form, two positives of four."""

    def setup_method(self):
        generator = torch.Generator().manual_seed(0)
        self.logits = torch.randn(2, 2, generator=generator, dtype=torch.float64, requires_grad=True)
        self.first = torch.randn(2, generator=generator, dtype=torch.float64, requires_grad=True)
        self.parameters = [self.first, self.logits]
        self.behaviour = self.token_logprobs().detach() + torch.tensor([[0.3], [-0.4], [0.2], [-0.1]])
        self.behaviour[:, 1] += torch.tensor([0.2, -0.3, 0.25, -0.2])
        self.behaviour -= torch.logsumexp(self.behaviour.sum(1), 0) / 2
        self.is_right = torch.tensor([True, False, False, True])

    def token_logprobs(self):
        """Shape (responses, tokens)."""
        first = torch.log_softmax(self.first, 0).repeat_interleave(2)
        return torch.stack([first, torch.log_softmax(self.logits, 1).flatten()], 1)

    def gradient(self, value):
        return torch.cat([part.flatten() for part in torch.autograd.grad(value, self.parameters)])

    def expected_update(self, ratio):
        """E over the behaviour policy of c (E[ratio | right] - E[ratio | wrong]) for log: c averages q."""
        chance = self.behaviour.sum(1).exp()
        pass_rate = chance[self.is_right].sum()
        mean = (chance * ratio * self.is_right).sum() / pass_rate
        mean = mean - (chance * ratio * ~self.is_right).sum() / (1 - pass_rate)
        return self.gradient((1 - pass_rate) * mean)

    def wanted(self):
        """``f'(p of the behaviour policy) * grad p``."""
        pass_rate_behaviour = self.behaviour.sum(1).exp()[self.is_right].sum()
        return self.gradient(self.token_logprobs().sum(1).exp()[self.is_right].sum()) / pass_rate_behaviour

    def test_whole_response_ratios_keep_the_direction_and_the_weight_of_the_old_policy(self):
        ratio = (self.token_logprobs() - self.behaviour).sum(1).exp()
        torch.testing.assert_close(self.expected_update(ratio), self.wanted())

    def test_per_token_ratios_do_not(self):
        ratio = (self.token_logprobs() - self.behaviour).exp().sum(1)
        assert torch.cosine_similarity(self.expected_update(ratio), self.wanted(), dim=0) < 0.999


MOVED = torch.softmax(POLICY.log() + torch.tensor([0.5, 0.4, -0.6, 0.0, -0.3, 0.2], dtype=torch.float64), dim=0)
"""The policy that trains, where :data:`POLICY` is the older one that sampled."""


def test_of_an_older_policys_responses_the_old_pass_rate_decides_the_weight_and_the_new_policy_the_direction(groups):
    """With the ratio of whole responses f'(p_old) grad p_new; without any, f'(p_old) Cov_old(right, score)."""
    scores, weights = torch.eye(6, dtype=torch.float64) - MOVED, MOVED / POLICY
    of_rule = supported_weight(LogObjective(), BALANCE.quota, float(POLICY[IS_RIGHT].sum()))
    gradient = (MOVED[IS_RIGHT, None] * scores[IS_RIGHT]).sum(0)
    shifted = scores - (POLICY[:, None] * scores).sum(0)
    covariance = (POLICY[IS_RIGHT, None] * shifted[IS_RIGHT]).sum(0)
    zeros_K = torch.zeros(6)
    terms = TokenTerms(
        logprobs_K=MOVED.log(), old_logprobs_K=MOVED.log(), sampling_logprobs_K=POLICY.log(),
        reference_logprobs_K=zeros_K, entropy_K=zeros_K, response_K=torch.arange(6), mask_K=zeros_K,
    )  # fmt: skip
    used = SequenceRejection(floor=0.1)(terms, 6, cap=10.0)
    assert used.tolist() == pytest.approx(weights.tolist())
    corrected, plain = updates(groups, scores=used[:, None] * scores), updates(groups, scores=scores)
    assert largest_deviation(corrected, of_rule * gradient) < LIMIT
    assert largest_deviation(plain, of_rule * covariance) < LIMIT
    assert largest_deviation(plain, of_rule * gradient) > LIMIT
    of_new = supported_weight(LogObjective(), BALANCE.quota, float(MOVED[IS_RIGHT].sum()))
    assert largest_deviation(corrected, of_new * gradient) > LIMIT  # the weight is that of the old pass rate
