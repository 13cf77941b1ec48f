"""The cache of options and files: it never has more, less or other than the sources say, and nothing fails by it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from ada_lightning.config import generated
from ada_lightning.core.options import OPTIONS
from ada_lightning.methods import catalog
from ada_lightning.methods.catalog import Entry, add_own, cached, listed
from ada_lightning.methods.recipe import RECIPES

MADE = {"sampler/a": Entry({"n": 1}, None, "text")}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ADA_LIGHTNING_CACHE", str(tmp_path / "cache"))
    sources = tmp_path / "sources"
    (sources / "below").mkdir(parents=True)
    (sources / "below" / "a.py").write_text("x")
    return sources


@pytest.fixture
def read(folder):
    def entries(**settings):
        made = []
        found = cached("t", folder, ".py", lambda: made.append(1) or dict(MADE), **settings)
        assert found == MADE
        return "made" if made else "read"

    return entries


def stored(folder):
    (file,) = (folder.parent / "cache").glob("t-*.json")
    return file


def test_it_is_read_until_a_file_changes(folder, read):
    assert [read(), read()] == ["made", "read"]
    (folder / "below" / "b.py").write_text("y")
    assert [read(), read()] == ["made", "read"]


def test_a_file_of_the_same_size_and_time_is_another_one(folder, read):
    """As in images of containers, whose files are all of one time."""
    file = folder / "below" / "a.py"
    os.utime(file, (0, 0))
    read()
    file.write_text("z")
    os.utime(file, (0, 0))
    assert read() == "made"


@pytest.mark.parametrize(
    "entries", [[], None, {"a": None}, {"a": {}}, {"a": [1]}, {"a": [{}, None]}, [["a", [{}, None, ""]]]]
)
def test_wrong_entries_are_made_again(folder, read, entries):
    read()
    file = stored(folder)
    file.write_text(json.dumps({"state": json.loads(file.read_text())["state"], "entries": entries}))
    assert [read(), read()] == ["made", "read"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\0", "[" * 100_000])
def test_what_is_no_cache_is_made_again(folder, read, text):
    read()
    stored(folder).write_text(text)
    assert [read(), read()] == ["made", "read"]


def test_what_others_could_have_written_is_not_read(folder, read):
    """An entry names a class that the program makes."""
    read()
    assert stored(folder).stat().st_mode & 0o777 == 0o600
    stored(folder).chmod(0o666)
    assert [read(), read()] == ["made", "read"]


def test_what_may_differ_from_the_files_is_not_kept(folder, read):
    assert [read(is_current=lambda: False), read()] == ["made", "made"]


def test_nothing_is_left_where_it_cannot_be_written(folder, read, monkeypatch):
    def full(*args):
        raise OSError("no space left on device")

    monkeypatch.setattr(catalog.json, "dump", full)
    assert [read(), read()] == ["made", "made"]
    assert [*(folder.parent / "cache").iterdir()] == []


def test_a_user_without_a_home_has_no_cache(folder, read, monkeypatch):
    def without_home(path):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(catalog.Path, "expanduser", without_home)
    assert [read(), read()] == ["made", "made"]


def test_what_editors_put_beside_a_file_is_none(folder, read):
    (folder / "below" / ".#a.py").symlink_to("user@host.123")
    (folder / "dangling.py").symlink_to("nowhere")
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints" / "a-checkpoint.py").write_text("x")
    assert listed(folder, ".py") == [folder / "below" / "a.py"]
    assert read() == "made"


OWN = """
from ada_lightning.core.options import option
from ada_lightning.core.protocols import Sampler
from ada_lightning.methods.recipe import Recipe, known

@option("sampler", "of_a_script")
class Mine(Sampler):
    "Mine."

