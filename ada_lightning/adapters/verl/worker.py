"""verl's agent loop, block by block: a prompt's sessions are begun as its rule wants more, and what is kept is stored.

Tested with verl 0.9.1: the worker, the estimator and the loss on a CPU, with a stand-in for its queue; never a whole
run, since its rollout servers want accelerators.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ada_lightning.adapters.pools import Pool, Pools
from ada_lightning.adapters.prompt_steps import PromptSteps
from ada_lightning.adapters.verl.actor import DEFAULT_NAME
from ada_lightning.adapters.verl.arguments import check, has_memory, settings_of
from ada_lightning.adapters.verl.tokens import end_ids

# isort: split
# The plugin has compared verl's version by now: its message is better than that of a name which is not there.
import ray
import transfer_queue
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ

NAMES = ("_run_prompt", "_run_agent_loop", "_agent_loop_postprocess", "_compute_score")
"""Of verl's worker, none of them public: overridden or called."""
_Worker: Any = AgentLoopWorkerTQ.__ray_metadata__.modified_class
if missing := [name for name in NAMES if not hasattr(_Worker, name)]:
    raise ImportError(f"verl's AgentLoopWorkerTQ has no {', '.join(missing)}, which ada_lightning.adapters.verl uses")

_log = logging.getLogger(__name__)
_WAIT_S = 0.2
"""Least seconds after which a prompt that waits for others asks again."""
_ASKS_PER_S = 1000
"""Most of such questions of all prompts together: the actor answers some thousands a second."""


class AdaAgentLoopWorker(_Worker):
    """Draws training prompts as the method of ``rollout.custom.ada`` says, and validation prompts as verl does."""

    def __init__(self, config: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(config, *arguments, **options)
        self.prepare(config)

    def prepare(self, config: Any) -> None:
        """Compose the method, or remember whom to ask, and find what ends a response."""
        self.has_memory = has_memory(config)
        self.steps: Any = None if self.has_memory else prompt_steps(config)
        self.brain: Any = None
        self.actor_name = settings_of(config)[2]["actor"] or DEFAULT_NAME
        self.end_ids = end_ids(self.tokenizer, getattr(self.model_config, "generation_config", None))
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
            draw = self._draw_with_memory if self.has_memory else self._draw
            await draw(prompt, sampling_params, trajectory, trace)
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
                    drawn[index], told = self._outcome(finished, index, prompt["uid"])
                    pool.add(index, **told)
        finally:
            for task in flying:
                task.cancel()
        await self._store(pools, pool, {index: outputs for index, outputs in drawn.items() if outputs}, prompt)

    async def _draw_with_memory(
        self, prompt: dict[str, Any], sampling_params: Any, trajectory: Any, trace: Any
    ) -> None:
        """Draw what the brain wants until it wants nothing more, and store every response with its own reward.

        The replay buffer of the driver puts the weights there, once the whole step is complete.
        """
        if self.brain is None:
            self.brain = ray.get_actor(self.actor_name)
        step, slot = int(prompt["ada_step"]), int(prompt["ada_slot"])
        wanted: Sequence[int] = range(int(prompt.pop("__rollout_n__", 0)))
        prompt.pop("__do_sample__", None)
        flying: dict[asyncio.Task[Any], int] = {}
        try:
            while True:
                for index in wanted:
                    session = self._run_agent_loop(
                        sampling_params, trajectory=trajectory, trace=trace, session_id=index, **prompt
                    )
                    flying[asyncio.create_task(session)] = index
                results: dict[int, dict[str, Any]] = {}
                if flying:
                    done, _ = await asyncio.wait(flying, return_when=asyncio.FIRST_COMPLETED)
                    for finished in done:
                        index = flying.pop(finished)
                        outputs, results[index] = self._outcome(finished, index, prompt["uid"])
                        if outputs:  # stored before it is told: where this worker dies between, the driver finds it
                            await super()._agent_loop_postprocess(outputs, False, session_id=index, **prompt)
                else:
                    await asyncio.sleep(max(_WAIT_S, self.num_prompts / _ASKS_PER_S))  # for other prompts of the step
                wanted, is_done = await self.brain.tell.remote(step, slot, results)
                if is_done and not flying:
                    return
        finally:
            for task in flying:
                task.cancel()

    def _outcome(self, finished: asyncio.Task[Any], index: int, name: str) -> tuple[list[Any], dict[str, Any]]:
        """Return a session's outputs and what is told of it; one that failed has none, and is no evidence."""
        if (error := finished.exception()) is not None:
            _log.error("session %s of prompt %s failed", index, name, exc_info=error)
            return [], {"failed": "infrastructure", "num_tokens": 0}
        outputs: list[Any] = finished.result()
        if not outputs:
            return [], {"failed": "no output", "num_tokens": 0}
        final = outputs[-1]
        num_tokens = sum(sum(output.response_mask) for output in outputs)
        if final.reward_score is None:
            _log.error("session %s of prompt %s has no reward", index, name)
            return [], {"failed": "no reward", "num_tokens": num_tokens}
        return outputs, {
            "reward": float(final.reward_score),
            "num_tokens": num_tokens,
            "is_truncated": len(final.response_ids) >= self.max_tokens and final.response_ids[-1] not in self.end_ids,
            "logprobs": [
                value
                for output in outputs
                for value, trains in zip(output.response_logprobs or (), output.response_mask, strict=False)
                if trains
            ],
        }

    async def _store(self, pools: Pools, pool: Pool, drawn: Mapping[int, list[Any]], prompt: Mapping[str, Any]) -> None:
        """Put what is kept into the queue, with its advantage over the denominator for a reward.

        Of a prompt that keeps nothing one row goes there with 0, so that verl finds a group. Where every session
        failed, it is one masked token.
        """
        if not drawn:
            drawn = {0: [self._masked()]}
        denominator = pools.denominator(self.max_tokens, is_limit=False) * self.num_prompts
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
        if not has_memory(config):  # else the data set has checked it
            for reason in check(config, max_kept=prompt_steps(config).max_kept()):
                _log.warning("approximate: %s", reason)
        self.agent_loop_workers_class = ray.remote(AdaAgentLoopWorker)


def prompt_steps(config: Any) -> PromptSteps:
    """Compose the method of a configuration, for single prompts.

    Raises:
        ConfigError: there is none, or it cannot work here.
    """
    method, settings, _ = settings_of(config)
    return PromptSteps(method, **settings)
