"""An engine without a model that writes an answer: the right one as often as its prompt says."""

from __future__ import annotations

import hashlib
import random

from transformers import AutoTokenizer

from ada_lightning.core.records import Outcome
from tests.unit.analysis.offline.right_or_wrong import RightOrWrongEngine


class AnsweringEngine(RightOrWrongEngine):
    """Answers ``\\boxed{4}`` with a chance that follows from the prompt and ``skill``, else 5 or nothing.

    ``skill`` is added to the chance; after ``stop_after`` responses it is as if Ctrl-C were pressed (0: never).
    """

    num_opened = 0
    num_submitted = 0
    skill = 0.0
    stop_after = 0

    def __init__(self, *, model_path, log_file, max_model_tokens, eos_token_ids, **ignored):
        type(self).num_opened += 1
        self.max_model_tokens, self.max_num_seqs = max_model_tokens, 8
        self._tokenizer = AutoTokenizer.from_pretrained(model_path)
        self.running = []

    def submit(self, request_id, prompt_ids, settings, seed):
        type(self).num_submitted += 1
        if self.stop_after and type(self).num_submitted > self.stop_after:
            raise KeyboardInterrupt("SIGINT")
        difficulty = hashlib.sha256(repr(prompt_ids).encode()).digest()[0] / 255
        draw = random.Random(seed).random()
        right = draw < min(1.0, difficulty + self.skill)
        text = "so \\boxed{4}" if right else "\\boxed{5}" if draw < 0.9 else "I give up"
        ids = tuple(self._tokenizer.encode(text, add_special_tokens=False))
        self.running.append(Outcome("", ids, (-1.0,) * len(ids), draw > 0.95, request_id=request_id))

    def abort(self, request_ids):
        self.running = [generation for generation in self.running if generation.request_id not in request_ids]
        return 0
