"""A whole run with every callback that other processes take part in, on a scripted engine."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from ada_lightning.callbacks.adaptive_sampling import AdaptiveSampling
from ada_lightning.callbacks.checkpoint import RolloutCheckpoint, StreamingCheckpointIO
from ada_lightning.callbacks.cost_preview import CostPreview
from ada_lightning.callbacks.evaluation import Evaluation
from ada_lightning.core.method import Method
from ada_lightning.core.records import Prompt, SamplingSettings
from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.methods.estimators import ValueNetworkEstimator
from ada_lightning.methods.sampling import BalanceSampler
from ada_lightning.methods.selection import BalancedSelection
from ada_lightning.rollout.service import RolloutService
from research.scripted import ScriptedEngine, ScriptedGrader
from tests.unit.parallel.small_training import make_policy, make_trainer

TOKENIZER = SimpleNamespace(
    decode=lambda response_ids, **options: str(response_ids[0]), save_pretrained=lambda path: None
)
PROMPTS = [Prompt(f"p{key}", (), prompt_ids=(key, 5, 6)) for key in range(10, 26)]


class Grader(ScriptedGrader):
    def start(self):
        pass

    def close(self):
        pass


class Engine(ScriptedEngine):
    """Keeps what it was given to load; stops using it half-way, or breaks, as told."""

    loaded: list
    trouble: str

    def load_weights(self, named_tensors, policy_version):
        received = {}
        for name, tensor in named_tensors:
            received[name] = tensor.clone()
            if self.trouble == "load" and not Engine.loaded and len(received) == 3:
                Engine.loaded.append("broken")
                raise RuntimeError("the engine lost its device")
        Engine.loaded.append((policy_version, received))
        super().load_weights(iter(()), policy_version)

    def poll(self):
        if self.trouble == "always" and self.policy_version == 1:
            raise RuntimeError("out of memory")
        if self.trouble == "interrupt" and self.policy_version == 1:
            raise KeyboardInterrupt("SIGINT")
        return super().poll()


class Data(RolloutDataModule):
    """Only the first process has prompts."""

    def setup(self, stage):
        if self.trainer.is_global_zero:
            self.train_prompts, self.heldout_prompts = PROMPTS[:12], PROMPTS[12:]


def run_flow(kind, path, run_dir, *, trouble="", num_steps=2, num_minibatches=2, on_gpu=False, **strategy_options):
    Engine.loaded, Engine.trouble = [], trouble
    policy = make_policy(path)
    service = RolloutService(
        engine=lambda **completed: Engine(pass_rates=dict.fromkeys(range(10, 26), 0.5)),
        sampling=SamplingSettings(max_new_tokens=4), max_model_tokens=32, seed=0, max_engine_restarts=1,
    )  # fmt: skip
    sampler = BalanceSampler(k_pos=1, k_neg=1, n_max=8, samples_per_round=2, group_size=2)
    selection = BalancedSelection(group_size=2)
    data = Data(
        source=None, prompts_per_step=5, max_prompt_tokens=32, num_steps=num_steps, seed=0,
        num_minibatches=num_minibatches, max_tokens_per_microbatch=16,
    )  # fmt: skip
    callbacks = [
        AdaptiveSampling(
            Method(
                estimator=ValueNetworkEstimator(seed=0, warmup_steps=1), sampler=sampler, selection=selection
            ), service=service, grader=Grader(), tokenizer=TOKENIZER, eos_token_ids=[2], run_dir=run_dir,
            max_logprob_gap=100.0, stop_logprob_gap=float("inf"),
        ),
        CostPreview(service=service, sampler=sampler, selection=selection, num_prompts=2, num_samples=2),
        RolloutCheckpoint(run_dir=run_dir, tokenizer=TOKENIZER, every_n_steps=1),
        Evaluation(service=service, num_samples=2, num_prompts=4, sampling=SamplingSettings(max_new_tokens=4)),
    ]  # fmt: skip
    trainer = make_trainer(
        kind, strategy_options=strategy_options, callbacks=callbacks, on_gpu=on_gpu, plugins=[StreamingCheckpointIO()]
    )
    ended = ""
    try:
        trainer.fit(policy, datamodule=data)
    except (Exception, SystemExit) as error:
        ended = f"{type(error).__name__}: {error}"
    checkpoints = Path(run_dir) / "checkpoints"
    return {
        "ended": ended,
        "loaded": [entry if isinstance(entry, str) else entry[0] for entry in Engine.loaded],
        "weights": Engine.loaded[-1][1] if Engine.loaded else {},
        "version": policy.policy_version,
        "checkpoints": sorted(path.name for path in checkpoints.glob("*")) if checkpoints.exists() else [],
        "metrics": {name: float(value) for name, value in trainer.callback_metrics.items()},
    }
