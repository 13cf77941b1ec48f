"""Check that pages, messages and docstrings are easy to read: ``python scripts/lint_prose.py [FILE ...]``.

Pages are ``README.md``, ``CONTRIBUTING.md`` and ``docs/``; messages are the texts in the code of ``ada_lightning`` and
``callbacks`` that have a sentence's length; docstrings are those of public names. The limits stand below. A page may
have 2,500 words, README 500 words and 15 numbers; code blocks do not count. A number with its interval is one number,
and one word.

Each page links a term of ``docs/glossary.md`` where it first uses it; ``--link`` writes these links.
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = ROOT / "docs" / "glossary.md"
GENERATED = {"docs/experiments.md", "docs/notebooks/first_run.md"}
"""Pages that only a build of the site makes; what they are made of is checked where it stands."""

MAX_WORDS_OF_SENTENCE = 40
MAX_MEAN_WORDS = 18
MIN_SENTENCES = 3
"""Of fewer no mean is taken."""
MAX_WORDS_OF_CELL = 15
MAX_WORDS_OF_PAGE = 2500
MAX_WORDS_OF_README = 500
MAX_NUMBERS_OF_README = 15

INSTEAD = {
    r"pric(?:e|es|ed|ing|ier)": "cost ratio",
    r"mix(?:es)?": "distribution of pass rates",
    r"(?:the|by|from|as) sums|sums alone": "exact calculation",
    r"bend(?:s|ing)?|bent": "changes, differs from",
    r"beside": "compared with, next to, with",
    r"(?:but|save) for": "except, without",
    r"round barriers?": "waiting for the slowest response of a round",
    r"rooms": "packages",
    r"in the mean": "on average",
    r"stretch(?:es)?": "span, part",
    r"seats?": "slot",
    r"lest|thereof|whereof|wherein|therein|hereof|whence|thence|nought|albeit|ere": "a plain word",
    r"what it is worth|is nothing of": "say it directly",
}
"""Words of our own or out of use, with what to write."""
_PRIVATE = {re.compile(rf"(?<![\w`-])(?:{pattern})(?![\w-])", re.IGNORECASE): word for pattern, word in INSTEAD.items()}

_CODE = "CODE"
_INTERVAL = re.compile(r"([+-]?\d[\d.,]*)\s+\[[^\[\]]*\d[^\[\]]*\]")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*]*\s+(?=[\"'(\[*]*[A-Z])")
_ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|vs|et al|cf|approx|Fig|No|St|Dr)\.")
_NUMBER = re.compile(r"(?<![\w.])(?<!\w-)[+-]?\d[\d,]*(?:\.\d+)*(?![\w])")


class Text(NamedTuple):
    """A paragraph, an item of a list, a table's cell, a docstring's paragraph or a message."""

    line: int
    text: str
    is_cell: bool = False


def main() -> None:
    """Print what is wrong, one line for each, and end with an error if there is anything."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--link"]
    files = [Path(argument).resolve() for argument in arguments] or [*pages(), *modules()]
    if "--link" in sys.argv:
        for page in pages():
            link_terms(page)
    found = [problem for file in files for problem in problems(file)]
    print("\n".join(found) or f"{len(files)} files read: nothing to mend")
    raise SystemExit(bool(found))


def pages() -> list[Path]:
    """Return the pages that people write."""
    named = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in named if str(page.relative_to(ROOT)) not in GENERATED]


def modules() -> list[Path]:
    """Return the modules of the product."""
    return [file for folder in ("ada_lightning", "callbacks") for file in sorted((ROOT / folder).rglob("*.py"))]


def problems(file: Path) -> list[str]:
    """Return what is wrong in a page or a module, each with file and line."""
    text = file.read_text(encoding="utf-8")
    name = str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else str(file)
    if file.suffix == ".py":
        return [f"{name}:{found}" for found in in_texts(list(texts_of_module(text)))]
    found = in_texts(list(texts_of_page(text))) + in_length(text, is_readme=name == "README.md")
    found += [f"{line}: {term!r} stands here first without a link to the glossary" for line, term in unlinked(file)]
    return [f"{name}:{problem}" for problem in found]


