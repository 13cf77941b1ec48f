"""Runs ``docs/slurm_ray.sh`` over the three hosts: ``python -m research.hosts.slurm``.

Slurm itself is not there. ``srun`` and ``scontrol`` are two lines each, which enter the host that is asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from research.hosts.cluster import QUIET, SMALL
from research.hosts.network import ROOT, network

_SRUN = """#!/bin/bash
while [[ $1 == -* ]]; do [[ $1 == -w ]] && { node=$2; shift; }; shift; done
host=HOST_$node; exec nsenter -t "${!host}" -m -u -i -n -p env -C "$PWD" "$@"
"""
_SCONTROL = """#!/bin/bash
printf '%s\\n' ${3//,/ }
"""
_OF_THE_SCRIPT = ("+experiment=", "data.source.num_train=")
"""What the script says itself, or its data have no use for."""


def main() -> None:
    """Run the script on a tiny model, and end with its code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("options", nargs="*", help="more options of the run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ada_lightning-runs-") as temporary, network() as hosts:
        folder = Path(temporary)
        for name, text in (("srun", _SRUN), ("scontrol", _SCONTROL)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        problems = [json.dumps({"problem": f"{n} + {n} = ?", "answer": str(2 * n)}) for n in range(60)]
        (folder / "problems.jsonl").write_text("\n".join(problems) + "\n")
        options = [word for word in SMALL if not word.startswith(_OF_THE_SCRIPT)]
        tiny = (
            f"data.source.path={folder / 'problems.jsonl'}", f"run_dir={folder / 'run'}", "num_steps=2",
            "trainer=cpu", "rollout.engine.dtype=float32", "rollout.engine.kv_cache_gib=0.05", *arguments.options,
        )  # fmt: skip
        variables = {
            **os.environ, **QUIET, "SLURM_JOB_NODELIST": "a,b,c", "ROLLOUT": "ray",
            "PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            **{f"HOST_{name}": str(host.pid) for name, host in hosts.hosts.items()},
        }  # fmt: skip
        script = ["bash", str(ROOT / "docs/slurm_ray.sh"), *options, *tiny]
        code = subprocess.run(script, env=variables, cwd=ROOT, check=False).returncode
    sys.exit(code)


if __name__ == "__main__":
    main()
