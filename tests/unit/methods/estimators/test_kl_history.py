"""SPO's tracker: golden numbers, and a divergence that is really the trainer's."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

from ada_lightning.adapters.json_state import from_json, to_json
from ada_lightning.core.episode import Episode
from ada_lightning.methods.published.spo import KlHistory
from tests.builders import make_pool, random_group
from tests.unit.training.test_policy import make_policy


class Moved:
    """A policy whose log-probabilities are all the same, and are moved by hand."""

    model = None

    def __init__(self):
        self.logprob = -1.0

    def forward_context(self):
        return nullcontext()

    def packed(self, *groups):
        return groups

    def token_logprobs(self, model, groups):
        num_tokens = sum(kept.response.num_tokens for group in groups for kept in group.kept)
        return torch.full((num_tokens,), self.logprob, dtype=torch.float64), None


def tracker(**options):
    estimator, policy = KlHistory(**options), Moved()
    estimator.connect(policy)
    return estimator, policy


def plain_logprobs(model, group):
    """Of the tokens of a group's one response, by a forward pass of its own."""
    prompt_ids, (kept,) = group.pool.prompt.prompt_ids, group.kept
    ids = torch.tensor([(*prompt_ids, *kept.response.response_ids)])
    log_softmax = model(input_ids=ids).logits[0].float().log_softmax(-1)
    return log_softmax[len(prompt_ids) - 1 : -1].gather(1, ids[0, len(prompt_ids) :, None])[:, 0]


def counts(estimator):
    [belief] = estimator.recall([make_pool([]).prompt])
    return belief.alpha, belief.beta


