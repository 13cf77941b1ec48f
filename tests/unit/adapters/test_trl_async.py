"""TRL's asynchronous trainer with a memory: its own loops, queue, packing and loss; faults; what is refused."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import random
import signal
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("trl.experimental.async_grpo")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import numpy as np
import torch
from accelerate.state import PartialState
from datasets import Dataset, IterableDataset
from transformers import TrainerCallback
from trl.experimental.async_grpo.async_grpo_trainer import (
    DataCollatorForRollout,
    FixedCountBatcher,
    RolloutQueueDataset,
)
from trl.experimental.async_grpo.async_rollout_worker import TrainingSequence, _AsyncRolloutLoop

from ada_lightning.adapters.trl.async_loop import AdaRolloutLoop, state_file
from ada_lightning.adapters.trl.async_rows import Arrangement, filler
from ada_lightning.adapters.trl.async_trainer import AsyncAda, _AgedRows
from ada_lightning.config.problems import ConfigError
from tests.tapes import world
from tests.unit.adapters import async_world
from tests.unit.adapters.conformance import Played, assert_same, truth
from tests.unit.adapters.trl_world import Gradient

WITHOUT_HISTORY = ("grpo", "ada_seq_balance", "ada_seq_pos")
"""Rules of which every step is that of the project's own loop; the others choose by what they knew at the time."""
ROWS = [
    {"prompt": [{"role": "user", "content": text}], "name": f"p{number}"} for number, text in enumerate(world.TEXTS)
]


async def scripted(self, prompt, tool_dict, tools, group_id=0):
    """A conversation of the scripted policy: its tokens behind the prompt's number and the launch index."""
    handout, _ = self._drawn[group_id]
    for _ in range(self.order.randrange(6)):
        await asyncio.sleep(0)
    (seed,), (index,) = handout.seeds, handout.indices
    assert prompt == self._by_id[handout.prompt_id]["prompt"]
    drawn = world.respond(int(handout.prompt_id[1:]), seed, handout.step, graded=False)
    ids = list(drawn.token_ids)
    before = [int(handout.prompt_id[1:]), index]
    sequence = TrainingSequence(before + ids, [0, 0] + [1] * len(ids), [0.0, 0.0, *drawn.logprobs], "")
    completion = [{"role": "assistant", "content": world.text_of(drawn.token_ids)}]
    return completion, ids if drawn.is_truncated else [*ids[:-1], 0], [sequence] if ids else [], 0, 0, None


def graded(completions, name, **others):
    found = [world.grade(completion[0]["content"]) for completion in completions]
    return [verdict.reward for verdict in found]


