from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from ada_lightning.callbacks.objective_statement import ObjectiveStatement
from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.methods.advantages import ExactAdvantage
from ada_lightning.methods.curriculum import DifficultyBand
from ada_lightning.methods.objectives import LogObjective
from ada_lightning.methods.sampling import BalanceSampler
from ada_lightning.methods.selection import BalancedSelection
from ada_lightning.training.losses import ClippedPolicyLoss, ConstantReduction
from ada_lightning.training.policy import PolicyModule


@pytest.fixture
def policy(tmp_path):
    return PolicyModule(
        model_path=tmp_path, reference_path=tmp_path, advantage=ExactAdvantage(objective=LogObjective()),
        loss=ClippedPolicyLoss(reduction=ConstantReduction(token_scale=32)),
        optimizer=torch.optim.SGD, max_grad_norm=0.5,
    )  # fmt: skip


def test_statement_of_the_run_is_printed_at_its_setup_and_kept_from_the_first_update_on(policy, capsys, tmp_path):
    data = RolloutDataModule(
        source=None, prompts_per_step=8, max_prompt_tokens=8, num_steps=1, seed=0, num_minibatches=3,
        curriculum=DifficultyBand(),
    )  # fmt: skip
    callback = ObjectiveStatement(
        sampler=BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=16, group_size=4),
        selection=BalancedSelection(group_size=4), truncated="mask",
        run_dir=tmp_path / "run",
    )  # fmt: skip
    callback.setup(SimpleNamespace(datamodule=data, is_global_zero=True), policy, "fit")
    printed = capsys.readouterr().out
    assert not (tmp_path / "run").exists()  # the run may be refused yet, and a preview has no folder
    callback.on_train_batch_start(None, policy, None, 0)
    assert (tmp_path / "run" / "objective.txt").read_text() == printed
    lines = printed.splitlines()
    assert lines[0].endswith("log p (p: pass rate), as far as 16 responses can see: f'(p) = (1 - (1-p)^15) / p")
    for words in (
        "curriculum: prompts with a believed pass rate in [0.1, 0.9], and prompts never seen, come first",
        "data.num_minibatches = 3",
        "loss.importance_cap = 2",
        "rollout.truncated=mask",
        "policy.max_grad_norm = 0.5",
    ):
        assert sum(words in line for line in lines) == 1
