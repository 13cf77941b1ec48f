"""One point of ``docs/gpu_acceptance.sh``: ``python scripts/gpu_acceptance.py POINT``.

Leaves with 0 (passed), 77 (skipped) or anything else (failed), and says why in its last line, ``RESULT: ...``.

The probe behind most points: weights are moved by half their own spread, given to the engine, and responses drawn. The
engine's log-probability of every sampled token is then compared with what transformers computes from the moved weights
(must agree: mean difference below 0.05 nat, bfloat16 alone gives about 0.025) and from those before (must not: at least
five times that). An engine with stale, mixed or no weights fails it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.chdir(ROOT)
os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

MAX_GAP, MIN_STALE_RATIO = 0.05, 5.0
SKIPPED = 77
DEVICE = "cuda"
ENGINE: dict[str, Any] = {"kv_cache_gib": 1.0, "block_size": 16, "enforce_eager": False}
LOGS = Path(os.environ.get("LOGS", "acceptance"))
MAX_MODEL_TOKENS, MAX_NEW_TOKENS = 128, 48
TRAIN_LIMIT_S = 1800
SMALL = [
    "model=smollm2_135m",
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


class SkippedError(Exception):
    """This machine or installation lacks what the point is about."""


def hardware() -> str:
    """A GPU, a torch that sees it, and a vLLM built for it."""
    import torch

    if not torch.cuda.is_available():
        raise SkippedError("no GPU: torch.cuda.is_available() is False")
    from vllm.platforms import current_platform

    if not current_platform.is_cuda_alike():
        raise AssertionError(f"vLLM is built for {current_platform.device_name}: install the cuda extra, not cpu")
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
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
    need_gpus(2)
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


def ray() -> str:
    """Two Ray actors with a GPU each: weights reach both, one is killed in the step, the responses stay the same."""
    import signal
    import warnings

    need_gpus(2)
    need_package("ray", "ray")
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
    return trained("run", ["+experiment=ada_seq_balance", "trainer=gpu", "rollout=vllm_gpu", *SMALL, "num_steps=3"])


def sleeping_run() -> str:
    """Three steps in which the engine is another process, gets its weights by IPC and sleeps during the update."""
    overrides = ["trainer=gpu", "rollout=vllm_gpu_process", "rollout.engine.sleep_level=2", *SMALL, "num_steps=3"]
    return trained("sleeping_run", ["+experiment=ada_seq_balance", *overrides])


def fsdp() -> str:
    """Two steps of training sharded over all GPUs, with the engine in a process of its own."""
    num_gpus = need_gpus(2)
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
        f"data.source.path={data}",
        *SMALL,
        "data.num_minibatches=2",
        "rollout.max_model_tokens=1152",
        "reward.num_workers=2",
        "num_steps=20",
    ]


_ALL = (
    hardware, engine, reload, process, ipc, nccl, sleep_1, sleep_2, ray, run, sleeping_run, fsdp, paper
)  # fmt: skip
POINTS: dict[str, Callable[[], str]] = {point.__name__: point for point in _ALL}
"""In the order of ``docs/gpu_acceptance.sh``."""


def main(arguments: Sequence[str]) -> NoReturn:
    """Run one point and tell what came of it."""
    if len(arguments) != 1 or arguments[0] not in POINTS:
        sys.exit(f"RESULT: name one point of: {', '.join(POINTS)}; got {' '.join(arguments) or 'none'}")
    try:
        if arguments[0] != "hardware":
            need_gpus(1)
        result, status = POINTS[arguments[0]](), 0
    except SkippedError as skipped:
        result, status = str(skipped), SKIPPED
    except Exception as error:
        import traceback

        traceback.print_exc()
        result, status = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}", 1
    print(f"RESULT: {result}", flush=True)
    os._exit(status)  # a GPU that hangs must not hold the script up


@contextmanager
def probe(host: Any = None, **options: Any) -> Iterator[tuple[Any, tuple[Any, Any]]]:
    """An engine of the tiny model in bfloat16, and the model before and after its weights were moved."""
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
        **ENGINE,
    }
    opened = (host or TrainerProcess()).open(partial(VllmEngine, **settings, **options), LOGS / "engine.log")
    try:
        old, new = (
            AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16, trust_remote_code=False).to(DEVICE)
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


def sampling() -> Any:
    """Return how the probe draws."""
    from ada_lightning.core.records import SamplingSettings

    return SamplingSettings(max_new_tokens=MAX_NEW_TOKENS)


def submit(opened: Any) -> None:
    """Hand all prompts over, with seeds."""
    for index, prompt in enumerate(prompts()):
        opened.submit(f"r{index}", prompt, sampling(), seed=index)


def finish(opened: Any) -> list[Any]:
    """Wait for all responses; in the order of the prompts."""
    done: dict[str, Any] = {}
    while opened.num_in_flight():
        done |= {generation.request_id: generation for generation in opened.poll()}
    return [done[f"r{index}"] for index in range(len(prompts()))]


def draw(opened: Any) -> list[Any]:
    """One response of each prompt."""
    submit(opened)
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


def need_package(name: str, extra: str) -> None:
    """Skip where a package is not installed."""
    if find_spec(name) is None:
        raise SkippedError(f"{name} is not installed: pip install -e '.[{extra}]'")


def gpu_name(index: int) -> str:
    """Return the name by which another process sees a GPU that this one sees."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return visible.split(",")[index] if visible else str(index)


def trained(name: str, overrides: Sequence[str], launcher: Sequence[str] = ()) -> str:
    """Train, and look at what the run says of itself."""
    folder = Path(tempfile.mkdtemp(prefix="ada_lightning-")) / name
    mlflow = f"logger.mlflow.tracking_uri=sqlite:///{folder.parent}/mlflow.db"
    command = [sys.executable, *launcher, "train.py", *overrides, f"run_name={name}", f"run_dir={folder}", mlflow]
    print(" ".join(command), flush=True)
    subprocess.run(command, check=True, timeout=TRAIN_LIMIT_S)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["status"] == "finished", f"the run ended as {summary['status']}"
    gaps, restarts = column(folder, "sync/logprob_gap"), column(folder, "rollout/engine_restarts")
    assert max(gaps) < MAX_GAP, f"sync/logprob_gap reached {max(gaps):.3f} nat per token"
    assert max(restarts) == 0, f"{max(restarts):.0f} engines were replaced"
    return f"{summary['policy_version']} updates, sync/logprob_gap at most {max(gaps):.3f} nat"


def column(folder: Path, name: str) -> list[float]:
    """Read one figure of a run."""
    import csv

    with (folder / "metrics.csv").open() as file:
        return [float(row[name]) for row in csv.DictReader(file) if row.get(name)]


if __name__ == "__main__":
    main(sys.argv[1:])