class Trainer:
    """The trainer's side: TRL's data set, batcher and collator on the queue; each update raises the version."""

    def __init__(self, monkeypatch, folder, method, *, reward=graded, open_steps=2, timeout=60.0, **overrides):
        PartialState(cpu=True)  # TRL's log asks for it
        monkeypatch.setattr(_AsyncRolloutLoop, "_generate_one", scripted)
        ada = AsyncAda(method, num_prompts=world.PROMPTS_PER_STEP, open_steps=open_steps, id_column="name",
                       reward_timeout=timeout, seed=world.RUN_SEED, **overrides)  # fmt: skip
        config = ada.config(rows_per_device=2)
        args = SimpleNamespace(output_dir=str(folder), weight_sync_steps=1, **config)
        self.args, self.settings = args, ada.loop_settings(args, 1)
        self.settings.folder.mkdir(exist_ok=True)
        self.version = SimpleNamespace(value=1)
        self.drops, self.rows = queue.Queue(), queue.Queue()
        self.metrics = queue.Queue()
        self.reward = reward
        self.trained: set[int] = set()

    @property
    def model_version(self):
        return self.version.value

    def start(self, state=None):
        self.loop = AdaRolloutLoop(
            ada=replace(self.settings, state=state), drops=self.drops, model_name="m", dataset=Dataset.from_list(ROWS),
            reward_funcs=[self.reward], processing_class=async_world.tokenizer(), eos_token_ids=[0],
            rollout_buffer=self.rows, model_version_value=self.version, heartbeat_value=SimpleNamespace(value=0.0),
            failed_event=threading.Event(), exception_info_queue=queue.Queue(), metrics_queue=self.metrics,
            num_generations=1, max_inflight_tasks=8, max_tokens=world.MAX_NEW_TOKENS,
        )  # fmt: skip
        self.loop.order = random.Random(5)
        self.thread = threading.Thread(target=self.loop.run, daemon=True)
        self.thread.start()
        source = RolloutQueueDataset(
            self.rows, lambda: self.version.value, self.check, 5, {}, self.args.max_staleness, poll_interval_s=0.5
        )
        source.metrics = _Sink()
        self.batches = iter(FixedCountBatcher(source, 1, self.settings.arrangement.microbatch))
        self.collator = DataCollatorForRollout(0, groups_trained=self.trained, metrics=_Sink())
        self.ahead = None  # accelerate's loader reads one batch ahead
        return self

    def check(self, stale_after_s):
        assert self.thread.is_alive(), self.loop._exception_info_queue.get_nowait()

    def update(self):
        """Rows of one update, by ``slot/index``: the factor of their tokens."""
        found, steps = {}, set()
        if self.ahead is None:
            self.ahead = next(self.batches)
        for _ in range(self.settings.arrangement.rows // self.settings.arrangement.microbatch):
            batch, self.ahead = self.ahead, next(self.batches)
            packed = self.collator([batch])
            assert packed["token_index"].numel() > 0  # TRL takes a maximum over them
            (row,) = batch
            for sample in row.samples:
                step, slot = divmod(sample["group_id"], world.PROMPTS_PER_STEP)
                if sample["completion_mask"][-1] and sample["advantage"]:
                    found[f"{slot}/{sample['input_ids'][1]}"] = sample["advantage"]
                steps.add(step)
        self.version.value += 1
        (self.step,) = steps
        return found

    def figures(self):
        return [self.metrics.get_nowait() for _ in range(self.metrics.qsize())]

    def stop(self):
        self.loop._loop.call_soon_threadsafe(self.loop._stop_event.set)
        self.thread.join(20)
        assert not self.thread.is_alive()


class _Sink(dict):
    def __missing__(self, name):
        return self.setdefault(name, [])


@pytest.mark.parametrize("rule", WITHOUT_HISTORY)
def test_updates_are_those_of_the_projects_own_loop(rule, monkeypatch, tmp_path):
    trainer, found, wanted = Trainer(monkeypatch, tmp_path, rule).start(), [], truth(rule)
    try:
        for number, played in enumerate(wanted):
            found.append(Played(played.prompts, played.drawn, trainer.update()))
            assert trainer.step == number
    finally:
        trainer.stop()
    assert_same(found, wanted)
    drawn = [figures["ada/responses"] for figures in trainer.figures() if "ada/responses" in figures]
    assert drawn[: len(wanted)] == [float(sum(played.drawn)) for played in wanted]


def test_what_is_drawn_is_never_older_than_said(monkeypatch, tmp_path):
    trainer = Trainer(monkeypatch, tmp_path, "ada", open_steps=3).start()
    try:
        for _ in range(6):
            trainer.update()
            assert trainer.loop._brain.step <= trainer.version.value - 1 + 3
        assert max(each["ada/lag_max"] for each in trainer.figures() if "ada/lag_max" in each) <= 2
    finally:
        trainer.stop()
    assert trainer.loop._brain.state_dict()["core"]["step"] >= 6


def test_a_run_goes_on_where_its_checkpoint_was_written(monkeypatch, tmp_path):
    """The checkpoint before: what was drawn since then is drawn again, the same, and counted once."""
    whole = Trainer(monkeypatch, tmp_path, "ada_seq_balance").start()
    updates = [whole.update() for _ in range(3)]
    whole.stop()
    state = json.loads(state_file(whole.settings.folder, 2).read_text())
    again = Trainer(monkeypatch, tmp_path, "ada_seq_balance").start(state)
    try:
        assert again.update() == updates[2]
        assert again.step == 2
        assert again.loop._brain.state_dict()["core"]["step"] in (3, 4)
    finally:
        again.stop()


def test_a_reward_that_never_comes_is_ungraded(monkeypatch, tmp_path):
    slow = truth("grpo")[0].prompts[1]

    def hanging(completions, name, **others):
        time.sleep(1.0 if slow in name else 0.0)
        return graded(completions, name)

    trainer = Trainer(monkeypatch, tmp_path, "grpo", reward=hanging, timeout=0.1).start()
    try:
        trained = {name.split("/")[0] for name in trainer.update()}
        assert "1" not in trained  # every call with a response of it ran out of time
        first = next(each for each in trainer.figures() if "ada/responses" in each)
        assert first["ada/ungraded/timeout"] >= 4
    finally:
        trainer.stop()


def test_a_reward_of_none_and_a_response_without_tokens_are_no_evidence(monkeypatch, tmp_path):
    trainer = Trainer(monkeypatch, tmp_path, "grpo", reward=lambda completions, **others: [None] * len(completions))
    trainer.start()
    try:
        assert trainer.update() == {}
        first = next(each for each in trainer.figures() if "ada/responses" in each)
        assert first["ada/ungraded"] == first["ada/responses"] == first["ada/ungraded/no reward"]
    finally:
        trainer.stop()


def test_a_row_that_is_too_old_keeps_its_place_and_trains_nothing():
    """TRL would drop it, and the rows behind it would train with the wrong step."""
    told = []
    rows, trainer = queue.Queue(), SimpleNamespace(model_version=9, args=SimpleNamespace(max_staleness=1))
    trainer.name_drop = told.append
    for version in (8, 7, 9):
        rows.put(replace(filler(2, version, group_id=version), advantage=0.5))
    source = RolloutQueueDataset(_AgedRows(rows, trainer), lambda: 9, None, 5, _Sink(), max_staleness=1)
    found = [next(iter(source)) for _ in range(3)]
    assert [(each["group_id"], each["advantage"]) for each in found] == [(8, 0.5), (7, 0.0), (9, 0.5)]
    assert told == [7]
    assert "sample/dropped_stale_total" not in source.metrics


def test_what_was_too_old_is_told_to_the_core(monkeypatch, tmp_path):
    trainer = Trainer(monkeypatch, tmp_path, "grpo")
    trainer.drops.put(3)
    trainer.start()
    try:
        trainer.update()
    finally:
        trainer.stop()
    assert trainer.loop._brain.state_dict()["dropped"] == {"stale": 1}
    assert "did not train (stale)" in trainer.loop._brain.statement()


@pytest.mark.parametrize(("number", "processes"), [(0, 1), (3, 1), (8, 1), (2, 2), (8, 2)])
def test_rows_fill_an_update_and_every_process_has_a_token_that_counts(number, processes):
    arrangement = Arrangement(rows=8, microbatch=4, processes=processes)
    kept = [
        replace(filler(5, 1, group_id=place), completion_mask=np.array([0, 1]), advantage=1.0)
        for place in range(number)
    ]
    found = arrangement.arrange(kept, filler(2, 1, group_id=90))
    assert len(found) == 8
    assert sum(row.advantage for row in found) == number
    for start in (0, 4):
        part = [row for row in found[start : start + 4] if row.completion_mask.any()]
        assert len(part) >= processes
        (batch,) = FixedCountBatcher(_as_samples(found[start : start + 4]), processes, 4)
        assert all(any(sample["completion_mask"].any() for sample in row.samples) for row in batch)


def _as_samples(rows):
    return [
        {"input_ids": row.input_ids, "completion_mask": row.completion_mask, "old_log_probs": row.old_log_probs,
         "advantage": row.advantage, "group_id": row.group_id, "metrics": {}}
        for row in rows
    ]  # fmt: skip


def test_more_rows_than_an_update_takes_are_refused():
    with pytest.raises(ValueError, match="a step has 5 rows to train, and an update takes 4"):
        Arrangement(4, 2, 1).arrange([filler(2, 1, 0)] * 5, filler(2, 1, 0))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"token_budget": 100}, "token_budget=100 closes forward passes by their tokens"),
        ({"token_budget": None}, "token_budget=None"),
        ({"gradient_accumulation_steps": 1}, "an update takes 4 rows"),
        ({"weight_sync_steps": 2}, "weight_sync_steps=2 with open_steps=2"),
        ({"max_steps": -1}, "max_steps must be set"),
    ],
)
def test_arguments_with_which_an_update_is_no_step_are_refused(changes, said):
    ada = AsyncAda("grpo", num_prompts=4, group_size=4)
    args = SimpleNamespace(**({"weight_sync_steps": 1, "max_steps": 3, "output_dir": ".", **ada.config()} | changes))
    (problem,) = ada.refusals(args, ada.loop_settings(args, 1).arrangement)
    assert said in problem


