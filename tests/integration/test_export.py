"""A trained run's weights as a folder that vLLM serves, with what the run itself says of them on the card."""

from __future__ import annotations

import pytest
import torch

from ada_lightning.programs.export import main
from tests.integration.test_vllm_engine import PROMPTS, largest_gap, load, open_engine

pytestmark = pytest.mark.vllm


def test_the_average_of_a_run_is_exported_and_served(train, tmp_path):
    options = ("num_steps=2", "callbacks.weight_average.decay=0.5", "callbacks.evaluation.num_prompts=8")
    run = train(*options, experiment="grpo")
    for flags, name in (((), "last"), (("--average",), "average")):
        main([str(run), *flags, "--output", str(tmp_path / name)])
    card = (tmp_path / "last" / "README.md").read_text()
    statement = (run / "objective.txt").read_text().strip()
    assert len(statement) > 100
    assert statement in card
    assert "on 8 prompts; in brackets 95 % intervals" in card
    assert "held-out prompts" in card

    engine = open_engine(tmp_path / "average", tmp_path)
    try:
        average = load(tmp_path / "average")
        gap = largest_gap(engine, average)
        assert gap < 1e-3  # float32 in both, in another order
        other = load(tmp_path / "last")
        tokens = torch.tensor([PROMPTS[3]])
        with torch.no_grad():
            assert not torch.allclose(average(tokens).logits, other(tokens).logits, atol=10 * gap)
    finally:
        engine.close()
