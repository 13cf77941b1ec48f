"""Lists all options and experiments, as the classes and recipes of the package declare them.

Kept in a cache, so that a command line is read without importing torch, and made anew when a module changes.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from typing import Any

import ada_lightning

PACKAGE = Path(ada_lightning.__file__).parent
MARK = re.compile(r"^(@option|preset|add)\(|\bknown\($", re.MULTILINE)
"""What stands in a module of the package that has options or recipes."""
OWN_MARK = re.compile(r"(?s)\bada_lightning\b.*\b(option|preset|known)\(")
"""The same for one's own, however they are imported and laid out."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An option or an experiment, as Hydra composes it."""

    node: Any
    """Its mapping; None of a file that is read anew whenever it is asked for (``config/generated.py``)."""
    package: str | None
    text: str


_ENTRIES: dict[str, Entry] = {}


def entries() -> Mapping[str, Entry]:
    """Return every option and experiment of the package by its path: ``sampler/balance``, ``experiment/paper/grpo``."""
    if not _ENTRIES:
        _ENTRIES.update(cached("options", PACKAGE, ".py", _made, is_current=_is_untouched))
    return _ENTRIES


def named_by(config_dir: Path, group: str, *keys: str) -> frozenset[str]:
    """Return what the options of a group, and of groups within it, name under some keys; ``_target_`` unless given."""
    wanted = keys or ("_target_",)
    pattern = rf"(?:{'|'.join(wanted)}): *([\w.]+)"
    files = listed(config_dir / group, ".yaml")
    nodes = [each.node for path, each in entries().items() if path.startswith(f"{group}/")]
    in_files = {name for file in files for name in re.findall(pattern, file.read_text("utf-8"))}
    return frozenset(in_files | {name for node in nodes for name in values_of(node, wanted)})


def names(config_dir: Path, group: str) -> list[str]:
    """Names of the options of a group, files and those made from classes; without those of groups within it."""
    return [name for name in all_names(config_dir, group) if "/" not in name and not name.startswith("_")]


def groups(config_dir: Path, within: str = "") -> list[str]:
    """Names of the groups within a group, at any depth; or of all."""
    folders = {path.parent.relative_to(config_dir).as_posix() for path in listed(config_dir, ".yaml")} - {"."}
    made = {path.rpartition("/")[0] for path in entries()}
    return sorted(name for name in folders | made if not within or name.startswith(f"{within}/"))


def experiments(config_dir: Path) -> list[str]:
    """Names of all experiments, those within a folder with its name."""
    return all_names(config_dir, "experiment")


def all_names(config_dir: Path, group: str) -> list[str]:
    """Names of the options of a group, and of those of groups within it by their path below the group."""
    folder = config_dir / group
    files = {path.relative_to(folder).with_suffix("").as_posix() for path in listed(folder, ".yaml")}
    made = {path.removeprefix(f"{group}/") for path in entries() if path.startswith(f"{group}/")}
    return sorted(files | made)


def add_own(folder: Path) -> list[str]:
    """Import the modules of a folder that have options or recipes, and add these.

    For the folder of ``--config-dir``, whose files name classes to run already. It becomes importable, so that stored
    configurations find the classes by the modules' names.

    Returns:
        Names of the modules.

    Raises:
        ImportError: a module fails, or has the name of another one.
        ValueError: an option or a recipe has the name of one that ships.
    """
    own = [path for path in listed(folder, ".py") if path.parent == folder and _is_marked(path, OWN_MARK)]
    if not own:
        return []
    shipped = dict(entries())  # before anything of one's own is registered
    if str(folder.resolve()) not in sys.path:
        sys.path.append(str(folder.resolve()))  # last: a file there never takes the place of a module of Python's
    for path in own:
        _import_own(path)
    found = _collected()
    if taken := [name for name, entry in found.items() if shipped.get(name, entry) != entry]:
        raise ValueError(f"{', '.join(taken)} already exists in this package; choose another name")
    _ENTRIES.update(found)
    return [path.stem for path in own]


def _import_own(path: Path) -> None:
    if not path.stem.isidentifier():
        raise ImportError(f"{path.name}: the name of a module may only have letters, digits and _")
    try:
        module = import_module(path.stem)
    except Exception as error:
        places = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path.resolve())]
        place = f"{path.name}, line {places[-1]}" if places else path.name
        raise ImportError(f"{place}: {type(error).__name__}: {error}") from error
    if Path(str(getattr(module, "__file__", ""))).resolve() != path.resolve():
        other = getattr(module, "__file__", "a part of Python")
        raise ImportError(f"{path} has the name of another module, {other}; give the file another name")


def values_of(node: Any, keys: Collection[str]) -> Iterator[str]:
    """Texts that stand under some keys, at any depth."""
    if isinstance(node, Mapping):
        yield from (value for key, value in node.items() if key in keys and isinstance(value, str))
        node = list(node.values())
    for value in node if isinstance(node, list) else ():
        yield from values_of(value, keys)


