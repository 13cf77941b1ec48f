"""Prints an experiment, an option or a group of options: what it is, its settings, and what each of them means."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ada_lightning.config.described import described, overview
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
    name = parser.parse_args(argv).name
    try:
        print(described(name) if name else overview())
    except LookupError as error:
        sys.exit(f"error: {error.args[0]}")


if __name__ == "__main__":
    main()
