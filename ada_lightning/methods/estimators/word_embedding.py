"""Embeds prompts by their words: no model, no forward pass."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import regex
from numpy.typing import NDArray

from ada_lightning.core.options import option
from ada_lightning.core.protocols import PromptEmbedding, Represent
from ada_lightning.core.records import Prompt
from ada_lightning.methods.estimators.sentence_encoder import prompt_text

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from torch import Tensor

_ALONE = "".join(rf"\p{{Script={name}}}" for name in ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar"))
"""Scripts without spaces between words: each character counts as a word, with the marks that belong to it."""
_LETTER = r"\p{L}\p{M}\p{N}_"
_WORD = regex.compile(rf"(?V1)[{_ALONE}]\p{{M}}*|[[{_LETTER}]--[{_ALONE}]]+|[^\s{_LETTER}]")
"""A word, a number, or one sign: what is asked often hangs on a ``-`` or a ``?``."""
_MOST_FITTED = 32_768
"""Training prompts, evenly spread, whose words are counted: of long ones in greater number that takes minutes."""


@option("estimator/embedding", "words")
class WordEmbedding(PromptEmbedding):
    """TF-IDF of words and pairs of words, digits read as 0: tells tasks, templates and sizes apart without any model.

    A row also has how long the prompt is. The part of a row that counts words has length 1, and what all training
    prompts have in common counts nothing in it; the last column is the logarithm of the number of words, standardised
    over the training prompts. Numbers are told apart by how many digits they have. Meanings it does not tell apart:
    where those hang on single words that few prompts share, a sentence encoder sees more
    (:class:`~ada_lightning.methods.estimators.sentence_encoder.SentenceEncoder`).

    Args:
        max_features: the most frequent words and pairs that are counted.

    Raises:
        ValueError: ``max_features`` below 1.
    """

    rows_are_independent = True

    def __init__(self, *, max_features: int = 512) -> None:
        if max_features < 1:
            raise ValueError(f"estimator.embedding.max_features must be at least 1; got {max_features}")
        self.max_features = max_features
        self._is_fitted = False
        self._counter: TfidfVectorizer | None = None
        """None where no word tells prompts apart."""
        self._log_length = 0.0, 1.0
        """Mean and standard deviation over the training prompts."""

    def fit(self, prompts: Sequence[Prompt]) -> None:
        """Learn which words there are and how rare each is, from the training prompts."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        texts = [prompt_text(prompt) for prompt in prompts[:: max(1, math.ceil(len(prompts) / _MOST_FITTED))]]
        counter = TfidfVectorizer(
            preprocessor=_without_digits,
            tokenizer=_WORD.findall,
            token_pattern=None,
            ngram_range=(1, 2),
            max_df=max(len(texts) - 1, 1),  # what all have would take the places of what tells them apart
            max_features=self.max_features,
            sublinear_tf=True,
            smooth_idf=False,
            norm=None,
        )
        try:
            counter.fit(texts)
            self._counter = counter
        except ValueError:  # scikit-learn: no terms are left
            self._counter = None
        self._is_fitted = True
        lengths_P = _log_lengths(texts)
        self._log_length = float(lengths_P.mean()), float(lengths_P.std()) or 1.0

    def __call__(self, prompts: Sequence[Prompt], represent: Represent) -> Tensor:
        """Count the words of prompts; ``represent`` is not called. Shape ``(P, H)``, float32.

        Raises:
            ValueError: called before :meth:`fit`.
        """
        import torch

        if not self._is_fitted:
            raise ValueError("WordEmbedding has to be fitted to the training prompts before it embeds any")
        texts = [prompt_text(prompt) for prompt in prompts]
        mean, deviation = self._log_length
        columns = [(_log_lengths(texts)[:, None] - mean) / deviation]
        if self._counter is not None:
            # scikit-learn adds 1 to each idf
            counts_PH = self._counter.transform(texts).multiply(1.0 - 1.0 / self._counter.idf_).toarray()
            length_P1 = np.linalg.norm(counts_PH, axis=1, keepdims=True)
            columns.insert(0, counts_PH / np.where(length_P1 > 0, length_P1, 1.0))
        return torch.from_numpy(np.concatenate(columns, axis=1).astype(np.float32))


def _log_lengths(texts: Sequence[str]) -> NDArray[np.float64]:
    lengths: NDArray[np.float64] = np.log1p([len(_WORD.findall(_one_form(text))) for text in texts])
    return lengths


def _one_form(text: str) -> str:
    """Return a text in which what looks alike is alike: one code for a letter with its accent, one width."""
    return unicodedata.normalize("NFKC", text)


def _without_digits(text: str) -> str:
    return regex.sub(r"\d", "0", _one_form(text).lower())
