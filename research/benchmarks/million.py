"""What many prompts cost: ``python -m research.benchmarks.million [--other FOLDER] [--trl]``.

Each size is a parquet file of sums in words, each run one step of ``model=tiny rollout=transformers`` in a process of
its own: once with an empty cache, once more with a full one. Seconds to the first step are those of a clock: measure on
an idle machine. CPU time is that of all processes of a run, with its evaluations.
``--other`` runs the same with another checkout, side by side.
Then a step's choice among a million prompts, and what a response costs whoever drives a step with a budget.
Writes ``docs/performance/million.json``. Lines of the table that are not measured stay as they were there; the command
in the file is that of the last measurement. Where a line has several runs, the table has the least seconds: other work
and a slower clock only add to them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ada_lightning.core.prompt_columns import PromptTable
from ada_lightning.core.records import Outcome, Prompt, Verdict
from ada_lightning.core.step import Step
from ada_lightning.core.step_records import StepSettings
from ada_lightning.methods.curriculum.uniform import UniformCurriculum
from ada_lightning.methods.published.spo import KlHistory, WeightedDraw
from ada_lightning.methods.sampling import BalanceSampler
from ada_lightning.methods.selection import AllSelection
from research.benchmarks.report import FOLDER, markdown, save

ROOT = Path(__file__).resolve().parents[2]
_TRL = """
import sys, datasets, trl
data = datasets.load_dataset("parquet", data_files=sys.argv[1], split="train").rename_column("question", "prompt")
class Begun(BaseException): pass
def reward(completions, **columns): raise Begun
config = trl.GRPOConfig(output_dir=sys.argv[3], num_generations=4, per_device_train_batch_size=128, use_cpu=True,
    bf16=False, max_steps=1, max_completion_length=32, report_to=[])
try: trl.GRPOTrainer(model=sys.argv[2], reward_funcs=reward, args=config, train_dataset=data).train()
except Begun: pass
"""


def main() -> None:
    """Measure, and write what there is after each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--methods", nargs="+", default=["grpo", "ada", "ada_similar", "spo"])
    parser.add_argument("--other", type=Path, help="another checkout, measured too")
    parser.add_argument("--largest-other", type=int, default=100_000, help="prompts that it is given at most")
    parser.add_argument("--trl", action="store_true", help="TRL's GRPOTrainer up to its first rewards, too")
    parser.add_argument("--repeats", type=int, default=1, help="runs of each kind, in turn")
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no run after so many")
    given = parser.parse_args()
    end = time.monotonic() + given.seconds
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        files = {size: _file(Path(folder), size) for size in given.sizes if given.seconds > 0}
        for repeat, method, size in product(range(given.repeats), given.methods, files):
            other = given.other if size <= given.largest_other else None
            for name, tree in {"this": ROOT, "other": other}.items():
                for start in ("first", "second") if tree else ():
                    if time.monotonic() < end:
                        cache = Path(folder, f"cache-{name}-{method}-{size}-{repeat}")
                        runs.append({"build": name, "method": method, "prompts": size, "start": start})
                        runs[-1] |= _train(Path(str(tree)), method, files[size], cache)
                        print(runs[-1], flush=True)
                        _save(runs)
        for size, file in files.items() if given.trl else ():
            if time.monotonic() < end:
                runs.append({"build": "trl", "method": "grpo", "prompts": size, "start": "first"} | _trl(file, folder))
                print(runs[-1], flush=True)
    choices = [choice(name, max(given.sizes)) for name in ("uniform", "weighted_draw")]
    budget(16)  # imports and tables of the sampler
    budgets = [budget(number) for number in (64, 1024, 4096)]
    print(*choices, *budgets, sep="\n")
    _save(runs, choices=choices, budgets=budgets)


def _line_of(run: dict[str, Any]) -> tuple[str, str, int]:
    return run["build"], run["method"], run["prompts"]


def _save(runs: list[dict[str, Any]], **content: Any) -> None:
    """Write what there is; lines of before that were not measured now stay, in their places."""
    path = FOLDER / "million.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    now = {_line_of(run): [each for each in runs if _line_of(each) == _line_of(run)] for run in runs}
    lines: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for run in before.get("runs", []):
        lines.setdefault(_line_of(run), []).append(run)
    kept = {name: before[name] for name in ("choices", "budgets") if name in before}
    save("million", runs=[run for line in (lines | now).values() for run in line], **kept | content)


def runs_table() -> str:
    """Return the table of the runs: a line for each build, method and size."""
    names = {"this": "this build", "other": "the build before", "trl": "TRL"}
    lines: dict[tuple[str, str, int], dict[str, list[dict[str, Any]]]] = {}
    for run in json.loads((FOLDER / "million.json").read_text())["runs"]:
        lines.setdefault(_line_of(run), {}).setdefault(run["start"], []).append(run)
    kinds = [(start, seconds) for seconds in ("first_step_s", "cpu_s") for start in ("first", "second")]
    rows = [
        (names[build], method, prompts, *(_least(starts.get(start, []), seconds) for start, seconds in kinds),
         f"{max(run['peak_gib'] for runs in starts.values() for run in runs):.2f} GiB")
        for (build, method, prompts), starts in lines.items()
    ]  # fmt: skip
    head = [
        "build",
        "method",
        "prompts",
        *(f"{start} start, {unit}" for unit in ("s", "CPU s") for start in ("first", "second")),
        "peak",
    ]
    return markdown(head, rows)


def _least(runs: list[dict[str, Any]], seconds: str) -> str:
    return f"{min(run[seconds] for run in runs):.1f}" if runs else ""


