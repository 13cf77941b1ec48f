"""TRL's side of ``research.benchmarks.step_vs_trl``: seconds of GRPOTrainer's steps on the shared task."""

from __future__ import annotations

import tempfile
import time
from typing import Any

from ada_lightning.core.records import Completion
from research.benchmarks.step_task import (
    CLIP_HIGH,
    CLIP_LOW,
    GROUP_SIZE,
    LEARNING_RATE,
    MAX_GRAD_NORM,
    MAX_PROMPT_TOKENS,
    Work,
    prompts_in_order,
    report_steps,
    side_parser,
)


def main() -> None:
    """Train a few steps and print their figures."""
    parser = side_parser(__doc__)
    parser.add_argument("--weights", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--autocast", action="store_true", help="bf16 autocast")
    parser.add_argument("--batch-size", type=int, default=16, help="responses that pass through the policy at once")
    parser.add_argument("--continuous-batching", action="store_true", help="of transformers, for generation")
    parser.add_argument("--vllm", action="store_true", help="generate with vLLM in this process, on a GPU")
    parser.add_argument("--gpu-memory", type=float, default=0.3, help="share of the card that vLLM takes")
    arguments = parser.parse_args()
    measured = Measured(arguments.steps, arguments.seed, Work(arguments.prompts, arguments.max_new_tokens))
    measured.trainer(
        dtype=arguments.weights,
        bf16=arguments.autocast,
        batch_size=arguments.batch_size,
        continuous_batching=arguments.continuous_batching,
        vllm_gpu_memory=arguments.gpu_memory if arguments.vllm else 0.0,
    ).train()
    report_steps(measured.steps)


class Measured:
    """The task as TRL wants it, with a stopwatch around the phases of a step."""

    def __init__(self, num_steps: int, seed: int, work: Work) -> None:
        from transformers import AutoTokenizer

        from ada_lightning.rewards.extraction import LastNumber
        from ada_lightning.rewards.reasoning_gym import ReasoningGymReward
        from ada_lightning.training.models.wheel import SmolLM2Wheel

        self.path = SmolLM2Wheel().prepare()
        self.tokenizer = AutoTokenizer.from_pretrained(self.path, trust_remote_code=False)
        self.work = work
        self.prompts = prompts_in_order(self.tokenizer, num_steps=num_steps, seed=seed, num_prompts=work.num_prompts)
        self.reward = ReasoningGymReward(extraction=LastNumber(), binary=True)
        self.num_steps, self.seed = num_steps, seed
        self.steps: list[dict[str, float]] = []
        self._step: dict[str, float] = {}
        self._step_started = self._cpu_started = 0.0

    def trainer(
        self, *, dtype: str, bf16: bool, batch_size: int, continuous_batching: bool, vllm_gpu_memory: float = 0.0
    ) -> Any:
        """GRPOTrainer with the objective and optimiser of our side.

        Args:
            dtype: of the weights.
            bf16: whether it computes under bf16 autocast.
            batch_size: responses that pass through the policy at once.
            continuous_batching: of transformers, for generation.
            vllm_gpu_memory: share of the card for vLLM in this process, which generates then; 0: transformers does.
        """
        import torch
        from datasets import Dataset
        from trl import GRPOConfig, GRPOTrainer

        config = self._config(batch_size) | {
            "use_cpu": not torch.cuda.is_available(),
            "model_init_kwargs": {"dtype": dtype},
            "bf16": bf16,
            "use_transformers_continuous_batching": continuous_batching,
        }
        if vllm_gpu_memory:
            config |= {
                "use_vllm": True,
                "vllm_mode": "colocate",
                "vllm_gpu_memory_utilization": vllm_gpu_memory,
                "vllm_max_model_length": MAX_PROMPT_TOKENS + self.work.max_new_tokens,
            }
        rows = [{"prompt": [dict(m) for m in p.messages], "number": i} for i, p in enumerate(self.prompts)]
        trainer = GRPOTrainer(
            model=str(self.path),
            reward_funcs=self._grade,
            args=GRPOConfig(**config),
            train_dataset=Dataset.from_list(rows),
            processing_class=self.tokenizer,
        )
        trainer._tokenize_prompts = self._checked(trainer._tokenize_prompts)
        trainer._generate_single_turn = self._timed("generation_s", trainer._generate_single_turn)
        trainer._generate_and_score_completions = self._timed("rollout_s", trainer._generate_and_score_completions)
        if vllm_gpu_memory:
            trainer.vllm_generation.sync_weights = self._timed("sync_s", trainer.vllm_generation.sync_weights)
        trainer.add_callback(self._stopwatch())
        return trainer

    def _config(self, batch_size: int) -> dict[str, Any]:
        """Return the settings that are the same wherever it runs."""
        return {
            "output_dir": tempfile.mkdtemp(),
            "seed": self.seed,
            "max_steps": self.num_steps,
            "gradient_checkpointing": False,
            "per_device_train_batch_size": batch_size,
            "gradient_accumulation_steps": self.work.num_responses // batch_size,
            "num_generations": GROUP_SIZE,
            "max_completion_length": self.work.max_new_tokens,
            "shuffle_dataset": False,
            "temperature": 1.0,
            "beta": 0.0,
            "loss_type": "dr_grpo",  # token sums over a constant: our default reduction
            "scale_rewards": "group",
            "epsilon": CLIP_LOW,
            "epsilon_high": CLIP_HIGH,
            "max_grad_norm": MAX_GRAD_NORM,
            "learning_rate": LEARNING_RATE,
            "lr_scheduler_type": "constant",
            "weight_decay": 0.0,
            "optim": "adamw_torch_fused",
            "save_strategy": "no",
            "report_to": "none",
            "logging_steps": 1,
            "disable_tqdm": True,
        }

    def _grade(self, prompts: Any, completions: Any, completion_ids: Any, number: list[int], **_: Any) -> list[float]:
        """Our verifier, and a tally of what the step sampled."""
        texts = [completion[0]["content"] for completion in completions]
        rewards = [self.reward(self.prompts[n], Completion(text)).reward for n, text in zip(number, texts, strict=True)]
        groups = [rewards[i : i + GROUP_SIZE] for i in range(0, len(rewards), GROUP_SIZE)]
        first, number_of_prompts = len(self.steps) * self.work.num_prompts, self.work.num_prompts
        assert sorted(set(number)) == list(range(first, first + number_of_prompts))
        self._step |= {
            "tokens": sum(map(len, completion_ids)),
            "responses": len(rewards),
            "signal_ratio": sum(len(set(group)) > 1 for group in groups) / len(groups),
            "reward": sum(rewards) / len(rewards),
        }
        return rewards

    def _checked(self, tokenize: Any) -> Any:
        """The token ids that TRL continues must be those that we continue."""

        def checked(prompts: Any) -> Any:
            result = tokenize(prompts)
            ours = {prompt.prompt_ids for prompt in self.prompts}
            if not all(tuple(ids) in ours for ids in result[0]):
                raise RuntimeError("TRL tokenises the prompts in another way, so the work is not the same")
            return result

        return checked

    def _timed(self, name: str, function: Any) -> Any:
        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.monotonic()
            try:
                return function(*args, **kwargs)
            finally:
                self._step[name] = self._step.get(name, 0.0) + time.monotonic() - started

        return timed

    def _stopwatch(self) -> Any:
        from transformers import TrainerCallback

        measured = self

        class Stopwatch(TrainerCallback):
            """Closes a step's figures where the optimiser has stepped; logging counts to the next step."""

            def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
                measured._step_started, measured._cpu_started = time.monotonic(), time.process_time()

            def on_step_end(self, *args: Any, **kwargs: Any) -> None:
                now, cpu_now = time.monotonic(), time.process_time()
                figures, measured._step = measured._step, {}
                step_s, cpu_s = now - measured._step_started, cpu_now - measured._cpu_started
                measured._step_started, measured._cpu_started = now, cpu_now
                update_s = step_s - figures["rollout_s"]
                measured.steps.append({"step_s": step_s, "cpu_s": cpu_s, "update_s": update_s, **figures})

        return Stopwatch()


if __name__ == "__main__":
    main()
