"""The page of methods lists every experiment that ships, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_experiment_has_a_row():
    page = (ROOT / "docs" / "methods.md").read_text()
    tables = "\n".join(line for line in page.splitlines() if line.startswith("| `"))
    first_cells = [line.split("|")[1] for line in tables.splitlines()] + re.findall(r"`(ada_\w+)`", tables)
    named = {name.strip("`") for cell in first_cells for name in re.findall(r"`?([a-z][\w]+)`?", cell)}
    shipped = {file.stem for file in (ROOT / "conf" / "experiment").glob("*.yaml")}
    assert shipped - named == set()
    assert named - shipped == set()