def in_texts(texts: list[Text]) -> list[str]:
    """Return long sentences, long cells, private words, and a mean that is too high."""
    found = []
    lengths = []
    for line, text, is_cell in texts:
        for pattern, word in _PRIVATE.items():
            found += [f"{line}: {match[0]!r}: write {word!r}" for match in pattern.finditer(text)]
        if is_cell:
            if (length := num_words(text)) > MAX_WORDS_OF_CELL:
                found.append(f"{line}: a cell of {length} words, at most {MAX_WORDS_OF_CELL}: {text[:60]} ...")
            continue
        for sentence in sentences(text):
            lengths.append(num_words(sentence))
            if lengths[-1] > MAX_WORDS_OF_SENTENCE:
                found.append(f"{line}: a sentence of {lengths[-1]} words: {sentence[:70]} ...")
    if len(lengths) >= MIN_SENTENCES and (mean := sum(lengths) / len(lengths)) > MAX_MEAN_WORDS:
        found.append(f"1: sentences of {mean:.1f} words in the mean, at most {MAX_MEAN_WORDS}")
    return found


def in_length(page: str, is_readme: bool) -> list[str]:
    """Return what a page has too much of: words, and in README numbers."""
    texts = [text for _, text, _ in texts_of_page(page)] + headings(page)
    words = sum(map(num_words, texts))
    limit = MAX_WORDS_OF_README if is_readme else MAX_WORDS_OF_PAGE
    found = [f"1: {words} words, at most {limit}"] if words > limit else []
    numbers = sum(len(_NUMBER.findall(_INTERVAL.sub(r"\1", text))) for text in texts)
    if is_readme and numbers > MAX_NUMBERS_OF_README:
        found.append(f"1: {numbers} numbers, at most {MAX_NUMBERS_OF_README}")
    return found


def sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph."""
    whole = _ABBREVIATIONS.sub(r"\1", text)
    return [part for part in _SENTENCE_END.split(whole) if num_words(part)]


def num_words(text: str) -> int:
    """Return the number of words; a number with its interval is one."""
    return sum(any(map(str.isalnum, word)) for word in _INTERVAL.sub(r"\1", text).split())


def texts_of_page(page: str) -> Iterator[Text]:
    """Yield paragraphs, items and cells of a page, without code blocks and headings."""
    tokens = _parsed(page)
    in_heading = in_cell = False
    line = 1
    for token in tokens:
        line = token.map[0] + 1 if token.map else line
        if token.type in ("heading_open", "heading_close"):
            in_heading = token.type == "heading_open"
        elif token.type in ("td_open", "th_open", "td_close", "th_close"):
            in_cell = token.nesting == 1
        elif token.type == "inline" and not in_heading:
            yield Text(line, plain(token), in_cell)


def headings(page: str) -> list[str]:
    """Return the headings of a page."""
    tokens = _parsed(page)
    return [plain(tokens[i + 1]) for i, token in enumerate(tokens) if token.type == "heading_open"]


@lru_cache(maxsize=2)  # a page, and the glossary
def _parsed(page: str) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page)


def plain(token: Token) -> str:
    """Return the words of a paragraph: of links their text, of inline code one placeholder a word."""
    parts = []
    for child in token.children or ():
        if child.type == "code_inline":
            parts.append(" ".join(_CODE for _ in child.content.split()))
        elif child.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif child.type == "text":
            parts.append(child.content)
    return "".join(parts)


def texts_of_module(source: str) -> Iterator[Text]:
    """Yield the paragraphs of public docstrings, and every other text that has the length of a sentence."""
    tree = ast.parse(source)
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        for expression in _docstrings(node):
            docstrings.add(id(expression))
    for public in _public(tree):
        for expression in _docstrings(public):
            for text in _paragraphs(str(expression.value)):
                yield Text(expression.lineno, text)
    for node in _outer_texts(tree):
        if id(node) not in docstrings and num_words(text := _message(node)) >= 5 and " " in text:
            yield from (Text(node.lineno, paragraph) for paragraph in _paragraphs(text))


def _docstrings(node: ast.AST) -> Iterator[ast.Constant]:
    """Yield texts that stand alone as a statement: of a module, class, function, or below a field."""
    for statement in getattr(node, "body", ()) if not isinstance(node, (ast.Lambda, ast.IfExp)) else ():
        value = getattr(statement, "value", None)
        if isinstance(statement, ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value


def _public(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in getattr(node, "body", ()):
        is_named = isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        if is_named and not child.name.startswith("_") and isinstance(node, (ast.Module, ast.ClassDef)):
            yield from _public(child)


def _outer_texts(node: ast.AST) -> Iterator[ast.Constant | ast.JoinedStr]:
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        yield node
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
        return  # a list of words
    for child in ast.iter_child_nodes(node):
        yield from _outer_texts(child)


def _message(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "".join(str(part.value) if isinstance(part, ast.Constant) else _CODE for part in node.values)


_ENTRY = re.compile(r"^\s*(?:[-*]|\d+\.|\*{0,2}\w+(?: \([^)]*\))?:(?=\s)|:\w+:)\s*")
_SECTION = re.compile(
    r"^\s*(?:Args|Returns|Raises|Yields|Example|Examples|Attributes|Note|Notes|References|See also):\s*$"
)


def _paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs and entries of sections, without examples, tables and literal blocks."""
    paragraph: list[str] = []
    is_literal = is_table = False
    indent = 0
    for line in [*text.splitlines(), ""]:
        stripped = line.strip()
        depth = len(line) - len(line.lstrip())
        if re.fullmatch(r"[=\s]*={2,}[=\s]*", stripped):  # a table's rule
            is_table = True
        if is_literal and stripped and depth <= indent:
            is_literal = False
        if not stripped:
            is_table = False
        if not stripped or _SECTION.match(line) or _ENTRY.match(line) or stripped.startswith((">>>", "...", "#", "|")):
            if paragraph:
                yield _words(" ".join(paragraph))
            paragraph = []
            if not stripped or _SECTION.match(line) or stripped.startswith((">>>", "...", "#", "|")):
                continue
        if is_literal or is_table:
            continue
        paragraph.append(_ENTRY.sub("", line) if not paragraph else stripped)
        if stripped.endswith("::"):
            is_literal, indent = True, depth


