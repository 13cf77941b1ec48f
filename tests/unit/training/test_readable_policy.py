"""What others ask a policy about many prompts and responses: in few passes, with the answers of a pass for each."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from lightning.pytorch import Trainer

from ada_lightning.core.records import KeptResponse, Prompt
from ada_lightning.methods.published.preference import DpoAdvantage
from tests.builders import random_group
from tests.unit.training.test_policy import DEVICE, make_policy, move

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
"""In float32, whose sums depend a little on what is computed together; another token's state differs by about 1."""
PROMPTS = [Prompt(f"p{n}", (), prompt_ids=tuple(range(3, 3 + n))) for n in (5, 40, 3, 12, 12, 7, 30, 1)]
WHOLE = random_group(5, [1.0, 0.0, 1.0, 0.0, 0.0, 1.0])
EMPTY = KeptResponse(replace(WHOLE.kept[0].response, response_ids=(), sampling_logprobs=()), 1.0)
GROUP = replace(WHOLE, kept=(WHOLE.kept[0], EMPTY, *WHOLE.kept[1:]))


@pytest.fixture
def policy(tiny_path):
    policy = make_policy(tiny_path, advantage=DpoAdvantage(), temperature=0.8)
    policy.trainer = Trainer(accelerator=DEVICE, logger=False, enable_checkpointing=False, barebones=True)
    move(policy)
    return policy


def passes(policy, question):
    """The answer to a question, and how many passes through the layers it took."""
    calls = []
    with policy.model.base_model.register_forward_hook(lambda *_: calls.append(1)):
        return question(), len(calls)


@torch.no_grad()
def states(policy, ids):
    return policy.model.base_model(input_ids=torch.tensor([ids], device=DEVICE), use_cache=False).last_hidden_state[0]


@torch.no_grad()
def logprob(model, prompt_ids, response_ids):
    logits = model(input_ids=torch.tensor([(*prompt_ids, *response_ids)], device=DEVICE), use_cache=False).logits
    rows = (logits[0, len(prompt_ids) - 1 : -1] / 0.8).log_softmax(-1)
    return float(rows.gather(-1, torch.tensor(response_ids, device=DEVICE)[:, None]).sum())


@pytest.mark.parametrize(("max_tokens", "num_passes"), [(10_000, 1), (50, 3), (1, 8)])
def test_prompts_are_represented_together_and_each_as_if_alone(policy, max_tokens, num_passes):
    policy.read_at_once(max_tokens)
    found, number = passes(policy, lambda: policy.represent(PROMPTS))
    expected = torch.stack([states(policy, prompt.prompt_ids)[-1].cpu() for prompt in PROMPTS])
    torch.testing.assert_close(found, expected, **CLOSE)
    assert found.dtype == torch.float32
    assert number == num_passes


@pytest.mark.parametrize(("max_tokens", "num_passes"), [(10_000, 1), (1, 6)])
def test_log_ratios_of_a_group_are_those_of_each_response(policy, max_tokens, num_passes):
    policy.read_at_once(max_tokens)
    found, number = passes(policy, lambda: policy.log_ratios(GROUP))
    prompt_ids = GROUP.pool.prompt.prompt_ids
    expected = [
        logprob(policy.model, prompt_ids, ids) - logprob(policy.reference, prompt_ids, ids) if ids else 0.0
        for ids in (kept.response.response_ids for kept in GROUP.kept)
    ]
    assert found == pytest.approx(expected, abs=1e-4)
    assert max(map(abs, found)) > 0.01
    assert number == num_passes


@pytest.mark.parametrize(("max_tokens", "num_passes"), [(10_000, 1), (1, 7)])
def test_last_states_of_a_group_are_those_of_each_response(policy, max_tokens, num_passes):
    policy.read_at_once(max_tokens)
    found, number = passes(policy, lambda: policy.last_states(GROUP))
    prompt_ids = GROUP.pool.prompt.prompt_ids
    expected = [states(policy, (*prompt_ids, *kept.response.response_ids))[-1].tolist() for kept in GROUP.kept]
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), **CLOSE)
    assert number == num_passes


def test_nothing_is_asked_about_nothing(policy):
    assert policy.log_ratios(replace(GROUP, kept=(EMPTY,))) == [0.0]
    assert policy.last_states(replace(GROUP, kept=())) == []
