"""Writes a run's weights as a Hugging Face folder with a model card, and pushes it where that is asked for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ada_lightning.analysis.export.folder import PushError, check_destination, check_output, push_folder, write_folder
from ada_lightning.analysis.export.source import find_source
from ada_lightning.run.terminal import start_of

EXAMPLES = """
examples:
  {start} runs/ada-20261121-064238                     exported/ada-20261121-064238-step_000030
  {start} my_run --average --output exported/mine      the average of the weights
  {start} my_run --checkpoint step_000020 --evaluation evaluations/my_run-step_000020-paper
  {start} my_run --push organisation/name              as a private model; --public shows it to everybody

The card says what the run's command was: look at README.md before you push, if paths in it are nobody's business.
"""


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
        description="Write a run's weights as a Hugging Face folder with a model card; push it where asked.",
        epilog=EXAMPLES.format(start=start),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", help="folder of a run, or its name")
    parser.add_argument("--output", type=Path, help="the folder, which must not exist (default: exported/<run>-<step>)")
    parser.add_argument("--checkpoint", default="", help="one of the run's checkpoints, step_<n> (default: the last)")
    parser.add_argument("--average", action="store_true", help="the average of the weights, where the run kept one")
    parser.add_argument(
        "--evaluation", type=Path, action="append", default=[], help="evaluation of these weights, for the card"
    )
    parser.add_argument("--push", metavar="ORGANISATION/NAME", help="model on the hub to push the folder to")
    parser.add_argument("--public", action="store_true", help="everybody may see a model that --push makes")
    parser.add_argument("--runs-dir", type=Path, default=Path("runs"), help="where runs are by name (default: runs)")
    arguments = parser.parse_args(argv)
    if arguments.public and not arguments.push:
        parser.error("--public has no effect without --push organisation/name")
    return arguments


if __name__ == "__main__":
    main()
