"""Python of the pages: it compiles, imports what there is, and runs as it stands where stand-ins for it are small.

Larger ones are run elsewhere, which ``ELSEWHERE`` says; a block that is neither there nor here makes a test red.
"""

from __future__ import annotations

import ast
import re
from importlib import import_module
from importlib.util import find_spec

import pandas as pd
import pytest

from ada_lightning.adapters import Core
from ada_lightning.adapters.composed import compose_method
from ada_lightning.callbacks.response_log import COLUMNS
from ada_lightning.core.records import Completion, Outcome, Prompt, Verdict
from ada_lightning.core.step_records import StepSettings
from ada_lightning.data.streaming import StreamingSource
from ada_lightning.rewards.function import FunctionReward
from tests.builders import make_prompt
from tests.unit.documented import PAGES, ROOT

ELSEWHERE = {
    "docs/own_loop.md:0": "tests/unit/adapters/test_own_loop_page.py",
    "docs/own_loop.md:1": "tests/unit/adapters/test_tinker_cookbook.py",  # the same calls
    "docs/python.md:0": "tests/integration/test_python.py",
    "docs/audit.md:0": "tests/unit/adapters/test_trl.py",
    "docs/trl.md:0": "tests/unit/adapters/test_trl.py",
    "docs/trl.md:1": "tests/unit/adapters/test_trl.py",
    "docs/trl.md:2": "tests/unit/adapters/test_trl_async.py",  # the same calls
    "docs/skyrl.md:0": "tests/unit/adapters/test_skyrl.py",  # the same calls
    "docs/extending.md:0": "tests/integration/test_extending.py",
    "docs/extending.md:1": "tests/integration/test_extending.py",
    "docs/environments.md:0": "tests/integration/test_episodes.py",
}
HERE = {
    "README.md:0", "README.md:1", "docs/rewards.md:0", "docs/walkthrough.md:0", "docs/architecture.md:0",
    "docs/math_grader.md:0", "docs/data.md:0",
}  # fmt: skip
BLOCKS = {
    f"{page}:{number}": code
    for page in PAGES
    if page.endswith(".md")
    for number, code in enumerate(
        re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    )
}


def test_every_block_is_run_by_a_test():
    assert set(ELSEWHERE) | HERE == set(BLOCKS)
    for block, file in ELSEWHERE.items():
        name = block.partition(":")[0].removeprefix("docs/").removesuffix(".md")
        assert name.split("_")[0] in (ROOT / file).read_text(), block


