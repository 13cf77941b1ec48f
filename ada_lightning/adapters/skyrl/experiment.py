"""SkyRL's experiment with a memory: data set, generator and trainer are SkyRL's own, driven by a method."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Sequence
from typing import Any

from ada_lightning.adapters.tested import check_version

check_version("skyrl", (0, 3), (0, 4), install="install this package into SkyRL's environment, with --no-deps")

from skyrl.backends.skyrl_train.utils import io  # noqa: E402 - after the check, whose message is the better one
from skyrl.backends.skyrl_train.utils.ppo_utils import AdvantageEstimatorRegistry, register_advantage_estimator  # noqa: E402
from skyrl.train.entrypoints.main_base import BasePPOExp  # noqa: E402
from skyrl.train.fully_async_trainer import FullyAsyncRayPPOTrainer  # noqa: E402
from skyrl.train.utils.callbacks import TrainingCallback  # noqa: E402

from ada_lightning.adapters.brain import Brain  # noqa: E402
from ada_lightning.adapters.brain_records import FinishedStep  # noqa: E402
from ada_lightning.adapters.composed import compose_method  # noqa: E402
from ada_lightning.adapters.skyrl.arguments import NAME, approximations, refusals  # noqa: E402
from ada_lightning.adapters.skyrl.generator import AdaGenerator  # noqa: E402
from ada_lightning.adapters.skyrl.prompts import AdaPrompts, texts_of  # noqa: E402
from ada_lightning.config.problems import ConfigError  # noqa: E402

FILE = "ada.json"
"""Next to SkyRL's own state in a checkpoint of the asynchronous trainer."""


def advantage_is_the_reward(token_level_rewards: Any, response_mask: Any, **others: Any) -> tuple[Any, Any]:
    """Return each row's reward as the advantage of each of its tokens. Shapes ``(B, T)``."""
    advantages = token_level_rewards.sum(-1, keepdim=True) * response_mask
    return advantages, advantages


def register() -> None:
    """Make ``trainer.algorithm.advantage_estimator=ada`` known, before SkyRL checks its configuration."""
    if NAME not in AdvantageEstimatorRegistry.list_available():
        register_advantage_estimator(NAME)(advantage_is_the_reward)


class AdaExp(BasePPOExp):
    """SkyRL's experiment, synchronous or fully asynchronous, whose prompts, numbers and weights a method decides.

    Args:
        cfg: SkyRL's.
        method: a name of ``conf/experiment``.
        seed: of the choice of prompts and of the method's own draws.
        timeout: seconds of one call of SkyRL's generator; responses of one that takes longer are ungraded.
        **overrides: as of :class:`~ada_lightning.adapters.core.Core`.

    Raises:
        ConfigError: the method cannot work, or settings with which rows would mean something else.
    """

    def __init__(self, cfg: Any, method: str, *, seed: int = 0, timeout: float = 3600.0, **overrides: Any) -> None:
        max_kept = compose_method(method, overrides, seed=seed).max_kept
        if problems := list(refusals(cfg, max_kept=max_kept)):
            raise ConfigError(problems)
        self._method, self._seed, self._timeout, self._overrides = method, seed, timeout, overrides
        self._is_async = bool(cfg.trainer.fully_async.enabled)
        super().__init__(cfg)
        register()

    def get_train_dataset(self) -> AdaPrompts:
        """Return SkyRL's data set in the order of the method's choice."""
        rows, cfg = super().get_train_dataset(), self.cfg
        ahead = int(cfg.trainer.fully_async.max_staleness_steps) + 2 if self._is_async else 1
        brain = Brain(
            self._method,
            texts_of(rows),
            num_prompts=int(cfg.trainer.train_batch_size),
            max_tokens=int(cfg.trainer.algorithm.max_seq_len),
            seed=self._seed,
            open_steps=ahead,
            trainer="SkyRL's fully asynchronous trainer" if self._is_async else "SkyRL's trainer",
            **self._overrides,
        )
        brain.reasons = list(approximations(cfg))
        print(brain.statement(), flush=True)
        return AdaPrompts(rows, brain, keeps_state=not self._is_async)

    def get_generator(self, cfg: Any, tokenizer: Any, inference_engine_client: Any) -> AdaGenerator:
        """Return SkyRL's generator, asked for what the method wants."""
        inner = super().get_generator(cfg, tokenizer, inference_engine_client)
        return AdaGenerator(
            inner,
            self.train_dataset,
            eos_token_id=int(tokenizer.eos_token_id),
            learn=self._is_async,
            timeout=self._timeout,
        )

    def get_trainer(self, **given: Any) -> Any:
        """Return SkyRL's trainer, which says when a step's update is done."""
        if self._is_async:
            return AdaFullyAsyncTrainer(**given)
        trainer = super().get_trainer(**given)
        trainer.add_callback(AdaCallback(self.train_dataset.brain))
        return trainer


class AdaCallback(TrainingCallback):
    """Lets the memory learn from a step whose update is made; SkyRL then saves it with the state of its loader."""

    def __init__(self, brain: Brain) -> None:
        self._brain = brain

    def on_step_end(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Learn."""
        self._brain.learn()


class Remembers:
    """What a fully asynchronous trainer adds: the memory's state of the steps that have trained, in its checkpoints.

    The memory may know later steps by then. Their rows would be lost with the run, so they are drawn again.
    """

    train_dataset: AdaPrompts
    generator: AdaGenerator

    def __init__(self, *positional: Any, **given: Any) -> None:
        super().__init__(*positional, **given)
        brain = self.train_dataset.brain
        self._states: deque[dict[str, Any]] = deque([brain.state_dict()], maxlen=brain.open_steps + 2)
        self._num_trained = brain.step
        self.generator.on_finish = self._note

    def _note(self, finished: FinishedStep) -> None:
        self._states.append(self.train_dataset.brain.state_dict())

    async def _run_training(self, training_input: Any) -> Any:
        status = await super()._run_training(training_input)  # type: ignore[misc]
        self._num_trained += 1
        return status

    def ada_state(self) -> dict[str, Any]:
        """Return the memory's state of the steps that have trained."""
        return next(state for state in self._states if state["core"]["step"] == self._num_trained)

    def save_checkpoints(self) -> Any:
        """Save SkyRL's checkpoint, and the memory's state in it."""
        state = self.ada_state()  # before anything that takes time: the memory goes on meanwhile
        folder = super().save_checkpoints()  # type: ignore[misc]
        with io.open_file(os.path.join(folder, FILE), "w") as file:
            file.write(json.dumps(state))
        return folder

    def load_checkpoints(self) -> Any:
        """Load SkyRL's checkpoint, and the memory's state from it."""
        found: Sequence[Any] = super().load_checkpoints()  # type: ignore[misc]
        if found[0]:
            with io.open_file(os.path.join(found[1], FILE), "r") as file:
                self.resume(json.loads(file.read()), found[2])
        return found

    def resume(self, state: dict[str, Any], consumed: Any) -> None:
        """Go on from a state.

        Args:
            state: of the steps that have trained.
            consumed: uids of this epoch that SkyRL passes over.
        """
        prompts = self.train_dataset
        prompts.brain.load_state_dict(state)
        prompts.forget()
        prompts.skip(sorted(consumed or ()))
        self._states.clear()
        self._states.append(prompts.brain.state_dict())
        self._num_trained = prompts.brain.step


class AdaFullyAsyncTrainer(Remembers, FullyAsyncRayPPOTrainer):
    """SkyRL's fully asynchronous trainer with the memory's state in its checkpoints."""
