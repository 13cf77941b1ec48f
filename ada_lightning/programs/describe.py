"""Prints an experiment, an option or a group of options: what it is, its settings, and what each of them means."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ada_lightning.config.described import described, overview
from ada_lightning.methods.catalog import add_own
from ada_lightning.run.terminal import start_of

EXAMPLES = """
examples:
  {start}                        which experiments and groups there are
  {start} grpo_chosen            an experiment as YAML: save it as my_conf/experiment/mine.yaml, change it, and
                                      train with --config-dir my_conf +experiment=mine
  {start} sampler                the options of a group
  {start} sampler/knapsack       an option with what each of its settings means
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Print what was asked for."""
    start = " ".join(start_of("describe"))
    parser = argparse.ArgumentParser(
        prog=start,
        description="Print an experiment or an option as YAML with comments, or the options of a group.",
        epilog=EXAMPLES.format(start=start),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", default="", help="experiment, group/option or group (default: a list)")
    parser.add_argument("--config-dir", type=Path, help="a folder of your own, as train.py takes it")
    arguments = parser.parse_args(argv)
    name, own = arguments.name, arguments.config_dir
    try:
        if own is not None:
            add_own(own)
        is_own = own is not None and any((own / f"{path}.yaml").is_file() for path in (name, f"experiment/{name}"))
        print((described(name, own) if is_own else described(name)) if name else overview())
    except (ImportError, LookupError, TypeError, ValueError) as error:
        sys.exit(f"error: {error.args[0]}")


if __name__ == "__main__":
    main()
