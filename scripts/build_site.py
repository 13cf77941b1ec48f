"""Build the site into ``site/``, strictly: ``make docs`` runs this in ``.venv`` with ``pages``, then in ``.venv-docs``.

A page that no entry of the navigation names, a link or an anchor that leads nowhere, and a part of the reference that
is not there end the build with an error. Two pages are made by ``pages``, so that nothing is written twice:
``docs/experiments.md``, every experiment with what it claims and what ``docs/methods.md`` says of it, and
``docs/notebooks/first_run.md``, the notebook beside it with what it printed and drew.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGE = DOCS / "experiments.md"
NOTEBOOK = DOCS / "notebooks" / "first_run.ipynb"
NOTEBOOK_PAGE = NOTEBOOK.with_suffix(".md")
_NOTHING = "\N{EN DASH}"
_INTRODUCTION = """\
# Every experiment

Made by `make docs` from the recipes and the tables of [what each changes](methods.md), where the words
*faithful* and *after* are explained. All run on the same engine with the same count of tokens.

"""


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

    rows = rows_by_experiment((DOCS / "methods.md").read_text(encoding="utf-8"))
    texts = {name: described(name) for name in names(CONFIG_DIR, "experiment")}
    sections = [_section(name, texts, rows.get(name, {})) for name in texts]
    papers = "".join(f"- `+experiment=paper/{name}`\n" for name in names(CONFIG_DIR, "experiment/paper"))
    of_papers = (
        "## The paper's own runs\n\nSettings of arXiv:2510.04996 for `model=qwen2_5_math_1_5b` and its three others, "
        "which `conf/paper/base.yaml` names; they need a GPU and its data, and have been checked, never run.\n\n"
    )
    return _INTRODUCTION + "\n".join([*sections, of_papers + papers])


def rows_by_experiment(page: str) -> dict[str, dict[str, str]]:
    """Return the cells of the tables of ``docs/methods.md`` by experiment, then by the head of their column."""
    found: dict[str, dict[str, str]] = {}
    head: list[str] = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| experiment |"):
            head = cells
        elif not line.startswith("|"):
            head = []
        elif head and line.startswith("| `"):
            for name in re.findall(r"`(\w+)`", cells[0]):
                found[name] = dict(zip(head, cells, strict=True))
    for row in list(found.values()):  # variants that only the last column names
        for name in re.findall(r"`(ada_\w+)`", row["where it departs"]):
            found.setdefault(name, {"what it changes": f"a variant of {row['experiment']}"})
    return found


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


def _section(name: str, texts: dict[str, str], row: dict[str, str]) -> str:
    comments = []
    for line in texts[name].splitlines():
        if line.startswith("# ") and not line.startswith(("# @package", "# python ")):
            comments.append(line[2:])
        elif not line.startswith("#"):
            break
    parts = ", ".join(f"`{part}={choice}`" for part, choice in _parts(name, texts).items())
    facts = [
        f"- **{label}**: {row[key]}"
        for key, label in (
            ("what it changes", "Changes"),
            ("what it needs", "Needs"),
            ("responses per prompt", "Responses per prompt"),
            ("cost", "Cost"),
            ("fidelity", "Fidelity"),
            ("where it departs", "Where it departs"),
        )
        if row.get(key, _NOTHING) != _NOTHING
    ]
    facts += [f"- **Made of**: {parts}"] if parts else []
    command = f"```bash\npython train.py +experiment={name}\n```\n"
    return f"## {name}\n\n{_linked(' '.join(comments))}\n\n{command}\n" + "\n".join(facts) + "\n"


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
    """Return a comment as Markdown: papers and pages are links, settings and file names code."""
    text = re.sub(r"(?<![\w`])([a-z_]+(?:[./][a-z_]+)*=[\w.,:\[\]|-]*\w)", r"`\1`", text)
    text = re.sub(r"docs/([\w/]+)\.md", r"[\1](\1.md)", text)
    return re.sub(r"(?:arXiv:)(\d{4}\.\d{5})(v\d)?", r"[arXiv:\1\2](https://arxiv.org/abs/\1\2)", text)


if __name__ == "__main__":
    main()
