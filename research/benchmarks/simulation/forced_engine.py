"""The real engine, made to produce responses whose lengths and verdicts are known beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ada_lightning.core.records import Outcome, SamplingSettings
from ada_lightning.rollout.engines.vllm_engine import VllmEngine
from research.benchmarks.simulation.replica import Fate, Fates


class ForcedEngine(VllmEngine):
    """Decodes exactly as many tokens as the fate of a request says, whatever the model would end with.

    The tokens are the model's, sampled as always; only the end and the verdict are imposed, so that a simulated engine
    can replay the very same work.
    """

    def __init__(
        self, fates: Fates, *, model_path: Path, log_file: Path, max_model_tokens: int, max_num_seqs: int = 128
    ) -> None:
        super().__init__(
            model_path=model_path,
            log_file=log_file,
            max_model_tokens=max_model_tokens,
            eos_token_ids=[],
            max_num_seqs=max_num_seqs,
        )
        self.fates = fates
        self._sampling_params = partial(self._sampling_params, ignore_eos=True)  # type: ignore[assignment]
        self._fates: dict[str, Fate] = {}

    def submit(self, request_id: str, prompt_ids: Sequence[int], settings: SamplingSettings, seed: int | None) -> None:
        """Queue one response of the length that its seed says."""
        assert seed is not None
        fate = self._fates[request_id] = self.fates.draw(prompt_ids, settings.max_new_tokens, seed)
        super().submit(request_id, prompt_ids, replace(settings, max_new_tokens=fate.num_tokens), seed)

    def poll(self) -> list[Outcome]:
        """Run one engine step; what finishes carries the verdict of its fate."""
        finished = super().poll()
        generations = [
            self._fates.pop(generation.request_id).generation(generation.request_id) for generation in finished
        ]
        for real, forced in zip(finished, generations, strict=True):
            assert len(real.response_ids) == len(forced.response_ids), "the engine did not follow the forced length"
        return generations

    def forget_prefixes(self) -> None:
        """Empty the prefix cache."""
        if not self._engine.reset_prefix_cache():
            raise RuntimeError("the prefix cache cannot be reset while requests are in flight")