def _made() -> dict[str, Entry]:
    """Import what is marked, and collect it. What a script has registered itself is left out."""
    for module in marked_modules():
        import_module(module)
    from ada_lightning.core.options import OPTIONS
    from ada_lightning.methods.find import recipe_modules
    from ada_lightning.methods.recipe import RECIPES

    options = [each for group in OPTIONS.values() for each in group.values() if each.kind is not None]
    own = {f"{each.group}/{each.name}" for each in options if not each.kind.__module__.startswith("ada_lightning.")}
    own |= {f"experiment/{name}" for name in RECIPES.keys() - recipe_modules().keys()}
    return {path: entry for path, entry in _collected().items() if path not in own}


def _is_untouched() -> bool:
    """Whether nothing is registered yet, neither by a module of one's own nor by one whose file has changed since."""
    return not _collected()


def _collected() -> dict[str, Entry]:
    """Options and recipes of all modules imported so far."""
    from ada_lightning.core.options import OPTIONS  # not needed where the cache has all: command lines load no methods
    from ada_lightning.methods.recipe import RECIPES

    options = [option for group in OPTIONS.values() for option in group.values()]
    made = {f"{each.group}/{each.name}": Entry(each.node, each.package, each.text) for each in options}
    recipes = {f"experiment/{name}": each for name, each in RECIPES.items()}
    return made | {path: Entry(each.node, "_global_", " ".join(each.text.split())) for path, each in recipes.items()}


def marked_modules() -> Iterator[str]:
    """Names of the modules that have options or recipes."""
    for path in listed(PACKAGE, ".py"):
        if _is_marked(path):
            yield ".".join(["ada_lightning", *path.relative_to(PACKAGE).with_suffix("").parts])


def _is_marked(path: Path, mark: re.Pattern[str] = MARK) -> bool:
    return mark.search(path.read_text(encoding="utf-8")) is not None


def listed(folder: Path, ending: str) -> list[Path]:
    """Return the files at and below a folder, without hidden ones: editors put those next to an open file."""
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = [os.path.join(place, name) for name in files if name.endswith(ending) and not name.startswith(".")]
        found += [Path(path) for path in paths if os.path.isfile(path)]
    return sorted(found)


def cached(
    name: str,
    folder: Path,
    ending: str,
    make: Callable[[], dict[str, Entry]],
    is_current: Callable[[], bool] = lambda: True,
) -> dict[str, Entry]:
    """Return entries that are made of the files of a folder, from a cache where no file has changed since.

    Args:
        name: of the cache, which is a file in ``$ADA_LIGHTNING_CACHE``, by default ``~/.cache/ada_lightning``.
        folder: with all folders in it.
        ending: of the files' names.
        make: makes the entries.
        is_current: whether what is made will be what the files say; only then is it kept.
    """
    try:
        root = Path(os.environ.get("ADA_LIGHTNING_CACHE") or "~/.cache/ada_lightning").expanduser()
    except RuntimeError:  # a user without a home, as containers have
        return make()
    file = root / f"{name}-{blake2b(str(folder).encode(), digest_size=6).hexdigest()}.json"
    state = _state(folder, ending)
    if (stored := _read(file, state)) is not None:
        return stored
    keep = is_current()
    found = make()
    if keep:
        _write(file, {"state": state, "entries": {path: [e.node, e.package, e.text] for path, e in found.items()}})
    return found


def _read(file: Path, state: str) -> dict[str, Entry] | None:
    """Return what a cache has; None where there is none of this state, or another user could have written it."""
    try:
        with file.open(encoding="utf-8") as stream:
            facts = os.fstat(stream.fileno())
            if facts.st_uid not in (0, os.geteuid()) or facts.st_mode & 0o022:
                return None
            stored = json.load(stream)
        if stored["state"] == state:
            return {path: Entry(*entry) for path, entry in stored["entries"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):  # none that can be read
        pass
    return None


def _state(folder: Path, ending: str) -> str:
    """Digest of names, sizes and times of files. The inode's time counts too: images often set all file times alike."""
    found = blake2b(digest_size=16)
    for path in listed(folder, ending):
        facts = path.stat()
        found.update(f"{path} {facts.st_size} {facts.st_mtime_ns} {facts.st_ctime_ns}\n".encode())
    return found.hexdigest()


def _write(file: Path, content: Mapping[str, Any]) -> None:
    """Write a cache, whole or not at all. Where nothing can be written, the next start makes it again.

    The file is its owner's alone, whatever the umask: :func:`_read` takes none that others may write.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(content, stream)
            os.replace(name, file)
        except OSError:
            os.unlink(name)
    except OSError:
        return
