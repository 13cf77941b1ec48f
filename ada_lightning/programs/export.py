"""Writes a run's weights as a Hugging Face folder with a model card, and pushes it where that is asked for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ada_lightning.analysis.export.folder import PushError, check_destination, check_output, push_folder, write_folder
from ada_lightning.analysis.export.source import find_source
from ada_lightning.run.terminal import start_of, until_nobody_reads

EXAMPLES = """
examples:
  {start} runs/ada-20261121-064238                     exported/ada-20261121-064238-step_000030
  {start} my_run --average --output exported/mine      the average of the weights
  {start} my_run --checkpoint step_000020 --evaluation evaluations/my_run-step_000020-paper
  {start} my_run --push organisation/name              as a private model; --public shows it to everybody

The model card contains the command of the run. Before you push, check README.md for paths that should stay private.
"""


@until_nobody_reads()
def main(argv: Sequence[str] | None = None) -> None:
    """Check everything, then write, then push."""
    arguments = _arguments(argv)
    try:
        source = find_source(
            arguments.run, checkpoint=arguments.checkpoint, average=arguments.average, runs_dir=arguments.runs_dir
        )
        output = arguments.output or Path("exported") / source.label
        check_output(output)
        if arguments.push:
            account = check_destination(arguments.push)
            print(f"pushing to {arguments.push} as {account}", flush=True)
        files = write_folder(source, output, evaluations=arguments.evaluation)
        size = sum(file.stat().st_size for file in files)
        print(f"{output}: {len(files)} files, {size / 1e6:.1f} MB, with the card {output / 'README.md'}", flush=True)
        if arguments.push:
            message = f"{source.label}: {source.policy_version} updates"
            print(push_folder(output, arguments.push, is_public=arguments.public, message=message))
    except (ValueError, OSError, PushError) as error:
        sys.exit("\n".join(f"error: {line}" for line in str(error).splitlines()))


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    start = " ".join(start_of("export"))
    parser = argparse.ArgumentParser(
        prog=start,
        description="Write the weights of a run as a Hugging Face folder with a model card, and push it on request.",
        epilog=EXAMPLES.format(start=start),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", help="folder of a run, or its name")
    parser.add_argument(
        "--output", type=Path, help="folder to write; it must not exist (default: exported/<run>-<step>)"
    )
    parser.add_argument("--checkpoint", default="", help="checkpoint to export, step_<n> (default: the last)")
    parser.add_argument("--average", action="store_true", help="export the average of the weights, if the run kept one")
    parser.add_argument(
        "--evaluation",
        type=Path,
        action="append",
        default=[],
        help="folder of an evaluation of these weights, for the card",
    )
    parser.add_argument("--push", metavar="ORGANISATION/NAME", help="push the folder to this model on the hub")
    parser.add_argument("--public", action="store_true", help="make a new model on the hub public (default: private)")
    parser.add_argument(
        "--runs-dir", type=Path, default=Path("runs"), help="folder in which runs are found by name (default: runs)"
    )
    arguments = parser.parse_args(argv)
    if arguments.public and not arguments.push:
        parser.error("--public has no effect without --push organisation/name")
    return arguments


if __name__ == "__main__":
    main()
