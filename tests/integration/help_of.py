"""Starts programs with ``--help``, all in one process, and names those that fail; ends with their number."""

from __future__ import annotations

import runpy
import sys
import traceback


def shows_help(file):
    sys.argv = [file, "--help"]
    try:
        runpy.run_path(file, run_name="__main__")
    except SystemExit as end:
        return not end.code
    except Exception:
        traceback.print_exc()
    return False


if __name__ == "__main__":
    failed = [file for file in sys.argv[1:] if not shows_help(file)]
    print("without help:", *failed, file=sys.stderr)
    sys.exit(len(failed))
