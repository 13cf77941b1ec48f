"""A sampling job on the scripted engine: no model, and every response follows from its seed."""

from __future__ import annotations

import random
from pathlib import Path

from ada_lightning.analysis.offline import JobSettings, ResponseStore, SamplingJob
from ada_lightning.core.records import Prompt, SamplingSettings, Verdict
from ada_lightning.rollout.service import RolloutService
from research.scripted import ScriptedEngine

NUM_SAMPLES = 8
SETTINGS = JobSettings({"model": {"path": "m", "weights": "w"}, "num_samples": NUM_SAMPLES})


def make_prompts(num):
    """Prompts whose first token is their index; every third is prompt 11, which the list holds again and again."""
    return [
        Prompt(
            prompt_id="again" if index % 3 == 2 else f"p{index}",
            messages=({"role": "user", "content": f"question {index}"},),
            prompt_ids=(11 if index % 3 == 2 else index, 0),
            task="scripted",
        )
        for index in range(num)
    ]


class Tokenizer:
    def decode(self, response_ids, skip_special_tokens):
        return str(response_ids[0])


class Grader:
    """Takes its time, and answers out of order. "1" is right; some prompts cannot be graded."""

    def __init__(self, seed=0):
        self._generator = random.Random(seed)
        self._pending = []
        self.num_submitted = 0

    def submit(self, ticket, prompt, completion):
        self.num_submitted += 1
        if prompt.prompt_ids[0] == 4 and completion.text == "0":
            grade = Verdict(None, failure="timeout")
        else:
            grade = Verdict(float(completion.text == "1"), answer=completion.text, components={"right": 1.0})
        self._pending.append((ticket, grade))

    def poll(self):
        self._generator.shuffle(self._pending)
        num_ready = self._generator.randint(0, len(self._pending))
        ready, self._pending = self._pending[:num_ready], self._pending[num_ready:]
        return ready

    def wait(self, timeout_s):
        return self.poll()

    def discard_pending(self):
        self._pending.clear()


class Engines:
    """Makes scripted engines; the first ones break after some polls."""

    def __init__(self, num_prompts, polls_until_broken=(), max_num_seqs=16):
        self.polls_until_broken = list(polls_until_broken)
        self.opened = []
        self.num_prompts = num_prompts
        self.max_num_seqs = max_num_seqs

    def __call__(self, *, model_path, log_file, max_model_tokens, eos_token_ids):
        polls_left = self.polls_until_broken.pop(0) if self.polls_until_broken else None

        class Engine(ScriptedEngine):
            num_polls_done = 0
            fullest = 0

            def poll(self):
                self.num_polls_done += 1
                self.fullest = max(self.fullest, self.num_in_flight())
                if polls_left is not None and self.num_polls_done > polls_left:
                    raise RuntimeError("out of memory")
                return super().poll()

        engine = Engine(
            pass_rates={index: index / self.num_prompts for index in range(self.num_prompts)},
            num_polls=lambda generator, is_positive: generator.randint(1, 9),
            max_num_seqs=self.max_num_seqs,
        )
        self.opened.append(engine)
        return engine


def open_service(engines, *, grader=None, seed=0, **options):
    service = RolloutService(
        engine=engines, sampling=SamplingSettings(max_new_tokens=4), max_model_tokens=32, seed=seed, **options
    )
    service.open(
        model_path=Path(),
        tokenizer=Tokenizer(),
        eos_token_ids=[2],
        grader=grader or Grader(),
        log_file=Path("engine.log"),
    )
    return service


def run_job(folder, prompts, *, engines=None, prompts_per_file=4, interrupt_check=lambda: None, grader=None, **options):
    """Claim, draw, release; returns the store."""
    store = ResponseStore(folder)
    store.claim(SETTINGS)
    try:
        service = open_service(engines or Engines(len(prompts)), grader=grader, **options)
        job = SamplingJob(
            prompts=prompts,
            num_samples=NUM_SAMPLES,
            store=store,
            service=service,
            stage="prepare",
            prompts_per_file=prompts_per_file,
        )
        job.run(interrupt_check)
    finally:
        store.release()
    return store
