"""What checking checkpoints costs: ``python -m research.benchmarks.checkpoint_cost``.

Writes files of the sizes that a checkpoint of SmolLM2-135M has (float32 weights; both moments of AdamW), makes the
manifest and verifies it; beside it what SHA-256 would take. Writes ``docs/reliability/checkpoint_cost.json``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import tempfile
import time
from pathlib import Path

from ada_lightning.run.checkpoints import damage, write_manifest
from research.benchmarks.report import RELIABILITY, save

SIZES = {"policy/model.safetensors": 538_090_408, "trainer.ckpt": 1_076_340_000}
"""Bytes, as a run with SmolLM2-135M leaves them."""


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="of each measurement; the median counts")
    arguments = parser.parse_args()
    rows = [_measure() for _ in range(arguments.repeats)]
    medians = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    print(medians)
    save("checkpoint_cost", folder=RELIABILITY, gigabytes=sum(SIZES.values()) / 1e9, seconds=medians)


def _measure() -> dict[str, float]:
    block = os.urandom(2**24)
    with tempfile.TemporaryDirectory(prefix="ada_lightning-") as temporary:
        folder = Path(temporary)
        (folder / "policy").mkdir()
        started = time.perf_counter()
        for name, size in SIZES.items():
            with (folder / name).open("wb") as file:
                for start in range(0, size, len(block)):
                    file.write(block[: size - start])
                file.flush()
                os.fsync(file.fileno())
        written = time.perf_counter()
        write_manifest(folder)
        listed = time.perf_counter()
        assert not damage(folder)
        verified = time.perf_counter()
        for name in SIZES:
            with (folder / name).open("rb") as file:
                hashlib.file_digest(file, "sha256")
        hashed = time.perf_counter()
    return {
        "write": written - started,
        "manifest": listed - written,
        "verify": verified - listed,
        "sha256": hashed - verified,
    }


if __name__ == "__main__":
    main()
