"""The default model, engine, prompts and graders, as several benchmarks need them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ada_lightning.core.records import Completion, Outcome, Prompt, SamplingSettings, Verdict
from research.scripted import ScriptedGrader

if TYPE_CHECKING:
    from ada_lightning.rollout.engines.vllm_engine import VllmEngine

TASKS = {"chain_sum": {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 2}}
EOS_TOKEN_IDS = (2,)


@dataclass(frozen=True, slots=True)
class DefaultModel:
    """SmolLM2-135M-Instruct and its tokenizer, or another model whose vocabulary is larger."""

    path: Path
    tokenizer: Any

    def decode(self, response_ids: Sequence[int]) -> str:
        """Token ids to text, as a run does it."""
        return str(self.tokenizer.decode(response_ids, skip_special_tokens=True))

    def prompts(self, number: int) -> list[Prompt]:
        """Encoded training prompts of the default task."""
        from ada_lightning.data.encoder import PromptEncoder
        from ada_lightning.data.reasoning_gym import ReasoningGymSource

        source = ReasoningGymSource(TASKS, num_train=number, num_heldout=0, seed=0)
        encoded = PromptEncoder(self.tokenizer, max_prompt_tokens=256).encode(source.train_prompts())
        return list(encoded)


def default_model(path: Path | None = None) -> DefaultModel:
    """Unpack the model where that was not done before, and silence its libraries; with the path of another, that."""
    from transformers import AutoTokenizer

    from ada_lightning.run.machine import keep_freed_memory
    from ada_lightning.run.terminal import quiet_libraries
    from ada_lightning.training.models.wheel import SmolLM2Wheel

    quiet_libraries()
    keep_freed_memory()
    default = SmolLM2Wheel().prepare()
    return DefaultModel(path or default, AutoTokenizer.from_pretrained(default, trust_remote_code=False))


@contextmanager
def vllm_engine(model: DefaultModel, **options: Any) -> Iterator[VllmEngine]:
    """Open the real engine with the settings of ``conf/rollout/vllm_cpu.yaml`` unless given others."""
    from ada_lightning.rollout.engines.vllm_engine import VllmEngine

    settings: dict[str, Any] = {"max_model_tokens": 320, "eos_token_ids": EOS_TOKEN_IDS} | options
    engine = VllmEngine(
        model_path=model.path, log_file=Path(tempfile.mkdtemp(prefix="ada_lightning-")) / "engine.log", **settings
    )
    try:
        yield engine
    finally:
        engine.close()


@contextmanager
def real_grader(num_workers: int = 1) -> Iterator[Any]:
    """Start the default reward in its worker process."""
    from ada_lightning.rewards.extraction import LastNumber
    from ada_lightning.rewards.pool import RewardPool
    from ada_lightning.rewards.reasoning_gym import ReasoningGymReward

    grader = RewardPool(
        ReasoningGymReward(extraction=LastNumber(), binary=True), num_workers=num_workers, time_limit_s=10
    )
    grader.start()
    try:
        yield grader
    finally:
        grader.close()


class ScriptedLengths:
    """The real engine, with the length of every response fixed beforehand."""

    def __init__(self, engine: VllmEngine, lengths: dict[tuple[str, int], int]) -> None:
        self._engine = engine
        self._lengths = lengths
        self.max_model_tokens = engine.max_model_tokens
        self.max_num_seqs = engine.max_num_seqs

    def submit(self, request_id: str, prompt_ids: Sequence[int], settings: SamplingSettings, seed: int | None) -> None:
        """Queue one response; the slot and sample index at the end of its name say how long it will be."""
        _, slot, sample_index = request_id.split("/")
        length = self._lengths[slot, int(sample_index)]
        self._engine.submit(request_id, prompt_ids, replace(settings, max_new_tokens=length), seed)

    def poll(self) -> list[Outcome]:
        """Run one engine step. Ending at its length is this engine's way to finish, not a truncation."""
        return [replace(generation, is_truncated=False) for generation in self._engine.poll()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class ScriptedVerdicts(ScriptedGrader):
    """Grades at once by a list of verdicts, whatever the text says."""

    def __init__(self, verdicts: dict[tuple[str, int], bool]) -> None:
        super().__init__()
        self._verdicts = verdicts

    def submit(self, ticket: Any, prompt: Prompt, completion: Completion) -> None:
        """Look one response up; tickets begin with (collection, slot, sample index)."""
        _, slot, sample_index, *_ = ticket
        self._ready.append((ticket, Verdict(float(self._verdicts[str(slot), sample_index]))))
