"""Plays a case with the product as it is today. The only file here that knows its classes.

Real are the composed configuration, every part of the method, the rollout service, the packing, the policy's loss and
its gradient. Scripted are what :mod:`tests.tapes.world` says: responses, verdicts, latencies, where prompts lie. The
policy is a table of logits with position, which is enough for a gradient: what a method asks of it are
log-probabilities, hidden states and the output embedding.
"""

from __future__ import annotations

import logging
import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from lightning.pytorch import Trainer, seed_everything
from omegaconf import DictConfig, OmegaConf, open_dict
from torch import Tensor, nn

from ada_lightning.callbacks.adaptive_sampling import AdaptiveSampling
from ada_lightning.callbacks.rollout_listener import RolloutListener
from ada_lightning.config.generated import CONFIG_DIR
from ada_lightning.core.method import Method
from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.core.records import Outcome, Prompt, ResponseGroup, Verdict
from ada_lightning.training.policy import PolicyModule
from ada_lightning.training.seeded_tensors import response_identity
from tests.tapes import world
from tests.tapes.cases import BINARY_ONLY, Case
from tests.tapes.world import Latency

PARTS_OF_A_METHOD = (
    "advantage", "objective", "sampler", "sampler/gradient_norm", "selection", "refill", "curriculum",
    "curriculum/usefulness", "estimator", "estimator/embedding", "estimator/length_scale", "loss", "loss/reduction",
    "loss/importance", "token_masks", "rollout/schedule",
)  # fmt: skip
"""Groups of ``conf`` whose options make a method."""


def choices(case: Case) -> dict[str, list[str]]:
    """Which options a case is made of, by group."""
    cfg, found = _composed(case.overrides)
    chosen = {name.partition("@")[0]: [choice] for name, choice in found.items() if choice}
    chosen["token_masks"] = list(cfg.token_masks) or ["none"]  # several combine
    return {name: chosen[name] for name in PARTS_OF_A_METHOD if name in chosen}


def is_for_two_classes(case: Case) -> bool:
    """Whether the case's advantage takes rewards of 0 and 1 alone."""
    return bool({*choices(case)["advantage"]} & {*BINARY_ONLY}) or "PathCountingRate" in " ".join(case.overrides)


def play(case: Case, latency: Latency) -> list[dict[str, Any]]:
    """Run the case's four steps and return one record a step, of plain numbers, texts, lists and dictionaries."""
    with warnings.catch_warnings(), TemporaryDirectory() as folder, _one_thread():
        warnings.simplefilter("ignore")
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
        cfg = deepcopy(_composed(case.overrides)[0])
        return _run(_shrunk(cfg, case, latency, folder), Path(folder))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums of several threads differ in their last digits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=1)
def _composed(overrides: tuple[str, ...]) -> tuple[DictConfig, dict[str, Any]]:
    """Return the configuration, and what was chosen of each group."""
    with initialize_config_dir(str(CONFIG_DIR), version_base="1.3"):
        cfg = compose("train", overrides=list(overrides), return_hydra_config=True)
    with open_dict(cfg):
        chosen = dict(cfg.pop("hydra").runtime.choices)
    return cfg, chosen


def _shrunk(cfg: DictConfig, case: Case, latency: Latency, folder: str) -> DictConfig:
    """Put the scripted world in the place of model, data and engine; everything else is left as configured."""
    engine = {"_target_": f"{__name__}.ScriptedEngine", "_partial_": True, "max_num_seqs": latency.slots}
    replaced: dict[str, Any] = {
        "run_dir": folder,
        "seed": world.RUN_SEED,
        "num_steps": world.NUM_STEPS,
        "data.source": None,
        "data.format": None,
        "data.prompts_per_step": world.PROMPTS_PER_STEP,
        "rollout.engine": engine | {"latency": latency.name, "graded": case.graded},
        "rollout.sampling.max_new_tokens": world.MAX_NEW_TOKENS,
        "policy._target_": f"{__name__}.TablePolicy",
        "trainer.precision": "32-true",
        "trainer.plugins": None,
        "trainer.accelerator": "cpu",
        "trainer.devices": 1,
    }
    if not any(override.startswith("optimizer=") for override in case.overrides):
        # Steps in proportion to the gradient: Adam's would turn what rounding leaves of a zero into a step.
        replaced["optimizer"] = {"_target_": "torch.optim.SGD", "_partial_": True, "lr": 2.0}
    for key, value in replaced.items():
        OmegaConf.update(cfg, key, value, merge=False, force_add=True)
    return cfg