def _words(text: str) -> str:
    """Return a docstring's text with a placeholder for each word of code, and roles as the names they show."""
    text = re.sub(r":\w+:`([^`]*)`", _CODE, text)
    return re.sub(r"`{1,2}([^`]+)`{1,2}", lambda match: " ".join(_CODE for _ in match[1].split()), text)


_OTHER_BEFORE = "".join(
    rf"(?<!{word} )" for word in ("option or", "option,", "Hydra", "config", "process", "CUDA", "code")
)
_OTHER_AFTER = r"(?! handlers?\b| to noise\b)"
"""What "group", "block" and "signal" have around them where they mean something else."""


_LINK_OR_CODE = re.compile(
    r"<!-- table: .*?<!-- end -->|`[^`\n]*`|!?\[[^\[\]]*\](?:\([^)]*\)|\[[^\]]*\])|<[^>\n]*>", re.DOTALL
)
"""Where no link is written: also in text that a command makes."""


def terms() -> dict[str, re.Pattern[str]]:
    """Return the terms of the glossary: the anchor of each, and how it reads in a text."""
    if not GLOSSARY.exists():
        return {}
    found = {}
    for heading in re.findall(r"^## (.+)$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE):
        anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        names = [re.escape(name.strip().lower()).removesuffix("s") for name in heading.split(" and ")]
        found[anchor] = re.compile(
            rf"{_OTHER_BEFORE}(?<![\w`\[/=.-])(?:{'|'.join(names)})s?(?![\w`=/-]){_OTHER_AFTER}", re.IGNORECASE
        )
    return found


def unlinked(page: Path) -> list[tuple[int, str]]:
    """Return the terms that a page of ``docs/`` uses first without a link, with the line."""
    if page == GLOSSARY or not page.is_relative_to(ROOT / "docs"):
        return []
    return [(line + 1, term) for line, _, _, term, _ in _first_uses(page)]


def link_terms(page: Path) -> None:
    """Write the links that :func:`unlinked` asks for."""
    if page == GLOSSARY or not page.is_relative_to(ROOT / "docs"):
        return
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    way = "../" * (len(page.relative_to(ROOT / "docs").parts) - 1) + "glossary.md"
    for line, start, end, _, anchor in sorted(_first_uses(page), reverse=True):
        text = lines[line]
        lines[line] = f"{text[:start]}[{text[start:end]}]({way}#{anchor}){text[end:]}"
    page.write_text("".join(lines), encoding="utf-8")


def _first_uses(page: Path) -> list[tuple[int, int, int, str, str]]:
    """Return line, start, end, words and anchor of each term's first use in a paragraph, if no link stands before."""
    text = page.read_text(encoding="utf-8")
    lines = text.splitlines()
    hidden = _LINK_OR_CODE.sub(lambda match: re.sub(r"[^\n]", "`", match[0]), text).splitlines()
    prose = [number for token in _prose_tokens(text) if token.map for number in range(*token.map)]
    found = []
    for anchor, pattern in terms().items():
        for number in prose:
            if f"glossary.md#{anchor})" in lines[number]:
                break
            if match := pattern.search(hidden[number]):
                found.append((number, match.start(), match.end(), match[0], anchor))
                break
    return found


def _prose_tokens(page: str) -> Iterator[Token]:
    tokens = _parsed(page)
    for before, token in itertools.pairwise(tokens):
        if token.type == "inline" and before.type == "paragraph_open":
            yield token


if __name__ == "__main__":
    main()
