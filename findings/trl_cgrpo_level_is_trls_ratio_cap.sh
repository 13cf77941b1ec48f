#!/usr/bin/env bash
# trl-cgrpo 0.2.0: its miscoverage level `delta` is also TRL's cap of the ratio, so right responses do not train.
#
# Expected: CGRPOConfig(delta=0.1) sets the level of its conformal thresholds. The loss is as with delta=None.
# Observed: TRL's loss reads the same field as the largest ratio to the old policy (TRL 1.14.2). On policy
# the ratio is 1, so it is cut to 0.1. A positive advantage then has no gradient; a negative one keeps all of it. With
# loss_type dapo (the default) and bnpo right responses are never pushed up. Nothing is raised or warned of.
# What to do: leave delta=None, which takes the level from the calibration.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check trl==1.14.2 trl-cgrpo==0.2.0
cat > "$folder/check.py" <<'PYTHON'
import collections
import types

import torch
from trl import GRPOTrainer
from trl_cgrpo import CGRPOConfig, CGRPOTrainer


def gradient(delta):
    """Of two responses of one token, a right and a wrong one, by their log-probabilities."""
    args = CGRPOConfig(output_dir="x", budget_grid=[2], delta=delta, bf16=False, use_cpu=True, report_to="none")
    trainer = object.__new__(CGRPOTrainer)
    logprobs = torch.zeros(2, 1, requires_grad=True)
    trainer.__dict__.update(
        args=args,
        loss_type=args.loss_type,
        beta=0.0,
        epsilon_low=args.epsilon,
        epsilon_high=args.epsilon,
        importance_sampling_level=args.importance_sampling_level,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        aux_loss_enabled=False,
        use_vllm=False,
        vllm_importance_sampling_correction=False,
        _entropy_bonus_enabled=False,
        model=types.SimpleNamespace(training=True),
        current_gradient_accumulation_steps=1,
        max_completion_length=1,
        accelerator=types.SimpleNamespace(
            num_processes=1,
            sync_gradients=True,
            gather=lambda x: x,
            gather_for_metrics=lambda x: x,
            reduce=lambda x, **options: x,
        ),
        _metrics={"train": collections.defaultdict(list)},
        _get_per_token_logps_and_entropies=lambda *a, **k: (logprobs, torch.ones(2, 1), None),
    )
    ids = torch.zeros(2, 1, dtype=torch.long)
    inputs = dict(
        prompt_ids=ids,
        prompt_mask=ids + 1,
        completion_ids=ids,
        completion_mask=ids + 1,
        advantages=torch.tensor([1.0, -1.0]),
        num_items_in_batch=torch.tensor(2),
    )
    GRPOTrainer._compute_loss(trainer, None, inputs).backward()
    return [-value for value in logprobs.grad.flatten().tolist()]


plain, level = gradient(None), gradient(0.1)
print("delta=None: right, wrong =", plain)
print("delta=0.1:  right, wrong =", level)
raise SystemExit(plain != [0.5, -0.5] or [abs(level[0]), level[1]] != [0.0, -0.5])
PYTHON
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore "$folder/check.py"
