"""The guide to methods of one's own: its code, its files and its commands, as they stand on the page."""

from __future__ import annotations

import importlib
import json
import re
import sys

import pytest

from ada_lightning.adapters import Core
from ada_lightning.config.problems import ConfigError
from ada_lightning.core.options import OPTIONS
from ada_lightning.core.records import Prompt, Response, ResponsePool
from ada_lightning.methods.recipe import RECIPES
from tests.integration.conftest import QUIET, ROOT, SMALL, WITHOUT_VLLM

pytestmark = pytest.mark.vllm
PAGE = (ROOT / "docs" / "extending.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"^> (.+)$", re.MULTILINE)
BLOCKS = BLOCK.findall(PAGE)
NAMES = re.findall(r"`my_conf/(\w+)\.py`", PAGE)
CODE = dict(zip(NAMES, [text for language, text in BLOCKS if language == "python"], strict=True))
COMMANDS = [text.strip() for language, text in BLOCKS if not language]


@pytest.fixture
def own_folder(tmp_path):
    """The page's files, each as it stands there."""
    (tmp_path / "my_conf").mkdir()
    for name, code in CODE.items():
        (tmp_path / "my_conf" / f"{name}.py").write_text(code)
    return tmp_path


@pytest.fixture
def started(programs, store, own_folder):
    """Starts the page's command of an experiment with more settings."""

    def start(experiment, *more):
        (line,) = [command for command in COMMANDS if f"+experiment={experiment}" in command]
        program, *arguments = line.removeprefix("python ").split()
        given = {argument.partition("=")[0] for argument in arguments}
        small = [setting for setting in SMALL if setting.partition(".")[0].partition("=")[0] not in given]
        options = [*small, *WITHOUT_VLLM, *QUIET[1:], "~callbacks.preview", f"run_dir={own_folder}/run"]
        options.append(f"logger.mlflow.tracking_uri={store}")
        return programs.run(program, *arguments, *options, *more, cwd=own_folder)

    return start


@pytest.mark.long
@pytest.mark.parametrize(
    ("experiment", "said"),
    [
        ("contrast", "f(p) = log p (p: pass rate), exactly as far as 16 responses can see"),
        ("disagreement", "sampler: a prompt stops where its answers differ"),
    ],
)
def test_the_page_runs(started, own_folder, experiment, said):
    result = started(experiment)
    assert result.returncode == 0, result.stdout + result.stderr
    assert said in result.stdout
    summary = json.loads((own_folder / "run" / "summary.json").read_text())
    assert (summary["status"], summary["policy_version"]) == ("finished", 2)
    if experiment == "disagreement":
        assert QUOTED.findall(PAGE)[-1] in result.stdout


@pytest.mark.long
def test_what_the_page_says_is_refused_is_refused(started):
    result = started("disagreement", "advantage=exact")
    assert result.returncode != 0
    assert QUOTED.findall(PAGE)[0] in result.stdout + result.stderr


@pytest.fixture
def disagreement(own_folder, monkeypatch):
    """The page's module; what it made known is unknown again afterwards."""
    monkeypatch.syspath_prepend(str(own_folder / "my_conf"))
    yield importlib.import_module("disagreement")
    del sys.modules["disagreement"], RECIPES["disagreement"], OPTIONS["sampler"]["disagreement"]


def test_the_advantages_of_the_page_go_with_it_and_exact_does_not(disagreement):
    (listed,) = re.findall(r"need no rule of counts: (.*?)\. `advantage=exact`", PAGE, re.DOTALL)
    names = re.findall(r"`(\w+)`", listed)
    assert len(names) == 9
    for name in names:
        Core(disagreement.DISAGREEMENT.with_(advantage=name, loss=None), ["a", "b"])
    with pytest.raises(ConfigError, match="by more than its counts"):
        Core(disagreement.DISAGREEMENT.with_(advantage="exact", loss=None), ["a", "b"])


def test_the_rule_of_answers_stops_where_two_differ(disagreement):
    sampler = disagreement.DisagreementSampler(group_size=16)

    def wanted(*answers):
        pool = ResponsePool(Prompt("x", ()), slot=0)
        for index, answer in enumerate(answers):
            pool.add(Response("x", index, index, (0,), (0.0,), "", False, 0.0, False, 0, answer=answer))
        return sampler.num_to_draw(pool)

    assert [wanted(), wanted("1"), wanted("1", "1", None)] == [1, 1, 1]
    assert wanted("1", "1", "2") == 0
    assert [wanted(*15 * ["1"]), wanted(*16 * ["1"])] == [1, 0]
