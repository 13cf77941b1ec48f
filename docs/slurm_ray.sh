#!/bin/bash
# The trainer on the first of three machines, an engine on each other one:  sbatch docs/slurm_ray.sh
# Continue after the time limit:  sbatch docs/slurm_ray.sh ckpt=last
# This script was never run on a cluster.
#SBATCH --job-name=ada-lightning
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=1
#SBATCH --cpus-per-task=12
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@300
#SBATCH --output=%x-%j.out

set -euo pipefail
# Who has this token may have Ray run anything on these machines.
export RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(python -c 'import secrets; print(secrets.token_hex(32))')
export RAY_AUTH_TOKEN
PORT=${PORT:-6379}
ENGINES=${ENGINES:-1}          # on each machine but the first
ROLLOUT=${ROLLOUT:-ray_gpu}

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
on() { srun --overlap --nodes=1 --ntasks=1 -w "$@"; }
head=${nodes[0]}
address=$(on "$head" python -c 'import socket; print(socket.gethostbyname(socket.gethostname()))')

# The head has no place for an engine: its GPU is the trainer's.
on "$head" ray start --block --head --node-ip-address="$address" --port="$PORT" --num-cpus=0 --num-gpus=0 \
  --include-dashboard=false --disable-usage-stats &
# Ray ends on a machine that was away for long. A loop starts it again, and its engine serves after the next sync.
for node in "${nodes[@]:1}"; do
  # shellcheck disable=SC2016  # the shell on the node puts its arguments in
  on "$node" bash -c 'while true; do
    ray start --block --address="$0" --num-cpus="$1" --disable-usage-stats || sleep 10
  done' "$address:$PORT" "$ENGINES" &
done
trap 'kill $(jobs -p) 2> /dev/null' EXIT

# The name must stay the same when the run is continued, so it contains no time and no job number.
on "$head" python train.py \
  +experiment=paper/ada_seq_balance \
  run_name=qwen1.5b-balance-ray \
  data.source.path=RLHFlow/reinforce_ada_hard_prompt_1-5b \
  rollout="$ROLLOUT" \
  rollout.host.num_engines=$((ENGINES * (${#nodes[@]} - 1))) \
  rollout.host.address="$address:$PORT" \
  "$@"
