"""What does not go together with prompts that come from a stream."""

from __future__ import annotations

import json
import re

import pytest

from ada_lightning.config.check import ConfigError, check_config
from ada_lightning.config.prepare import check_prepare_config
from ada_lightning.config.prompt_stream import stream_errors
from ada_lightning.config.view import ConfigView
from tests.unit.config.composing import composed, problems

STREAM = ("model=tiny", "reward=exact_match", "data=streaming", "rollout.sampling.max_new_tokens=64")
SIMILAR = "estimator=similar_prompts"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_text("\n".join(json.dumps({"question": str(index), "answer": str(index)}) for index in range(9)))
    return path


def said(*overrides):
    """What the rules about streams say, whatever others say of it."""
    return list(stream_errors(ConfigView(composed(*STREAM, "data.source.path=rows.jsonl", *overrides))))


@pytest.mark.parametrize(
    "overrides",
    [
        (), ("curriculum=expected", SIMILAR), ("curriculum=auto", SIMILAR, "sampler=uniform"), ("refill=dynamic",),
        ("curriculum=learnability", SIMILAR), ("sampler=estimated", SIMILAR), ("advantage=history_baseline", SIMILAR),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_stream_can_do_is_let_through(overrides):
    assert said(*overrides) == []


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("curriculum=prompt_replay",), "PromptReplay chooses among all training prompts, and a stream has no list"),
        (("curriculum=greso",), "GresoCurriculum chooses among all training prompts, and a stream has no list"),
        (("curriculum=diverse", SIMILAR), "DiverseUsefulness chooses among all training prompts, and a stream"),
        (("curriculum=learnability",), "PosteriorSampling goes by what is known of a prompt, but BetaHistory knows it"),
        (("sampler=estimated",), "sampler: EstimatedSampler goes by what is known of a prompt, but BetaHistory"),
        (("advantage=history_baseline",), "advantage: HistoryBaselineAdvantage goes by what is known of a prompt, but"),
        (("sampler=first_visit",), "FirstVisitSampler tells a prompt's first visit from later ones, and a stream"),
        (("hints=prefix",), "hints: PrefixHints looks at the solutions of all training prompts before the run begins"),
        (("hints=text",), "hints: TextHints looks at the solutions of all training prompts before the run begins"),
        (("estimator.history_file=a.json",), "a.json knows prompts of a list, and those of a stream are new. Use est"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_needs_all_prompts_or_earlier_visits_of_each_is_refused(overrides, message):
    found = said(*overrides)
    assert len(found) == 1
    assert re.search(message, found[0]), found[0]


def test_the_check_of_a_run_says_it_before_a_model_loads(file, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    history = tmp_path / "history.parquet"
    pq.write_table(pa.table({"prompt_id": ["0" * 16], "num_positive": [1], "num_samples": [2]}), history)
    check_config(composed(*STREAM, "rollout.max_model_tokens=512", f"data.source.path={file}"))
    all_wrong = ("curriculum=prompt_replay", f"data.only={history}", "data.source.prompt_column=text")
    text = "\n".join(problems(*STREAM, "rollout.max_model_tokens=512", f"data.source.path={file}", *all_wrong))
    assert "a stream has no list of them. Use curriculum=uniform" in text
    assert f"data.only = {history} selects from a list of prompts, and a stream has none; use data.only=null" in text
    assert "row 0: no column 'text'; columns found: answer, question; set data.source.prompt_column" in text


def test_preparation_needs_a_list_of_prompts(file):
    cfg = composed("model=tiny", "data=streaming", f"data.source.path={file}", program="prepare")
    with pytest.raises(ConfigError, match=r"prepare\.py draws responses of each training prompt, and a stream has no"):
        check_prepare_config(cfg)
