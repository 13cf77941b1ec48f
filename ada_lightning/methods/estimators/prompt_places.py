"""Embeds each prompt once, relative to the mean of the training prompts."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.protocols import PromptEmbedding, Represent
from ada_lightning.core.records import Prompt

if TYPE_CHECKING:
    from torch import Tensor

_MOST_SAMPLED = 2048
"""Training prompts whose rows say where the middle is and how far prompts lie from it."""
_MOST_CACHED = 131_072
"""Rows kept in memory, those asked for last: of 512 numbers a quarter of a GiB. A walk through more prompts than that
finds none of them again."""
_LEAST_REACH = 1e-4
"""Rows nearer to each other than that differ by rounding."""
NO_POLICY = "SimilarPrompts must embed candidates without the policy; use estimator/embedding=words or sentence"


class PromptPlaces:
    """Rows of an embedding, and how they lie around the middle of the training prompts.

    Args:
        embedding: where prompts lie; one that needs no policy.
    """

    def __init__(self, embedding: PromptEmbedding) -> None:
        self.embedding = embedding
        self.prompts: Sequence[Prompt] = ()
        """The training prompts; none before :meth:`learn`."""
        self._middle_H: NDArray[np.float64] | None = None
        self._reach = 1.0
        self._cache: OrderedDict[str, NDArray[np.float32]] = OrderedDict()

    def learn(self, prompts: Sequence[Prompt]) -> None:
        """Let the embedding learn from the training prompts, where it does, and find out how they lie.

        Raises:
            ValueError: as :meth:`rows`.
        """
        self.embedding.fit(prompts)
        self._cache.clear()
        self.prompts = prompts
        stride = max(1, math.ceil(len(prompts) / _MOST_SAMPLED))
        rows_NH = self.rows(prompts[::stride]).astype(float)
        self._middle_H = rows_NH.mean(axis=0)
        self._reach = float(np.sqrt(((rows_NH - self._middle_H) ** 2).sum(axis=1).mean()))

    def rows(self, prompts: Sequence[Prompt]) -> NDArray[np.float32]:
        """Embed prompts, each by itself where in a batch its last digits would depend on the others.

        Returns:
            A row for each prompt. Shape ``(N, H)``.

        Raises:
            ValueError: a row is not one of finite numbers, as many as before.
        """
        missing = [prompt for prompt in distinct(prompts) if prompt.prompt_id not in self._cache]
        batches = [missing] if self.embedding.rows_are_independent and missing else [[prompt] for prompt in missing]
        for batch in batches:
            num_columns = len(next(iter(self._cache.values()))) if self._cache else None
            rows_PH = embedded(self.embedding, batch, _no_policy, num_columns=num_columns).numpy()
            for prompt, row_H in zip(batch, rows_PH, strict=True):
                self._cache[prompt.prompt_id] = row_H.copy()  # a view would keep its whole batch
        rows = []
        for prompt in prompts:
            self._cache.move_to_end(prompt.prompt_id)
            rows.append(self._cache[prompt.prompt_id])
        while len(self._cache) > _MOST_CACHED:
            self._cache.popitem(last=False)
        return np.stack(rows)

    def placed(self, rows_NH: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return rows relative to the middle of the training prompts, in units of how far they lie from it.

        Args:
            rows_NH: of :meth:`rows`. Shape ``(N, H)``.

        Returns:
            Shape ``(N, H)``; without training prompts the rows themselves.
        """
        if self._middle_H is None:
            return rows_NH.astype(float)
        return (rows_NH - self._middle_H) / max(self._reach, _LEAST_REACH)

    def state_dict(self) -> dict[str, Any]:
        """How the training prompts lie; rows are made again."""
        import torch

        middle = None if self._middle_H is None else torch.from_numpy(self._middle_H.copy())
        return {"middle": middle, "reach": self._reach}

    def takes(self, state: Mapping[str, Any]) -> bool:
        """Whether rows of the run that left a :meth:`state_dict` mean the same here.

        A process that was shown no prompts takes over how they lay.
        """
        if state["middle"] is None:
            return self._middle_H is None
        middle_H = state["middle"].numpy()
        if self._middle_H is None:
            self._middle_H, self._reach = middle_H, float(state["reach"])
        return (
            middle_H.shape == self._middle_H.shape
            and bool(np.allclose(middle_H, self._middle_H, rtol=0.0, atol=1e-6))
            and math.isclose(self._reach, state["reach"], abs_tol=1e-6)
        )


def embedded(
    embedding: PromptEmbedding,
    prompts: Sequence[Prompt],
    represent: Represent,
    *,
    num_columns: int | None,
) -> Tensor:
    """Embed prompts, and check what comes of it. Shape ``(P, H)``, float32, on the CPU.

    Args:
        embedding: where prompts lie.
        prompts: at least one.
        represent: as in :meth:`~ada_lightning.core.protocols.PassRateEstimator.predict`.
        num_columns: numbers in the rows of earlier prompts; None where there are none.

    Raises:
        ValueError: rows are not finite, not one per prompt, or of another size than before.
    """
    rows_PH = embedding(prompts, represent).detach().cpu().float()
    name = type(embedding).__name__
    if rows_PH.ndim != 2 or len(rows_PH) != len(prompts):
        raise ValueError(f"{name} gave a tensor of shape {tuple(rows_PH.shape)} for {len(prompts)} prompt(s)")
    if num_columns not in (None, rows_PH.shape[1]):
        raise ValueError(
            f"{name} gives embeddings of {rows_PH.shape[1]} numbers, those of earlier prompts have {num_columns}: is "
            "this the checkpoint of a run with another model or encoder? Continue with that one, or start a new run"
        )
    if not bool(rows_PH.isfinite().all()):
        raise ValueError(f"{name} gave an embedding that is not finite: are the model's weights?")
    return rows_PH


def distinct(prompts: Sequence[Prompt]) -> list[Prompt]:
    """Return prompts without repetitions, in the order in which they come first."""
    return list({prompt.prompt_id: prompt for prompt in prompts}.values())


def _no_policy(prompts: Sequence[Prompt]) -> Tensor:
    raise ValueError(NO_POLICY)
