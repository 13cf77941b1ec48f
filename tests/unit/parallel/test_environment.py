from __future__ import annotations

import pytest

from ada_lightning.parallel import environment


@pytest.mark.parametrize(("rank", "code", "has_waited"), [("0", "error: no such key", False), ("1", 1, True)])
def test_the_first_process_says_what_is_wrong_before_any_other_ends(monkeypatch, rank, code, has_waited):
    waited = []
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setattr(environment.time, "sleep", waited.append)
    with pytest.raises(SystemExit) as ended:
        environment.end_with("error: no such key")
    assert ended.value.code == code
    assert bool(waited) == has_waited
