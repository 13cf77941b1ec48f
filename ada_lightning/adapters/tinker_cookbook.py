"""The RL loop of tinker-cookbook with adaptive rollouts: ``docs/own_loop.md``, section on Tinker.

The loop asks a data set for groups, runs a rollout strategy for each of them, subtracts a group's mean reward and sends
sums over tokens. Here the data set gives the prompts that the core chooses, and the strategy draws each as often as the
core wants. It returns the kept trajectories, with their advantage over the denominator as reward, and one more without
a token. The reward of that one balances the others, so the mean is 0 and nothing is subtracted. Tested with 0.6.1
against a service in this process.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ada_lightning.adapters.core import Core
from ada_lightning.adapters.pools import Pool, Pools
from ada_lightning.adapters.tested import check_version
from ada_lightning.config.problems import ConfigError
from ada_lightning.run.files import write_text

check_version("tinker-cookbook", (0, 6), (0, 7))

import chz  # noqa: E402 - after the check, whose message is the better one
import tinker  # noqa: E402
from tinker_cookbook.rl.rollout_strategy import FailFast, RolloutResult, RolloutStrategy  # noqa: E402
from tinker_cookbook.rl.rollouts import do_single_rollout  # noqa: E402
from tinker_cookbook.rl.types import EnvGroupBuilder, RLDataset, RLDatasetBuilder, Trajectory  # noqa: E402


class AdaRollouts(RLDataset):
    """Data set of the cookbook's loop, whose groups are drawn as the method says.

    Args:
        method: a name of ``conf/experiment``.
        builders: of the environments of each prompt, by a name that is stable over runs. Of a group as many
            environments are made as it takes; each response is graded by itself.
        num_prompts: of a step.
        num_steps: of the run.
        max_tokens: longest response, all turns together: ``max_tokens`` of the loop where there is one turn.
        texts: what prompts say, by name, for methods that expect something of a prompt by its words.
        seed: of the choice of prompts and of the method's own draws.
        folder: where the core's state is kept for a resumed run; next to the loop's checkpoints.
        save_every: steps between states: the loop's own, or a divisor of it.
        **overrides: as of :class:`~ada_lightning.adapters.core.Core`.

    Raises:
        ConfigError: the method cannot work, or not here.
    """

    def __init__(
        self,
        method: str,
        builders: Mapping[str, EnvGroupBuilder],
        *,
        num_prompts: int,
        num_steps: int,
        max_tokens: int,
        texts: Mapping[str, str] | None = None,
        seed: int = 0,
        folder: str | Path | None = None,
        save_every: int = 20,
        **overrides: Any,
    ) -> None:
        prompts = list(builders) if texts is None else {name: texts[name] for name in builders}
        self.core = Core(method, prompts=prompts, seed=seed, **overrides)
        if problems := self.core.unmet(metrics=False, refill=False, hints=False, answers=False):
            raise ConfigError([f"{problem}, which the cookbook's loop does not give" for problem in problems])
        self.max_tokens = max_tokens
        self._builders, self._num_prompts, self._num_steps = builders, num_prompts, num_steps
        self._folder, self._save_every = None if folder is None else Path(folder), save_every

    def __len__(self) -> int:
        return self._num_steps

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        """Begin a step, and return a group for each prompt that was chosen.

        Raises:
            ValueError: a step other than the next one, of which no state was kept.
        """
        if index != self.core.step:
            self._resume(index)
        self.core.abandon()  # of a step that was cut off
        pools = self.core.choose(self._num_prompts)
        step = _StepUnderWay(self, pools)
        return [AdaGroup(step, pool, self._builders[pool.prompt_id]) for pool in pools]

    def loop_arguments(self) -> dict[str, Any]:
        """Return what the loop's ``Config`` is given of this: data set, and strategy."""
        return {"dataset_builder": AdaDatasetBuilder(rollouts=self), "rollout_error_tolerance": AdaStrategy()}

    def check(self, config: Any) -> list[str]:
        """Compare the loop's ``Config`` with what the statement assumes.

        Returns:
            Why the update is approximate; empty where it is exact.

        Raises:
            ConfigError: rewards would mean something else.
        """
        if problems := list(_refusals(config)):
            raise ConfigError(problems)
        return list(_approximations(config))

    def statement(self, reasons: Sequence[str] = ()) -> str:
        """Say what the update follows; ``reasons`` are those of :meth:`check`."""
        about = "approximate" if reasons else "exact"
        said = self.core.statement(f"tinker-cookbook's RL loop, sums over tokens ({about})")
        return "\n".join([said, *(f"  approximate: {reason}" for reason in reasons)])

    def learn(self, pools: Pools) -> None:
        """Let the core learn from a step of which every group has its trajectories."""
        self.core.tell(pools)
        step = self.core.step
        if self._folder is not None and (step % self._save_every == 0 or step == self._num_steps):
            write_text(self._file(self._folder, step), json.dumps(self.core.state_dict()))

    def _resume(self, step: int) -> None:
        file = None if self._folder is None else self._file(self._folder, step)
        if file is None or not file.exists():
            raise ValueError(
                f"the loop asks for step {step}, and the core has done {self.core.step}: a resumed run needs the state "
                f"of step {step} in folder={self._folder} (save_every as the loop's own), and num_epochs is 1"
            )
        self.core.load_state_dict(json.loads(file.read_text(encoding="utf-8")))

    @staticmethod
    def _file(folder: Path, step: int) -> Path:
        return folder / f"core_{step:06d}.json"


