"""What drawing ahead saves on the real engine: ``python -m benchmarks.speculation``.

The first rollout of a default run (32 chain_sum prompts, balance 2/2, blocks of 4, at most 32), with and without, in
turns in one process and with the same responses. Prints medians and ratios, writes ``docs/speculation.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

OUTPUT = Path(__file__).resolve().parents[1] / "docs" / "speculation.json"


def main() -> None:
    """Measure and print."""
    from transformers import AutoTokenizer

    from ada_lightning.data.encoder import PromptEncoder
    from ada_lightning.data.reasoning_gym import ReasoningGymSource
    from ada_lightning.malloc import keep_freed_memory
    from ada_lightning.models.wheel import SmolLM2Wheel
    from ada_lightning.rewards.extraction import LastNumber
    from ada_lightning.rewards.pool import RewardPool
    from ada_lightning.rewards.reasoning_gym import ReasoningGymReward
    from ada_lightning.rollout.collector import RolloutCollector
    from ada_lightning.rollout.speculation import Speculation
    from ada_lightning.rollout.vllm_engine import VllmEngine
    from ada_lightning.sampling import BalanceSampler
    from ada_lightning.selection import BalancedSelection
    from ada_lightning.types import SamplingSettings

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5, help="timed rollouts per setting")
    parser.add_argument("--prompts", type=int, default=32, help="prompts per step")
    parser.add_argument("--fill-to", type=int, nargs="+", default=[0, 32, 64, 128], help="settings to compare")
    arguments = parser.parse_args()
    keep_freed_memory()
    path = SmolLM2Wheel().prepare()
    tokenizer = AutoTokenizer.from_pretrained(path)
    tasks = {"chain_sum": {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 2}}
    source = ReasoningGymSource(tasks, num_train=arguments.prompts, num_heldout=0, seed=0)
    prompts, _ = PromptEncoder(tokenizer, max_prompt_tokens=256).encode(source.train_prompts())
    grader = RewardPool(ReasoningGymReward(extraction=LastNumber(), binary=True), num_workers=1, time_limit_s=10)
    grader.start()
    engine = VllmEngine(
        model_path=path,
        log_file=Path(tempfile.mkdtemp()) / "engine.log",
        max_model_tokens=320,
        eos_token_ids=[2],
    )
    results: dict[int, list[tuple[float, float, int]]] = {fill_to: [] for fill_to in arguments.fill_to}
    try:
        for repetition in range(arguments.repetitions + 1):
            for fill_to, rows in results.items():
                collector = RolloutCollector(
                    decode=lambda response_ids: tokenizer.decode(response_ids, skip_special_tokens=True),
                    seed=0,
                    speculation=Speculation(fill_to=fill_to),
                )
                _, stats = collector.collect(
                    prompts,
                    engine=engine,
                    grader=grader,
                    sampler=BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4),
                    selection=BalancedSelection(group_size=4),
                    settings=SamplingSettings(max_new_tokens=32),
                    stage="train",
                    step=0,
                    policy_version=0,
                )
                if repetition:  # the first builds kernels and fills the prefix cache
                    rows.append((stats.seconds, stats.wasted_tokens / stats.generated_tokens, stats.num_drawn))
    finally:
        engine.close()
        grader.close()
    report = []
    baseline = statistics.median(seconds for seconds, _, _ in results[arguments.fill_to[0]])
    for fill_to, rows in results.items():
        seconds = statistics.median(row[0] for row in rows)
        waste = statistics.median(row[1] for row in rows)
        report.append({"fill_to": fill_to, "seconds": seconds, "ratio": baseline / seconds, "waste": waste})
        print(f"fill to {fill_to:>4}: {seconds:6.1f} s  {baseline / seconds:5.2f} x  waste {waste:6.1%}", flush=True)
    OUTPUT.write_text(
        json.dumps({"prompts": arguments.prompts, "responses": rows[0][2], "rows": report}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
