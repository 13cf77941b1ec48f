"""Closed forms against dense matrices, autograd, finite differences and torch's own Adam, on a vocabulary of eleven."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from ada_lightning.training.token_masks.capo import AdamState, adam_logit_change

K, V, H, TEMPERATURE = 7, 11, 5, 0.7
LR, BETAS, EPS, STEPS = 0.2, (0.9, 0.999), 1e-8, 40


class Case:
    """A head that Adam has trained for a while, and tokens with advantages and weights in the loss."""

    def __init__(self, *, scale=1e-3, has_bias=False):
        generator = torch.Generator().manual_seed(0)
        self.head = nn.Linear(H, V, bias=has_bias)
        with torch.no_grad():
            for parameter in self.head.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
        self.optimizer = torch.optim.Adam([self.head.weight], lr=0.02, betas=BETAS, eps=EPS)
        for _ in range(STEPS):
            self.head.weight.grad = torch.randn(V, H, generator=generator)
            self.optimizer.step()
        self.optimizer.param_groups[0]["lr"] = LR  # a long step, so that second-order terms matter
        self.hidden_KH = torch.randn(K, H, generator=generator)
        self.ids_K = torch.tensor([0, 10, 3, 3, 7, 5, 2])
        self.advantages_K = torch.tensor([1.0, -0.5, 2.0, 0.0, -1.5, 0.7, -0.1])
        self.scale_K = scale * self.advantages_K
        log_softmax_KV = self.log_softmax(self.head.weight)
        self.pi_KV = log_softmax_KV.exp()
        self.logprobs_K = log_softmax_KV[torch.arange(K), self.ids_K]

    def log_softmax(self, weight):
        bias = 0 if self.head.bias is None else self.head.bias.detach()
        return ((self.hidden_KH @ weight.detach().T + bias) / TEMPERATURE).log_softmax(-1)

    def state(self):
        state = self.optimizer.state[self.head.weight]
        return AdamState(state["exp_avg"], state["exp_avg_sq"], STEPS, LR, *BETAS, EPS)

    def change(self, block_size=4):
        return adam_logit_change(
            self.hidden_KH,
            self.ids_K,
            self.logprobs_K,
            self.scale_K,
            self.head,
            self.state(),
            temperature=TEMPERATURE,
            block_size=block_size,
        )

    def proxies(self):
        (u_K, variance_K), a_K = self.change(), self.advantages_K
        return a_K * (u_K + (u_K**2 - variance_K) / 2), u_K**2 / 2

    def score(self, k):
        """d log pi / d psi, dense."""
        return torch.outer(torch.eye(V)[self.ids_K[k]] - self.pi_KV[k], self.hidden_KH[k]) / TEMPERATURE

    def dense_step(self, k):
        """Adam's next step with the second moment as it is, dense."""
        state = self.state()
        gradient = -self.scale_K[k] * self.score(k)
        mean = (BETAS[0] * state.exp_avg + (1 - BETAS[0]) * gradient) / (1 - BETAS[0] ** (STEPS + 1))
        return -LR * mean / ((state.exp_avg_sq / (1 - BETAS[1] ** STEPS)).sqrt() + EPS)

    def torch_step(self, k):
        """What torch.optim.Adam does with this token's gradient."""
        head = copy.deepcopy(self.head)
        optimizer = torch.optim.Adam([head.weight], lr=LR, betas=BETAS, eps=EPS)
        optimizer.load_state_dict(copy.deepcopy(self.optimizer.state_dict()))
        head.weight.grad = -self.scale_K[k] * self.score(k)
        optimizer.step()
        return head.weight.detach() - self.head.weight.detach()

    def dense_proxies(self, k, step):
        """With the paper's matrices, (V H) x (V H) of them."""
        score, a = self.score(k).flatten(), float(self.advantages_K[k])
        pi, h = self.pi_KV[k], self.hidden_KH[k]
        outer = torch.outer(score, score)
        fisher = torch.kron(torch.diag(pi) - torch.outer(pi, pi), torch.outer(h, h)) / TEMPERATURE**2
        flat = step.flatten()
        return a * float(score @ flat) + float(flat @ (a * (outer - fisher)) @ flat) / 2, float(flat @ outer @ flat) / 2


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("scale", [1e-3, 0.3])
def test_closed_forms_are_the_dense_matrices(scale, has_bias):
    """A scale of 0.3 makes the token's own part as large as that of the momentum; the bound is far away in both."""
    case = Case(scale=scale, has_bias=has_bias)
    improvement_K, shift_K = case.proxies()
    dense = [case.dense_proxies(k, case.dense_step(k)) for k in range(K)]
    torch.testing.assert_close(improvement_K, torch.tensor([m for m, _ in dense]), atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(shift_K, torch.tensor([m for _, m in dense]), atol=1e-6, rtol=1e-4)
    assert float(shift_K.max()) > 1e-3


def test_the_step_is_adams():
    """Taking the second moment as it is leaves out at most (1 - beta_2) g^2 / (beta_2 v) of it, and its bias correction

    at the next step: relative errors of every element, so of a sum of elements relative to the sum of their sizes.
    """
    case = Case(scale=0.3)
    for k in range(K):
        frozen, real = case.dense_step(k), case.torch_step(k)
        gradient_sq, v = (case.scale_K[k] * case.score(k)) ** 2, case.state().exp_avg_sq
        added = float(((1 - BETAS[1]) * gradient_sq / (BETAS[1] * v)).max())
        correction = BETAS[1] * (1 - BETAS[1] ** STEPS) / (1 - BETAS[1] ** (STEPS + 1))
        allowed = max(abs(correction * (1 + added) - 1), abs(correction - 1)) / 2 * 1.2
        torch.testing.assert_close(frozen, real, rtol=allowed + 1e-4, atol=1e-7)
        assert allowed < 0.2


def test_the_model_is_right_to_second_order():
    """The error against the true change of J falls with the cube of the step: 8 times for half of it."""
    case = Case(scale=0.3)
    k = int(case.proxies()[0].abs().argmax())
    score, step = case.score(k).double(), case.dense_step(k).double()
    pi, h, a = case.pi_KV[k].double(), case.hidden_KH[k].double(), float(case.advantages_K[k])
    errors = []
    for factor in (0.4, 0.2, 0.1):
        v = factor * step @ h / TEMPERATURE
        u = float((score * factor * step).sum())
        modelled = a * (u + (u**2 - float((pi * v**2).sum() - (pi @ v) ** 2)) / 2)
        true = a * math.exp(float(v[case.ids_K[k]] - torch.logsumexp(pi.log() + v, 0))) - a
        errors.append(abs(true - modelled))
    assert errors[0] / errors[1] == pytest.approx(8, rel=0.25)
    assert errors[1] / errors[2] == pytest.approx(8, rel=0.15)


@pytest.mark.parametrize("block_size", [1, 3, 11, 8192])
def test_blocks_change_nothing(block_size):
    one, other = Case().change(), Case().change(block_size)
    torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


def test_rows_that_have_never_moved_are_held_to_adams_own_bound():
    """With v = 0 a frozen second moment would step by g / eps; Adam's own step is at most the bound."""
    case = Case(scale=0.3)
    state = case.optimizer.state[case.head.weight]
    state["exp_avg"].zero_()
    state["exp_avg_sq"].zero_()
    chosen_K, _ = case.change()
    largest = LR * 0.1 / (1 - 0.9 ** (STEPS + 1)) * math.sqrt((1 - 0.999 ** (STEPS + 1)) / 0.001) / TEMPERATURE
    for k in range(K):
        bound = largest * float(case.hidden_KH[k].abs().sum())
        # log pi moves by a difference of logit changes, each within the bound
        assert abs(float(chosen_K[k])) <= 2 * bound
        real = case.torch_step(k) @ case.hidden_KH[k] / TEMPERATURE
        assert float(real.abs().max()) <= bound * 1.001
    assert float(chosen_K.abs().max()) > 0.01
