#!/bin/bash
# Two machines with 8 GPUs each, one task for each GPU:  sbatch docs/slurm_example.sh
# Continue after the time limit:  sbatch docs/slurm_example.sh ckpt=last
#SBATCH --job-name=ada-lightning
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@300
#SBATCH --output=%x-%j.out

set -euo pipefail
# --gpus-per-node instead of --gpus-per-task: each task must see all GPUs of its machine. Lightning takes the one with its number.
# The data is a set of the hub, or files that all machines see.
# This has one engine, on one GPU. rollout=ray_gpu has one on each; for both machines start a Ray over them first and add
# rollout.host.num_engines=16 rollout.host.address=auto (docs/scaling.md).
# The name must stay the same when the run is continued, so it contains no time and no job number.
# This script was never run on a cluster.
srun --kill-on-bad-exit=1 python train.py \
  +experiment=paper/ada_seq_balance \
  run_name=qwen1.5b-balance \
  data.source.path=RLHFlow/reinforce_ada_hard_prompt_1-5b \
  trainer=fsdp \
  rollout=vllm_gpu_process \
  rollout/weight_transfer=reload \
  "$@"
