"""Two processes compute what one does: gradients, weights after plain SGD, figures."""

from __future__ import annotations

import pytest
import torch

from tests.unit.parallel.pair import Pair
from tests.unit.parallel.small_training import ROLLOUTS, train

SAME = 1e-5
"""Relative, per tensor: float32 sums in another order."""

CASES = [
    ("fsdp", {"rollout": "uneven groups"}),
    ("ddp", {"rollout": "uneven groups"}),
    ("fsdp", {"rollout": "uneven groups", "kl_coef": 0.1, "num_minibatches": 2, "gradient_checkpointing": True}),
    ("ddp", {"rollout": "uneven groups", "kl_coef": 0.1, "num_minibatches": 2}),
    ("fsdp", {"rollout": "one document", "max_grad_norm": 1e-3, "num_steps": 2}),
    ("ddp", {"rollout": "one document", "max_grad_norm": 1e-3, "num_steps": 2}),
    ("fsdp", {"rollout": "no signal"}),
    ("fsdp", {"rollout": "uneven groups", "strategy_options": {"tensor_parallel_size": 2}, "max_grad_norm": 1e-3}),
]


def case_name(case):
    kind, options = case
    return "-".join([kind, *(str(value) for value in options.values())])


@pytest.mark.thinned(4)
@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_two_processes_give_the_weights_of_one(pair, tiny_path, case):
    kind, options = case
    alone_options = {name: value for name, value in options.items() if name != "strategy_options"}
    expected = train("alone", tiny_path, **alone_options)
    outcomes = pair.run(train, kind=kind, path=tiny_path, **options)
    for outcome in outcomes:
        assert len(outcome.gradients) == len(expected.gradients)
        for got, wanted in zip(outcome.gradients, expected.gradients, strict=True):
            assert got.keys() == wanted.keys()
            assert bool(wanted) == (options["rollout"] != "no signal")
            for name, gradient in wanted.items():
                assert float((got[name] - gradient).norm()) <= SAME * float(gradient.norm()), name
        assert outcome.weights.keys() == expected.weights.keys()
        for name, tensor in expected.weights.items():
            size_of_changes = sum(float(gradients[name].norm()) for gradients in expected.gradients if gradients)
            rounding = len(expected.gradients) * torch.finfo(torch.float32).eps * float(tensor.norm())
            assert float((outcome.weights[name] - tensor).norm()) <= SAME * size_of_changes + rounding, name
        assert outcome.figures.keys() == expected.figures.keys()
        for name, value in expected.figures.items():
            if name != "train/computed_tokens":  # documents are cut elsewhere, and prompts computed more often
                assert outcome.figures[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name
    first, second = outcomes
    assert [len(batch) for batch in first.fillers] == [len(batch) for batch in second.fillers]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["alone", "fsdp"])
def test_an_update_that_runs_out_of_memory_in_its_backward_pass_is_repeated(tiny_path, kind):
    """And the next one is as if nothing had been: embeddings, final norm and head are a unit that ends a pass."""
    options = {"path": tiny_path, "rollout": "uneven groups", "num_steps": 2}
    expected, one = train("alone", **options), Pair(1)
    try:
        (found,) = one.run(train, kind=kind, has_memory=False, num_processes=1, **options)
    finally:
        one.close()
    assert found.figures["train/memory_retries"] == 1
    for got, wanted in zip(found.gradients, expected.gradients, strict=True):
        assert got.keys() == wanted.keys()
        for name, gradient in wanted.items():
            assert float((got[name] - gradient).norm()) <= SAME * float(gradient.norm()), name


def test_a_process_without_documents_computes_a_filler(pair, tiny_path):
    results = pair.run(train, kind="fsdp", path=tiny_path, rollout="one response", max_tokens=1000)
    assert sorted(result.fillers[0] for result in results) == [[False], [True]]


def test_bfloat16_computes_in_low_precision_over_float32_weights(pair, tiny_path):
    """Gradients differ from those of float32 by the rounding of bfloat16 (2^-8) through 4 layers."""
    exact = train("alone", tiny_path, rollout="uneven groups").gradients[0]
    low = pair.run(train, kind="fsdp", path=tiny_path, rollout="uneven groups", precision="bf16-mixed")[0]
    assert {tensor.dtype for tensor in low.weights.values()} == {torch.float32}
    errors = [float((low.gradients[0][name] - gradient).norm() / gradient.norm()) for name, gradient in exact.items()]
    assert 1e-4 < max(errors) < 0.1


def test_every_rollout_of_these_tests_is_what_its_name_says():
    documents = {name: sum(group.has_signal for group in make()) for name, make in ROLLOUTS.items()}
    assert documents == {"uneven groups": 4, "one document": 1, "one response": 1, "no signal": 0}
