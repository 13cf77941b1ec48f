from __future__ import annotations

import json
import pickle

import pytest

from ada_lightning.core.records import Completion, Prompt
from ada_lightning.rewards import worker as reward_worker
from ada_lightning.rollout.episodes import worker
from ada_lightning.rollout.episodes.trl import TrlEnvironment
from ada_lightning.rollout.episodes.worker import Call

HERE = "tests.unit.rollout.episodes.trl_environments"
PROMPT = Prompt("p", ({"role": "user", "content": "Count."},), {"answer": "5", "columns": {"level": 3}})


def said(*calls):
    texts = [call if isinstance(call, str) else json.dumps({"name": call[0], "arguments": call[1]}) for call in calls]
    return "I call.\n" + "\n".join(f"<tool_call>\n{text}\n</tool_call>" for text in texts)


@pytest.fixture
def play(monkeypatch):
    """Takes the turns of an episode through pickle, as workers do."""

    def played(name, *texts):
        made = worker.EnvironmentClass(
            "ada_lightning.rollout.episodes.trl.TrlEnvironment", {"path": f"{HERE}.{name}"}, max_reply_chars=1000
        )
        monkeypatch.setitem(reward_worker._loaded, "reward", made)
        state, replies = b"", []
        for index, text in enumerate(texts):
            reply, _ = worker._act(pickle.dumps((PROMPT, Call(0, Completion(text), index, state))))
            replies.append(reply)
            state = reply.state
        return replies

    return played


def test_tools_are_called_and_the_environment_scores_the_episode(play):
    first, second, third, last = play(
        "Counter",
        said(("increment", {"step": 2})),
        said(("reset_to", {"value": 1}), ("increment", {"step": 4})),
        said(("increment", {"by": 1}), ("_hidden", {}), ("broken", {}), ("get_reward", {}), "{no json"),
        "Done.",
    )
    assert (first.text, first.num_calls, first.num_call_errors) == ("2", 1, 0)
    assert (second.text, second.num_calls) == ("{'value': 1}\n5", 2)
    assert (third.num_calls, third.num_call_errors) == (5, 5)
    assert third.text.split("\n")[:4] == [
        "{'error': \"Counter.increment() got an unexpected keyword argument 'by'\"}",
        "{'error': 'Tool _hidden not found.'}",
        "{'error': 'Tool broken not found.'}",
        "{'error': 'Tool get_reward not found.'}",
    ]
    assert (last.is_end, last.grade.reward, last.grade.failure) == (True, 1.0, "")


def test_what_reset_tells_the_model_has_to_be_in_the_prompt(play):
    (reply,) = play("Talking", "Done.")
    assert (reply.grade.reward, reply.failure) == (None, "environment_ValueError")
    assert "put it into the prompt" in reply.detail


def test_a_class_that_is_no_environment_is_refused():
    for name, message in (("Nothing", "cannot make"), ("Toolless", "no public method other than reset")):
        with pytest.raises(ValueError, match=message):
            TrlEnvironment(f"{HERE}.{name}").check()
    TrlEnvironment(f"{HERE}.Counter").check()
    with pytest.raises(ValueError, match=r"environment\.arguments\.path must be"):
        TrlEnvironment("Counter")
