"""One point of ``docs/gpu_acceptance.sh``: ``python scripts/gpu_acceptance.py POINT``; ``POINTS`` is the table of all.

Leaves with 0 (passed), 77 (skipped) or anything else (failed), and says why in its last line, ``RESULT: ...``. What a
point finds out on the way stands in lines ``FACT {...}``. ``scripts/run_points.py`` runs several, each under its limit.

The probe behind most points: weights are moved by half their own spread, given to the engine, and responses drawn. The
engine's log-probability of every sampled token is then compared with what transformers computes from the moved weights
(must agree: mean difference below 0.05 nat, bfloat16 alone gives about 0.025) and from those before (must not: at least
five times that). An engine with stale, mixed or no weights fails it.

``DEVICE=cpu`` tries the points that a CPU can, with the tiny model in float32: for these scripts, not for a machine.
``ENFORCE_EAGER=1`` compiles nothing and captures no CUDA graphs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.chdir(ROOT)
os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

MAX_GAP, MIN_STALE_RATIO, MIN_GREEDY_SHARE = 0.05, 5.0, 0.9
SKIPPED = 77
DEVICE = os.environ.get("DEVICE", "cuda")
DTYPE = "bfloat16" if DEVICE == "cuda" else "float32"
ENGINE: dict[str, Any] = {"kv_cache_gib": 1.0, "block_size": 16, "enforce_eager": False}
LOGS = Path(os.environ.get("LOGS", "acceptance"))
MAX_MODEL_TOKENS, MAX_NEW_TOKENS = 128, 48
SMALL = [
    "model=smollm2_135m",
    "logger=csv",
    "data.prompts_per_step=8",
    "data.source.num_heldout=8",
    "callbacks.evaluation.num_prompts=8",
    "callbacks.evaluation.every_n_steps=0",
    "callbacks.preview.num_prompts=2",
    "callbacks.preview.num_samples=2",
    "callbacks.checkpoint.every_n_steps=0",
    "rollout.sampling.max_new_tokens=48",
    "callbacks.evaluation.sampling.max_new_tokens=48",
    "rollout.engine.kv_cache_gib=2",
]
TRAINER, IN_PROCESS = "trainer=gpu", "rollout=vllm_gpu"
if DEVICE == "cpu":
    ENGINE |= {"kv_cache_gib": 0.05, "block_size": 32, "enforce_eager": True}
    SMALL[0], SMALL[-1] = "model=tiny", "rollout.engine.kv_cache_gib=0.1"
    TRAINER, IN_PROCESS = "trainer=cpu", "rollout=vllm_cpu"
elif os.environ.get("ENFORCE_EAGER") == "1":
    ENGINE["enforce_eager"] = True
    SMALL.append("rollout.engine.enforce_eager=true")


class SkippedError(Exception):
    """This machine or installation lacks what the point is about."""


def hardware() -> str:
    """A GPU, a torch that sees it, and a vLLM built for it."""
    import torch

    if DEVICE == "cuda" and not torch.cuda.is_available():
        raise SkippedError("no GPU: torch.cuda.is_available() is False")
    from vllm.platforms import current_platform

    if current_platform.is_cuda_alike() != (DEVICE == "cuda"):
        extra = "cuda" if DEVICE == "cuda" else "cpu"
        raise AssertionError(f"vLLM is built for {current_platform.device_name}: install the extra {extra}")
    if DEVICE == "cpu":
        return f"vLLM computes on a CPU, torch {torch.__version__}"
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    fact(card=names[0])
    return f"{len(names)} x {names[0]}, torch {torch.__version__}"


def engine() -> str:
    """The engine starts in this process with CUDA graphs, seeded responses repeat, and aborted requests are gone."""
    with probe() as (opened, _):
        draw(opened)  # leaves prefixes behind, so that the next two have the same shapes
        first, second = draw(opened), draw(opened)
        assert [one.response_ids for one in first] == [one.response_ids for one in second], "seeds do not repeat"
        opened.submit("gone", [1, 2, 3], sampling(), seed=0)
        opened.poll()
        opened.abort(["gone"])
        assert opened.num_in_flight() == 0
        return f"{len(first)} seeded responses repeat"


def reload() -> str:
    """Weights reach an engine in this process by reference."""
    with probe() as (opened, models):
        return check_weights(opened, models)


def process() -> str:
    """Weights reach an engine in a process of its own through memory of the CPU."""
    from ada_lightning.rollout.engines.process_pool import ProcessPool

    with probe(ProcessPool()) as (opened, models):
        return check_weights(opened, models)


def ipc() -> str:
    """Weights reach an engine in another process on this GPU by vLLM's CUDA IPC, twice."""
    from ada_lightning.rollout.engines.process_pool import ProcessPool
    from ada_lightning.rollout.engines.weight_transfer import CudaIpc

    with probe(ProcessPool(), weight_transfer=CudaIpc(buffer_mib=256)) as (opened, models):
        return check_weights(opened, models)


