"""verl's agent loop, block by block: a prompt's sessions are begun as its rule wants more, and what is kept is stored.

Tested with verl 0.9.1: the worker, the estimator and the loss on a CPU, with a stand-in for its queue; never a whole
run, since its rollout servers want accelerators.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from ada_lightning.adapters.pools import Pool, Pools
from ada_lightning.adapters.prompt_steps import PromptSteps
from ada_lightning.adapters.verl.plugin import NAME
from ada_lightning.config.problems import ConfigError

# isort: split
# The plugin has compared verl's version by now: its message is better than that of a name which is not there.
import ray
import transfer_queue
from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ

NAMES = ("_run_prompt", "_run_agent_loop", "_agent_loop_postprocess", "_compute_score")
"""Of verl's worker, none of them public: overridden or called."""
_Worker: Any = AgentLoopWorkerTQ.__ray_metadata__.modified_class
if missing := [name for name in NAMES if not hasattr(_Worker, name)]:
    raise ImportError(f"verl's AgentLoopWorkerTQ has no {', '.join(missing)}, which ada_lightning.adapters.verl uses")

_log = logging.getLogger(__name__)


class AdaAgentLoopWorker(_Worker):
    """Draws training prompts as the method of ``rollout.custom.ada`` says, and validation prompts as verl does."""

    def __init__(self, config: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(config, *arguments, **options)
        self.prepare(config)

    def prepare(self, config: Any) -> None:
        """Compose the method, and find what ends a response."""
        self.steps = prompt_steps(config)
        self.end_ids = _end_ids(self.tokenizer, getattr(self.model_config, "generation_config", None))
        self.max_tokens = int(config.data.max_response_length)
        self.num_prompts = int(config.data.train_batch_size)

    async def _run_prompt(
        self, prompt: dict[str, Any], sampling_params: Any, trajectory: Any, trace: Any = False
    ) -> None:
        if trajectory["validate"]:
            await super()._run_prompt(prompt, sampling_params, trajectory, trace)
            return
        uid = prompt["uid"]
        await transfer_queue.async_kv_put(key=uid, partition_id="train", tag={"status": "running"})
        try:
            await self._draw(prompt, sampling_params, trajectory, trace)
            status = "finished"
        except Exception:
            _log.exception("prompt %s was not drawn to its end", uid)
            status = "failure"
        await transfer_queue.async_kv_put(key=uid, partition_id="train", tag={"status": status})

    async def _draw(self, prompt: dict[str, Any], sampling_params: Any, trajectory: Any, trace: Any) -> None:
        most = int(prompt.pop("__rollout_n__", 0))
        prompt.pop("__do_sample__", None)  # greedy responses are no draws of the policy
        pools = self.steps.begin(prompt["uid"], step=int(prompt["global_steps"]), most=most)
        (pool,) = pools
        flying: dict[asyncio.Task[Any], int] = {}
        drawn: dict[int, list[Any]] = {}
        try:
            while not pools.is_complete:
                for index in pool.launch(pool.want()):
                    session = self._run_agent_loop(
                        sampling_params, trajectory=trajectory, trace=trace, session_id=index, **prompt
                    )
                    flying[asyncio.create_task(session)] = index
                done, _ = await asyncio.wait(flying, return_when=asyncio.FIRST_COMPLETED)
                for finished in done:
                    index = flying.pop(finished)
                    drawn[index] = self._told(pool, index, finished)
        finally:
            for task in flying:
                task.cancel()
        await self._store(pools, pool, {index: outputs for index, outputs in drawn.items() if outputs}, prompt)

    def _told(self, pool: Pool, index: int, finished: asyncio.Task[Any]) -> list[Any]:
        """Tell the pool of a session; one that failed is no evidence."""
        if (error := finished.exception()) is not None:
            _log.error("session %s of prompt %s failed", index, pool.prompt_id, exc_info=error)
            pool.add(index, failed="infrastructure", num_tokens=0)
            return []
        outputs: list[Any] = finished.result()
        if not outputs:
            pool.add(index, failed="no output", num_tokens=0)
            return []
        final = outputs[-1]
        num_tokens = sum(sum(output.response_mask) for output in outputs)
        if final.reward_score is None:
            _log.error("session %s of prompt %s has no reward", index, pool.prompt_id)
            pool.add(index, failed="no reward", num_tokens=num_tokens)
            return []
        pool.add(
            index,
            float(final.reward_score),
            num_tokens=num_tokens,
            is_truncated=len(final.response_ids) >= self.max_tokens and final.response_ids[-1] not in self.end_ids,
            logprobs=[
                value
                for output in outputs
                for value, trains in zip(output.response_logprobs or (), output.response_mask, strict=False)
                if trains
            ],
        )
        return outputs

    async def _store(self, pools: Pools, pool: Pool, drawn: Mapping[int, list[Any]], prompt: Mapping[str, Any]) -> None:
        """Put what is kept into the queue, with its advantage over the denominator for a reward.

        Of a prompt that keeps nothing one row goes there with 0, so that verl finds a group. Where every session
        failed, it is one masked token.
        """
        if not drawn:
            drawn = {0: [self._masked()]}
        denominator = pools.denominator(self.max_tokens) * self.num_prompts
        kept = [row for row in pool.kept() if row.index in drawn]  # a failed session may count as 0, and has no tokens
        advantages = {row.index: row.advantage / denominator for row in kept} or dict.fromkeys([*drawn][:1], 0.0)
        figures = {"ada_responses": pool.num_drawn, "ada_pass_rate": pool.num_positive / max(pool.num_drawn, 1)}
        for index, advantage in advantages.items():
            final = drawn[index][-1]
            extra = final.extra_fields.get("reward_extra_info") or {}
            final.extra_fields["reward_extra_info"] = extra | {"ada_reward": final.reward_score} | figures
            final.reward_score = advantage
            await super()._agent_loop_postprocess(drawn[index], False, session_id=index, **prompt)

    def _masked(self) -> Any:
        """A row that trains nothing, as those with which verl fills a batch up."""
        token = min(self.end_ids, default=0)
        return AgentLoopOutput(
            prompt_ids=[token], response_ids=[token], response_mask=[0], response_logprobs=[0.0], reward_score=0.0,
            num_turns=0, metrics={}, extra_fields={},
        )  # fmt: skip

    async def _agent_loop_postprocess(self, output: Any, validate: bool, **given: Any) -> Any:
        """Grade a session of a training prompt and hold it back until its prompt is complete."""
        if validate:
            return await super()._agent_loop_postprocess(output, validate, **given)
        outputs = output if isinstance(output, list) else [output]
        if outputs:
            await self._compute_score(outputs, kwargs=given)
        return outputs


class AdaAgentLoopManager(AgentLoopManagerTQ):
    """For ``actor_rollout_ref.rollout.agent.agent_loop_manager_class``: verl's, with workers of this kind.

    Raises:
        ConfigError: rows would mean something else, or the plug-in is not there.
    """

    def __init__(self, config: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(config, *arguments, **options)
        for reason in check(config):
            _log.warning("approximate: %s", reason)
        self.agent_loop_workers_class = ray.remote(AdaAgentLoopWorker)


def _end_ids(tokenizer: Any, generation_config: Any) -> frozenset[int]:
    """Tokens that end a response, by a model's tokenizer and its generation config."""
    ids = getattr(generation_config, "eos_token_id", None)
    found = [getattr(tokenizer, "eos_token_id", None), *(ids if isinstance(ids, list | tuple) else [ids])]
    return frozenset(int(token) for token in found if token is not None)


def prompt_steps(config: Any) -> PromptSteps:
    """Compose the method of a configuration: ``+actor_rollout_ref.rollout.custom.ada.method=...`` and its settings.

    Raises:
        ConfigError: there is none, or it cannot work here.
    """
    custom = OmegaConf.to_container(config.actor_rollout_ref.rollout).get("custom") or {}  # type: ignore[union-attr]
    settings: dict[str, Any] = dict(custom.get("ada") or {})
    if "method" not in settings:
        raise ConfigError(["no method: give +actor_rollout_ref.rollout.custom.ada.method=ada_seq_balance, or another"])
    return PromptSteps(settings.pop("method"), **settings)


def check(config: Any) -> list[str]:
    """Compare verl's configuration with what the statement assumes.

    Returns:
        Why the update is approximate; empty where it is exact.

    Raises:
        ConfigError: rows would mean something else, or the plug-in was not loaded, of which verl itself says nothing.
    """
    problems = list(refusals(config, max_kept=prompt_steps(config).max_kept()))
    try:
        get_adv_estimator_fn(NAME)
    except ValueError:
        problems.append(
            "verl has not loaded ada_lightning's plug-in: install this package, and leave VERL_USE_EXTERNAL_PLUGINS at "
            "auto; import ada_lightning.adapters.verl.plugin says what is wrong with it"
        )
    if problems:
        raise ConfigError(problems)
    return list(approximations(config))


def refusals(config: Any, *, max_kept: int) -> Iterator[str]:
    """Yield a sentence for each setting with which rows would mean something else.

    Args:
        config: verl's whole one.
        max_kept: most rows of a prompt.
    """
    algorithm, actor, rollout = config.algorithm, config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    if algorithm.adv_estimator != NAME:
        yield f"algorithm.adv_estimator={algorithm.adv_estimator} would make advantages of advantages; use {NAME}"
    if algorithm.use_kl_in_reward:
        yield "algorithm.use_kl_in_reward=True adds to rewards that are advantages; use False"
    if algorithm.get("filter_groups") and algorithm.filter_groups.enable:
        yield "algorithm.filter_groups.enable=True drops groups by their rewards, which are advantages here; use False"
    if actor.loss_agg_mode != "token-sum":
        yield f"actor.loss_agg_mode={actor.loss_agg_mode} divides by what was kept; rows are divided already: token-sum"
    if rollout.n < max_kept:
        yield f"rollout.n={rollout.n} is less than the {max_kept} rows that a prompt may keep"
    if actor.ppo_mini_batch_size < config.data.train_batch_size:
        yield (
            f"actor.ppo_mini_batch_size={actor.ppo_mini_batch_size} is less than data.train_batch_size="
            f"{config.data.train_batch_size}: a rollout would make several updates, of more rows or fewer"
        )
    reward_model = config.reward.reward_model
    if reward_model.enable and not reward_model.enable_resource_pool:
        yield (
            "reward.reward_model.enable=True without resources of its own gives rewards when all responses are drawn, "
            "and the rule needs them meanwhile; use reward.reward_model.enable_resource_pool=True, or a reward function"
        )
    if not config.trainer.use_v1:
        yield "trainer.use_v1=False has no agent loop that works with this; use True"


def approximations(config: Any) -> Iterator[str]:
    """Yield a reason for each setting by which the update departs from the statement without becoming meaningless."""
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    if actor.ppo_epochs > 1:
        yield f"actor.ppo_epochs={actor.ppo_epochs}: updates of one rollout after the first are off-policy"
    if actor.use_kl_loss or actor.entropy_coeff:
        yield f"actor.use_kl_loss={actor.use_kl_loss}, actor.entropy_coeff={actor.entropy_coeff} add terms to the loss"
    if actor.policy_loss.loss_mode != "vanilla":
        yield f"actor.policy_loss.loss_mode={actor.policy_loss.loss_mode} is not a sum of ratio times advantage"
    if config.trainer.v1.trainer_mode != "sync":
        yield f"trainer.v1.trainer_mode={config.trainer.v1.trainer_mode} trains on what finished first, and off-policy"
    if (rollout.temperature, rollout.top_p, rollout.top_k) != (1.0, 1, -1):
        yield (
            f"rollout.temperature={rollout.temperature}, top_p={rollout.top_p}, top_k={rollout.top_k}: responses come "
            "from another distribution than the one that is trained"
        )
    correction = config.algorithm.get("rollout_correction")
    if correction and (correction.get("rollout_rs") or correction.get("rollout_is")):
        yield "algorithm.rollout_correction weighs tokens by the engine's ratio, or drops by it, long responses first"