def _run(cfg: DictConfig, folder: Path) -> list[dict[str, Any]]:
    seed_everything(cfg.seed, verbose=False)
    latency = next(latency for latency in world.LATENCIES if latency.name == cfg.rollout.engine.latency)
    data = instantiate(cfg.data, _partial_=True)(curriculum=instantiate(cfg.curriculum))
    data.train_prompts = [_prompt(number) for number in range(len(world.TEXTS))]
    estimator = instantiate(cfg.estimator)
    estimator.check_prompts(data.train_prompts)
    policy = instantiate(cfg.policy, _partial_=True)(
        model_path=folder, reference_path=folder, advantage=instantiate(cfg.advantage),
        loss=instantiate(cfg.loss), optimizer=instantiate(cfg.optimizer),
        parameters=instantiate(cfg.parameters), token_masks=list(instantiate(cfg.token_masks).values()),
    )  # fmt: skip
    sampling = AdaptiveSampling(
        Method(
            estimator=estimator, sampler=instantiate(cfg.sampler), selection=instantiate(cfg.selection),
            refill=instantiate(cfg.refill),
        ), service=instantiate(cfg.rollout), grader=ScriptedGrader(latency),
        tokenizer=SimpleNamespace(decode=lambda ids, **options: world.text_of(ids)), eos_token_ids=[0],
        run_dir=folder, stop_logprob_gap=float("inf"),
    )  # fmt: skip
    recorder = Recorder(sampling)
    trainer: Trainer = instantiate(cfg.trainer, callbacks=[sampling, recorder], logger=False, log_every_n_steps=1)
    trainer.fit(policy, datamodule=data)
    return recorder.steps


def _prompt(number: int) -> Prompt:
    return Prompt(
        prompt_id=f"p{number}", messages=({"role": "user", "content": world.TEXTS[number]},), task="task",
        reference={"answer": "7 0 20 21"[: 3 + number % 7]}, prompt_ids=world.prompt_tokens(number),
    )  # fmt: skip


def _number(prompt: Prompt) -> int:
    return int(prompt.prompt_id[1:])


class ScriptedEngine(RolloutEngine):
    """Gives the world's responses at the latency's time."""

    launched: list[tuple[int, int, int]] = []  # noqa: RUF012 - of the step under way; the recorder empties it
    """(slot, sample index, seed) of every request, those that are dropped later included."""

    def __init__(self, *, max_num_seqs: int, latency: str, graded: bool, max_model_tokens: int, **others: Any) -> None:
        self.max_num_seqs, self.max_model_tokens, self._graded = max_num_seqs, max_model_tokens, graded
        self._latency = next(known for known in world.LATENCIES if known.name == latency)
        self._running: dict[str, tuple[int, Outcome]] = {}
        self._clock = self._version = self._num_submitted = 0
        self.launched.clear()

    def submit(self, request_id: str, prompt_ids: Sequence[int], settings: Any, seed: int | None) -> None:
        assert seed is not None
        _, slot, sample_index = request_id.split("/")
        self.launched.append((int(slot), int(sample_index), seed))
        drawn = world.respond(prompt_ids[0], seed, self._version, graded=self._graded)
        due = self._clock + self._latency.polls(random.Random(seed), drawn, self._num_submitted)
        self._num_submitted += 1
        self._running[request_id] = (
            due,
            Outcome("", drawn.token_ids, drawn.logprobs, drawn.is_truncated, request_id=request_id),
        )

    def poll(self) -> list[Outcome]:
        self._clock += 1
        due = sorted((at, name) for name, (at, _) in self._running.items() if at <= self._clock)
        return [self._running.pop(name)[1] for _, name in due]

    def abort(self, request_ids: Sequence[str]) -> int:
        for request_id in request_ids:
            self._running.pop(request_id, None)
        return 0

    def num_in_flight(self) -> int:
        return len(self._running)

    def load_weights(self, named_tensors: Any, policy_version: int) -> None:
        self._version = policy_version
        for _ in named_tensors:
            continue

    def close(self) -> None:
        self._running.clear()