def nccl() -> str:
    """Weights reach an engine on the second GPU by vLLM's NCCL broadcast, twice."""
    from ada_lightning.rollout.engines.process_pool import ProcessPool
    from ada_lightning.rollout.engines.weight_transfer import Nccl

    host = ProcessPool(environment={"CUDA_VISIBLE_DEVICES": gpu_name(1)})
    with probe(host, weight_transfer=Nccl(buffer_mib=16, time_limit_s=60)) as (opened, models):
        return check_weights(opened, models)


def sleep_1() -> str:
    """Level 1 gives memory back and wakes with the same weights: the same responses."""
    with probe(sleep_level=1) as (opened, _):
        before, freed = draw(opened), freed_gib(opened)
        assert [one.response_ids for one in draw(opened)] == [one.response_ids for one in before], "other responses"
        return f"{freed:.1f} GiB came free, the same responses after waking"


def sleep_2() -> str:
    """Level 2 gives memory back, refuses to sample without weights, and samples from new ones."""
    with probe(sleep_level=2) as (opened, models):
        freed = freed_gib(opened)
        try:
            submit(opened)
        except RuntimeError:
            return f"{freed:.1f} GiB came free; {check_weights(opened, models)}"
        raise AssertionError("a request was taken without weights")


def crowded() -> str:
    """A card that something else has filled: the engine says so and what to do, and opens once there is room."""
    import torch

    asked = int(ENGINE["kv_cache_gib"] * 2**30)
    torch.cuda.empty_cache()
    ballast = [torch.empty(torch.cuda.mem_get_info()[0] - asked // 2, dtype=torch.uint8, device=DEVICE)]
    said = refusal()
    print(said, flush=True)
    assert "rollout.engine.kv_cache_gib" in said, f"no way out is named: {said}"
    numbers = re.search(r"asks for ([\d.]+) GiB.* where ([\d.]+) of ([\d.]+) GiB are free", said)
    assert numbers, f"neither asked nor free GiB are named: {said}"
    ballast.clear()
    torch.cuda.empty_cache()
    with probe() as (opened, _):
        draw(opened)
    return f"refused with {numbers[1]} GiB asked and {numbers[2]} free, and opened once there was room"


def refusal() -> str:
    """Open an engine that must not open, and return what it says."""
    try:
        with probe():
            pass
    except ValueError as error:
        return str(error)
    raise AssertionError("an engine opened that asks for more than is free")


def runners() -> str:
    """Model Runner V1 and V2 of vLLM: the same greedy tokens. Sampled ones may differ: V2 has its own noise."""
    from ada_lightning.rollout.engines.process_pool import ProcessPool

    greedy, sampled, gaps = [], [], []
    for number in (0, 1):
        host = ProcessPool(environment={"VLLM_USE_V2_MODEL_RUNNER": str(number)})
        with probe(host) as (opened, (old, _)):
            assert facts["runner"] == f"V{number + 1}", f"asked for V{number + 1}, got {facts['runner']}"
            greedy.append(draw(opened, temperature=0.0))
            sampled.append(draw(opened))
            gaps.append(mean_gap(old, sampled[-1]))
    fact(runner="V1, V2")
    same = same_share(*greedy)
    text = f"{same:.0%} of greedy tokens agree, {same_share(*sampled):.0%} of sampled ones with the same seeds"
    text += f"; V1 within {gaps[0]:.3f} nat of transformers, V2 {gaps[1]:.3f}"
    assert max(gaps) < MAX_GAP, f"log-probabilities differ: {text}"
    assert same >= MIN_GREEDY_SHARE, f"fewer than {MIN_GREEDY_SHARE:.0%} agree: {text}"
    return text


def same_share(first: Sequence[Any], second: Sequence[Any]) -> float:
    """Return which share of the tokens of responses stands before the first one that differs."""
    same = total = 0
    for a, b in zip(first, second, strict=True):
        pairs = list(zip(a.response_ids, b.response_ids, strict=False))
        same += next((index for index, (x, y) in enumerate(pairs) if x != y), len(pairs))
        total += max(len(a.response_ids), len(b.response_ids))
    return same / total


def ray() -> str:
    """Two Ray actors with a GPU each: weights reach both, one is killed in the step, the responses stay the same."""
    import signal
    import warnings

    from ada_lightning.rollout.engines.ray_pool import RayPool

    with probe(RayPool(num_engines=2, num_gpus=1)) as (opened, models):
        text = check_weights(opened, models)
        expected = draw(opened)
        submit(opened)
        os.kill(opened.pids()[0], signal.SIGKILL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = finish(opened)
        same = sum(a.response_ids == b.response_ids for a, b in zip(expected, found, strict=True))
        assert opened.num_restarts == 1, "the killed actor was not replaced"
        # Other batch compositions round bfloat16 differently on a GPU, so some responses may leave at a near tie.
        assert same >= len(expected) // 2, f"{same} of {len(expected)} responses are the same"
        return f"{text}; one actor killed, {same} of {len(expected)} responses the same"


def run() -> str:
    """Three steps of adaptive sampling with the engine in the trainer's process."""
    return trained("run", ["+experiment=ada_seq_balance", TRAINER, IN_PROCESS, *SMALL, "num_steps=3"])


def sleeping_run() -> str:
    """Three steps in which the engine is another process, gets its weights by IPC and sleeps during the update."""
    overrides = [TRAINER, "rollout=vllm_gpu_process", "rollout.engine.sleep_level=2", *SMALL, "num_steps=3"]
    return trained("sleeping_run", ["+experiment=ada_seq_balance", *overrides])


def fsdp() -> str:
    """Two steps of training sharded over all GPUs, or in one process on one, with the engine in another process."""
    num_gpus = need_gpus(1)
    overrides = ["trainer=fsdp", "rollout=vllm_gpu_process", "rollout/weight_transfer=reload", *SMALL, "num_steps=2"]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={num_gpus}"]
    return trained("fsdp", ["+experiment=grpo", *overrides], launcher)


def paper() -> str:
    """Twenty steps of an experiment of the paper in small: its data format, reward, estimator, loss and minibatches."""
    folder = Path(tempfile.mkdtemp(prefix="ada_lightning-"))
    rows = [{"problem": f"What is {a} + {b}?", "answer": str(a + b)} for a in range(1, 20) for b in range(1, 20)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return trained("paper", paper_overrides(folder / "train.jsonl"))


def paper_overrides(data: Path) -> list[str]:
    """Return what makes the experiment small."""
    return [
        "+experiment=paper/ada_seq_balance",
        TRAINER,
        IN_PROCESS,
        f"data.source.path={data}",
        *SMALL,
        "data.num_minibatches=2",
        "rollout.max_model_tokens=1152",
        "reward.num_workers=2",
        "num_steps=20",
    ]


@dataclass(frozen=True)
class Point:
    """One thing to try.

    Args:
        run: tries it and returns what was measured; raises SkippedError, or anything else where it fails.
        question: what it answers.
        limit_s: seconds after which it is killed, with whatever it has started.
        num_gpus: GPUs that it needs.
        package: what has to be installed besides vLLM, with the extra of this project of the same name.
        on_cpu: whether ``DEVICE=cpu`` can try it.
    """

    run: Callable[[], str]
    question: str
    limit_s: int
    num_gpus: int = 1
    package: str = ""
    on_cpu: bool = False

    @property
    def name(self) -> str:
        """How it is asked for."""
        return self.run.__name__

    def check(self) -> None:
        """Raise SkippedError where this machine lacks what it needs."""
        if DEVICE == "cpu" and not self.on_cpu:
            raise SkippedError("needs a GPU, and DEVICE=cpu asks for none")
        if DEVICE == "cuda" and self.run is not hardware:  # which says more of it
            need_gpus(self.num_gpus)
        if self.package and find_spec(self.package) is None:
            raise SkippedError(f"{self.package} is not installed: pip install -e '.[{self.package}]'")


_TABLE = (
    Point(hardware, "Do torch and vLLM see a GPU?", 30, on_cpu=True),
    Point(engine, "Does an engine start, repeat seeded responses and forget aborted ones?", 100, on_cpu=True),
    Point(reload, "Do weights reach an engine in the trainer's process?", 45, on_cpu=True),
    Point(ipc, "Do they reach another process by CUDA IPC?", 55),
    Point(sleep_2, "Does a sleeping engine give everything back and wake with new weights?", 45),
    Point(run, "Does a run train?", 95, on_cpu=True),
    Point(sleep_1, "Does an engine that gave its cache back wake with the same weights?", 45),
    Point(process, "Do weights reach another process by memory of the CPU?", 55, on_cpu=True),
    Point(sleeping_run, "Does a run train whose engine sleeps in another process?", 95),
    Point(crowded, "Does an engine without room say so?", 45),
    Point(runners, "Do both model runners of vLLM give the same tokens?", 85),
    Point(fsdp, "Does a sharded run train with an engine beside it?", 95),
    Point(paper, "Does an experiment of the paper train?", 100, on_cpu=True),
    Point(nccl, "Do weights reach another GPU by NCCL?", 90, num_gpus=2),
    Point(ray, "Do they reach Ray actors, one of which dies?", 150, num_gpus=2, package="ray"),
)
POINTS = {point.name: point for point in _TABLE}
"""By name. What says most comes first, what needs several GPUs last.

The limits of those for one GPU leave 10 s of 15 minutes to killing and writing.
"""


def main(arguments: Sequence[str]) -> NoReturn:
    """Run one point and tell what came of it."""
    if len(arguments) != 1 or arguments[0] not in POINTS:
        sys.exit(f"RESULT: name one point of: {', '.join(POINTS)}; got {' '.join(arguments) or 'none'}")
    point = POINTS[arguments[0]]
    try:
        point.check()
        result, status = point.run(), 0
    except SkippedError as skipped:
        result, status = str(skipped), SKIPPED
    except Exception as error:
        import traceback

        traceback.print_exc()
        result, status = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}", 1
    fact(**{name: sys.modules[name].__version__ for name in ("torch", "vllm") if name in sys.modules})
    print(f"RESULT: {result}", flush=True)
    os._exit(status)  # a GPU that hangs must not hold the script up


facts: dict[str, str] = {}


def fact(**found: str) -> None:
    """Say what ``summary.json`` is to have of this point, as soon as it is known."""
    facts.update(found)
    print("FACT " + json.dumps(found), flush=True)


def runner_fact(log: Path, begin: int = 0) -> None:
    """Say which model runner vLLM took, by its own log from a byte on; it names the second one only."""
    text = log.read_bytes()[begin:]
    fact(runner="V2" if b"Using V2 Model Runner" in text else "V1")


@contextmanager
def probe(host: Any = None, **options: Any) -> Iterator[tuple[Any, tuple[Any, Any]]]:
    """An engine of the tiny model, and the model before and after its weights were moved."""
    import torch
    from transformers import AutoModelForCausalLM

    from ada_lightning.rollout.engines.host import TrainerProcess
    from ada_lightning.rollout.engines.vllm_engine import VllmEngine
    from ada_lightning.training.models.tiny import TinyLlama

    path = TinyLlama().prepare()
    settings: dict[str, Any] = {
        "model_path": path,
        "max_model_tokens": MAX_MODEL_TOKENS,
        "eos_token_ids": [],
        "max_num_seqs": 32,
        "dtype": DTYPE,
        **ENGINE,
    }
    log = LOGS / "engine.log"
    begin = log.stat().st_size if log.exists() else 0
    opened = (host or TrainerProcess()).open(partial(VllmEngine, **settings, **options), log)
    try:
        runner_fact(log, begin)
        old, new = (
            AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, DTYPE), trust_remote_code=False).to(DEVICE)
            for _ in range(2)
        )
        move(new, seed=1)
        yield opened, (old, new)
    finally:
        opened.close()


def move(model: Any, seed: int) -> None:
    """Move every weight by half of its tensor's spread."""
    import torch

    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * parameter.std() * torch.randn_like(parameter))


