"""The pages of methods list every experiment that ships, and no other; what is compared is compared somewhere."""

from __future__ import annotations

import re
from pathlib import Path

from ada_lightning.methods.catalog import names

ROOT = Path(__file__).resolve().parents[2]


def test_every_experiment_has_a_row():
    page = (ROOT / "docs" / "methods.md").read_text()
    tables = "\n".join(line for line in page.splitlines() if line.startswith("| `"))
    first_cells = [line.split("|")[1] for line in tables.splitlines()] + re.findall(r"`(ada_\w+)`", tables)
    named = {name.strip("`") for cell in first_cells for name in re.findall(r"`?([a-z][\w]+)`?", cell)}
    shipped = {*names(ROOT / "conf", "experiment")}
    assert shipped - named == set()
    assert named - shipped == set()


KINDS = {"brute force", "enumeration", "simulation", "their loop, rewritten", "by hand", "nothing"}


def test_every_experiment_says_what_it_is_compared_with():
    page = (ROOT / "docs" / "methods_checked.md").read_text()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| `")
    ]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(named) == names(ROOT / "conf", "experiment")
    for _, _, kind, test in rows:
        assert kind in KINDS
        file, _, name = test.strip("`").partition("::")
        assert re.search(rf"^ *def {name}\(", (ROOT / "tests" / file).read_text(), re.MULTILINE), test
