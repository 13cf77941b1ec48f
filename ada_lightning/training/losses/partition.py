"""The partition function Z(x) of FlowRL, learned: one number per prompt.

Paper: FlowRL, arXiv:2509.15207: log Z is a 3-layer MLP of the mean last hidden state of the prompt. Claim: learning
log Z beside the policy makes the target distribution computable without a sum over all responses. Assumption: one
number per prompt suffices. Degenerate case: with a learning rate as small as the policy's, log Z hardly leaves where it
began in a short run, and the loss is then a policy gradient with beta times the reward.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ada_lightning.core.checks import refuse
from ada_lightning.training.seeded_tensors import seeded_uniform


class PartitionHead(nn.Module):
    """log Z from a prompt's mean hidden state: (Linear, GELU, LayerNorm, Dropout) repeated, then Linear to one number.

    Args:
        num_layers: linear layers, the last one included.
        dropout: probability that a unit is left out, in [0, 1). A unit's fate is a function of the response, the layer
            and the seed.
        learning_rate: of these parameters.
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