def check_weights(opened: Any, models: tuple[Any, Any]) -> str:
    """Load twice, probing after each; raises AssertionError where the engine's weights are not those loaded."""
    old, new = models
    for version in (1, 2):
        opened.load_weights(((name, p.detach()) for name, p in new.named_parameters()), policy_version=version)
        generations = draw(opened)
        gap, stale = mean_gap(new, generations), mean_gap(old, generations)
        assert gap < MAX_GAP, f"sync {version}: log-probabilities differ by {gap:.3f} nat per token"
        assert stale > MIN_STALE_RATIO * gap, f"sync {version}: {gap:.3f} nat, and {stale:.3f} from the old weights"
        old.load_state_dict(new.state_dict())
        move(new, seed=2 + version)
    return f"log-probabilities within {gap:.3f} nat, {stale:.2f} from the old weights"


def mean_gap(model: Any, generations: Sequence[Any]) -> float:
    """Mean absolute difference per token, in nats, between the engine's log-probabilities and the model's."""
    import torch

    gaps = []
    for prompt, generation in zip(prompts(), generations, strict=True):
        tokens = torch.tensor([prompt + list(generation.response_ids)], device=model.device)
        with torch.no_grad():
            log_softmax = model(tokens).logits[0].float().log_softmax(-1)
        expected = log_softmax[len(prompt) - 1 : -1].gather(-1, tokens[0, len(prompt) :, None])[:, 0].cpu()
        gaps.append((expected - torch.tensor(generation.sampling_logprobs)).abs())
    return float(torch.cat(gaps).mean())


