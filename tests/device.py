"""Where tests of the trainer compute: on a GPU where there is one, so that the same tests try it there."""

from __future__ import annotations

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