known(Recipe(name="of_a_script", text="Mine.", sampler=Mine))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A fresh process: what it prints, and the options that it left in the cache."""
    place = tmp_path_factory.mktemp("cache")
    variables = {**os.environ, "ADA_LIGHTNING_CACHE": str(place), "PYTHONPATH": str(Path(__file__).parents[3])}

    def run(script):
        done = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True)
        return (done.stdout or done.stderr).strip(), "".join(file.read_text() for file in place.glob("options-*"))

    return run


@pytest.mark.long
def test_options_of_a_script_do_not_get_into_the_cache_of_all(run):
    script = OWN + "from ada_lightning.methods.catalog import entries\nprint(len(entries()) > 200, *entries())"
    said, kept = run(script)
    assert said.startswith("True ")
    assert "of_a_script" not in said
    assert kept == ""


@pytest.mark.parametrize("name", ["sampler/uniform", "experiment/grpo"])
def test_a_name_that_ships_is_refused_where_the_cache_has_it_and_nothing_is_imported(run, tmp_path, name):
    load = "from ada_lightning.methods.catalog import add_own, entries\nentries()\n"
    run(load)
    group, option = name.split("/")
    text = OWN.replace('("sampler", "of_a_script")', f'("{group}", "{option}")') if group == "sampler" else OWN
    text = text if group == "sampler" else text.replace('name="of_a_script"', f'name="{option}"')
    (tmp_path / "mine.py").write_text(text)
    said, _ = run(load + f"from pathlib import Path\nadd_own(Path({str(tmp_path)!r}))")
    assert said.endswith(f"ValueError: {name} already exists in this package; choose another name")


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(catalog, "_ENTRIES", dict(catalog.entries()))
    for module in catalog.marked_modules():  # where the entries come from the cache, nothing is registered yet
        import_module(module)
    before, shipped = {*sys.modules}, {*catalog.entries()}
    yield tmp_path
    for group in OPTIONS:  # what a test's own modules registered goes with them
        for name in [name for name in OPTIONS[group] if f"{group}/{name}" not in shipped]:
            del OPTIONS[group][name]
    for name in [name for name in RECIPES if f"experiment/{name}" not in shipped]:
        del RECIPES[name]
    for name in {*sys.modules} - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("known(Recipe(name='grpo', text='Mine.'))\nKNOWN = known(\n)", "there is a method grpo already"),
        ("@option('sampler', 'uniform')\nclass U(Sampler): ...", "sampler=uniform"),
        ("1 / 0\n@option('a', 'b')\nclass A: ...", "line 5: ZeroDivisionError: division by zero"),
        ("@option('a', 'b'", "SyntaxError"),
        ("import sys\nassert sys.platform == 'plan9'\n@option('a', 'b')\nclass A: ...", "line 6: AssertionError"),
        ("nothing()\n@option('a', 'b')\nclass A: ...", "line 5: NameError: name 'nothing' is not defined"),
    ],
)
def test_a_wrong_module_of_ones_own_is_answered_by_its_name_and_line(own, text, said):
    head = OWN.split("@option")[0].lstrip()
    (own / "my_wrong_method.py").write_text(head + text)
    with pytest.raises(
        (ImportError, ValueError), match=r"my_wrong_method\.py|already exists in this package"
    ) as caught:
        add_own(own)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "import ada_lightning.core.options as o\n@o.option('a', 'b')",
        "from ada_lightning.methods.recipe import Recipe, known\nX = known(Recipe(name='x', text='X.'))",
    ],
)
def test_a_module_of_ones_own_is_known_however_it_is_laid_out(own, text):
    (own / "my_layout.py").write_text(f"{text}\nraise OSError('it was imported')")
    with pytest.raises(ImportError, match=r"my_layout\.py"):
        add_own(own)


def test_nothing_of_pythons_is_hidden_by_a_folder_of_ones_own(own):
    """A module there may have the name of one that is not loaded yet."""
    (own / "colorsys.py").write_text("raise AssertionError('hidden')")
    (own / "loop.py").write_text("from ada_lightning.adapters.core import Core\nraise AssertionError('run')")
    (own / "my_words.py").write_text(
        "from ada_lightning.core.options import option\nclass Plain: ...\n# option() is not called here"
    )
    sys.modules.pop("colorsys", None)
    assert add_own(own) == ["my_words"]
    import colorsys

    assert colorsys.__file__ != str(own / "colorsys.py")


def test_a_file_that_json_cannot_hold_is_read_anew_and_a_broken_one_concerns_nobody_else(tmp_path, monkeypatch):
    monkeypatch.setattr(generated, "CONFIG_DIR", tmp_path)
    (tmp_path / "a.yaml").write_text("{1: 2, 2: .inf}")
    (tmp_path / "b.yaml").write_text("a: [")
    (tmp_path / "c.yaml").write_text("# @package x\na: 1")
    found = generated._read()
    assert {name: entry.node for name, entry in found.items()} == {"a": None, "b": None, "c": {"a": 1}}
    assert found["c"].package == "x"
    monkeypatch.setattr(generated, "files", lambda: found)
    source = generated.GeneratedSource("x", "ada://conf")
    assert OmegaConf.to_container(source.load_config("a").config) == {1: 2, 2: float("inf")}
    with pytest.raises(generated.ConfigLoadError, match=r"b\.yaml: while parsing"):
        source.load_config("b")
