"""The site: a page has an entry, an experiment a section, a docstring is Markdown. `make docs` checks the links."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from ada_lightning.methods.catalog import names

ROOT = Path(__file__).resolve().parents[2]


def script(name):
    specification = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site():
    return script("build_site")


@pytest.fixture(scope="module")
def as_markdown():
    """Griffe belongs to the site's environment: here a stand-in for the two names that the module takes from it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "griffe", SimpleNamespace(Extension=object, Object=object))
        return script("docstrings").as_markdown


def test_every_page_has_one_entry_and_every_entry_a_page(site):
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    assert site.navigation_problems(nav) == []


def test_a_page_without_an_entry_an_entry_without_a_page_and_one_named_twice_are_told(site):
    nav = [{"Home": "index.md"}, {"More": [{"Home again": "index.md"}, {"Gone": "gone.md"}]}]
    problems = site.navigation_problems(nav)
    assert "zensical.toml names gone.md, which docs/ does not have" in problems
    assert "docs/data.md stands in no entry of nav: add it to zensical.toml" in problems
    assert "zensical.toml names index.md twice" in problems
    assert not any("docs/index.md" in problem for problem in problems)


def test_every_experiment_has_a_section_with_its_claim_its_command_and_where_it_departs(site):
    page = site.experiments_page()
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## )", page, re.MULTILINE | re.DOTALL))
    assert set(sections) == {*names(ROOT / "conf", "experiment")}
    assert all("**Changes**" in section for section in sections.values())
    assert "responses go where they lower the gradient's variance most" in sections["vip"]  # its text
    assert "[arXiv:2602.01601](https://arxiv.org/abs/2602.01601)" in sections["vip"]
    assert "**Departures and details**: By default embeddings are the policy's hidden states" in sections["vip"]
    assert (
        sections["vip_dr_grpo"].split("- **Changes**")[1].split("- **Made")[0] in sections["vip"]
    )  # one card for both
    assert "`sampler=vip`" in sections["vip"]
    assert "python train.py +experiment=vip\n" in sections["vip"]
    assert "**Changes**: as `ada_est_ema`, with the paper's weights" in sections["ada_est_ema_paper"]
    assert "paper/grpo_n16" in page
    made_of = "**Made of**: `sampler=balance`, `selection=balanced`, `advantage=ipo`, `loss=reinforce`\n"
    assert made_of in sections["ipo"]  # which builds on dpo


def test_settings_of_a_text_are_code_and_papers_links_but_not_within_code(site):
    text = "Take +experiment=spo a.b=1 c=x (arXiv:2509.13232v2), see docs/data.md. `x=1 y=2` stays."
    assert site._linked(text) == (
        "Take `+experiment=spo a.b=1 c=x` ([arXiv:2509.13232v2](https://arxiv.org/abs/2509.13232v2)), "
        "see [data](data.md). `x=1 y=2` stays."
    )


def test_a_notebook_is_a_page_with_what_it_printed_and_drew(site):
    page = site.notebook_page(json.loads((ROOT / "docs" / "notebooks" / "first_run.ipynb").read_text()))
    assert page.startswith("# A first run in a notebook\n")
    assert page.count("```python\n") == 6
    assert re.search(r"^```text\nada_seq_balance: held-out avg@8 0\.\d\d after 30 steps\n", page, re.MULTILINE)
    assert '<img alt="What this cell draws" src="data:image/png;base64,iVBORw0' in page
    assert not re.search(r"Traceback|Warning|/home/|/root/|/tmp/", page)


def test_roles_are_links_where_a_page_may_have_them(as_markdown):
    text = "See :func:`~ada_lightning.core.seeds.seed_of` and :meth:`open`."
    assert as_markdown(text) == (
        'See <autoref identifier="ada_lightning.core.seeds.seed_of" optional><code>seed_of</code></autoref> and `open`.'
    )


def test_tables_are_markdown_and_what_stands_around_them_stays(as_markdown):
    table = "Axes:\n\n=== =======\nof  meaning\n=== =======\nP   prompts\n    a step\nN   a | b\n=== =======\n\nEnd."
    lines = ["| of | meaning |", "| --- | --- |", "| P | prompts a step |", "| N | a \\| b |"]
    assert as_markdown(table) == "\n".join(["Axes:", "", *lines, "", "End."])


def test_examples_are_code_to_the_next_empty_line(as_markdown):
    text = "Add.\n\nExample:\n    >>> add(1, 2)  # [a][b]\n    3\n\n    Then:\n\n    >>> add(2, 2)\n    4"
    first = "    ```pycon\n    >>> add(1, 2)  # [a][b]\n    3\n    ```\n"
    assert as_markdown(text) == (
        f"Add.\n\nExample:\n{first}\n    Then:\n\n    ```pycon\n    >>> add(2, 2)\n    4\n    ```\n"
    )


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_a_link_of_a_page_outside_of_the_site_leads_somewhere(page):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / page).read_text())
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []
