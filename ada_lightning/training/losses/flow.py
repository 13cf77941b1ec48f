"""FlowRL: match a distribution tilted by the reward instead of maximising the reward.

Paper: FlowRL, arXiv:2509.15207, eq. 6: trajectory balance with length normalisation and an importance weight.
Claim: the policy keeps several ways to a right answer where reward maximisation collapses to one.
Assumption: responses cover what the target finds likely; trajectory balance has the same minimum whatever policy they
were drawn from, so nothing needs correcting for the engine's own probabilities.
Degenerate case: where all rewards of a group are equal the normalised reward is 0, and the loss pulls such a prompt
back to the reference. With responses of unequal length there is no constant Z: see :class:`FlowRlLoss`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ada_lightning.core.checks import refuse
from ada_lightning.core.options import option, ref, use
from ada_lightning.training.batch import BatchCounts, Microbatch
from ada_lightning.training.losses.functional import ratio, response_sums
from ada_lightning.training.losses.terms import LossReduction, PolicyLoss, TensorAndSums, TokenTerms, clip_errors
from ada_lightning.training.seeded_tensors import seeded_uniform


class PartitionHead(nn.Module):
    """log Z from a prompt's mean hidden state: (Linear, GELU, LayerNorm, Dropout) repeated, then Linear to one number.

    Claim: learning log Z together with the policy makes the target distribution computable without a sum over all
    responses. Assumption: one number per prompt suffices. Degenerate case: with a learning rate as small as the
    policy's, log Z hardly leaves where it began in a short run, and the loss is then a policy gradient with beta times
    the reward.

    Args:
        num_layers: linear layers, the last one included (paper: 3).
        dropout: probability that a unit is left out, in [0, 1) (code: 0.1). A unit's fate is a function of the
            response, the layer and the seed.
        learning_rate: of these parameters (code: that of the policy).
        seed: of the initial weights and of dropout.

    Raises:
        ValueError: a value out of its range; all in one message.

    Source:
        FlowRL, arXiv:2509.15207; public code ``verl/workers/fsdp_workers.py``, ``ProjZModule``.
    """

    def __init__(self, *, learning_rate: float, num_layers: int = 3, dropout: float = 0.1, seed: int = 0) -> None:
        super().__init__()
        refuse(
            num_layers < 1 and f"loss.partition.num_layers must be at least 1; got {num_layers}",
            not 0 <= dropout < 1 and f"loss.partition.dropout must be in [0, 1); got {dropout}",
            not 0 < learning_rate < math.inf
            and f"loss.partition.learning_rate must be positive and finite; got {learning_rate}",
        )
        self.learning_rate = learning_rate
        self.num_layers = num_layers
        self.dropout = dropout
        self.seed = seed

    def build(self, hidden_size: int) -> None:
        """Draw the initial weights from a generator of its own; the global one is left as it was."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.linears = nn.ModuleList(nn.Linear(hidden_size, hidden_size) for _ in range(self.num_layers - 1))
            self.norms = nn.ModuleList(nn.LayerNorm(hidden_size) for _ in range(self.num_layers - 1))
            self.output = nn.Linear(hidden_size, 1)

    def forward(self, features_BH: Tensor, identity_B: Tensor) -> Tensor:
        """Return log Z of each response's prompt. In float32, whatever the policy computes in.

        Args:
            features_BH: mean hidden states of prompts.
            identity_B: names of the responses, for dropout. int64.

        Returns:
            Nats per token. Shape ``(B,)``, float32.
        """
        with torch.autocast(features_BH.device.type, enabled=False):
            units_BH = features_BH.float()
            for layer, (linear, norm) in enumerate(zip(self.linears, self.norms, strict=True)):
                units_BH = self._dropped(norm(nn.functional.gelu(linear(units_BH))), identity_B, layer)
            log_z_B: Tensor = self.output(units_BH).squeeze(-1)
        return log_z_B

    def _dropped(self, units_BH: Tensor, identity_B: Tensor, layer: int) -> Tensor:
        if not self.training or self.dropout == 0:
            return units_BH
        units_H = torch.arange(units_BH.shape[1], device=units_BH.device) + layer * units_BH.shape[1]
        is_kept_BH = seeded_uniform(identity_B[:, None], units_H, seed=self.seed) >= self.dropout
        return units_BH * is_kept_BH / (1 - self.dropout)


