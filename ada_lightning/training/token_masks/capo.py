"""After CAPO: leave out tokens at which the coming update would go too far, or the wrong way.

Paper: Melo, Abate and Gal, "Stabilizing policy gradients for sample-efficient RL in LLM reasoning",
arXiv:2510.00819: a second-order model of objective (m_H) and policy (m_F) in the output embedding alone, tokens kept
where ``delta_H <= m_H <= delta_H_high`` and ``m_F <= delta_F``. Claim: with fewer than 8 % of the tokens left out,
learning rates work that make GRPO collapse. Assumption: what the output embedding does stands for the whole update.
Degenerate case: before the optimiser has moments there is no step to model, and every token trains.

What one step of Adam on the output embedding does to the distribution of each token needs no matrix per token. With
logits ``z = psi h / T`` the score of token a is ``d log pi(a) / d psi = (e_a - pi) h^T / T``, of rank one. Whatever the
step ``dpsi``, everything that a second-order model of one token needs is the vector of logit changes
``v = dpsi h / T``, one number per vocabulary entry:

    score . dpsi          = v_a - sum_i pi_i v_i                                 (first-order change of log pi(a))
    dpsi . Fisher . dpsi  = sum_i pi_i v_i^2 - (sum_i pi_i v_i)^2                (variance of v under pi)

And v itself never needs the (H, V) step of one token. Take the second moment as it is. Then Adam's next step is linear
in the gradient g: ``dpsi = -lr D * (beta_1 m + (1 - beta_1) g) / (1 - beta_1^t)`` with ``D = 1 / (sqrt(v_hat) + eps)``.
One token's gradient is ``g = -scale (e_a - pi) h^T / T``, so

    v_i = -(lr / T) (beta_1 / c) ((D * m) h)_i + (lr / T) ((1 - beta_1) / c) (scale / T) (e_a - pi)_i (D h^2)_i:

three products of the size of the logits, here in blocks of the vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ada_lightning.core.checks import refuse
from ada_lightning.core.options import option
from ada_lightning.training.batch import Microbatch
from ada_lightning.training.losses.terms import TokenTerms
from ada_lightning.training.token_masks.base import HeadUpdate, TokenMask


@option("token_masks", "capo", below="capo")
class CapoMask(TokenMask):
    """After CAPO (arXiv:2510.00819): leaves out tokens at which a simulated Adam step goes too far.

    The step is one on the output embedding. Combine with others by ``token_masks=[capo,jackpot]``.

    With u the first-order change of the token's log-probability by the step, Var the variance of all logit changes at
    its position, and A the advantage,

        m_H = A (u + (u^2 - Var) / 2),   the change of the surrogate A pi/pi_old, to second order;
        m_F = u^2 / 2,                   the token's own sample of the KL divergence of the step.

    What is the paper's: the model (g = A (e_a - pi) h, H = A [(e_a - pi)(e_a - pi)' - F] hh', one sample of F), the two
    proxies, the rule. There is no public code. What is ours:

    - *The step.* Momentum and second moment are those of the optimiser; each token adds its own gradient as it stands
      in the loss (reduction included, before clipping by norm) to the momentum
      (:func:`adam_logit_change`). So a token's verdict depends on no
      other token of its microbatch, and any split gives the same update.
    - *The thresholds*; those of the paper are not known to us. Ours are PPO's clip in the units of the proxies: a
      change by a factor of 1.28 moves the surrogate of A = 1 by 0.28, and a log-ratio of 0.2 has m_F = 0.02.

    With a head that is tied to the input embedding the moments are those of both uses.

    Args:
        min_improvement: least modelled change of A pi/pi_old (m_H), in units of the advantage; -inf: no limit.
        max_improvement: largest such change, in the same units; inf: no limit.
        max_shift: half the largest squared change of log pi (m_F), in nats; 0.02: by 0.2; inf: no limit.
        block_size: vocabulary entries at once: memory against speed, no effect on the result.

    Raises:
        ValueError: limits in the wrong order or of the wrong sign, or no block; all in one message.
    """

    name = "capo"
    needs_hidden = True
    models_update = True

    def __init__(
        self,
        *,
        min_improvement: float = -0.2,
        max_improvement: float = 0.28,
        max_shift: float = 0.02,
        block_size: int = 8192,
    ) -> None:
        prefix = "token_masks.capo"
        refuse(
            not min_improvement <= 0
            and f"{prefix}.min_improvement must be 0 or negative (-inf: none); got {min_improvement}",
            not max_improvement > 0 and f"{prefix}.max_improvement must be positive (inf: none); got {max_improvement}",
            not max_shift > 0 and f"{prefix}.max_shift must be positive (inf: none); got {max_shift}",
            block_size < 1 and f"{prefix}.block_size must be at least 1; got {block_size}",
        )
        self.min_improvement = min_improvement
        self.max_improvement = max_improvement
        self.max_shift = max_shift
        self.block_size = block_size
        self._update: HeadUpdate | None = None
        self._state: AdamState | None = None

    def begin_update(self, update: HeadUpdate) -> None:
        """Take the moments as they are before this update.

        Raises:
            ValueError: the optimiser does not train the output embedding, or is none of the Adam family.
        """
        self._update = update
        self._state = adam_state(update.optimizer, update.head.weight)

    def proxies(self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch) -> tuple[Tensor, Tensor]:
        """Return m_H and m_F of every token. Shapes ``(K,)``, float32."""
        assert terms.hidden_TH is not None  # needs_hidden
        assert self._update is not None
        assert self._state is not None
        advantages_K = advantages_B[terms.response_K]
        token_weights_B = self._update.reduction.token_weights(microbatch, self._update.counts)
        chosen_K, variance_K = adam_logit_change(
            terms.hidden_TH.detach()[microbatch.predictor_K],
            microbatch.token_ids_K,
            terms.logprobs_K.detach(),
            token_weights_B[terms.response_K] * advantages_K,
            self._update.head,
            self._state,
            temperature=self._update.temperature,
            block_size=self.block_size,
        )
        squared_K = chosen_K.square()
        return advantages_K * (chosen_K + (squared_K - variance_K) / 2), squared_K / 2

    @torch.no_grad()
    def __call__(self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch) -> Tensor:
        """Return 1 where the token is kept, else 0. Shape ``(K,)``, float32."""
        if self._state is None:
            return torch.ones_like(terms.mask_K)
        improvement_K, shift_K = self.proxies(terms, advantages_B, microbatch)
        is_kept_K = (improvement_K >= self.min_improvement) & (improvement_K <= self.max_improvement)
        return (is_kept_K & (shift_K <= self.max_shift)).to(torch.float32)

    def caveat(self) -> str:
        """Which tokens are left out."""
        return (
            f"token_masks: capo leaves out tokens where the coming step is modelled to change A pi/pi_old by less than "
            f"{self.min_improvement:g} or more than {self.max_improvement:g}, or to shift log pi by more than "
            f"{math.sqrt(2 * self.max_shift):.3g} nat"
        )


def adam_state(optimizer: Optimizer, weight: Tensor) -> AdamState | None:
    """Read the moments of one parameter; None before the first step.

    Raises:
        ValueError: the optimiser does not train it, or is none of the Adam family.
    """
    group: dict[str, Any] | None = next(
        (group for group in optimizer.param_groups if any(parameter is weight for parameter in group["params"])), None
    )
    if group is None:
        raise ValueError("token_masks=capo models a step of the output embedding, and the optimiser does not train it")
    if "betas" not in group:
        raise ValueError(
            f"token_masks=capo models a step of Adam; {type(optimizer).__name__} has no such moments: use "
            "optimizer=adamw or token_masks=none"
        )
    state = optimizer.state.get(weight, {})
    if "exp_avg" not in state:
        return None
    beta_1, beta_2 = group["betas"]
    return AdamState(
        exp_avg=state["exp_avg"],
        exp_avg_sq=state["exp_avg_sq"],
        num_steps=float(state["step"]),
        lr=float(group["lr"]),
        beta_1=beta_1,
        beta_2=beta_2,
        eps=group["eps"],
    )


@dataclass(frozen=True, slots=True)
class AdamState:
    """Of one weight matrix, before the step that is modelled. Shapes ``(V, H)``."""

    exp_avg: Tensor
    exp_avg_sq: Tensor
    num_steps: float
    """Steps taken, at least 1."""
    lr: float
    beta_1: float
    beta_2: float
    eps: float


@torch.no_grad()
def adam_logit_change(
    hidden_KH: Tensor,
    token_ids_K: Tensor,
    logprobs_K: Tensor,
    scale_K: Tensor,
    head: nn.Linear,
    state: AdamState,
    *,
    temperature: float,
    block_size: int,
) -> tuple[Tensor, Tensor]:
    """Model Adam's next step on the output embedding, were each token the only one to add to its momentum.

    The second moment is taken as it is. Adam would first add the token's own gradient to it. That bounds what a token
    can add to any weight by ``lr (1 - beta_1) / c * sqrt(c_2 / (1 - beta_2))``. The change of a logit by the token's
    own gradient is held to the same bound (times the absolute sum of h). Only rows that have hardly moved before come
    near it. Weight decay and the head's bias are left out.

    Args:
        hidden_KH: before each token. Shape ``(K, H)``.
        token_ids_K: the tokens. Shape ``(K,)``, int64.
        logprobs_K: of the tokens, tempered. Shape ``(K,)``.
        scale_K: factor on each token's log-probability in the objective, so that its part of the loss's gradient is
            ``-scale * score``. Shape ``(K,)``.
        head: its weight has shape ``(V, H)``.
        state: of that weight.
        temperature: divides the logits.
        block_size: vocabulary entries at once; ``K * block_size`` numbers are held a few times.

    Returns:
        First-order change of log pi of the token; and the variance of all logit changes under pi, which is twice the KL
        divergence of the step at this position, to second order. Shapes ``(K,)``, float32.
    """
    change_c = 1.0 - state.beta_1 ** (state.num_steps + 1)
    from_momentum = -state.lr * state.beta_1 / (change_c * temperature)
    from_token_K1 = (state.lr * (1 - state.beta_1) / (change_c * temperature**2) * scale_K)[:, None]
    bound_K1 = _own_bound(state, change_c, temperature) * hidden_KH.abs().float().sum(-1, keepdim=True)
    bias_V = head.bias if head.bias is not None else head.weight.new_zeros(len(head.weight))
    chosen_logit_K = (hidden_KH * head.weight[token_ids_K]).sum(-1).float() + bias_V[token_ids_K]
    log_norm_K1 = (chosen_logit_K / temperature - logprobs_K)[:, None]
    chosen_K, mean_K, square_K, total_K = (torch.zeros_like(logprobs_K) for _ in range(4))
    squared_KH = hidden_KH.float().square()
    for start in range(0, len(head.weight), block_size):
        block = slice(start, start + block_size)
        scale_vH = (state.exp_avg_sq[block] / (1 - state.beta_2**state.num_steps)).sqrt_().add_(state.eps).reciprocal_()
        logits_Kv = nn.functional.linear(hidden_KH, head.weight[block], bias_V[block]).float()
        pi_Kv = logits_Kv.div_(temperature).sub_(log_norm_K1).exp_()
        rows = ((token_ids_K >= start) & (token_ids_K < start + block_size)).nonzero().squeeze(-1)
        columns = token_ids_K[rows] - start
        direction_Kv = _score(pi_Kv, rows, columns)
        own_Kv = nn.functional.linear(squared_KH, scale_vH).float().mul_(direction_Kv).mul_(from_token_K1)
        own_Kv = torch.minimum(torch.maximum(own_Kv, -bound_K1), bound_K1)
        momentum_vH = scale_vH.mul_(state.exp_avg[block])
        change_Kv = nn.functional.linear(hidden_KH.float(), momentum_vH).float().mul_(from_momentum).add_(own_Kv)
        chosen_K[rows] = change_Kv[rows, columns]
        total_K += pi_Kv.sum(-1)
        mean_K += (pi_Kv * change_Kv).sum(-1)
        square_K += (pi_Kv * change_Kv.square_()).sum(-1)
    mean_K /= total_K  # 1 up to the rounding of bfloat16 logits
    return chosen_K - mean_K, (square_K / total_K - mean_K.square()).clamp_min(0)


def _own_bound(state: AdamState, change_c: float, temperature: float) -> float:
    """What a token's own gradient can change of a logit, over the absolute sum of h."""
    largest = math.sqrt((1 - state.beta_2 ** (state.num_steps + 1)) / (1 - state.beta_2))
    return state.lr * (1 - state.beta_1) / (change_c * temperature) * largest


def _score(pi_Kv: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Gradient of each token's log-probability by the logits of a block; its own logit is at (rows, columns)."""
    score_Kv = -pi_Kv
    score_Kv[rows, columns] += 1
    return score_Kv