def choices_table() -> str:
    """Return the table of choices among all prompts, and of responses of a step with a budget."""
    found = json.loads((FOLDER / "million.json").read_text())
    rows = [
        (f"a step's choice, `curriculum={each['curriculum']}`", f"{each['prompts']} prompts", f"{each['ms']:.2f} ms")
        for each in found["choices"]
    ] + [
        ("a response of a step with a budget", f"{each['prompts']} prompts, {each['most_open']} open",
         f"{each['us_a_response']:.0f} us")
        for each in found["budgets"]
    ]  # fmt: skip
    return markdown(["what", "among", "CPU time"], rows)


def _file(folder: Path, size: int) -> str:
    generator = random.Random(0)
    pairs = [(generator.randrange(10**6), generator.randrange(10**6)) for _ in range(size)]
    questions = [f"A shop has {a} apples and buys {b} more in lot {i}. How many now?" for i, (a, b) in enumerate(pairs)]
    table = pa.table({"question": questions, "answer": [str(a + b) for a, b in pairs]})
    pq.write_table(table, folder / f"{size}.parquet")
    return str(folder / f"{size}.parquet")


def _train(tree: Path, method: str, file: str, cache: Path) -> dict[str, Any]:
    options = ["model=tiny", "rollout=transformers", "num_steps=1", "data=dataset", "reward=numeric", "logger=csv"]
    run = [f"+experiment={method}", *options, f"data.source.path={file}", f"run_name=r{time.monotonic_ns()}"]
    environment = {"PYTHONPATH": str(tree), "ADA_LIGHTNING_CACHE": str(cache)}
    return measured([sys.executable, str(tree / "train.py"), *run], cache, environment)


def _trl(file: str, folder: str) -> dict[str, Any]:
    from ada_lightning.training.models.tiny import TinyLlama

    model = TinyLlama(cache_dir=folder).prepare()
    return measured([sys.executable, "-c", _TRL, file, str(model), folder], Path(folder), {})


def measured(command: Sequence[str], folder: Path, environment: dict[str, str]) -> dict[str, Any]:
    """Run a command in a folder, and return its seconds, its processor's and its peak memory.

    ``first_step_s`` are the seconds until a line says ``step 1/``; all seconds where none does.
    """
    folder.mkdir(parents=True, exist_ok=True)
    begin, log = time.monotonic(), list[str]()
    first_step_s: float | None = None
    done = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONUNBUFFERED": "1"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.stdout is not None
    for line in done.stdout:
        log.append(line)
        if line.startswith("step 1/"):
            first_step_s = time.monotonic() - begin
    _, status, used = os.wait4(done.pid, 0)
    done.returncode = os.waitstatus_to_exitcode(status)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {''.join(log)[-2000:]}")
    seconds, cpu_s = time.monotonic() - begin, used.ru_utime + used.ru_stime  # with processes it waited for
    return {
        "seconds": seconds,
        "first_step_s": seconds if first_step_s is None else first_step_s,
        "cpu_s": cpu_s,
        "peak_gib": used.ru_maxrss / 2**20,
    }


class _Numbered(PromptTable):
    """So many prompts whose ids are made of their places."""

    def __init__(self, size: int) -> None:
        self._size = size

    @property
    def ids(self) -> Sequence[str]:
        return [f"{place:016x}" for place in range(self._size)]

    def positions(self, prompt_ids: Sequence[str]) -> NDArray[np.int64]:
        return np.array([int(prompt_id, 16) for prompt_id in prompt_ids], dtype=np.int64)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: Any) -> Any:
        return Prompt(f"{place:016x}", ())


def choice(name: str, size: int) -> dict[str, Any]:
    """Time a step's choice among so many prompts, of which some were visited."""
    prompts, estimator = _Numbered(size), KlHistory()
    for place in range(min(size, 20_000)):
        estimator._known[f"{place:016x}"] = (1.0, 3.0)
    curriculum = UniformCurriculum() if name == "uniform" else WeightedDraw()
    seconds = []
    for step in range(20):
        begin = time.process_time()
        curriculum.choose(prompts, 32, step=step, seed=0, recall=estimator.recall)
        seconds.append(time.process_time() - begin)
    return {"curriculum": name, "prompts": size, "first_ms": 1e3 * seconds[0], "ms": 1e3 * statistics.median(seconds)}


def budget(num_prompts: int) -> dict[str, Any]:
    """Drive a step with ``sampler.budget_per_step`` of 24 responses a prompt, told in random order."""
    generator = random.Random(0)
    rates = [generator.random() ** 4 for _ in range(num_prompts)]
    sampler = BalanceSampler(
        k_pos=2, k_neg=2, samples_per_round=24, n_max=48, group_size=4, budget_per_step=24 * num_prompts
    )
    prompts = [Prompt(str(number), (), prompt_ids=(1,)) for number in range(num_prompts)]
    begin, open_, total, most = time.process_time(), [], 0, 0
    step = Step(prompts, sampler=sampler, selection=AllSelection(), settings=StepSettings(seed=0))
    while not step.is_complete:
        open_ += step.ask()
        most = max(most, len(open_))
        place = generator.randrange(len(open_))
        open_[place], open_[-1] = open_[-1], open_[place]
        request, total = open_.pop(), total + 1
        grade = Verdict(float(generator.random() < rates[request.slot]))
        step.tell(request, Outcome("x", (1,), (0.0,), False, grade))
    us = 1e6 * (time.process_time() - begin) / total
    return {"prompts": num_prompts, "most_open": most, "responses": total, "us_a_response": us}


if __name__ == "__main__":
    main()
