"""The script that checks pages, messages and docstrings finds what it says; `make test` runs it over the project."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def lint():
    specification = importlib.util.spec_from_file_location("lint_prose", ROOT / "scripts" / "lint_prose.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def of_page(lint, page):
    return lint.in_texts(list(lint.texts_of_page(page)))


def of_module(lint, source):
    return lint.in_texts(list(lint.texts_of_module(source)))


WORDS = " ".join(["word"] * 40)


def test_a_sentence_may_have_forty_words_and_no_more(lint):
    assert of_page(lint, f"{WORDS}.") == []
    assert of_page(lint, f"Short one. And {WORDS}.") == [f"1: a sentence of 41 words: {('And ' + WORDS)[:70]} ..."]


def test_a_comma_a_colon_and_a_line_break_end_no_sentence(lint):
    assert len(of_page(lint, f"First: {WORDS[:99]},\n{WORDS}.")) == 1


def test_the_mean_of_a_page_is_limited(lint):
    long = " ".join(["word"] * 19)
    assert of_page(lint, f"{long}. Word {long[5:]}. Word {long[5:]}.") == [
        "1: sentences of 19.0 words in the mean, at most 18"
    ]


def test_code_blocks_are_not_read_and_inline_code_counts_by_its_words(lint):
    assert of_page(lint, f"```bash\n{WORDS} {WORDS} beside\n```\n\n    indented beside\n") == []
    [problem] = of_page(lint, f"`{WORDS} more. Beside`")
    assert problem.startswith("1: a sentence of 42 words: CODE CODE")


def test_a_number_with_its_interval_is_one_word_of_a_cell(lint):
    cell = " ".join(["word"] * 14)
    page = "| head |\n| --- |\n| {} |\n"
    assert of_page(lint, page.format(f"{cell} 1.33 [0.87, 2.02]")) == []
    assert of_page(lint, page.format(f"{cell} 1.33 times")) == [
        f"3: a cell of 16 words, at most 15: {f'{cell} 1.33 times'[:60]} ..."
    ]


@pytest.mark.parametrize("word", ["price", "beside", "the sums", "bends", "in the mean", "but for"])
def test_private_words_are_found_in_pages_messages_and_docstrings(lint, word):
    text = f"Nobody knows {word} it."
    assert len(of_page(lint, text)) == 1
    assert len(of_page(lint, f"| a |\n| --- |\n| {text} |\n")) == 1
    assert len(of_module(lint, f"raise ValueError('{text} And more of it.')")) == 1
    assert len(of_module(lint, f'def name():\n    """{text}"""')) == 1
    assert of_page(lint, f"`{text}`") == []


def test_docstrings_of_private_names_and_examples_are_not_read(lint):
    assert of_module(lint, f'def _name():\n    """{WORDS} {WORDS}."""') == []
    assert of_module(lint, f'def name():\n    """Add.\n\n    >>> {WORDS} {WORDS}\n    """') == []


def test_entries_of_a_docstring_are_sentences_of_their_own(lint):
    entry = " ".join(["word"] * 30)
    source = (
        f'def name(first, second):\n    """Add.\n\n    Args:\n        first: {entry}\n        second: {entry}\n    """'
    )
    assert of_module(lint, source) == ["1: sentences of 20.3 words in the mean, at most 18"]


def test_the_fields_of_a_message_are_one_word_each(lint):
    text = "{value.name + other:>10} " * 40
    assert of_module(lint, f'raise ValueError(f"{text}")') == []
    assert len(of_module(lint, f'raise ValueError(f"{text} more")')) == 1


def test_readme_has_a_limit_of_words_and_numbers(lint):
    numbers = "In 2026 version 0.26.0 took 1.40 [1.06, 1.85] of 0.5 seconds. `4 of 5`"
    assert lint.in_length(numbers, is_readme=True) == []
    assert lint.in_length(" ".join([numbers] * 4), is_readme=True) == ["1: 16 numbers, at most 15"]
    assert lint.in_length(f"# Head\n\n{'word ' * 500}", is_readme=True) == ["1: 501 words, at most 500"]
    assert lint.in_length("word " * 2500, is_readme=False) == []
    assert lint.in_length("word " * 2501, is_readme=False) == ["1: 2501 words, at most 2500"]


@pytest.fixture
def glossary(lint, tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "glossary.md").write_text(
        "# Glossary\n\n## Kept responses\n\nText.\n\n## Step and update\n\nText.\n"
    )
    monkeypatch.setattr(lint, "ROOT", tmp_path)
    monkeypatch.setattr(lint, "GLOSSARY", tmp_path / "docs" / "glossary.md")
    return tmp_path / "docs"


def test_a_term_is_linked_where_it_first_stands_in_a_paragraph(lint, glossary):
    page = glossary / "studies" / "page.md"
    page.parent.mkdir()
    page.write_text("# Update\n\nA `step` with\na kept response, [a step](x.md), steps.\n\n- an update\n")
    assert lint.unlinked(page) == [(4, "kept response"), (4, "steps")]
    lint.link_terms(page)
    assert page.read_text() == (
        "# Update\n\nA `step` with\na [kept response](../glossary.md#kept-responses), [a step](x.md), "
        "[steps](../glossary.md#step-and-update).\n\n- an update\n"
    )
    assert lint.unlinked(page) == []


def test_the_glossary_has_at_most_fifteen_terms(lint):
    assert 10 <= len(lint.terms()) <= 15
