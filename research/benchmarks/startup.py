"""How long a program waits before it works: ``python -m research.benchmarks.startup [--imports]``.

Prints the processor time that a loop of one's own waits for its core. With ``--imports`` it measures what a run
imports, as Python does it and within :func:`ada_lightning.run.importing.importing`. Each is a process of its own, in
turn, from its start to its end. Writes ``docs/performance/startup.json``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

from ada_lightning.adapters import Core
from research.benchmarks.report import FOLDER, markdown, save

_IMPORTS = {
    "`rollout=transformers`": "import ada_lightning.programs.training_run",
    "`rollout=vllm_cpu`": "import ada_lightning.programs.training_run, vllm.v1.engine.llm_engine",
}
_WAYS = {
    "as it is": "{}",
    "uncollected": "from ada_lightning.run.importing import importing\nwith importing():\n    {}",
}


def main() -> None:
    """Print seconds of processor time for Python and the import, the first core and a second one."""
    imported = time.process_time()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--imports", action="store_true", help="measure what a run imports instead")
    parser.add_argument("--repeats", type=int, default=5, help="processes of each kind")
    given = parser.parse_args()
    if given.imports:
        return _imports(given.repeats)
    Core("ada_seq_balance", prompts=["a", "b"])
    made = time.process_time()
    Core("ada", prompts=["a", "b"])
    again = time.process_time()
    print(f"Python and import {imported:.2f} s, first core {made - imported:.2f} s, second {again - made:.2f} s")
    print(f"torch imported: {'torch' in sys.modules}")
    return None


def _imports(repeats: int) -> None:
    seconds: dict[tuple[str, str], list[float]] = {(what, way): [] for what in _IMPORTS for way in _WAYS}
    for _ in range(repeats):
        for (what, way), found in seconds.items():
            begin = time.monotonic()
            subprocess.run([sys.executable, "-c", _WAYS[way].format(_IMPORTS[what])], check=True)
            found.append(time.monotonic() - begin)
            print(what, way, f"{found[-1]:.1f} s", flush=True)
    save("startup", rows=[{"imports": what, "way": way, "seconds": found} for (what, way), found in seconds.items()])


def table() -> str:
    """Return the table of imports, with medians and the ratio of each."""
    rows = json.loads((FOLDER / "startup.json").read_text())["rows"]
    medians = {(row["imports"], row["way"]): statistics.median(row["seconds"]) for row in rows}
    return markdown(
        ["what a run imports", "collected", "here", "ratio"],
        [
            (what, f"{medians[what, 'as it is']:.1f} s", f"{medians[what, 'uncollected']:.1f} s",
             f"{medians[what, 'as it is'] / medians[what, 'uncollected']:.2f}")
            for what in _IMPORTS
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
