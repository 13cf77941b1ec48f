"""Training from Python: the program of docs/python.md and the first notebook as they stand, with a small engine."""

from __future__ import annotations

import importlib
import json
import re
import sys

import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM

from ada_lightning.rollout.engines.transformers_engine import TransformersEngine
from ada_lightning.training.models.tiny import TinyLlama
from tests.integration.conftest import ROOT

pytestmark = pytest.mark.vllm
PAGE = (ROOT / "docs" / "python.md").read_text()
NOTEBOOK = ROOT / "docs" / "notebooks" / "first_run.ipynb"
SMALLER = {  # what the page has, and what takes two cores a second
    "SmolLM2Wheel()": "TinyLlama()",
    "models.wheel import SmolLM2Wheel": "models.tiny import TinyLlama",
    "ReasoningGymReward(LastNumber(), binary=True)": 'FunctionReward("tests.integration.graders.has_few_letters")',
    "reasoning_gym import ReasoningGymReward": "function import FunctionReward",
    '"num_steps=30"': '"num_steps=2", "data.prompts_per_step=4", "rollout.sampling.max_new_tokens=8"',
    "num_train=2000, num_heldout=200": "num_train=40, num_heldout=8",
    "num_prompts=64, every_n_steps=10": "num_prompts=8",
    "Progress(), evaluation]": "Progress(), evaluation, RolloutCheckpoint(run_dir='runs/card', tokenizer=tokenizer())]",
    "import AdaptiveSampling, Evaluation, Progress": "import AdaptiveSampling, Evaluation, Progress, RolloutCheckpoint",
    "def main():": "def tokenizer():\n    return read_model(TinyLlama().prepare()).tokenizer\n\n\ndef main():",
    "from ada_lightning.training.policy": "from ada_lightning.training.models.served import read_model\n"
    "from ada_lightning.training.policy",
}


def small_engine(*, kv_cache_gib, block_size, enforce_eager, dtype, **options):
    """The engine of the tests in the place of vLLM, with the settings of vLLM that it has."""
    return TransformersEngine(dtype="float32", **options)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to be in, whose modules can be imported, in this process and in those that grade."""
    monkeypatch.setattr("ada_lightning.rollout.engines.vllm_engine.VllmEngine", small_engine)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_the_program_of_the_page_trains(here, capsys):
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(code.splitlines()) <= 45
    for theirs, ours in SMALLER.items():
        assert theirs in code, theirs
        code = code.replace(theirs, ours)
    (here / "card.py").write_text(code)
    importlib.import_module("card").main()
    assert re.search(r"^held-out avg@4: 0\.\d{3}$", capsys.readouterr().out, re.MULTILINE)
    (file,) = here.glob("runs/card/version_*/metrics.csv")
    figures = pd.read_csv(file)
    assert figures["train/grad_norm"].dropna().max() > 0
    assert len(figures["rollout/num_sampled"].dropna()) == 2
    assert len(figures["eval/avg_at_4"].dropna()) == 2  # before and after
    trained = AutoModelForCausalLM.from_pretrained(here / "runs/card/checkpoints/last/policy").state_dict()
    untrained = AutoModelForCausalLM.from_pretrained(TinyLlama().prepare()).state_dict()
    assert any(not torch.equal(trained[name], untrained[name]) for name in untrained)
    sys.modules.pop("card")


@pytest.mark.long
def test_the_notebook_runs(here, monkeypatch):
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    names = {"__name__": "notebook"}
    monkeypatch.setattr("matplotlib.pyplot.show", lambda: None)
    for cell in cells:
        python = re.sub(r"^!(?:.*\\\n)*.*$", "", "".join(cell["source"]), flags=re.MULTILINE)  # without commands
        exec(re.sub(r"num_steps=\d+", "num_steps=2", python), names)
    assert all(len(names[name]["rollout/num_sampled"].dropna()) == 2 for name in ("ada", "grpo"))
    assert [len(axis.lines) for axis in names["axes"]] == [2, 2]
    assert names["ada"]["rollout/num_sampled"].sum() > names["grpo"]["rollout/num_sampled"].sum()
    names["plt"].close("all")
