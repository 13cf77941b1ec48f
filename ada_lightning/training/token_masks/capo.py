"""After CAPO: leave out tokens at which the coming update would go too far, or the wrong way.

Paper: Melo, Abate and Gal, "Stabilizing policy gradients for sample-efficient RL in LLM reasoning",
arXiv:2510.00819: a second-order model of objective (m_H) and policy (m_F) in the output embedding alone, tokens kept
where ``delta_H <= m_H <= delta_H_high`` and ``m_F <= delta_F``. Claim: with fewer than 8 % of the tokens left out,
learning rates work that make GRPO collapse. Assumption: what the output embedding does stands for the whole update.
Degenerate case: before the optimiser has moments there is no step to model, and every token trains.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ada_lightning.core.checks import refuse
from ada_lightning.training.batch import Microbatch
from ada_lightning.training.losses.terms import TokenTerms
from ada_lightning.training.token_masks.base import HeadUpdate, TokenMask
from ada_lightning.training.token_masks.curvature import AdamState, adam_logit_change


class CapoMask(TokenMask):
    """Keeps a token where a simulated Adam step on the output embedding is modelled to do no harm to it.

    With u the first-order change of the token's log-probability by the step, Var the variance of all logit changes at
    its position, and A the advantage,

        m_H = A (u + (u^2 - Var) / 2),   the change of the surrogate A pi/pi_old, to second order;
        m_F = u^2 / 2,                   the token's own sample of the KL divergence of the step.

    What is the paper's: the model (g = A (e_a - pi) h, H = A [(e_a - pi)(e_a - pi)' - F] hh', one sample of F), the two
    proxies, the rule. There is no public code. What is ours:

    - *The step.* Momentum and second moment are those of the optimiser; each token adds its own gradient as it stands
      in the loss (reduction included, before clipping by norm) to the momentum
      (:func:`~ada_lightning.training.token_masks.curvature.adam_logit_change`). So a token's verdict depends on no
      other token of its microbatch, and any split gives the same update.
    - *The thresholds*; those of the paper are not known to us. Ours are PPO's clip in the units of the proxies: a
      change by a factor of 1.28 moves the surrogate of A = 1 by 0.28, and a log-ratio of 0.2 has m_F = 0.02.

    With a head that is tied to the input embedding the moments are those of both uses.

    Args:
        min_improvement: least m_H, in units of the advantage; -inf: no limit.
        max_improvement: largest m_H; inf: no limit.
        max_shift: largest m_F, in nats; inf: no limit.
        block_size: vocabulary entries at once.

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

    def bend(self) -> str:
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
