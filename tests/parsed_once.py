"""The project's YAML files are parsed once in a process."""

from __future__ import annotations

from pathlib import Path

from omegaconf import OmegaConf


def parse_once():
    """From now on; returns what ends it.

    Composing a command reads a hundred small files, and PyYAML, which is Python, takes most of that time to parse them.
    What is kept is kept by the text of a file: one that changes is parsed again.
    """
    load, parsed = OmegaConf.load, {}

    def load_once(file_):
        if hasattr(file_, "read"):
            text = file_.read()
            file_.seek(0)
        else:
            text = Path(file_).read_text(encoding="utf-8")
        if text not in parsed:
            parsed[text] = OmegaConf.to_container(load(file_))  # not resolved
        return OmegaConf.create(parsed[text])

    def undo():
        OmegaConf.load = staticmethod(load)

    OmegaConf.load = staticmethod(load_once)
    return undo