@chz.chz
class AdaDatasetBuilder(RLDatasetBuilder):
    """Gives the loop its data set."""

    rollouts: Any

    async def __call__(self) -> tuple[RLDataset, RLDataset | None]:
        """Return it, and no test set."""
        return self.rollouts, None


class AdaGroup(EnvGroupBuilder):
    """The environments of one prompt of a step, as many as it takes."""

    def __init__(self, step: _StepUnderWay, pool: Pool, builder: EnvGroupBuilder) -> None:
        self.step, self.pool, self._builder = step, pool, builder
        self._unused: list[Any] = []
        self._one_drawn: tuple[Trajectory, Any] | None = None
        self._making = asyncio.Lock()
        self._final: list[tuple[float, dict[str, float | int]]] = []

    async def make_envs(self) -> Sequence[Any]:
        """Make one group of the user's."""
        return await self._builder.make_envs()

    async def respond(self, index: int, policy: Any) -> None:
        """Draw and grade a response that was launched, and tell the pool."""
        env = await self._env()
        trajectory = await do_single_rollout(policy, env)
        ((final, _),) = await self._builder.compute_group_rewards([trajectory], [env])
        self._one_drawn = trajectory, env
        actions = [transition.ac for transition in trajectory.transitions]
        num_tokens = sum(len(action.tokens) for action in actions)
        self.pool.add(
            index,
            sum(transition.reward for transition in trajectory.transitions) + final,
            num_tokens=num_tokens,
            payload=(trajectory, env),
            is_truncated=trajectory.stop_reason == "max_tokens" or any(a.stop_reason == "length" for a in actions),
            logprobs=[each for action in actions for each in action.maybe_logprobs or ()],
        )

    def result(self, denominator: float, *, needs_one: bool) -> RolloutResult:
        """Return the kept trajectories, and the one that balances them.

        Args:
            denominator: of the step.
            needs_one: whether to add one with an advantage of 0: no group of the step keeps any, and the loop cannot
                train on nothing.
        """
        rows = [(row.payload, row.advantage / denominator) for row in self.pool.kept()]
        drawn = self.pool.num_drawn
        figures = {"ada/responses": drawn, "ada/pass_rate": self.pool.num_positive / max(drawn, 1)}
        figures["ada/signal"] = float(bool(rows))
        if needs_one and self._one_drawn is not None:
            rows.append((self._one_drawn, 0.0))
        self._final = [(value, {}) for _, value in rows]
        self._final.append((-math.fsum(value for _, value in rows), figures))
        trajectories = [_without_rewards(trajectory) for (trajectory, _), _ in rows]
        balance = Trajectory(transitions=[], final_ob=tinker.ModelInput.empty())
        return RolloutResult([*trajectories, balance], [*(env for (_, env), _ in rows), None], [])

    async def compute_group_rewards(
        self, trajectory_group: list[Trajectory], env_group: Sequence[Any]
    ) -> list[tuple[float, dict[str, float | int]]]:
        """Return advantages over the denominator, as rewards."""
        return self._final

    async def cleanup(self) -> None:
        """Release what the user's builder holds."""
        await self._builder.cleanup()

    def logging_tags(self) -> list[str]:
        """Name the prompt: ``ada audit`` knows it again by that."""
        return [*self._builder.logging_tags(), f"prompt_id={self.pool.prompt_id}"]

    async def _env(self) -> Any:
        async with self._making:
            if not self._unused:
                self._unused = list(await self.make_envs())
            return self._unused.pop(0)


