"""Files that anybody may have written: what is read of them, and what is refused, quickly and in words."""

from __future__ import annotations

import contextlib
import time

import pytest

from ada_lightning.audit.untrusted import RefusedFileError
from ada_lightning.objective.files import MAX_BYTES, Unresolved, read_file

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 10)
)
HOSTILE = {
    "large.yaml": ("key: " + "x" * 10 * 2**20, "KiB, more than"),
    "large.sh": ("python x.py " + "a=1 " * 3 * 2**20, "KiB, more than"),
    "deep.yaml": ("[" * 20000, "nested deeper than 30 levels"),
    "deeper.yaml": ("a: " + "{a: " * 40 + "1" + "}" * 40, "nested deeper than 30 levels"),
    "deep.json": ('{"a": ' * 20000 + "1" + "}" * 20000, "nested deeper than 30 levels"),
    "deep.toml": ("a = " + "[" * 20000, "nested deeper than 30 levels"),
    "dotted.toml": (".".join(["a"] * 5000) + " = 1", "nested deeper than 30 levels"),
    "python.yaml": ("a: !!python/object/apply:os.system ['touch hacked']", "tag .*os.system is not read"),
    "tag.yaml": ("a: !mine 3", "tag !mine is not read"),
    "laughs.yaml": (LAUGHS, "aliases repeated"),
    "itself.yaml": ("a: &a [*a]", r"alias \*a stands inside of what it names"),
    "many.yaml": ("".join(f"k{index}: 1\n" for index in range(30000)), "more than 20000 values"),
    "many.json": ("{" + ",".join(f'"k{index}":1' for index in range(30000)) + "}", "more than 20000 values"),
    "long.yaml": ("a: " + "x" * 30000, "more than 20000 characters"),
    "list.yaml": ("- 1\n- 2", "no mapping"),
    "number.yaml": ("1: 2", "is no text"),
    "broken.yaml": ("a: [1", "is not YAML"),
    "broken.json": ("{", "is not JSON"),
    "digits.json": ('{"a": ' + "9" * 5000 + "}", "is not JSON"),
    "bytes.yaml": (b"\xff\xfe\x00", "is not text"),
    "empty.yaml": ("", "no mapping"),
    "none.sh": ("echo hello", "no setting"),
    "quote.sh": ("python x.py 'a=1", "is not closed"),
    "grows.sh": (
        "A="
        + "x" * 100
        + "\n"
        + "".join(f"{b}=${a * 1}${a}${a}${a}${a}${a}${a}${a}\n" for a, b in zip("ABCD", "BCDE", strict=True)),
        "once its variables are put in",
    ),
    "args.bin": (b"\x80\x04.", "looks like a pickle"),
    "code.py": ("import os", "is not read; give .yaml"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_within_a_second(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content, message = HOSTILE[name]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    begin = time.process_time()
    with pytest.raises(RefusedFileError, match=message) as error:
        read_file(path)
    assert time.process_time() - begin < 1.0
    assert len(str(error.value)) < 400
    assert not (tmp_path / "hacked").exists()


def test_the_largest_file_of_each_kind_is_read_or_refused_within_a_second(tmp_path):
    half = MAX_BYTES // 2
    for name, text in {
        "a.yaml": "k: " + "[1," * 20 + "\n" + "'" + "x" * half,
        "a.sh": "python -m x " + " ".join(f"k{index}={'x' * 30}" for index in range(half // 40)),
        "a.toml": "".join(f"k{index} = 'xxxxxxxxxxxxxxxxxxxxxxxxxxxx'\n" for index in range(half // 40)),
        "a.json": '{"a": "' + "x" * half + '"}',
        "sixty.yaml": "a: 1" + ":1" * 9000,
    }.items():
        path = tmp_path / name
        path.write_text(text)
        begin = time.process_time()
        with contextlib.suppress(RefusedFileError):
            read_file(path)
        assert time.process_time() - begin < 1.0, name


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(RefusedFileError, match="does not exist"):
        read_file(tmp_path / "a.yaml")
    with pytest.raises(RefusedFileError, match="is a folder"):
        read_file(tmp_path)


def test_a_script_is_split_and_not_run(tmp_path):
    path = tmp_path / "run.sh"
    path.write_text(
        "#!/bin/bash\nset -x\nK=$((1024 * 4))\nL=$((1024 * 20 + $K))\nN=16  # responses\nexport M=${UNSET:-3}\ntouch "
        + str(tmp_path / "ran")
        + "\n"
        "python3 -m verl.trainer.main_ppo \\\n  a.n=${N} b=$M +c.d=$(nproc) \\\n"
        "  --flag --lr 1e-6 --words x y --eq=3 'list=[1,2]' e=$HOME/x f=$L g=$((L / 2)) && echo done=1\n"
    )
    content = read_file(path)
    assert not (tmp_path / "ran").exists()
    assert content.program == ("python3", "-m", "verl.trainer.main_ppo")
    assert content.settings == {
        "a.n": 16,
        "b": 3,
        "c.d": Unresolved("$(nproc)"),
        "flag": True,
        "lr": "1e-6",
        "words": ["x", "y"],
        "eq": 3,
        "list": [1, 2],
        "f": 24576,
        "g": Unresolved("$((L/2))"),
        "e": Unresolved("$HOME/x"),
    }


def test_references_of_composed_yaml_are_followed(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("a: {n: 4, m: '${a.n}', k: '${oc.select:a.n,1}', d: '${oc.select:a.x,7}', e: '${env:X}', f: '???'}")
    assert read_file(path).settings == {"a.n": 4, "a.m": 4, "a.k": 4, "a.d": 7, "a.e": Unresolved("${env:X}")}


def test_anchors_that_stay_small_are_read(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("base: &b {x: 1}\nmore: {<<: *b, y: 2}")
    assert read_file(path).settings == {"base.x": 1, "more.x": 1, "more.y": 2}


def test_a_launcher_and_variables_of_one_command_are_no_settings(tmp_path):
    path = tmp_path / "run.sh"
    path.write_text(
        "X=1 Y=a,b ray job submit --address=http://127.0.0.1 -- python3 -m openrlhf.cli.train_ppo_ray --a.n 2"
    )
    content = read_file(path)
    assert content.settings == {"a.n": 2}
    assert content.program == ("ray", "job", "submit", "python3", "-m", "openrlhf.cli.train_ppo_ray")