def prompts() -> list[list[int]]:
    """Return the prompts of the probe, some longer than a KV block."""
    return [[1, *range(10 + index, 14 + index * 3)] for index in range(16)]


def sampling(temperature: float = 1.0) -> Any:
    """Return how the probe draws."""
    from ada_lightning.core.records import SamplingSettings

    return SamplingSettings(max_new_tokens=MAX_NEW_TOKENS, temperature=temperature)


def submit(opened: Any, temperature: float = 1.0) -> None:
    """Hand all prompts over, with seeds."""
    for index, prompt in enumerate(prompts()):
        opened.submit(f"r{index}", prompt, sampling(temperature), seed=index)


def finish(opened: Any) -> list[Any]:
    """Wait for all responses; in the order of the prompts."""
    done: dict[str, Any] = {}
    while opened.num_in_flight():
        done |= {generation.request_id: generation for generation in opened.poll()}
    return [done[f"r{index}"] for index in range(len(prompts()))]


def draw(opened: Any, temperature: float = 1.0) -> list[Any]:
    """One response of each prompt; temperature 0 takes the likeliest token."""
    submit(opened, temperature)
    return finish(opened)


def freed_gib(opened: Any) -> float:
    """Put the engine to sleep, and return what came free on the GPU."""
    import torch

    before = torch.cuda.mem_get_info()[0]
    opened.sleep()
    freed = float(torch.cuda.mem_get_info()[0] - before) / 2**30
    assert freed > 0.5, f"only {freed:.2f} GiB came free of a KV cache of 1 GiB and the weights"
    return freed