class _StepUnderWay:
    """What the groups of a step share: whether one of them failed, and when something came in."""

    def __init__(self, rollouts: AdaRollouts, pools: Pools) -> None:
        self._rollouts, self._pools = rollouts, pools
        self._num_left = len(pools)
        self._failure: BaseException | None = None
        self._news = asyncio.Event()

    async def draw(self, group: AdaGroup, policy: Any) -> RolloutResult:
        """Draw one prompt until the whole step is complete: what it keeps may depend on the others."""
        tasks: set[asyncio.Task[None]] = set()
        try:
            while not self._pools.is_complete:
                for index in group.pool.launch(group.pool.want()):
                    tasks.add(asyncio.create_task(self._respond(group, index, policy)))
                await self._news.wait()
                if self._failure is not None:
                    raise self._failure
        finally:
            for task in tasks:
                task.cancel()
        is_empty = not any(pool.kept() for pool in self._pools)
        denominator = self._pools.denominator(self._rollouts.max_tokens, is_limit=False)
        result = group.result(denominator, needs_one=is_empty and group.pool.slot == 0)
        self._num_left -= 1
        if self._num_left == 0:
            self._rollouts.learn(self._pools)
        return result

    async def _respond(self, group: AdaGroup, index: int, policy: Any) -> None:
        try:
            await group.respond(index, policy)
        except Exception as error:
            self._failure = error
        self._news.set()  # wakes all who wait now
        self._news = asyncio.Event()


@dataclasses.dataclass(frozen=True)
class AdaStrategy(RolloutStrategy):
    """Draws a group of :class:`AdaRollouts` as often as the core wants; any other group as the cookbook does."""

    async def execute(self, env_group_builder: EnvGroupBuilder, policy: Any) -> RolloutResult:
        """Return the kept trajectories. An error of one response is one of the step, as with ``FailFast``."""
        if not isinstance(env_group_builder, AdaGroup):
            return await FailFast().execute(env_group_builder, policy)
        return await env_group_builder.step.draw(env_group_builder, policy)

    def __reduce__(self) -> Any:
        raise TypeError("AdaRollouts draws in the loop's own process: leave set_rollout_executor() out")


def _without_rewards(trajectory: Trajectory) -> Trajectory:
    transitions = [dataclasses.replace(transition, reward=0.0) for transition in trajectory.transitions]
    return dataclasses.replace(trajectory, transitions=transitions)


def _refusals(config: Any) -> Iterator[str]:
    """Yield a sentence for each setting with which rewards would mean something else, or nothing would end."""
    if config.async_config is not None:
        yield "async_config draws groups of several steps at once, but here steps follow each other; use None"
    if config.num_epochs != 1:
        yield f"num_epochs = {config.num_epochs} is for the method, which chooses prompts itself; use 1 and num_steps"
    termination = config.effective_termination()
    if termination is not None and termination.zero_reward_on_limit:
        yield (
            "termination.zero_reward_on_limit=True would lower rewards that are already advantages; do it in the "
            "environment, and pass TerminationRewardPolicy(zero_reward_on_limit=False)"
        )


def _approximations(config: Any) -> Iterator[str]:
    if config.loss_fn not in ("importance_sampling", "ppo", "cispo"):
        yield f'loss_fn="{config.loss_fn}" is not a sum of ratio times advantage'
    if config.num_substeps > 1 or config.stream_minibatch_config is not None:
        yield (
            f"num_substeps={config.num_substeps}, stream_minibatch_config={config.stream_minibatch_config}: updates of "
            "one rollout after the first are off-policy"
        )
    if config.kl_penalty_coef:
        yield f"kl_penalty_coef={config.kl_penalty_coef} adds a term that is not part of the objective"
    if config.temperature != 1.0:
        yield f"temperature={config.temperature}: responses come from another distribution than the one that is trained"