def prompt_means(hidden_TH: Tensor, document_lengths: Sequence[tuple[int, ...]]) -> Tensor:
    """Mean hidden state over the tokens of each response's prompt, averaged once where several responses share it.

    Args:
        hidden_TH: of all packed tokens. Shape ``(T, H)``.
        document_lengths: as in :class:`~ada_lightning.training.batch.Microbatch`.

    Returns:
        Shape ``(B, H)``, float32, in the order of the responses; with the gradient of ``hidden_TH``.

    Raises:
        ValueError: the documents do not hold T tokens, or a prompt has none.

    Example:
        >>> hidden = torch.tensor([[1.0], [3.0], [9.0], [8.0], [5.0], [7.0]])  # prompt of 2, two responses; prompt, one
        >>> prompt_means(hidden, [(2, 1, 1), (1, 1)]).tolist()
        [[2.0], [2.0], [5.0]]
    """
    if sum(map(sum, document_lengths)) != len(hidden_TH):
        raise ValueError(f"{len(hidden_TH)} hidden states for documents of {sum(map(sum, document_lengths))} tokens")
    if any(lengths[0] < 1 for lengths in document_lengths):
        raise ValueError("a prompt without tokens has no mean hidden state")
    means, start = [], 0
    for lengths in document_lengths:
        mean_H = hidden_TH[start : start + lengths[0]].float().mean(dim=0)
        means.append(mean_H.expand(len(lengths) - 1, -1))
        start += sum(lengths)
    return torch.cat(means)


