"""What drafts save of an evaluation: ``python -m research.benchmarks.drafts``.

Models on a CPU: the tiny one of the field, and SmolLM2-135M on the default task, as it comes and after a supervised
start as in the study of a real model. Each is evaluated, takes a few
updates of GRPO on other prompts, and is evaluated again: with the last evaluation's responses as drafts and without, in
turns, at several numbers of sequences at once. Before that, the cost of a token: decoded, and checked. Seconds are
processor time of one thread, the least of the turns, so that they say little of what else runs on the machine.

Writes ``docs/performance/drafts.json``, where models and parts that are not measured now keep their rows; then
``python -m research.benchmarks.tables`` makes the tables of ``docs/engines.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported: processor time of threads that wait is no work

import torch
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer

from ada_lightning.core.records import Completion, Prompt, ResponseGroup, SamplingSettings, Verdict
from ada_lightning.core.step import Step
from ada_lightning.data.encoder import PromptEncoder
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.methods.selection import AllSelection
from ada_lightning.rollout.drafts import Drafts, kept_ratio, responses_of
from ada_lightning.rollout.engines.transformers_decoder import Decoder, draw
from ada_lightning.rollout.engines.transformers_engine import TransformersEngine
from ada_lightning.rollout.service import RolloutService
from ada_lightning.run.phase_clock import PhaseClock
from research.benchmarks.report import FOLDER, save
from research.benchmarks.workload import EOS_TOKEN_IDS, DefaultModel, default_model
from research.scripted import ScriptedGrader
from research.studies.field.sums import problems
from research.studies.field.warm_start import COMMITTED
from research.studies.real_model.tasks import worked
from research.studies.supervised import labelled

SIZES = (8, 32, 128)
GROUP = 4
MAX_MODEL_TOKENS = 160


@dataclass(frozen=True)
class Setting:
    """A model and its task."""

    name: str
    model: DefaultModel
    eos_token_ids: tuple[int, ...]
    held_out: Sequence[Prompt]
    updates: Sequence[Sequence[Prompt]]
    """Prompts of each, which come once."""
    max_new_tokens: int
    lr: float
    worked: Sequence[tuple[str, str]] = ()
    """Questions and answers that the model learns first, four at a time."""


class LastNumberGrader(ScriptedGrader):
    """Right is a response whose last number is the answer."""

    def submit(self, ticket: Any, prompt: Prompt, completion: Completion) -> None:
        """Grade one response."""
        is_right = re.findall(r"-?\d+", completion.text)[-1:] == [prompt.reference["answer"]]
        self._ready.append((ticket, Verdict(float(is_right))))


def field() -> Setting:
    """Return the field's model and task: ten updates with the learning rate and the size of its runs."""
    tokenizer = AutoTokenizer.from_pretrained(COMMITTED, trust_remote_code=False)
    sums = islice(dict(problems(size=1024, seed=2)).items(), 64 + 10 * 32)
    bare = [Prompt(text, ({"role": "user", "content": text},), {"answer": answer}) for text, answer in sums]
    prompts = list(PromptEncoder(tokenizer, max_prompt_tokens=72).encode(bare))
    model, updates = DefaultModel(COMMITTED, tokenizer), [prompts[first:][:32] for first in range(64, 384, 32)]
    return Setting("field", model, (tokenizer.eos_token_id,), prompts[:64], updates, max_new_tokens=56, lr=3e-5)


def smollm2() -> Setting:
    """Return the default model and task: four updates with the default learning rate, of a quarter of its prompts."""
    model = default_model()
    prompts = model.prompts(32 + 4 * 8)
    updates = [prompts[first:][:8] for first in range(32, 64, 8)]
    return Setting("smollm2", model, EOS_TOKEN_IDS, prompts[:32], updates, max_new_tokens=32, lr=1e-5)


