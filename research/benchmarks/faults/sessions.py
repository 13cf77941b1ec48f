"""Sessions of training runs, each a process of its own that can be killed, without a minute of imports for each."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SMALL = (
    "+experiment=ada_seq_balance",
    "model=tiny",
    "reward=function",
    "trainer.precision=32-true",
    "rollout.engine.dtype=float32",
    "rollout.engine.kv_cache_gib=0.05",
    "rollout.engine.max_num_seqs=32",
    "rollout.sampling.max_new_tokens=8",
    "data.prompts_per_step=4",
    "data.source.num_train=8",  # each prompt every other step: what is remembered of it counts
    "data.source.num_heldout=8",
    "callbacks.evaluation.num_prompts=4",
    "callbacks.evaluation.num_samples=2",
    "callbacks.evaluation.every_n_steps=0",
    "callbacks.checkpoint.every_n_steps=1",
    "~callbacks.preview",
    "optimizer.lr=1e-3",
    "+callbacks.trace._target_=research.benchmarks.faults.trace.Trace",
    "+callbacks.trace.run_dir=${run_dir}",
)
"""A run of the random model whose steps take a fraction of a second, in float32 on both sides."""


def warm_up() -> None:
    """Import what a session needs, so that its process is forked with it; starts no thread and no engine."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ["VLLM_CONFIGURE_LOGGING"] = "0"
    os.environ["VLLM_NO_USAGE_STATS"] = "1"
    sys.path.insert(0, str(ROOT))
    import lightning.pytorch
    import transformers
    import vllm.v1.engine.llm_engine  # noqa: F401

    import ada_lightning.programs.training_run  # noqa: F401

    _ = lightning.pytorch.Trainer, transformers.AutoModelForCausalLM


def start_session(overrides: Sequence[str], log_file: Path) -> int:
    """Fork a session of ``train.py`` with these overrides, in a process group of its own.

    Returns:
        Its process id.
    """
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        log = os.open(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        code = _run(overrides)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def exit_code(pid: int) -> int:
    """Wait for a session; return its exit code, negative for a signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _run(overrides: Sequence[str]) -> int:
    from hydra import compose, initialize_config_dir

    from ada_lightning.programs.start import CONFIG_DIR
    from ada_lightning.programs.train import run_job

    with initialize_config_dir(str(CONFIG_DIR), version_base="1.3"):
        cfg = compose("train", list(overrides))
    try:
        run_job(cfg)
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
            return 1
        return ended.code or 0
    return 0


class MemoryWatch:
    """Samples a process's resident memory twice a second until it is stopped or the process ends."""

    def __init__(self, pid: int) -> None:
        import psutil

        self._process = psutil.Process(pid)
        self._samples: list[tuple[float, float]] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def seconds(self) -> float:
        """From the first to the last sample."""
        return self._samples[-1][0] if self._samples else 0.0

    def stop(self) -> list[float]:
        """Return the highest memory in each quarter of the time, MB (10^6 bytes); 0 where there was no sample."""
        self._is_over.set()
        self._thread.join()
        end = self.seconds
        return [
            max((mb for at, mb in self._samples if quarter / 4 <= at / (end or 1.0) <= (quarter + 1) / 4), default=0.0)
            for quarter in range(4)
        ]

    def _work(self) -> None:
        import psutil

        started = time.monotonic()
        while not self._is_over.wait(0.5):
            try:
                self._samples.append((time.monotonic() - started, self._process.memory_info().rss / 1e6))
            except psutil.Error:
                return
