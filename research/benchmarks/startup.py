"""How long a loop of one's own waits for its core: ``python -m research.benchmarks.startup``."""

from __future__ import annotations

import sys
import time

from ada_lightning.adapters import Core


def main() -> None:
    """Print seconds of processor time for Python and the import, the first core and a second one."""
    imported = time.process_time()
    Core("ada_seq_balance", prompts=["a", "b"])
    made = time.process_time()
    Core("ada", prompts=["a", "b"])
    again = time.process_time()
    print(f"Python and import {imported:.2f} s, first core {made - imported:.2f} s, second {again - made:.2f} s")
    print(f"torch imported: {'torch' in sys.modules}")


if __name__ == "__main__":
    main()