def test_what_a_method_or_a_number_cannot_do_is_refused_before_any_model_loads():
    with pytest.raises(ValueError, match="open_steps = 1 would wait for ever"):
        AsyncAda("grpo", num_prompts=4, open_steps=1)
    with pytest.raises(ConfigError, match="unknown method"):
        AsyncAda("grbo", num_prompts=4)
    given = {"ada": AsyncAda("grpo", num_prompts=4), "train_dataset": IterableDataset.from_generator(lambda: iter([]))}
    with pytest.raises(ConfigError) as caught:
        async_world.AdaAsyncGRPOTrainer(rollout_worker=object(), environment_factory=object, **given)
    assert all(name in str(caught.value) for name in ("rollout_worker", "environment_factory", "datasets.Dataset"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "ratios are clipped"),
        ({"max_staleness": 0}, "rows that are older train nothing"),
        ({"weight_sync_steps": 2}, "older still"),
        ({"temperature": 0.8}, "temperature=0.8"),
    ],
)
def test_what_bends_the_update_is_named(changes, said):
    ada = AsyncAda("grpo", num_prompts=4)
    args = {"epsilon": 0.2, "epsilon_high": None, "max_staleness": 4, "weight_sync_steps": 1, "temperature": 1.0}
    neutral = {"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}
    assert said in " ".join(ada.approximations(SimpleNamespace(**(args | neutral | changes))))


class Kill(TrainerCallback):
    """Ends the rollout process by force before the first update, so that it never hears of a second version."""

    def on_pre_optimizer_step(self, args, state, control, **others):
        os.kill(self.trainer.rollout_worker._process.pid, signal.SIGKILL)


@pytest.mark.long
@pytest.mark.xdist_group("trl_async")
def test_a_whole_run_whose_rollout_process_dies_and_that_goes_on(monkeypatch, tmp_path):
    """The real trainer with its own process: the gradient, what is asked of the engine, and a resume."""
    async_world.without_accelerator(monkeypatch)
    server, kill, gradient = async_world.Server(), Kill(), Gradient()
    gradients = []
    gradient.on_step_end = lambda *given, **others: gradients.append(gradient.value)
    ada = AsyncAda("ada_seq_balance", num_prompts=async_world.NUM_PROMPTS, n_max=8, id_column="name", seed=3)
    options = {"max_steps": 2, "save_strategy": "steps", "save_steps": 1}
    try:
        first = async_world.trainer_of(server, tmp_path, ada, callbacks=[gradient, kill], **options)
        kill.trainer = first
        with pytest.raises(RuntimeError, match=r"rollout process has ended .exit code -9.. Resume from the last"):
            first.train()
        wanted, asked = async_world.closed_form(ada, 0)
        assert torch.linalg.norm(gradients[0].double() - wanted) <= 1e-5 * torch.linalg.norm(wanted)
        assert asked <= {(each["prompt"], each["seed"]) for each in server.asked}
        server.asked.clear()
        second = async_world.trainer_of(server, tmp_path, ada, **options)
        second.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
        _, asked = async_world.closed_form(ada, 1)
        now = {(each["prompt"], each["seed"]) for each in server.asked}
        assert asked <= now
        assert not async_world.closed_form(ada, 0)[1] & now  # its results are in the state
        assert json.loads((tmp_path / "checkpoint-2" / "ada.json").read_text())["core"]["step"] == 2
    finally:
        server.close()
