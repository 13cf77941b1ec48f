"""Build the site into ``site/``, strictly: ``make docs`` runs this in ``.venv`` with ``pages``, then in ``.venv-docs``.

A page that no entry of the navigation names, a link or an anchor that leads nowhere, and a part of the reference that
is not there end the build with an error. Two pages are made by ``pages``, so that nothing is written twice:
``docs/experiments.md``, every experiment with what its recipe says, and ``docs/notebooks/first_run.md``, the notebook
of that name with what it printed and drew.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ada_lightning.methods.recipe import Card

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGE = DOCS / "experiments.md"
NOTEBOOK = DOCS / "notebooks" / "first_run.ipynb"
NOTEBOOK_PAGE = NOTEBOOK.with_suffix(".md")
_NOTHING = "-"
_INTRODUCTION = """\
# Every experiment

Each section says what an experiment does, how to start it, and what it needs and costs. All of them run on the same
engine and count tokens in the same way. The words *faithful*, *after* and *ours* are explained with
[the tables of all methods](methods.md). Which one to take: [when it pays](when_to_use.md).

"""
_PAPERS = """\
## The paper's own runs

These have the settings of Reinforce-Ada's tables (arXiv:2510.04996), for `model=qwen2_5_math_1_5b` and the three other
models that `conf/paper/base.yaml` names. They need a GPU and the paper's data. Their settings are checked, but none has
ever been run.

"""
_FACTS = {
    "changes": "Changes",
    "needs": "Needs",
    "cost": "Cost",
    "fidelity": "Fidelity",
    "departs": "Departures and details",
}
"""Heading of each field of a recipe's card."""


def main() -> None:
    """Make two pages; or look for pages without an entry, and build."""
    if sys.argv[1:] == ["pages"]:
        PAGE.write_text(experiments_page(), encoding="utf-8")
        NOTEBOOK_PAGE.write_text(notebook_page(json.loads(NOTEBOOK.read_text(encoding="utf-8"))), encoding="utf-8")
        return
    problems = navigation_problems(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"])
    if problems:
        raise SystemExit("\n".join(problems))
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--clean", "--strict"]
    raise SystemExit(subprocess.run(command, cwd=ROOT, check=False).returncode)


def navigation_problems(nav: list[Any]) -> list[str]:
    """Return what is wrong between the navigation and the pages in ``docs/``."""
    named = list(_pages(nav))
    there = {str(page.relative_to(DOCS)) for page in {*DOCS.rglob("*.md"), PAGE, NOTEBOOK_PAGE}}
    missing = [f"zensical.toml names {page}, which docs/ does not have" for page in named if page not in there]
    orphans = [f"docs/{page} stands in no entry of nav: add it to zensical.toml" for page in sorted(there - set(named))]
    twice = [f"zensical.toml names {page} twice" for page in sorted(set(named)) if named.count(page) > 1]
    return missing + orphans + twice


def _pages(nav: list[Any]) -> Iterator[str]:
    for entry in nav:
        for target in entry.values():
            yield from _pages(target) if isinstance(target, list) else [target]


def experiments_page() -> str:
    """Return the page: a section for each experiment, the paper's own runs as a list."""
    from ada_lightning.config.described import described
    from ada_lightning.config.generated import CONFIG_DIR
    from ada_lightning.methods.catalog import names

    cards = cards_by_experiment()
    texts = {name: described(name) for name in names(CONFIG_DIR, "experiment")}
    sections = [_section(name, texts, cards.get(name)) for name in texts]
    papers = "".join(f"- `+experiment=paper/{name}`\n" for name in names(CONFIG_DIR, "experiment/paper"))
    return _INTRODUCTION + "\n".join([*sections, _PAPERS + papers])


def cards_by_experiment() -> dict[str, Card]:
    """Return what each method says of itself, by every name that it speaks for."""
    from ada_lightning.methods.find import find_recipe, recipe_modules

    cards = {name: card for name in recipe_modules() if (card := find_recipe(name).card) is not None}
    return {other: card for card in cards.values() for other in card.also} | cards


def notebook_page(notebook: dict[str, Any]) -> str:
    """Return a notebook as a page: its text, its code, and below each what came of it."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif source.startswith("!"):  # a cell of commands
            parts.append("```bash\n" + re.sub("^!", "", source, flags=re.MULTILINE) + "\n```")
        else:
            parts.append(f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            text = "".join(output.get("text", output.get("data", {}).get("text/plain", ())))
            if picture := output.get("data", {}).get("image/png"):
                parts.append(f'<img alt="What this cell draws" src="data:image/png;base64,{"".join(picture).strip()}">')
            elif text.strip():
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def _section(name: str, texts: dict[str, str], card: Card | None) -> str:
    comments = []
    for line in texts[name].splitlines():
        if line.startswith("# ") and not line.startswith(("# @package", "# python ")):
            comments.append(line[2:])
        elif not line.startswith("#"):
            break
    parts = ", ".join(f"`{part}={choice}`" for part, choice in _parts(name, texts).items())
    said = [(label, getattr(card, key)) for key, label in _FACTS.items() if card is not None]
    facts = [f"- **{label}**: {value}" for label, value in said if value != _NOTHING]
    facts += [f"- **Made of**: {parts}"] if parts else []
    command = f"```bash\npython train.py +experiment={name}\n```\n"
    return f"## {name}\n\n{_linked(' '.join(comments))}\n\n{command}\n" + "\n".join(map(_linked, facts)) + "\n"


def _parts(name: str, texts: dict[str, str]) -> dict[str, str]:
    """Return what an experiment chooses, and what the one chooses that it builds on."""
    import yaml  # where the pages are made

    parts: dict[str, str] = {}
    for each in yaml.safe_load(texts[name]).get("defaults", []):
        if isinstance(each, str):
            parts |= _parts(each, texts) if each in texts else {}
            continue
        for group, choice in each.items():
            part = group.removeprefix("override ").lstrip("/")
            parts[part] = f"[{','.join(choice)}]" if isinstance(choice, list) else str(choice)
    return parts


def _linked(text: str) -> str:
    """Return a text as Markdown: papers and pages are links, settings and file names code; code stays as it is."""
    parts = re.split("(`[^`]*`)", text)
    parts[::2] = [_linked_prose(part) for part in parts[::2]]
    return "".join(parts)


def _linked_prose(text: str) -> str:
    setting = r"\+?[a-z_]+(?:[./][a-z_]+)*=[\w.,:\[\]|-]*\w"
    text = re.sub(rf"(?<![\w+])({setting}(?: {setting})*)", r"`\1`", text)
    text = re.sub(r"docs/([\w/]+)\.md", r"[\1](\1.md)", text)
    return re.sub(r"(?:arXiv:)(\d{4}\.\d{5})(v\d)?", r"[arXiv:\1\2](https://arxiv.org/abs/\1\2)", text)


if __name__ == "__main__":
    main()