class ScriptedGrader:
    """Gives the world's verdicts at the latency's time."""

    def __init__(self, latency: Latency) -> None:
        self._latency = latency
        self._clock = 0
        self._waiting: list[tuple[int, Any, Verdict]] = []

    def submit(self, ticket: Any, prompt: Prompt, completion: Any) -> None:
        verdict = world.grade(completion.text)
        graded = Verdict(verdict.reward, failure=verdict.failure, answer=verdict.answer, components=verdict.components)
        self._waiting.append((self._clock + self._latency.grader_delay, ticket, graded))

    def poll(self) -> list[tuple[Any, Verdict]]:
        self._clock += 1
        due = [(ticket, graded) for at, ticket, graded in self._waiting if at <= self._clock]
        self._waiting = [waiting for waiting in self._waiting if waiting[0] > self._clock]
        return due[::-1] if self._latency.newest_first else due

    def wait(self, timeout_s: float) -> list[tuple[Any, Verdict]]:
        return self.poll()

    def discard_pending(self) -> None:
        self._waiting = []

    def start(self) -> None:
        pass

    def close(self) -> None:
        pass


class TableModel(nn.Module):
    """Hidden states of token and position alone, and an output embedding: what packing shares cannot leak."""

    WIDTH = 6

    def __init__(self) -> None:
        super().__init__()
        generator = random.Random(11)
        self.tokens = nn.Embedding(world.VOCABULARY, self.WIDTH)
        self.positions = nn.Embedding(32, self.WIDTH)
        self.head = nn.Linear(self.WIDTH, world.VOCABULARY, bias=False)
        for parameter in self.parameters():  # no generator of torch's, whose numbers a release may change
            values = [0.3 * generator.gauss(0, 1) for _ in range(parameter.numel())]
            parameter.data = torch.tensor(values).reshape(parameter.shape)

    def base_model(self, input_ids: Tensor, position_ids: Tensor, **others: Any) -> SimpleNamespace:
        hidden = torch.tanh(self.tokens(input_ids) + self.positions(position_ids))
        return SimpleNamespace(last_hidden_state=hidden)

    def get_output_embeddings(self) -> nn.Linear:
        return self.head

    def get_input_embeddings(self) -> nn.Embedding:
        return self.tokens


class TablePolicy(PolicyModule):
    """The policy with a table for a model; it notes what reaches every response's log-probabilities."""

    noted: list[tuple[Tensor, Tensor, Tensor]]
    """Identity, tokens' responses and log-probabilities of each microbatch of the update under way."""
    is_noting = False

    def configure_model(self) -> None:
        if hasattr(self, "model"):
            return
        self.noted = []
        self.model, self.reference = TableModel(), TableModel().requires_grad_(False)
        if self.loss.has_parameters:
            self.loss.build(TableModel.WIDTH)

    def on_fit_start(self) -> None:
        pass

    def log_dict(self, *args: Any, **options: Any) -> None:
        """Nobody reads it here, and it takes longer than an update."""

    def represent(self, prompts: Sequence[Prompt]) -> Tensor:
        return torch.tensor([world.representation(_number(prompt)) for prompt in prompts])

    def training_step(self, batch: Any, batch_idx: int) -> None:
        self.noted = []
        super().training_step(batch, batch_idx)

    def microbatch_loss(self, microbatch: Any, batch: Any) -> Any:
        self.is_noting = True
        try:
            return super().microbatch_loss(microbatch, batch)
        finally:
            self.is_noting = False

    def logprobs_of(self, model: Any, hidden_TH: Tensor, microbatch: Any) -> tuple[Tensor, Tensor]:
        logprobs_K, entropy_K = super().logprobs_of(model, hidden_TH, microbatch)
        if self.is_noting and logprobs_K.requires_grad:
            logprobs_K.retain_grad()
            self.noted.append((microbatch.identity_B, microbatch.response_K, logprobs_K))
        return logprobs_K, entropy_K

    def coefficients(self) -> dict[int, float]:
        """What each response's log-probability is multiplied by in the loss: its tokens' sum, by its identity."""
        sums: dict[int, float] = {}
        for identity_B, response_K, logprobs_K in self.noted:
            if logprobs_K.grad is not None:
                sum_B = torch.zeros(len(identity_B)).index_add(0, response_K, logprobs_K.grad)
                sums |= dict(zip(identity_B.tolist(), sum_B.tolist(), strict=True))
        return sums