def imported(code):
    """Modules that a block imports, and what it takes of them (nothing: the module itself)."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module, alias.name) for alias in node.names)


TAKEN = sorted({pair for code in BLOCKS.values() for pair in imported(code)})
NOT_INSTALLED = {
    "ada_lightning.adapters.tinker_cookbook": "tinker_cookbook",
    **dict.fromkeys(["ada_lightning.adapters.skyrl.experiment", "skyrl.train.utils", "skyrl.train.config"], "skyrl"),
}
SLOW = {"trl", "ada_lightning.adapters.trl"}
"""Take ten seconds to import; the page that does is run by ``adapters/test_trl.py``."""


@pytest.mark.parametrize(("module", "name"), TAKEN, ids=str)
def test_what_a_block_imports_is_there(module, name):
    if (needed := NOT_INSTALLED.get(module)) and find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    assert find_spec(module)
    if name and module not in SLOW:
        assert hasattr(import_module(module), name) or find_spec(f"{module}.{name}")


def calls(code):
    """Calls of a block by what is called: positional arguments and keywords as written."""
    return {
        ast.unparse(node.func): ([ast.unparse(word) for word in node.args], {ast.unparse(k) for k in node.keywords})
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call)
    }


def test_trl_in_the_readme_has_the_arguments_of_the_page_that_is_run():
    short, whole = calls(BLOCKS["README.md:0"]), calls(BLOCKS["docs/trl.md:0"])
    assert set(short) <= set(whole)
    named, of_page = ({word for word in found["AdaRollouts"][1] if word[:2] != "**"} for found in (short, whole))
    assert (short["AdaRollouts"][0], named) == (whole["AdaRollouts"][0], of_page)
    assert all('{"estimator.spread_scale": 0.1}' in BLOCKS[block] for block in ("README.md:0", "docs/trl.md:0"))
    assert short["GRPOConfig"][1] <= whole["GRPOConfig"][1]
    assert (short["GRPOTrainer"][0], {"**ada.trainer_arguments()"}) == (
        ["model"],
        {keyword for keyword in short["GRPOTrainer"][1] if not keyword.startswith("args=")},
    )


def test_the_cookbooks_block_calls_what_there_is():
    """By the text of the adapter, since the package is seldom installed."""
    source = ast.parse((ROOT / "ada_lightning/adapters/tinker_cookbook.py").read_text())
    (made,) = [node for node in source.body if isinstance(node, ast.ClassDef) and node.name == "AdaRollouts"]
    methods = {node.name: node for node in made.body if isinstance(node, ast.FunctionDef)}
    called = calls(BLOCKS["docs/own_loop.md:1"])
    keywords = {keyword.partition("=")[0] for keyword in called["AdaRollouts"][1]}
    assert keywords
    assert keywords <= {argument.arg for argument in methods["__init__"].args.kwonlyargs}
    assert {name.removeprefix("ada.") for name in called if name.startswith("ada.")} <= set(methods)


def test_verl_in_the_readme_has_settings_of_the_page_that_is_checked():
    settings = re.compile(r"[+\w.]+=[\w.-]+")
    short, whole = (
        set(settings.findall(re.search(r"^python -m verl\.[^`]*", (ROOT / page).read_text(), re.MULTILINE)[0]))
        for page in ("README.md", "docs/verl.md")
    )
    assert len(short) > 5
    assert short <= whole


def test_the_loop_of_the_readme_runs():
    first, *step = ast.parse(BLOCKS["README.md:1"]).body
    updates = []

    def sample_and_grade(prompt_id):
        number = len(drawn)
        drawn.append(prompt_id)
        return {"reward": float(number % 3 == 0), "num_tokens": 4, "payload": number}

    drawn: list[str] = []
    names = {
        "Core": Core, "texts": {f"p{number}": f"What is {number} + 1?" for number in range(200)}, "max_tokens": 16,
        "sample_and_grade": sample_and_grade, "train": lambda rows, denominator: updates.append((rows, denominator)),
    }  # fmt: skip
    exec(compile(ast.Module([first], []), "README", "exec"), names)
    for _ in range(2):
        exec(compile(ast.Module(step, []), "README", "exec"), names)
    assert names["core"].step == 2
    assert [denominator for _, denominator in updates] == [32 * 16] * 2
    assert all(rows for rows, _ in updates)
    assert set(drawn) <= set(names["texts"])
    assert all(sum(advantage for _, advantage in rows) == pytest.approx(0, abs=1e-9) for rows, _ in updates)


def test_the_function_of_the_page_on_rewards_is_a_reward(tmp_path, monkeypatch):
    (tmp_path / "my_reward.py").write_text(BLOCKS["docs/rewards.md:0"])
    monkeypatch.syspath_prepend(tmp_path)
    reward = FunctionReward("my_reward.grade")
    prompt = Prompt("id", (), reference={"answer": "12"})
    assert [reward(prompt, Completion(text)) for text in ("It is 12.", "It is 13.")] == [1.0, 0.0]


def test_the_rows_of_the_page_on_data_are_prompts(tmp_path, monkeypatch):
    (tmp_path / "my_prompts.py").write_text(BLOCKS["docs/data.md:0"])
    monkeypatch.syspath_prepend(tmp_path)
    source = StreamingSource(rows=import_module("my_prompts").sums(seed=1), num_heldout=2, seed=0, num_first=2)
    (_, prompt), (_, other) = source.next_prompt(), source.next_prompt()
    assert prompt.messages != other.messages
    assert eval(prompt.messages[-1]["content"].rstrip("=")) == int(prompt.reference["answer"])


def test_the_answers_of_the_page_on_mathematics_are_what_it_prints(capsys):
    code = BLOCKS["docs/math_grader.md:0"]
    exec(code, {})
    assert capsys.readouterr().out.strip() == code.rpartition("# ")[2].strip()


def test_responses_are_read_as_the_walk_through_does(tmp_path, monkeypatch, capsys):
    """In a file with the columns that a run writes."""
    rows = [dict.fromkeys(COLUMNS, number) | {"reward": number % 2, "num_tokens": number} for number in range(9)]
    (tmp_path / "runs/hard_ada/responses").mkdir(parents=True)
    pd.DataFrame(rows).to_parquet(tmp_path / "runs/hard_ada/responses/train-000.parquet")
    monkeypatch.chdir(tmp_path)
    exec(BLOCKS["docs/walkthrough.md:0"], {})
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["3", "5", "7"]


def test_a_step_is_driven_as_the_page_on_the_architecture_does():
    names = {
        "method": compose_method("grpo", {}, seed=0).method, "prompts": [make_prompt(key) for key in range(3)],
        "StepSettings": StepSettings, "Outcome": Outcome, "Verdict": Verdict, "text": "1", "ids": (1, 2),
        "logprobs": (-0.1, -0.2), "is_truncated": False, "reward": 1.0,
    }  # fmt: skip
    exec(BLOCKS["docs/architecture.md:0"], names)
    assert [len(group.pool.responses) for group in names["groups"]] == [4] * 3
