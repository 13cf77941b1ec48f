"""Engines for child processes: importable, without a model, each with one fault or one thing to tell."""

from __future__ import annotations

import os
import signal
import time

from ada_lightning.rollout.scripted import ScriptedEngine
from ada_lightning.types import Generation

POLLS_OF_A_RESPONSE = 3


class CoinEngine(ScriptedEngine):
    """Coin flips that take some polls each; slow enough for a test to act in between."""

    def __init__(self, *, poll_s: float = 0.0, weight_dtype: str = "", max_num_seqs: int = 8) -> None:
        super().__init__(
            pass_rates=dict.fromkeys(range(1, 50), 0.5),
            num_polls=lambda generator, is_positive: POLLS_OF_A_RESPONSE,
            max_model_tokens=32,
            max_num_seqs=max_num_seqs,
        )
        self.weight_dtype = weight_dtype
        self.weights = {}
        self._poll_s = poll_s

    def poll(self):
        time.sleep(self._poll_s)
        return super().poll()

    def abort(self, request_ids):
        """Ten tokens had been generated for each."""
        return 10 * sum(request_id in self._running for request_id in request_ids) + super().abort(request_ids)

    def load_weights(self, named_tensors, policy_version):
        self.weights = dict(named_tensors)
        self.policy_version = policy_version


class TellingEngine(CoinEngine):
    """Answers each request with facts about its process as tokens, and with the sum of its weights as logprob."""

    def submit(self, request_id, prompt_ids, settings, seed):
        facts = (
            os.getpid(),
            int(signal.getsignal(signal.SIGINT) is signal.SIG_IGN),
            int("LOCAL_WORLD_SIZE" in os.environ or "TORCHELASTIC_RUN_ID" in os.environ or "LD_PRELOAD" in os.environ),
            int(os.environ["OMP_NUM_THREADS"]),
            int(os.environ.get("GIVEN", "0")),
            sum(tensor.element_size() for tensor in self.weights.values()),
        )
        total = float(sum(tensor.double().sum() for tensor in self.weights.values()))
        self._running[request_id] = (0, Generation(request_id, facts, (total,) * len(facts), False))


class DyingEngine(CoinEngine):
    """Its process is killed in mid-step."""

    def poll(self):
        os.kill(os.getpid(), signal.SIGKILL)


class HangingEngine(CoinEngine):
    """Never comes back from a step."""

    def poll(self):
        time.sleep(1000)


class RaisingEngine(CoinEngine):
    """Runs out of memory in a step."""

    def poll(self):
        raise MemoryError("no block left")


class UnloadableEngine(CoinEngine):
    """Breaks after the first tensor."""

    def load_weights(self, named_tensors, policy_version):
        next(iter(named_tensors))
        raise RuntimeError("shape of lm_head does not fit")


class UnstartableEngine(CoinEngine):
    def __init__(self, **options):
        raise ValueError("no such model")


class SlowStartEngine(CoinEngine):
    def __init__(self, **options):
        time.sleep(1000)
