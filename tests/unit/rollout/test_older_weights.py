"""The ring of older weights, and the canary that tells whether an engine has got the ones it should."""

from __future__ import annotations

import pytest
import torch

from ada_lightning.core.records import Outcome, SamplingSettings
from ada_lightning.rollout.async_rollouts import WeightRing
from ada_lightning.rollout.probe import Canary
from research.scripted import ScriptedEngine


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", ""])
def test_a_version_stays_as_it_was_whatever_the_policy_becomes(dtype):
    weight, ring = torch.tensor([1.0, 1.0009765625]), WeightRing()
    ring.hold(0, [("w", weight)], dtype)
    weight += 1
    ring.hold(1, [("w", weight)], dtype)
    ((name, held),) = ring.read(0)
    assert name == "w"
    assert held.equal(torch.tensor([1.0, 1.0009765625]).to(getattr(torch, dtype or "float32")))
    ring.retire_before(1)
    assert ring.versions == [1]


def test_a_restored_ring_holds_the_same_versions():
    ring, restored = WeightRing(), WeightRing()
    ring.hold(3, [("w", torch.ones(4)), ("v", torch.zeros(2))], "bfloat16")
    restored.load_state_dict(ring.state_dict())
    assert restored.versions == [3]
    assert dict(restored.read(3))["w"].equal(torch.ones(4, dtype=torch.bfloat16))


class Bigram(ScriptedEngine):
    """A model whose next token depends on the last one only."""

    def __init__(self, logprobs_VV):
        super().__init__(pass_rates={}, max_num_seqs=2)
        self.logprobs_VV = logprobs_VV

    def submit(self, request_id, prompt_ids, settings, seed):
        assert settings.max_new_tokens == 1
        token = (prompt_ids[-1] + seed) % len(self.logprobs_VV)
        logprob = float(self.logprobs_VV[prompt_ids[-1], token])
        self._running[request_id] = (
            self._clock + 1,
            Outcome("", (token,), (logprob,), is_truncated=True, request_id=request_id),
        )


def test_the_canary_compares_each_drawn_token_with_what_the_trainer_said_of_it():
    versions = torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    canary = Canary([4, 1, 3, 0], SamplingSettings(max_new_tokens=32), num_prefixes=3)
    said = versions[0][[1, 3, 0]]  # after the prefixes (4, 1), (4, 1, 3) and (4, 1, 3, 0)
    gaps = []
    probe = canary.probe(said, gaps.append)
    probe.run(Bigram(versions[0]))
    assert gaps == [pytest.approx(0, abs=1e-6)]
    stale = [(1, 1), (3, 4), (0, 2)]  # (last token, token drawn)
    wanted = sum(abs(float(versions[1][pair] - versions[0][pair])) for pair in stale) / 3
    probe.run(Bigram(versions[1]))
    assert gaps[1] == pytest.approx(wanted) != 0
    assert Canary([7], SamplingSettings(max_new_tokens=32)).num_prefixes == 1
