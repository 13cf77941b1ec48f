"""Prompts and numbers with a memory inside verl's driver: its data set and its replay buffer share one brain.

verl's synchronous trainer asks the data set for a step's prompts, draws them, asks the replay buffer for what trains,
makes its update, and saves the data set's state with its checkpoint. All of it happens in one process. So the data set
hands out what the brain chooses. The replay buffer tells what came of it and puts the weights into the rewards.
Tested with verl 0.9.1.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

from ada_lightning.adapters.brain import Brain
from ada_lightning.adapters.brain_records import Handout
from ada_lightning.adapters.verl.actor import ActorBrain
from ada_lightning.adapters.verl.arguments import check, draws_by_rule, settings_of
from ada_lightning.config.problems import ConfigError

# isort: split
from omegaconf import OmegaConf
from verl.utils.dataset.rl_dataset import RLHFDataset

_log = logging.getLogger(__name__)


class Memory:
    """What data set and replay buffer share. One is open in a process.

    Args:
        config: verl's whole one.

    Raises:
        ConfigError: there is no method.
    """

    current: Memory | None = None

    def __init__(self, config: Any) -> None:
        self.config = config
        self.method, self.settings, own = settings_of(config)
        self.id_column, self.timeout_s, self.actor = own["id_column"], float(own["timeout_s"]), own["actor"]
        self.brain: Any = None
        """A ``Brain``, or an ``ActorBrain`` that asks one; None until the data set has been read."""
        self.step = 0
        """Under way, or the next one; from 0."""
        self.needs_logprobs = False
        Memory.current = self

    def begin(self, prompts: Mapping[str, str]) -> None:
        """Make the brain, now that the prompts are known.

        Args:
            prompts: what they say, by id.

        Raises:
            ConfigError: the method or verl's configuration cannot work, or another trainer has the actor.
        """
        data = self.config.data
        options: dict[str, Any] = {
            "num_prompts": int(data.train_batch_size),
            "max_tokens": int(data.max_response_length),
            "trainer": "verl's synchronous trainer",
            "components": False,
            "seed": int(data.get("seed") or 0),
        } | self.settings
        brain = Brain(self.method, prompts, **options)
        if not (by_rule := draws_by_rule(self.config)) and not brain.core.draws_once:
            raise ConfigError(
                [
                    f"{self.method} decides while responses come in how many more to draw, so its workers have to ask: "
                    "give +actor_rollout_ref.rollout.agent.agent_loop_manager_class="
                    "ada_lightning.adapters.verl.worker.AdaAgentLoopManager, or a method that decides beforehand"
                ]
            )
        brain.reasons = check(self.config, max_kept=brain.core.max_kept)
        self.needs_logprobs = brain.core.needs_logprobs
        print(brain.statement("verl's synchronous trainer, rewards that are weights, token-sum"), flush=True)
        self.brain = brain
        if by_rule:
            self.brain = ActorBrain(self.actor, self.method, prompts, options)


class AdaDataset(RLHFDataset):
    """For ``data.custom_cls``: verl's data set, whose training rows are the prompts that the brain chooses.

    The loader's index is ignored. Each row says with ``__rollout_n__`` how often it is drawn. The held-out set is
    verl's own.

    Raises:
        ConfigError: as :meth:`Memory.begin`, or the replay buffer is not ``AdaReplayBuffer``.
        ValueError: rows that cannot be told apart.
    """

    def __init__(
        self, data_files: Any, tokenizer: Any, config: Any, processor: Any = None, max_samples: int = -1
    ) -> None:
        super().__init__(
            data_files=data_files, tokenizer=tokenizer, config=config, processor=processor, max_samples=max_samples
        )
        self._memory: Memory | None = None
        self._handouts: deque[Handout] = deque()
        memory = Memory.current
        if memory is None:
            raise ConfigError(
                [
                    "data.custom_cls is AdaDataset, and trainer.v1.sampler.custom_sampler is not AdaReplayBuffer: the "
                    "two share one memory, so give both (docs/verl.md)"
                ]
            )
        if memory.brain is None and _files(data_files) == _files(config.train_files):
            self._memory = memory
            self._places: dict[str, int] = {}
            memory.begin(dict(self._prompts(memory.id_column)))

    def __getitem__(self, item: int) -> dict[str, Any]:
        """Return the next prompt of the step; of the held-out set, the row asked for."""
        if self._memory is None:
            row: dict[str, Any] = super().__getitem__(item)
            return row
        if not self._handouts:
            self._handouts.extend(self._memory.brain.choose())
            self._memory.step = self._handouts[0].step
        handout = self._handouts.popleft()
        row = super().__getitem__(self._places[handout.prompt_id])
        return row | {
            "ada_prompt_id": handout.prompt_id,
            "ada_step": handout.step,
            "ada_slot": handout.slot,
            "__rollout_n__": len(handout.indices),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return what verl saves with its loader, in ``data.pt``: what the brain has learned up to the last step."""
        return {} if self._memory is None else {"brain": json.dumps(self._memory.brain.state_dict())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint; a step that was under way is drawn anew.

        Raises:
            ValueError: the checkpoint is of other prompts.
        """
        if self._memory is not None and "brain" in state:
            self._handouts.clear()
            saved = json.loads(state["brain"])
            self._memory.brain.load_state_dict(saved)
            self._memory.step = int(saved["core"]["step"])

    def _prompts(self, id_column: str | None) -> Iterator[tuple[str, str]]:
        """Yield id and words of every different prompt, and note where its row stands."""
        num_repeated = 0
        for place, row in enumerate(self.dataframe):
            if id_column is not None and row.get(id_column) is None:
                raise ValueError(f"row {place} has nothing in custom.ada.id_column={id_column}")
            known = self._id_of(row) if id_column is None else str(row[id_column])
            if known in self._places:
                if id_column is not None:
                    raise ValueError(f"custom.ada.id_column={id_column}: {known!r} is there twice; ids tell rows apart")
                num_repeated += 1
                continue
            self._places[known] = place
            yield known, _words(row[self.prompt_key])
        if num_repeated:
            _log.warning("%s rows of the training set repeat another: each prompt is one for the method", num_repeated)

    def _id_of(self, row: Mapping[str, Any]) -> str:
        """Name a row by what is asked and what counts as right: a new order or a further column changes no name."""
        said = [row[self.prompt_key], row.get("reward_model"), row.get("data_source")]
        return blake2b(json.dumps(said, sort_keys=True, default=str).encode(), digest_size=12).hexdigest()


def _files(given: Any) -> list[str]:
    plain = OmegaConf.to_container(given) if OmegaConf.is_config(given) else given
    return [str(file) for file in (plain if isinstance(plain, list | tuple) else [plain])]


def _words(prompt: Any) -> str:
    if isinstance(prompt, str):
        return prompt
    return "\n".join(str(message.get("content", "")) for message in prompt)