def need_gpus(number: int) -> int:
    """Return how many GPUs there are; skip where they are too few."""
    import torch

    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if found < number:
        raise SkippedError(f"needs {number} GPUs, and there are {found}" if found else "no GPU")
    return found


def gpu_name(index: int) -> str:
    """Return the name by which another process sees a GPU that this one sees."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return visible.split(",")[index] if visible else str(index)


def trained(name: str, overrides: Sequence[str], launcher: Sequence[str] = ()) -> str:
    """Train, and look at what the run says of itself; its folder stays where it fails."""
    folder = Path(tempfile.mkdtemp(prefix="ada_lightning-")) / name
    command = [sys.executable, *launcher, "train.py", *overrides, f"run_name={name}", f"run_dir={folder}"]
    print(" ".join(command), flush=True)
    log = folder / "engine.log"
    try:
        subprocess.run(command, check=True)
    finally:
        if log.exists():
            runner_fact(log)
            shutil.copy(log, LOGS / f"{name}.engine.log")
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["status"] == "finished", f"the run ended as {summary['status']}"
    gaps, restarts = column(folder, "sync/logprob_gap"), column(folder, "rollout/engine_restarts")
    assert max(gaps) < MAX_GAP, f"sync/logprob_gap reached {max(gaps):.3f} nat per token"
    assert max(restarts) == 0, f"{max(restarts):.0f} engines were replaced"
    shutil.rmtree(folder.parent, ignore_errors=True)  # with checkpoints of half a GiB
    return f"{summary['policy_version']} updates, sync/logprob_gap at most {max(gaps):.3f} nat"


def column(folder: Path, name: str) -> list[float]:
    """Read one figure of a run."""
    import csv

    with (folder / "metrics.csv").open() as file:
        return [float(row[name]) for row in csv.DictReader(file) if row.get(name)]


if __name__ == "__main__":
    main(sys.argv[1:])
