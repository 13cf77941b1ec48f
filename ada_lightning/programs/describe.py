"""Prints a method (an experiment), an option or a group of options: what it is, and what each setting means."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ada_lightning.config.described import described, overview
from ada_lightning.methods.catalog import add_own
from ada_lightning.run.terminal import start_of, until_nobody_reads

EXAMPLES = """
examples:
  {start}                        list all methods and all groups of options
  {start} grpo_chosen            explain a method
  {start} sampler                list the options of a group
  {start} sampler/knapsack       explain an option and each of its settings

What it prints is YAML. To change a method, save it as my_conf/experiment/mine.yaml and edit it.
Then train with --config-dir my_conf +experiment=mine.
"""


@until_nobody_reads()
def main(argv: Sequence[str] | None = None) -> None:
    """Print what was asked for."""
    start = " ".join(start_of("describe"))
    parser = argparse.ArgumentParser(
        prog=start,
        description="List all methods and options, or explain one of them with its settings.",
        epilog=EXAMPLES.format(start=start),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "name", nargs="?", default="", help="a method, group/option or group; without it, a list of all"
    )
    parser.add_argument("--config-dir", type=Path, help="a folder with your own options and methods")
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
