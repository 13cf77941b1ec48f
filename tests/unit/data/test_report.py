import json

import pytest

from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.data.dataset import DatasetSource
from tests.unit.data.test_prompt_encoder import ChatTokenizer

ROWS = [*({"prompt": f"{i}", "answer": f"{i}"} for i in range(8)), {"prompt": "far too long", "answer": "9"}]


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in [*ROWS, {"prompt": "", "answer": "0"}]))
    source = DatasetSource(path, num_heldout=2, seed=0)
    data = RolloutDataModule(source=source, prompts_per_step=2, max_prompt_tokens=4, num_steps=1, seed=0)
    with pytest.warns(UserWarning, match="longer than"):
        data.encode_prompts(ChatTokenizer())
    return data


def test_the_file_has_every_count_and_every_dropped_prompt(data, tmp_path):
    first = data.train_prompts[0]
    data.drop_prompts({first.prompt_id: "'0' is no expression", "of another run": ""})
    assert first not in data.train_prompts
    data.report.write(tmp_path / "run")
    report = json.loads((tmp_path / "run" / "data_report.json").read_text())
    [reading] = report["reading"]
    assert (reading["read"], reading["dropped"], reading["kept"]) == (10, {"empty": 1}, 9)
    assert report["train"]["dropped"] == {"too long": 1, "unusable answer": 1}
    assert report["train"]["kept"] == len(data.train_prompts) == 5
    assert report["train"]["kept_by_task"] == report["epoch_by_task"] == {"dataset": 5}
    assert report["heldout"]["kept"] == len(data.heldout_prompts) == 2
    assert report["train"]["dropped_prompts"][1] == {
        "prompt_id": first.prompt_id,
        "task": "dataset",
        "reason": "unusable answer",
        "detail": "'0' is no expression",
    }


def test_the_printed_report_has_the_counts_and_an_example_of_each(data, tmp_path):
    first, too_long = data.heldout_prompts[0].prompt_id, data.report.dropped["train"][0]["prompt_id"]
    data.drop_prompts({first: "no"})
    assert data.report.text().splitlines() == [
        f"data: {tmp_path}/a.jsonl (layout prompt and answer: prompt from 'prompt', answer from 'answer')",
        "  10 rows read, 9 kept; dropped: empty 1",
        f"    empty 1, for example {tmp_path}/a.jsonl, line 10: the prompt is empty",
        "prompts to train on: 6; dropped: too long 1",
        f"    too long 1, for example {too_long}: more than data.max_prompt_tokens = 4",
        "prompts held out: 1; dropped: unusable answer 1",
        f"    unusable answer 1, for example {first}: no",
    ]


def test_dropping_every_training_prompt_is_an_error_with_a_reason(data):
    with pytest.raises(ValueError, match="none of the 6 training prompts has an answer that the reward can use"):
        data.drop_prompts({prompt.prompt_id: "why" for prompt in data.train_prompts})
