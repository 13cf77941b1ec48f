"""The guide to methods of one's own: its code, its files and its command, as they stand on the page."""

from __future__ import annotations

import json
import re

import pytest

from tests.integration.conftest import QUIET, ROOT, SMALL, WITHOUT_VLLM

pytestmark = pytest.mark.vllm
PAGE = (ROOT / "docs" / "extending.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_runs(programs, store, tmp_path):
    blocks = BLOCK.findall(PAGE)
    (code,) = [text for language, text in blocks if language == "python"]
    (name,) = re.findall(r"^`(my_conf/\w+\.py)`", PAGE, re.MULTILINE)
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text(code)
    (line,) = [text.strip() for language, text in blocks if not language]
    program, *arguments = line.removeprefix("python ").split()
    options = [*SMALL, *WITHOUT_VLLM, *QUIET[1:], "~callbacks.preview", f"run_dir={tmp_path}/run"]
    options.append(f"logger.mlflow.tracking_uri={store}")
    result = programs.run(program, *arguments, *options, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "f(p) = log p (p: pass rate), exactly as far as 16 responses can see" in result.stdout
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["status"], summary["policy_version"]) == ("finished", 2)