def smollm2_started() -> Setting:
    """Return the same after a supervised start on worked answers, which the runs of the real model have, too."""
    model = default_model()
    prompts = model.prompts(64 + 3 * 4 + 8 * 4)
    updates = [prompts[first:][:4] for first in range(64, 76, 4)]
    pairs = [(str(each.messages[0]["content"]), worked("chain_sum", each.reference["entry"])) for each in prompts[76:]]
    return Setting("smollm2_started", model, EOS_TOKEN_IDS, prompts[:64], updates, 32, 1e-5, pairs)


SETTINGS: dict[str, Callable[[], Setting]] = {
    "field": field,
    "smollm2": smollm2,
    "smollm2_started": smollm2_started,
}


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="sequences at once")
    parser.add_argument("--repetitions", type=int, default=2, help="of both, in turns")
    options = parser.parse_args()
    torch.set_num_threads(1)
    file = FOLDER / "drafts.json"
    before = json.loads(file.read_text()) if file.exists() else {}
    found = {part: before.get(part, []) for part in PARTS}
    for name in options.models:
        setting = SETTINGS[name]()
        for part in options.parts:
            found[part] = [row for row in found[part] if row["model"] != name]
            for row in PARTS[part](setting, options.sizes, options.repetitions):
                found[part].append(row)
                print(row, flush=True)
                save("drafts", **found)


def costs(setting: Setting, sizes: Sequence[int], repetitions: int) -> Iterator[dict[str, Any]]:
    """Yield the processor time of a token, in ms: decoded with so many sequences at once, and checked in drafts."""

    def least(compute: Callable[..., torch.Tensor], tokens: torch.Tensor, *slots: Sequence[int]) -> float:
        places, seconds = torch.full(tokens.shape[:1], 50), []
        for _ in range(2 + 2 * repetitions):
            begin = time.process_time()
            logits = compute(tokens, places, *slots).flatten(0, -2)
            draw(logits, torch.rand(len(logits), dtype=torch.float64), SamplingSettings(max_new_tokens=1))
            seconds.append(time.process_time() - begin)
        return round(1e3 * min(seconds) / tokens.numel(), 3)

    with opened(setting, max(sizes)) as service, torch.inference_mode():
        decoder: Decoder = service.engine.opened()._decoder  # type: ignore[attr-defined]
        checked = least(decoder.check, torch.ones(8, 32, dtype=torch.long), range(8))
        for size in sizes:
            decoded = least(decoder.step, torch.ones(size, dtype=torch.long))
            yield {"model": setting.name, "sequences": size, "decoded_ms": decoded, "checked_ms": checked}


