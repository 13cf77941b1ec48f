"""Record what every method does: ``python -m tests.tapes.record``, or with names of cases for those alone.

``--check`` compares instead, with every latency; ``tests/unit/test_tapes.py`` does so with some.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence

from tests.tapes import cases, driver, tape, world
from tests.tapes.compare import SUMMED, compare, differences


def main() -> int:
    """Return the number of cases that differ or cannot be recorded."""
    parser = argparse.ArgumentParser(prog="python -m tests.tapes.record", description=__doc__)
    parser.add_argument("names", nargs="*", help="cases; all where none is named")
    parser.add_argument("--check", action="store_true", help="compare with what is recorded, write nothing")
    arguments = parser.parse_args()
    known = {case.name: case for case in cases.all_cases(driver.is_for_two_classes)}
    if unknown := {*arguments.names} - {*known}:
        parser.error(f"no case is named {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    started, num_bad, num_bytes = time.perf_counter(), 0, 0
    chosen = [known[name] for name in arguments.names] or list(known.values())
    for case in chosen:
        try:
            if arguments.check:
                found = list(differences_now(case.name, world.LATENCIES))
                print(*found[:5], sep="\n", end="\n" * bool(found))
                num_bad += bool(found)
            else:
                num_bytes += tape.write(tape.record(case, driver.play, driver.choices(case))).stat().st_size
        except (tape.LatencyMattersError, FileNotFoundError) as error:
            print(error, file=sys.stderr)
            num_bad += 1
    if not arguments.names and not arguments.check:
        for path in tape.FOLDER.glob("*.json.gz"):
            if path.name.removesuffix(".json.gz") not in known:
                path.unlink()
    print(f"{len(chosen)} cases, {num_bytes / 1e6:.2f} MB, {time.perf_counter() - started:.0f} s; {num_bad} failed")
    return num_bad


def differences_now(name: str, latencies: Sequence[world.Latency]) -> Iterator[str]:
    """Yield a line for everything that is not as a tape says, played with each of these latencies."""
    old = tape.read(tape.FOLDER / f"{name}.json.gz")
    case = tape.case_of(old)
    summed = (*SUMMED, ".advantages") if name.startswith("reward_distillation") else SUMMED
    for latency in latencies:
        steps, launched = tape.split(driver.play(case, latency))
        yield from (f"{name}, {latency.name}: {line}" for line in differences(old["steps"], steps, summed))
        yield from compare(f"{name}, {latency.name}: launched and dropped", old["launched"][latency.name], launched)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
