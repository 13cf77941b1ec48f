from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.data.encoded_prompts import OnlyPrompts
from tests.builders import jsonl_source
from tests.unit.config.composing import composed
from tests.unit.data.test_prompt_encoder import ChatTokenizer

DATA_CONFIGS = Path(__file__).parents[3] / "conf" / "data"


@pytest.fixture
def source(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(json.dumps({"prompt": f"{i} + 1 =", "answer": i + 1}) for i in range(25)))
    return jsonl_source(file, num_heldout=5, seed=0)


def write_ids(path, prompt_ids):
    pq.write_table(pa.table({"prompt_id": prompt_ids, "pass_rate": [0.5] * len(prompt_ids)}), path)
    return path


def make_data(source, only):
    return RolloutDataModule(
        source=source, prompts_per_step=2, max_prompt_tokens=20, num_steps=1, seed=0, only=only and str(only)
    )


def test_training_keeps_the_listed_prompts_whole_and_in_their_order_and_evaluation_keeps_its_own(source, tmp_path):
    everything = source.train_prompts()
    chosen = [everything[index] for index in (7, 2, 11)]
    file = write_ids(tmp_path / "selected.parquet", [prompt.prompt_id for prompt in chosen])
    for only in (file, tmp_path):  # a folder of prepare.py is read as its selected.parquet
        data = make_data(source, only)
        data.check()
        data.encode_prompts(ChatTokenizer())
        assert [prompt.prompt_id for prompt in data.train_prompts] == [everything[i].prompt_id for i in (2, 7, 11)]
        assert data.train_prompts[0].reference == everything[2].reference
        assert len(data.heldout_prompts) == 5


def test_a_heldout_prompt_cannot_come_into_training_by_being_listed(source, tmp_path):
    ids = [source.train_prompts()[0].prompt_id, source.heldout_prompts()[0].prompt_id]
    only = OnlyPrompts(write_ids(tmp_path / "a.parquet", ids))
    with pytest.warns(UserWarning, match="1 of the 2 prompts of data.only = .* are not among the training prompts"):
        assert [prompt.prompt_id for prompt in only.keep(source.train_prompts())] == ids[:1]


def test_a_list_of_other_data_is_refused(source, tmp_path):
    data = make_data(source, write_ids(tmp_path / "a.parquet", ["x", "y"]))
    with pytest.raises(ValueError, match="has 2 prompts and none of the 20 training prompts is among them"):
        data.check()


def test_files_that_cannot_be_used_are_named_with_the_other_problems(source, tmp_path):
    (tmp_path / "text.parquet").write_text("no parquet")
    pq.write_table(pa.table({"id": ["a"]}), tmp_path / "columns.parquet")
    for name, message in (
        ("missing.parquet", "there is no file .*missing.parquet"),
        ("text.parquet", "cannot be read as parquet"),
        ("columns.parquet", "has no column prompt_id"),
        (".", "there is no file .*selected.parquet; give a folder that prepare.py has finished"),
    ):
        with pytest.raises(ValueError, match=message):
            OnlyPrompts(tmp_path / name)
    with pytest.raises(ValueError, match="has no prompt; widen the band"):
        OnlyPrompts(write_ids(tmp_path / "empty.parquet", pa.array([], pa.string())))
    with pytest.raises(ValueError, match=r"max_prompt_tokens must be at least 1.*data\.only: there is no file"):
        RolloutDataModule(
            source=source, prompts_per_step=2, max_prompt_tokens=0, num_steps=1, seed=0, only=str(tmp_path / "no")
        )


@pytest.mark.parametrize("config", sorted(path.stem for path in DATA_CONFIGS.glob("[!_]*.yaml")))
def test_every_kind_of_data_can_be_restricted_without_a_plus(config):
    assert composed(f"data={config}").data.only is None