@option(
    "loss",
    "flowrl",
    choices={"reduction": "response_mean"},
    partition=use(PartitionHead, learning_rate=ref("optimizer.lr")),
)
class FlowRlLoss(nn.Module, PolicyLoss):
    """FlowRL: trajectory balance towards the reference tilted by the reward (arXiv:2509.15207, eq. 6).

    Loads a second model. The squared residual is weighted by how much likelier the response has become.
    With y a response of |y| tokens to the prompt x, and r its reward normalised in the group (the run's advantage):

        residual = log Z(x) + (1/|y|) log pi(y|x) - beta r - (1/|y|) log pi_ref(y|x)
        loss = sum over responses of weight * w * residual^2,
        w = clip(pi(y|x) / pi_old(y|x), 1 - clip_low, 1 + clip_high), without gradient.

    All residuals vanish where ``pi(y|x) = pi_ref(y|x) exp(|y| (beta r - log Z(x)))``: the reference tilted by the
    reward, per token. Z is then what makes these add up to 1.

    What is the paper's: the residual, beta, the weight and its clip, the head. The public code computes the clipped
    weight and applies the free one; ``clip_low: 1`` with ``clip_high: .inf`` is that (up to a ratio of e^20). It
    averages the prompt's hidden states without its last token; here all of them count. Its scripts set a KL
    coefficient of 0.001, which only makes them load the reference: their loss has no KL term, and neither has this one.
    The head's gradient reaches the policy through the hidden states, as in the code, unless ``train_hidden`` is false.

    What is ours: a token mask lets the gradient of a token's log-probability through or not and changes no value, since
    a residual without some of its tokens would be another equation. A response that selection kept by chance counts
    ``inverse_probability`` times.

    Args:
        reduction: a response weighs the sum of its tokens' weights: ``response_mean`` gives the paper's mean over
            responses, ``token_mean`` weighs by length.
        partition: the head that learns log Z.
        beta: of the reward, in nats per token (paper: 15).
        clip_low: the weight is clipped below at ``1 - clip_low`` (code: 1, no clip).
        clip_high: and above at ``1 + clip_high`` (code: inf, no clip).
        train_hidden: let the gradient of log Z reach the policy (as in the code).

    Raises:
        ValueError: a value out of its range; all in one message.

    Source:
        FlowRL, arXiv:2509.15207, eq. 6; public code ``verl/workers/actor/dp_actor.py``, ``compute_flowrl_objective``.
    """

    needs_reference = True
    needs_groups_without_signal = True
    needs_hidden = True
    is_scaled_by_reduction = True
    has_parameters = True

    def __init__(
        self,
        *,
        reduction: LossReduction,
        partition: PartitionHead,
        beta: float = 15.0,
        clip_low: float = 0.2,
        clip_high: float = 0.2,
        train_hidden: bool = True,
    ) -> None:
        super().__init__()
        refuse(
            not 0 < beta < float("inf") and f"loss.beta must be positive and finite; got {beta}",
            *clip_errors(clip_low=clip_low, clip_high=clip_high),
        )
        self.reduction = reduction
        self.partition = partition
        self.learning_rate = partition.learning_rate
        self.beta = beta
        self.clip_low = clip_low
        self.clip_high = clip_high
        self.train_hidden = train_hidden

    def build(self, hidden_size: int) -> None:
        """Make the head."""
        self.partition.build(hidden_size)

    def forward(
        self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch, counts: BatchCounts
    ) -> TensorAndSums:
        """Sum the squares of the class's formula; in logged sums, what belongs to a response counts for each token."""
        log_ratio_K = (terms.logprobs_K - terms.old_logprobs_K).detach()
        free_weight_B = ratio(response_sums(log_ratio_K, terms.response_K, advantages_B.numel()))
        weight_B = free_weight_B.clamp(1 - self.clip_low, 1 + self.clip_high)
        assert terms.hidden_TH is not None  # needs_hidden
        hidden_TH = terms.hidden_TH if self.train_hidden else terms.hidden_TH.detach()
        log_z_B = self.partition(prompt_means(hidden_TH, microbatch.document_lengths), microbatch.identity_B)
        residual_B = log_z_B + self._log_ratio_to_target(terms, advantages_B, microbatch)
        token_weights_B = self.reduction.token_weights(microbatch, counts) * microbatch.inverse_probability_B
        loss = (token_weights_B * microbatch.num_tokens_B * weight_B * residual_B.square()).sum()
        gap_K = (terms.old_logprobs_K - terms.sampling_logprobs_K).abs()
        pool_weights_K = microbatch.pool_weight_B[terms.response_K]
        sums = {
            "clip_ratio": ((weight_B != free_weight_B) * microbatch.num_tokens_B).sum(),
            "sequence_weight": (weight_B * microbatch.num_tokens_B).sum(),
            "log_z": (log_z_B * microbatch.num_tokens_B).sum(),
            "balance_residual": (residual_B.abs() * microbatch.num_tokens_B).sum(),
            "logprob_gap": gap_K.sum(),
            "logprob_gap_max": gap_K.max(),
            "entropy": (pool_weights_K * terms.entropy_K).sum(),
            "pool_weight": pool_weights_K.sum(),
        }
        return loss, {name: value.detach().float() for name, value in sums.items()}

    def caveats(self) -> list[str]:
        """The weight, and where it is clipped."""
        return [
            f"each response weighs pi/pi_old of the whole response, clipped at {1 - self.clip_low:g} and "
            f"{1 + self.clip_high:g}; the minimum does not depend on it"
        ]

    def reuse_caveat(self) -> str:
        """How responses of an earlier policy are weighed."""
        return "the others weigh each response differently and have the same minimum"

    def follows(self) -> list[str]:
        """Name the distribution that the update goes for."""
        return [
            "update: follows no f(p): it moves towards the reference policy, tilted by "
            f"exp({self.beta:g} * normalised reward - log Z) per token"
        ]

    def _log_ratio_to_target(self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch) -> Tensor:
        """The residual without log Z."""
        fixed_K = terms.logprobs_K.detach()
        logprobs_K = fixed_K + terms.mask_K * (terms.logprobs_K - fixed_K)  # masked tokens keep their value
        sum_B = response_sums(logprobs_K - terms.reference_logprobs_K, terms.response_K, advantages_B.numel())
        rewards_B = advantages_B / microbatch.inverse_probability_B
        return sum_B / microbatch.num_tokens_B.clamp_min(1) - self.beta * rewards_B
