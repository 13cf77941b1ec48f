"""Pairs in the order of a reward that is read from hidden states, which a prompt's own rewards do not touch."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from scipy.special import expit

from ada_lightning.methods.published.representation_preference import RepresentationPreferenceAdvantage, probed_rewards
from tests.builders import make_group, random_group
from tests.unit.training.test_policy import make_policy


def asked(rule, states, ratios=None):
    """A rule that is told these states and log-ratios, by slot."""
    rule.connect(
        lambda group: (ratios or {}).get(group.pool.slot, [0.0] * len(group.kept)),
        lambda group: states[group.pool.slot],
    )
    return rule


def test_a_probe_is_the_ridge_regression_of_the_others():
    generator = np.random.default_rng(0)
    states = [generator.normal(size=(size, 5)) for size in (3, 2, 4)]
    rewards = [generator.normal(size=len(each)) for each in states]
    found = probed_rewards(states, rewards, ridge=0.3)
    for index, own in enumerate(states):
        others = np.concatenate([each for at, each in enumerate(states) if at != index])
        wanted = np.concatenate([each for at, each in enumerate(rewards) if at != index])
        centred = others - others.mean(0)
        penalty = 0.3 * (centred**2).sum() / len(centred)
        weights = np.linalg.solve(centred.T @ centred + penalty * np.eye(5), centred.T @ (wanted - wanted.mean()))
        assert found[index] == pytest.approx(wanted.mean() + (own - others.mean(0)) @ weights, abs=1e-9)
    assert probed_rewards(states[:1], rewards[:1], ridge=1.0)[0].tolist() == [0.0] * 3


def test_by_hand():
    """States tell right from wrong; log-ratios 2 and 0. The pair's confidence against what the policy has of it."""
    states = {slot: [[1.0], [-1.0]] for slot in range(3)}
    rule = asked(RepresentationPreferenceAdvantage(beta=0.5, scale=0.2, ridge=1.0), states, {0: [2.0, 0.0]})
    groups = [make_group([1.0, 0.0], slot=slot) for slot in range(3)]
    # Others: mean 1/2, kernel eigenvalue 4 for a penalty of 1, so a weight of (4 / 5) / 2.
    pull = 0.5 * (expit((0.9 - 0.1) / 0.2) - expit(0.5 * 2.0))
    assert rule.assign(groups)[0] == pytest.approx([pull, -pull])


def test_a_prompts_own_rewards_move_nothing_and_equal_ones_are_ranked_by_what_others_teach():
    states = {slot: [[1.0 + slot / 9], [-1.0]] for slot in range(4)}
    rule = asked(RepresentationPreferenceAdvantage(), states)
    others = [make_group([1.0, 0.0], slot=slot) for slot in (1, 2, 3)]
    found = [rule.assign([make_group(own, slot=0), *others])[0] for own in ([1.0, 0.0], [0.0, 1.0], [0.0, 0.0])]
    assert found[0] == found[1] == found[2]
    assert found[0][0] > 0 > found[0][1]


def test_without_anything_to_learn_from_nothing_trains():
    rule = asked(RepresentationPreferenceAdvantage(), {0: [[1.0], [2.0]], 1: [[1.0]]})
    assert rule.assign([make_group([0.0, 0.0]), make_group([0.0], slot=1)]) == [[0.0, 0.0], [0.0]]
    assert rule.assign([make_group([1.0], slot=1), make_group([0.0, 0.0])])[0] == [0.0]  # alone
    with pytest.raises(RuntimeError, match="none is connected"):
        RepresentationPreferenceAdvantage().assign([make_group([1.0, 0.0])])
    with pytest.raises(ValueError, match=r"(?s)beta must be positive.*scale.*ridge"):
        RepresentationPreferenceAdvantage(beta=0, scale=-1, ridge=float("inf"))


def test_states_are_those_of_the_model_after_each_response(tiny_path, monkeypatch):
    policy, group = make_policy(tiny_path, advantage=RepresentationPreferenceAdvantage()), random_group(1, [1.0, 0.0])
    monkeypatch.setattr(policy, "forward_context", nullcontext)  # no trainer is attached
    policy.setup("fit")
    found = policy.advantage.states(group)
    for kept, state_H in zip(group.kept, found, strict=True):
        ids = torch.tensor([(*group.pool.prompt.prompt_ids, *kept.response.response_ids)])
        whole = policy.model(input_ids=ids, output_hidden_states=True).hidden_states[-1]
        assert state_H == pytest.approx(whole[0, -1].detach().double().numpy(), abs=2e-5)  # float32, packed
