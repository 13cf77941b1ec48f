"""From a composed configuration to the parts that draw and grade: shared by the programs at the top.

Hydra's edge: with the programs and the configuration checks the only place that instantiates.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from ada_lightning.analysis.offline.response_store import JobSettings, prompts_digest, weights_digest
from ada_lightning.run.machine import concrete_dtype
from ada_lightning.training.models.served import ServedModel, read_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ada_lightning.core.records import Prompt, SamplingSettings
    from ada_lightning.data.datamodule import RolloutDataModule
    from ada_lightning.rewards.pool import RewardPool
    from ada_lightning.rollout.service import RolloutService


def make_parts(group: DictConfig) -> dict[str, Any]:
    """Instantiate each part of a group, by name.

    One by one: of a dataclass object that it finds inside of something else, Hydra makes a configuration.
    """
    return {str(name): instantiate(node) for name, node in group.items()}


def read_data(cfg: DictConfig, tokenizer: Any, grader: RewardPool, **completed: Any) -> RolloutDataModule:
    """Make the data module with its prompts encoded, without those that the reward cannot grade.

    Workers of the grader may be running afterwards; ``completed`` are further arguments of the data module.

    Raises:
        ValueError: no training prompt is left.
    """
    data: RolloutDataModule = instantiate(cfg.data, _partial_=True)(**completed)
    data.read(tokenizer, grader)
    return data


@dataclass(frozen=True, slots=True)
class SamplingParts:
    """What draws and grades responses of fixed weights. Nothing runs before :meth:`open`."""

    model: ServedModel
    grader: RewardPool
    service: RolloutService

    def open(self, log_file: Path) -> None:
        """Start the reward workers and the engine, which writes to ``log_file``."""
        self.grader.start()
        self.service.open(
            model_path=self.model.path,
            tokenizer=self.model.tokenizer,
            eos_token_ids=self.model.eos_token_ids,
            grader=self.grader,
            log_file=log_file,
        )

    def close(self) -> None:
        """Stop both. Safe to call twice."""
        self.service.close()
        self.grader.close()

    def job_settings(
        self,
        cfg: DictConfig,
        reward: DictConfig,
        *,
        prompts: Sequence[Prompt],
        num_samples: int,
        stage: str,
        sampling: SamplingSettings,
    ) -> JobSettings:
        """Collect all that the responses depend on.

        A reward function is known by its configuration only: after a change of its code, choose a new folder. The
        arguments are those of a :class:`~ada_lightning.analysis.offline.SamplingJob`, and its reward's configuration.
        """
        environment, dtype = (OmegaConf.select(cfg, f"rollout.{name}") for name in ("environment", "engine.dtype"))
        of_episodes = {}
        if environment is not None:  # where an episode has no room for another turn, it ends
            of_episodes["environment"] = OmegaConf.to_container(environment, resolve=True)
            of_episodes["max_model_tokens"] = OmegaConf.select(cfg, "rollout.max_model_tokens")
        return JobSettings(
            {
                **of_episodes,
                "model": {"path": str(self.model.path), "weights": weights_digest(self.model.path)},
                "sampling": {
                    name: getattr(sampling, name) for name in ("max_new_tokens", "temperature", "top_p", "top_k")
                },
                "dtype": dtype and concrete_dtype(dtype),  # an engine of one's own may have none
                "num_samples": num_samples,
                "seed": {
                    "run": self.service.settings.seed,
                    "stage": stage,
                    "each_request": self.service.settings.seed_requests,
                },
                "reward": OmegaConf.to_container(reward, resolve=True),
                "data": {"num_prompts": len(prompts), "prompts": prompts_digest(prompts)},
            }
        )


def assemble(cfg: DictConfig, model_path: Path | None = None) -> SamplingParts:
    """Instantiate ``model``, or take a checkpoint instead, ``reward`` and ``rollout``."""
    path = model_path or instantiate(cfg.model).prepare()
    return SamplingParts(read_model(path), instantiate(cfg.reward), instantiate(cfg.rollout))
