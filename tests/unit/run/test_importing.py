"""What a program imports is never looked through for garbage, in a process of its own: tests freeze by themselves."""

from __future__ import annotations

import subprocess
import sys
import textwrap


def run(program):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


COUNTING = """
    import atexit, gc
    collections = []
    gc.callbacks.append(lambda phase, _: collections.append(phase))
    def make():
        made = [[index] for index in range(200_000)]
        for each in made:
            each.append(each)  # garbage that only a collection finds
        return made
    from ada_lightning.run.importing import importing, imports_stay_frozen
"""


def test_nothing_is_collected_while_importing_and_what_was_imported_is_frozen():
    inside, is_enabled, frozen = run(
        COUNTING
        + """
    collections.clear()
    with importing():
        kept = make()
        inside = len(collections)
    print(inside, gc.isenabled(), gc.get_freeze_count() >= 200_000)
    """
    )
    assert (inside, is_enabled, frozen) == ("0", "True", "True")


def test_what_came_between_two_blocks_is_not_kept_for_good():
    assert run(
        COUNTING
        + """
    with importing():
        pass
    frozen = gc.get_freeze_count()
    kept = make()
    with importing():
        pass
    print(gc.get_freeze_count() < frozen + 1_000)
    """
    ) == ["True"]


def test_garbage_of_later_is_collected_as_ever():
    assert run(
        COUNTING
        + """
    with importing():
        pass
    before = len(gc.get_objects())
    make()
    print(len(collections) > 0, gc.collect() >= 0, len(gc.get_objects()) < before + 1_000)
    """
    ) == ["True", "True", "True"]


def test_collections_stay_off_where_they_were_off_and_go_on_after_an_import_that_fails():
    assert run(
        COUNTING
        + """
    gc.disable()
    with importing():
        pass
    print(gc.isenabled())
    gc.enable()
    try:
        with importing():
            import no_such_module
    except ImportError:
        print(gc.isenabled())
    """
    ) == ["False", "True"]


def test_the_end_of_the_process_looks_for_nothing():
    """An object in a cycle is finalised by the last collection; none comes."""
    program = (
        COUNTING
        + """
    class Noisy:
        def __del__(self):
            print("collected", flush=True)
    with importing():
        pass
    noisy = Noisy()
    noisy.itself = noisy
    del noisy
    print("end", flush=True)
    """
    )
    assert run(program) == ["end"]
    without = program.replace("with importing():\n        pass", "pass")
    assert without != program
    assert run(without) == ["end", "collected"]


def test_nobody_thaws_or_freezes_inside_of_a_block_that_forbids_it():
    assert run(
        COUNTING
        + """
    with importing():
        kept = make()
    frozen = gc.get_freeze_count()
    with imports_stay_frozen():
        more = make()
        gc.freeze()
        gc.unfreeze()
        print(gc.get_freeze_count() == frozen)
    gc.unfreeze()
    print(gc.get_freeze_count())
    """
    ) == ["True", "0"]
