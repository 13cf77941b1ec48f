"""Give a prompt's kept positives and negatives one size of pull each, whatever their numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from ada_lightning.core.batch import Microbatch


def class_contrast(microbatch: Microbatch, coefficient_B: Tensor) -> Tensor:
    """``+c / m+`` on each kept positive and ``-c / m-`` on each kept negative.

    The expected sum over a prompt's kept responses of this times the score is ``grad p * E[c] / (p q)``, for any
    choice within each class that does not look at the responses.

    Args:
        microbatch: for the classes and how many of each were kept.
        coefficient_B: c of each response's pool. Shape ``(B,)``.

    Returns:
        Shape ``(B,)``.
    """
    num_negative_B = microbatch.num_sampled_B - microbatch.num_positive_B
    class_size_B = torch.where(microbatch.is_positive_B, microbatch.num_positive_B, num_negative_B)
    num_kept_B = class_size_B / microbatch.selection_weight_B
    sign_B = torch.where(microbatch.is_positive_B, 1.0, -1.0)
    return sign_B * coefficient_B / num_kept_B
