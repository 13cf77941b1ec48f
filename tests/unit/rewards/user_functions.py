"""Functions as users bring them. Imported by reward workers, so without pytest."""

from __future__ import annotations

import asyncio

from ada_lightning.core.records import Verdict

LOOPS = set()


def old_style(prompt, text):
    return float(text == "12" and prompt.prompt_id == "id")


def by_column(text, answer, level, *, bonus=0.0):
    return float(text == str(answer)) + level + bonus


def everything(**given):
    return Verdict(float(len(given)), f"{' '.join(sorted(given))}: {given['text']}")


def by_record(completion, reference, columns, finish_reason):
    assert completion.finish_reason == finish_reason
    return float(finish_reason == "length") + reference["answer"] + columns["level"]


async def judge(text):
    LOOPS.add(asyncio.get_running_loop())
    await asyncio.sleep(0)
    return float(len(LOOPS)) if text == "loops" else float(text == "good")


def by_position(prompt, text, /):
    return 1.0


def with_star(*texts):
    return 1.0


def trl_reward(prompts, completions, answer, **kwargs):
    assert prompts == [[{"role": "user", "content": "6 + 6 ="}]]
    return [float(turns[0]["content"] == str(gold)) for turns, gold in zip(completions, answer, strict=True)]


def trl_plain(prompts, completions, level):
    return [
        float(prompts == ["6 + 6 ="] and text == "12") + number for text, number in zip(completions, level, strict=True)
    ]


async def trl_async(completions, **kwargs):
    await asyncio.sleep(0)
    return [None if turns[0]["content"] == "?" else 0.5 for turns in completions]


def trl_ids(completions, completion_ids, **kwargs):
    return [float(len(ids)) for ids in completion_ids]


def trl_scalar(completions, **kwargs):
    return 1.0


def trl_two(completions, **kwargs):
    return [1.0, 0.0]


def trl_in_turn(completions, **kwargs):
    yield from (1.0 for _ in completions)


def verl_number(data_source, solution_str, ground_truth, extra_info=None):
    return float(solution_str == ground_truth and data_source == "gsm8k" and extra_info["index"] == 3)


def verl_mapping(data_source, solution_str, ground_truth, extra_info, penalty=0.0):
    score = float(solution_str == str(ground_truth)) - penalty * extra_info["truncated"]
    return {"score": score, "acc": solution_str == str(ground_truth), "pred": solution_str, "note": "dropped"}


def verl_wrong(solution, truth):
    return 1.0


def verl_first_year(data_source, solution_str, ground_truth, extra_info=None):
    _, found, response = solution_str.partition("Assistant:")
    return float(bool(found) and ground_truth in response)


def verl_batch(data_sources, solution_strs, ground_truths, extra_infos):
    return [float(len(text)) for text in solution_strs]
