"""``examples/one_file.py``: it learns, and needs neither Lightning nor Hydra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ada_lightning.training.models.tiny import TinyLlama
from examples import one_file

ROOT = Path(__file__).resolve().parents[3]
MAX_LINES = 150
EVEN = {chr(code) for code in range(0, 128, 2)}


@pytest.mark.long
def test_a_tiny_model_learns_to_begin_with_an_even_letter(monkeypatch, capsys):
    """Random weights do it once in four times; with the gradient's sign turned the rate falls to 0."""
    monkeypatch.setattr(one_file, "SmolLM2Wheel", TinyLlama)
    monkeypatch.setattr(one_file, "MAX_NEW_TOKENS", 2)
    monkeypatch.setattr(one_file, "grade", lambda prompt, text: float(text[:1] in EVEN))
    history = one_file.train(num_steps=7, prompts_per_step=8, lr=1e-2, seed=0)
    assert len(capsys.readouterr().out.splitlines()) == len(history) == 7
    assert all(8 * 4 <= figures["responses"] <= 8 * 16 for figures in history)
    assert history[0]["pass_rate"] < 0.5
    assert history[-1]["pass_rate"] > 0.8


def test_it_is_short_and_imports_no_framework():
    source = Path(one_file.__file__).read_text(encoding="utf-8")
    assert len(source.splitlines()) <= MAX_LINES
    program = (
        "import sys, examples.one_file\n"
        "print(sorted({'hydra', 'lightning', 'omegaconf', 'vllm'} & {name.partition('.')[0] for name in sys.modules}))"
    )
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