class Recorder(RolloutListener):
    """Writes one plain record a step."""

    def __init__(self, sampling: AdaptiveSampling) -> None:
        self.steps: list[dict[str, Any]] = []
        self._sampling = sampling
        self._names: dict[int, str] = {}

    def on_rollout_end(self, trainer: Trainer, pl_module: Any, result: Any) -> None:
        launched, ScriptedEngine.launched[:] = list(ScriptedEngine.launched), []
        seeds = {(slot, index): seed for slot, index, seed in launched}
        self._names = dict(_names(result.groups))
        self.steps.append(
            {
                "prompts": {str(group.pool.slot): _group(group, seeds) for group in result.groups},
                "updates": [],
                "state": {},
                "launched": _launched(launched, result.groups),
            }
        )

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        metrics, counts = pl_module.update_metrics, batch.counts
        by_name = {self._names[identity]: value for identity, value in pl_module.coefficients().items()}
        update = {
            "loss": metrics["train/loss"],
            "gradient_norm": metrics["train/grad_norm"],
            "denominators": [counts.num_prompts, counts.num_responses, counts.num_response_tokens],
            "coefficients": {name: value for name, value in sorted(by_name.items()) if value},
        }
        self.steps[-1]["updates"].append(update)
        if batch.update_index == trainer.datamodule.updates_per_rollout - 1:
            self.steps[-1]["state"] = self._state(trainer.datamodule, pl_module.loss)

    def _state(self, data: Any, loss: Any) -> dict[str, Any]:
        """What each part remembers of the steps that are done, without the names of classes."""
        parts = self._sampling.state_dict() | {"curriculum": data.state_dict().get("curriculum", {})}
        if loss.has_parameters:
            parts["loss"] = loss.state_dict()
        state = {
            name: {key: value for key, value in part.items() if key != "_class"} for name, part in parts.items() if part
        }
        return {name: _by_prompt(part) for name, part in state.items() if part}


def _names(groups: Sequence[ResponseGroup]) -> Iterator[tuple[int, str]]:
    """What every kept response is called in a tape, by its identity."""
    for group in groups:
        for kept in group.kept:
            pool, index = group.pool, kept.response.sample_index
            identity = response_identity(
                step=pool.step, slot=pool.slot, prompt_id=pool.prompt.prompt_id, sample_index=index
            )
            yield identity, f"{pool.slot}/{index}"


def _group(group: ResponseGroup, seeds: dict[tuple[int, int], int]) -> dict[str, Any]:
    pool = group.pool
    drawn = [seeds[pool.slot, index] for index in range(pool.num_drawn)]
    return {
        "prompt": pool.prompt.prompt_id,
        "belief": [pool.belief.alpha, pool.belief.beta],
        "drawn": pool.num_drawn,
        "first_seed": str(drawn[0]) if drawn else "",
        "seeds": world.checksum(" ".join(map(str, drawn))),
        "failed": pool.num_failed,
        "truncated_excluded": pool.num_truncated_excluded,
        "counted": [response.sample_index for response in pool.responses],
        "rounds": [response.round_index for response in pool.responses],
        "rewards": [response.reward for response in pool.responses],
        "positive": [int(response.is_positive) for response in pool.responses],
        "first_round_rewards": pool.first_round_rewards,
        "is_resolved": pool.is_resolved,
        "is_ended_by_counts": pool.rule is not None,
        "is_surplus": group.is_surplus,
        **_kept(group),
    }


def _kept(group: ResponseGroup) -> dict[str, Any]:
    probability = group.pool.inverse_probability
    return {
        "kept": [kept.response.sample_index for kept in group.kept],
        "selection_weights": [kept.selection_weight for kept in group.kept],
        "inverse_probabilities": [kept.inverse_probability * probability for kept in group.kept],
        "advantages": [kept.advantage for kept in group.kept],
    }


def _launched(launched: Sequence[tuple[int, int, int]], groups: Sequence[ResponseGroup]) -> dict[str, list[int]]:
    """Requests by slot: distinct ones, and those of them that were dropped. These alone depend on latency."""
    found: dict[str, list[int]] = {}
    for group in groups:
        indices = {index for slot, index, _ in launched if slot == group.pool.slot}
        dropped = [index for index in indices if index >= group.pool.num_drawn]
        found[str(group.pool.slot)] = [len(indices), len(dropped)]
    return found


def _by_prompt(part: Any) -> Any:
    """Numbers that are kept in columns, prompt by prompt; all else as it is."""
    if not isinstance(part, dict):
        return part
    if set(part) == {"ids", "numbers"}:
        return dict(zip(part["ids"], part["numbers"].tolist(), strict=True))
    if set(part) == {"ids", "lengths", "rewards"}:
        each = part["rewards"].split(part["lengths"].tolist())
        return {prompt_id: rewards.tolist() for prompt_id, rewards in zip(part["ids"], each, strict=True)}
    return {name: _by_prompt(value) for name, value in part.items()}