def measured(setting: Setting, sizes: Sequence[int], repetitions: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each number of sequences at once."""
    model: Any = AutoModelForCausalLM.from_pretrained(setting.model.path, dtype=torch.float32, trust_remote_code=False)
    imitate(model, setting)
    with opened(setting, max(sizes)) as service:
        drafts = responses_of(sampled(service, model, setting.held_out, version=0))
        optimizer = torch.optim.AdamW(model.parameters(), lr=setting.lr, weight_decay=0.0)
        for update, prompts in enumerate(setting.updates):
            learn(model, optimizer, sampled(service, model, prompts, version=update, step=update))
    for size in sizes:
        seconds: dict[str, list[float]] = {"plain": [], "with_drafts": []}
        found: dict[str, Drafts] = {}
        with opened(setting, size) as service:
            sampled(service, model, setting.held_out[:4], version=0)  # memory is taken, and the weights are there
            for _ in range(repetitions):
                for way, of_way in seconds.items():
                    begin = time.process_time()
                    given = drafts if way == "with_drafts" else None
                    groups = sampled(service, model, setting.held_out, version=0, drafts=given)
                    of_way.append(time.process_time() - begin)
                    found[way] = responses_of(groups)
        of_model = {"model": setting.name, "updates": len(setting.updates), "sequences": size}
        yield of_model | compared(drafts, found, seconds)


def compared(drafts: Drafts, found: dict[str, Drafts], seconds: dict[str, list[float]]) -> dict[str, Any]:
    """Return what drafts kept and saved, and how many responses are the same."""
    plain, drafted = found["plain"], found["with_drafts"]
    return {
        "responses": len(plain),
        "tokens": sum(map(len, plain.values())),
        "kept_ratio": round(kept_ratio(drafts, plain), 3),
        "num_equal": sum(plain[key] == drafted[key] for key in plain),
        **{f"{way}_s": [round(each, 2) for each in of_way] for way, of_way in seconds.items()},
        "gain": round(min(seconds["plain"]) / min(seconds["with_drafts"]), 2),
    }


@contextmanager
def opened(setting: Setting, num_sequences: int) -> Iterator[RolloutService]:
    """Open the engine on one thread, in float32, with so many sequences at once."""
    service = RolloutService(
        engine=partial(TransformersEngine, max_num_seqs=num_sequences, dtype="float32", device="cpu"),
        sampling=SamplingSettings(max_new_tokens=setting.max_new_tokens),
        max_model_tokens=MAX_MODEL_TOKENS,
    )
    service.open(
        model_path=setting.model.path,
        tokenizer=setting.model.tokenizer,
        eos_token_ids=setting.eos_token_ids,
        grader=LastNumberGrader(),
        log_file=Path(tempfile.mkdtemp(prefix="ada_lightning-")) / "engine.log",
    )
    try:
        yield service
    finally:
        service.close()


def sampled(
    service: RolloutService,
    model: Any,
    prompts: Sequence[Prompt],
    *,
    version: int,
    step: int | None = None,
    drafts: Drafts | None = None,
) -> Sequence[ResponseGroup]:
    """Draw four responses of each prompt, as an evaluation does it; of a training ``step`` where one is given."""
    begin = partial(Step, prompts, sampler=UniformSampler(group_size=GROUP), selection=AllSelection(), step=step or 0)
    done = service.sample(
        begin,
        weights=lambda: ((name, each.detach()) for name, each in model.named_parameters()),
        policy_version=version,
        stage="eval" if step is None else "train",
        clock=PhaseClock(),
        drafts=drafts,
    )
    return done.finish()


def imitate(model: Any, setting: Setting) -> None:
    """Learn the worked answers of a setting, four at a time, with a learning rate that falls from 2e-4 to 0."""
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    for first in range(0, len(setting.worked), 4):
        optimizer.param_groups[0]["lr"] = 2e-4 * (1 - first / len(setting.worked))
        ids_BT, labels_BT = labelled(setting.model.tokenizer, setting.worked[first:][:4])
        logits_BTV = model(ids_BT).logits[:, :-1]
        functional.cross_entropy(logits_BTV.flatten(0, 1), labels_BT[:, 1:].flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def learn(model: Any, optimizer: torch.optim.Optimizer, groups: Sequence[ResponseGroup]) -> None:
    """Take one update of GRPO: rewards less the group's mean, over their standard deviation."""
    for group in groups:
        responses = group.pool.responses
        rewards = torch.tensor([response.reward for response in responses])
        if rewards.std() == 0:
            continue
        prompt = group.pool.prompt.prompt_ids
        ids = pad_sequence([torch.tensor([*prompt, *response.response_ids]) for response in responses], True)
        longest = ids.shape[1] - len(prompt)
        is_drawn = torch.arange(longest) < torch.tensor([len(each.response_ids) for each in responses])[:, None]
        logits = model(ids, logits_to_keep=longest + 1).logits[:, :-1]
        logprobs = logits.log_softmax(-1).gather(-1, ids[:, -longest:, None])[..., 0]
        advantages = (rewards - rewards.mean()) / rewards.std()
        (-(advantages[:, None] * logprobs * is_drawn).sum() / len(groups)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


PARTS: dict[str, Callable[..., Iterator[dict[str, Any]]]] = {"costs": costs, "rows": measured}


if __name__ == "__main__":
    main()
