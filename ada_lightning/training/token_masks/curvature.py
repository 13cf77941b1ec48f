"""What one step of Adam on the output embedding does to the distribution of each token, without a matrix per token.

With logits ``z = psi h / T`` the score of token a is ``d log pi(a) / d psi = (e_a - pi) h^T / T``, of rank one.
Whatever the step ``dpsi``, everything that a second-order model of one token needs is the vector of logit changes
``v = dpsi h / T``, one number per vocabulary entry:

    score . dpsi          = v_a - sum_i pi_i v_i                                 (first-order change of log pi(a))
    dpsi . Fisher . dpsi  = sum_i pi_i v_i^2 - (sum_i pi_i v_i)^2                (variance of v under pi)

And v itself never needs the (H, V) step of one token. Adam's next step is linear in the gradient g once its second
moment is taken as it is, ``dpsi = -lr D * (beta_1 m + (1 - beta_1) g) / (1 - beta_1^t)`` with
``D = 1 / (sqrt(v_hat) + eps)``, and one token's gradient is ``g = -scale (e_a - pi) h^T / T``, so

    v_i = -(lr / T) (beta_1 / c) ((D * m) h)_i + (lr / T) ((1 - beta_1) / c) (scale / T) (e_a - pi)_i (D h^2)_i:

three products of the size of the logits, here in blocks of the vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn


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

    The second moment is taken as it is. Adam would first add the token's own gradient to it, which bounds what a token
    can add to any weight by ``lr (1 - beta_1) / c * sqrt(c_2 / (1 - beta_2))``; the change of a logit by the token's
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
    mean_K /= total_K  # 1 but for the rounding of bfloat16 logits
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