@pytest.mark.parametrize(
    ("divergence", "expected"),
    [
        (0.03, (2.94444, 5.05556)),  # above .0116: as much is forgotten as may be
        (0.003, (3.13333, 5.54667)),  # below .0035: as little
        (0.006, (20 / 9 * 2**-0.1 + 1, 52 / 9 * 2**-0.1)),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_counts_are_forgotten_by_how_far_the_policy_moved(divergence, expected, sign):
    estimator, policy = tracker()
    estimator.update([make_pool([1.0, 1.0, *[0.0] * 6])])
    assert counts(estimator) == pytest.approx((2.22222, 5.77778), abs=1e-5)
    policy.logprob += sign * divergence  # its distance, not its direction
    estimator.update([make_pool([1.0])])
    assert counts(estimator) == pytest.approx(expected, abs=1e-5)


def test_a_first_visit_of_one_response_is_no_measurement_and_moves_nothing():
    estimator, _ = tracker()
    assert counts(estimator) == (0.5, 0.5)
    estimator.update([make_pool([1.0])])
    assert counts(estimator) == pytest.approx((0.96 * 0.5 + 1, 0.96 * 0.5))
    estimator.update([make_pool([])])  # nothing was graded
    assert counts(estimator) == pytest.approx((0.96 * 0.5 + 1, 0.96 * 0.5))


def test_responses_that_count_stay_between_8_and_25():
    for shift, bound in ((0.0, 25.0), (1.0, 8.0)):
        estimator, policy = tracker()
        for _ in range(400):
            estimator.update([make_pool([1.0])])
            policy.logprob -= shift
        assert sum(counts(estimator)) == pytest.approx(bound, rel=1e-5)


def test_a_history_file_counts_as_a_measurement(tmp_path):
    file = tmp_path / "history.json"
    file.write_text(json.dumps({"p7": [2, 8]}))
    assert counts(KlHistory(history_file=str(file))) == pytest.approx((2.22222, 5.77778), abs=1e-5)


def test_a_resumed_run_measures_from_the_same_response():
    estimator, policy = tracker()
    estimator.update([make_pool([0.0])])
    restored = KlHistory()
    restored.load_state_dict(from_json(json.loads(json.dumps(to_json(estimator.state_dict())))))
    restored.connect(policy)
    policy.logprob += 0.006
    for each in (estimator, restored):
        each.update([make_pool([1.0])])
    assert to_json(restored.state_dict()) == to_json(estimator.state_dict())
    assert counts(restored) == pytest.approx((0.93303 * 0.48 + 1, 0.93303 * 1.48), abs=1e-5)


def test_both_log_probabilities_are_the_trainers(tiny_path, monkeypatch):
    """The engine's, -5.5 for every token here, have no part in it."""
    policy = make_policy(tiny_path)
    monkeypatch.setattr(policy, "forward_context", nullcontext)  # no trainer is attached
    first, second = random_group(3, [1.0]), random_group(3, [0.0])
    object.__setattr__(second.pool.responses[0], "response_ids", (9, 9))
    estimator = KlHistory(rho_min=1e-9, half_life=0.01)
    estimator.connect(policy)
    estimator.update([first.pool])
    with torch.no_grad():
        then = plain_logprobs(policy.model, first)
        for weight in policy.model.parameters():
            weight.mul_(1.02)
        now = plain_logprobs(policy.model, first)
    divergence = float((now - then).abs().mean())
    assert 0.002 < divergence < 0.1  # rho is between its bounds
    estimator.update([second.pool])
    [belief] = estimator.recall([first.pool.prompt])
    rho = 2.0 ** (-divergence / 0.01)
    assert (belief.alpha, belief.beta) == pytest.approx((rho * 1.48, rho * 0.48 + 1), rel=1e-3)


@pytest.mark.parametrize("max_tokens", [1, 20, 1024])
def test_responses_that_are_computed_together_are_told_apart(max_tokens, tiny_path, monkeypatch):
    """As many in a pass as fit, one at least: each has its own divergence all the same."""
    policy = make_policy(tiny_path)
    monkeypatch.setattr(policy, "forward_context", nullcontext)
    visits = [[random_group(seed, [1.0]) for seed in seeds] for seeds in ((3, 4, 5), (6, 7, 8))]
    for index, (first, second) in enumerate(zip(*visits, strict=True)):
        object.__setattr__(first.pool.prompt, "prompt_id", f"p{index}")
        second.pool.prompt = first.pool.prompt
    options = {"rho_min": 1e-9, "half_life": 0.01}
    together, alone = KlHistory(max_tokens=max_tokens, **options), KlHistory(**options)
    passes = []
    monkeypatch.setattr(policy, "token_logprobs", _counting(policy.token_logprobs, passes))
    for visit in visits:
        pools = [group.pool for group in visit]
        for estimator, calls in ((together, [pools]), (alone, [[pool] for pool in pools])):
            estimator.connect(policy)
            passes.append(0)
            for call in calls:
                estimator.update(call)
        with torch.no_grad():
            for weight in policy.model.parameters():
                weight.mul_(1.01)
    prompts = [group.pool.prompt for group in visits[0]]
    found, expected = ([belief.alpha for belief in each.recall(prompts)] for each in (together, alone))
    assert found == pytest.approx(expected, rel=1e-4)
    assert len({round(alpha, 3) for alpha in expected}) == len(prompts)
    first_visit, _, second_visit, one_by_one = passes
    assert one_by_one == 6
    assert {1: (3, 6), 20: (2, 4), 1024: (1, 2)}[max_tokens] == (first_visit, second_visit)


def _counting(token_logprobs, passes):
    def counted(*arguments):
        passes[-1] += 1
        return token_logprobs(*arguments)

    return counted


def test_of_an_episode_only_what_the_model_drew_counts():
    """Another visit's response has tokens of the environment elsewhere, or none."""
    estimator, policy = tracker(rho_min=1e-9)
    first, second = make_pool([1.0]), make_pool([1.0])
    masked(first, (True, False, True))
    masked(second, (False, True, True, False, True))
    estimator.update([first])
    policy.logprob += 0.006
    state = from_json(json.loads(json.dumps(to_json(estimator.state_dict()))))
    assert state["last"] == {"p7": [[5, 5, 5], [-1.0, -1.0], [True, False, True]]}
    estimator.load_state_dict(state)
    estimator.update([second])
    rho = 2**-0.1
    assert counts(estimator) == pytest.approx((rho * 1.48 + 1, rho * 0.48))
    estimator.update([make_pool([1.0])])
    assert counts(estimator) == pytest.approx((0.96 * (rho * 1.48 + 1) + 1, 0.96 * rho * 0.48))


def masked(pool, is_sampled):
    """Make the pool's one response an episode."""
    pool.responses[0] = replace(
        pool.responses[0],
        response_ids=(5,) * len(is_sampled),
        sampling_logprobs=(0.0,) * len(is_sampled),
        episode=Episode((), is_sampled, "done"),
    )


def test_what_cannot_be_asked_is_said():
    with pytest.raises(RuntimeError, match=r"none is connected: callbacks.adaptive_sampling .*estimator=beta_history"):
        KlHistory().update([make_pool([1.0])])
    with pytest.raises(
        ValueError,
        match=r"0 < rho_min <= rho_max < 1; got 0.97 and 0.96; .*half_life must be .* got 0; .*max_tokens .* got 0",
    ):
        KlHistory(rho_min=0.97, half_life=0, max_tokens=0)
