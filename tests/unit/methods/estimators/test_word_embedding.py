from __future__ import annotations

import pytest
import torch

from ada_lightning.core.records import Prompt
from ada_lightning.methods.estimators import WordEmbedding


def prompt(text, *, system=""):
    turns = [{"role": "system", "content": system}] if system else []
    return Prompt(text, (*turns, {"role": "user", "content": text}))


def never(prompts):
    raise AssertionError("no policy is needed")


def embedded(texts, fitted_to=None, **settings):
    """Words alone, without the column for the length."""
    return rows_of(texts, fitted_to, **settings)[:, :-1]


def rows_of(texts, fitted_to=None, **settings):
    embedding = WordEmbedding(**settings)
    embedding.fit([prompt(text) for text in fitted_to or texts])
    return embedding([prompt(text) for text in texts], never)


SUMS = ["What is 12 + 34?", "What is 7 - 3?", "What is 98 + 51?", "What is 5 - 1?", "Compute 3 * 4."]


def test_rows_have_length_one_and_are_those_of_the_shape():
    rows = embedded(SUMS)
    assert rows.dtype == torch.float32
    assert rows.norm(dim=1) == pytest.approx(torch.ones(5))


def test_rows_of_many_prompts_are_the_same_bits_as_of_each():
    embedding, prompts = WordEmbedding(), [prompt(text) for text in SUMS]
    embedding.fit(prompts)
    at_once = embedding(prompts, never)
    assert WordEmbedding.rows_are_independent
    assert all(torch.equal(embedding([each], never)[0], row) for each, row in zip(prompts, at_once, strict=True))


def test_numbers_are_told_apart_by_their_digits_alone():
    likeness = embedded(SUMS) @ embedded(SUMS).T
    assert likeness[0, 2] == pytest.approx(1.0)
    assert likeness[1, 3] == pytest.approx(1.0)
    assert likeness[0, 1] < 0.4
    signs = embedded(["a + b", "a - b", "a + b"])
    assert (signs @ signs.T)[0].tolist() == pytest.approx([1.0, 0.0, 1.0])  # a sign is a word


def test_what_all_prompts_have_in_common_counts_nothing():
    likeness = embedded(["Please add these up : a", "Please add these up : b"])
    assert float(likeness[0] @ likeness[1]) == 0.0


def test_the_last_column_is_the_standardised_length():
    lengths = rows_of(["a", "a b", "a b c d", "- - - - a b"])[:, -1]
    assert float(lengths.mean()) == pytest.approx(0.0, abs=1e-6)
    assert float(lengths.std(correction=0)) == pytest.approx(1.0)
    assert lengths.tolist() == sorted(lengths.tolist())
    assert not rows_of(["a b", "c d"])[:, -1].any()


@pytest.mark.parametrize("texts", [["", " "], ["What is 12?", "What is 34?"]])
def test_where_no_word_tells_prompts_apart_their_length_is_left(texts):
    assert rows_of(texts).shape == (2, 1)


def test_a_long_template_does_not_take_the_places_of_what_differs():
    template = " ".join(f"word{chr(97 + index)}" for index in range(26))
    likeness = embedded([f"{template} {end}" for end in ("a a", "b b", "a a", "b b")], max_features=6)
    assert likeness.shape[1] <= 6
    assert (likeness @ likeness.T)[0].tolist() == pytest.approx([1.0, 0.0, 1.0, 0.0])


def test_characters_of_scripts_without_spaces_are_words():
    rows = embedded(["三加四等于几", "三减四等于几", "五加六等于几"])
    assert float(rows[0] @ rows[2]) > 0.03 > float(rows[1] @ rows[2])


def test_prompts_without_a_known_word_lie_at_zero():
    assert not embedded(["never heard"], fitted_to=SUMS).any()


def test_the_system_turn_is_left_out():
    embedding = WordEmbedding()
    embedding.fit([prompt(text) for text in SUMS])
    plain, with_system = embedding([prompt(SUMS[0]), prompt(SUMS[0], system="Compute 3 * 4.")], never)
    assert torch.equal(plain, with_system)


def test_errors_say_what_to_do():
    with pytest.raises(ValueError, match=r"estimator.embedding.max_features must be at least 1; got 0"):
        WordEmbedding(max_features=0)
    with pytest.raises(ValueError, match="has to be fitted to the training prompts before it embeds any"):
        WordEmbedding()([prompt("a")], never)


@pytest.mark.parametrize(
    ("text", "num_words"),
    [
        ("हिन्दी में उत्तर दो", 4),  # vowel signs are marks
        ("cafe\u0301 au lait", 3),
        ("你好吗\uff1f", 4),  # a sign of full width
        ("ﾃｽﾄ", 3),  # half-width
        ("\U00020000\U00020001", 2),
        ("กี่", 1),  # one letter, two marks
        ("snake_case x2", 2),
        ("3-4", 3),
    ],
)
def test_words_of_every_script(text, num_words):
    one_word = "a"
    lengths = rows_of([one_word, text], fitted_to=[one_word, " ".join("abcdefg")])[:, -1]
    sevens = rows_of([" ".join("abcdefg"[:num_words])], fitted_to=[one_word, " ".join("abcdefg")])[:, -1]
    assert float(lengths[1]) == float(sevens[0])


def test_one_letter_in_two_codes_is_one_word():
    likeness = embedded(["café + x", "cafe\u0301 + x", "tea + x"], fitted_to=["café + x", "tea + x", "y"])
    assert likeness[0].tolist() == likeness[1].tolist() != likeness[2].tolist()
