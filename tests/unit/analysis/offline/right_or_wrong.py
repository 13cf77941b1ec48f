"""An engine and a reward for ``prepare.py`` without vLLM: answers are "1" or "0", by the seed."""

from __future__ import annotations

import random

from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.core.records import Outcome

opened = []


class RightOrWrongEngine(RolloutEngine):
    """Takes what a real engine takes."""

    num_to_deliver = 10**9
    """Responses after which the engine generates for ever, so that a test can stop a job at a known place."""

    def __init__(self, *, model_path, log_file, max_model_tokens, eos_token_ids, max_num_seqs=8, dtype="float32"):
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(model_path)
        self.answers = [(*tokenizer.encode(text), eos_token_ids[0]) for text in ("0", "1")]
        self.max_model_tokens, self.max_num_seqs = max_model_tokens, max_num_seqs
        self.running = []
        opened.append(self)

    def submit(self, request_id, prompt_ids, settings, seed):
        generator = random.Random(seed)
        pass_rate = random.Random(str(prompt_ids)).choice([0.0, 0.1, 0.5, 1.0])
        answer = self.answers[generator.random() < pass_rate]
        self.running.append(Outcome("", answer, (-0.5,) * len(answer), False, request_id=request_id))

    def poll(self):
        num_done = min(3, self.num_to_deliver)
        self.num_to_deliver -= num_done
        done, self.running = self.running[:num_done], self.running[num_done:]
        return done

    def abort(self, request_ids):
        self.running.clear()
        return 0

    def num_in_flight(self):
        return len(self.running)

    def close(self):
        self.running.clear()


def is_one(prompt, text):
    """Grade in a worker process; torch stays out."""
    return float(text == "1")
