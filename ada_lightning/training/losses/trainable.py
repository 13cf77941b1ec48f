"""A loss that brings trainable parameters of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import nn


class TrainableLoss(nn.Module, ABC):
    """A :class:`~ada_lightning.training.losses.terms.PolicyLoss` whose parameters train beside the policy's.

    :class:`~ada_lightning.training.policy.PolicyModule` does the rest:

    - calls :meth:`build` when the policy is loaded, before the optimiser is made;
    - gives the parameters a group of their own in the run's optimiser, with :attr:`learning_rate` and every other
      setting, the warm-up too, as the policy's;
    - clips their gradient apart from the policy's, to the same ``policy.max_grad_norm``: an error of the loss's own
      model, large at first, must not shorten the policy's step. It is logged as ``train/loss_grad_norm``. If either
      gradient is not finite, neither is applied;
    - keeps them in ``trainer.ckpt``, where the policy's weights are left out on purpose;
    - never sends them to the engine.

    Parameters must not be random beyond the run's seed, nor the loss: a dropout mask, say, is drawn by
    :func:`~ada_lightning.core.seeded_tensors.seeded_uniform`, so that neither a resume nor the split into microbatches
    changes it.
    """

    learning_rate: float
    """Of the parameters; the policy has that of the optimiser."""

    @abstractmethod
    def build(self, hidden_size: int) -> None:
        """Make the parameters; called once.

        Args:
            hidden_size: H of ``hidden_TH``.
        """
