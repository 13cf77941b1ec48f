"""Put the benchmarks' figures into the pages of ``docs/``: ``python -m research.benchmarks.tables``.

Every table of those pages stands between ``<!-- table: name -->`` and ``<!-- end -->`` and is made here from the JSON
files in ``docs/performance/``, ``docs/rewards/``, ``docs/reliability/`` and ``docs/studies/`` and from
``docs/curriculum.json``, so that no figure is copied by hand. A test holds that pages and files agree.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from scipy import stats

from research.audit.coverage import table as evaluation_coverage
from research.benchmarks.estimator_tables import ESTIMATOR_TABLES
from research.benchmarks.gpu_tables import TABLES as GPU_TABLES
from research.benchmarks.grading.corpus import cells as graded_kind
from research.benchmarks.method_tables import TABLES as METHOD_TABLES
from research.benchmarks.million import choices_table as million_choices
from research.benchmarks.million import runs_table as million_runs
from research.benchmarks.report import DOCS, FOLDER, RELIABILITY, REWARDS
from research.benchmarks.report import markdown as _markdown
from research.benchmarks.startup import table as startup
from research.hosts.tables import TABLES as HOSTS_TABLES
from research.objective.configurations import TABLES as OBJECTIVE_TABLES
from research.studies.auto_simulation import table as auto_simulation
from research.studies.by_signal import table as by_signal
from research.studies.calculator import table as calculator
from research.studies.contest import Contest
from research.studies.coverage import table as coverage
from research.studies.does_it_pay import CONTROLS as OF_CONTROLS
from research.studies.does_it_pay import DEFAULT_MODEL as OF_DEFAULT_MODEL
from research.studies.does_it_pay import table as does_it_pay
from research.studies.field.auto import tables as auto_field
from research.studies.field.compare import CONTESTS as FIELD
from research.studies.field.controls import CONTESTS as CONTROLS
from research.studies.field.dropping import TABLES as DROPPING_TABLES
from research.studies.field.fresh import CONTEST as FRESH
from research.studies.field.newer import CONTEST as NEWER
from research.studies.field.newer import TUNING as NEWER_TUNING
from research.studies.field.staleness import TUNING as STALENESS_TUNING
from research.studies.field.staleness import report as staleness
from research.studies.field.tune import TUNING as FIELD_TUNING
from research.studies.forecast.tables import TABLES as FORECAST_TABLES
from research.studies.hints.gate import table as hints_gate
from research.studies.real_model.auto import STUDIES as AUTO_REAL_MODEL
from research.studies.real_model.compare import CONTESTS as REAL_MODEL
from research.studies.real_model.compare import main_table as real_model_main
from research.studies.real_model.compare import repeated_table, together_table
from research.studies.real_model.compare import table as real_model
from research.studies.real_model.setting import FIRST, GPU, GPU_ARMS, LONG
from research.studies.real_model.tune import table as real_model_tuning
from research.studies.smollm2.compare import CONTESTS as SMOLLM2
from research.studies.smollm2.tune import TUNING as SMOLLM2_TUNING
from research.studies.trl_side_by_side import CONTEST as TRL
from research.studies.trl_side_by_side import RESULTS as TRL_RESULTS
from research.studies.trl_side_by_side import tuning_table as trl_tuning
from research.studies.tuning import NotTunedError
from research.studies.variance.tables import TABLES as VARIANCE_TABLES
from research.studies.when_to_use import table as when_to_use

PAGES = tuple(page for page in sorted(DOCS.rglob("*.md")) if "<!-- table: " in page.read_text(encoding="utf-8"))
_TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
    """Rewrite the pages' tables, or say which are not what the files say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 if a page would change")
    is_check = parser.parse_args().check
    stale = [page for page in PAGES if filled(page.read_text()) != page.read_text()]
    for page in stale:
        print(page.relative_to(FOLDER.parent.parent))
        if not is_check:
            page.write_text(filled(page.read_text()))
    sys.exit(1 if is_check and stale else 0)


def filled(page: str) -> str:
    """Return the page with every table made anew; one whose benchmark has left no file says so."""
    return _TABLE.sub(lambda found: found[1] + _made(found[2]) + found[3], page)


def _made(name: str) -> str:
    try:
        return TABLES[name]()
    except FileNotFoundError as error:
        return f"No figures yet: `{Path(error.filename).name}` is missing.\n"
    except NotTunedError as error:
        return f"No figures yet: {str(error).split(':', 1)[0]}.\n"


def _load(name: str, folder: Path = FOLDER) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return content


Rows = Iterable[Mapping[str, Any]]
Cell = str | Callable[[Mapping[str, Any]], Any]
"""What stands in a column: a format of the row, or a function of it."""


def _of(rows: Rows, columns: Mapping[str, Cell]) -> str:
    """Return Markdown of rows by columns."""
    cells = columns.values()
    lines = [[cell.format_map(row) if isinstance(cell, str) else cell(row) for cell in cells] for row in rows]
    return _markdown(list(columns), lines)


def _named_rows(found: Mapping[str, Mapping[str, Any]]) -> Rows:
    """Return the rows of a mapping with their names as ``name``."""
    return [{"name": name} | dict(row) for name, row in found.items()]


def _median(key: str, form: str, factor: float = 1.0) -> Cell:
    return lambda row: form.format(factor * statistics.median(row[key]))


def _busy_machine() -> str:
    columns = {"way": "{way}", "other busy processes": "{others}", "generation": "{generation_s:.1f} s"}
    return _of(_load("busy_machine")["rows"], columns | {"update": "{update_s:.1f} s"})


def _engines() -> str:
    columns = {"requests at once": "{requests}", "vLLM, tokens/s": "{vllm}", "transformers": "{transformers}"}
    return _of(_load("engines")["rows"], columns)


_DRAFT_MODELS = {
    "field": "tiny model",
    "smollm2": "SmolLM2-135M",
    "smollm2_started": "the same after a supervised start",
}


def _drafts() -> str:
    columns: dict[str, Cell] = {
        "model": lambda row: _DRAFT_MODELS[row["model"]],
        "updates between": "{updates}",
        "sequences at once": "{sequences}",
        "tokens kept": "{kept_ratio:.0%}",
        "seconds without": lambda row: f"{min(row['plain_s']):.1f}",
        "with drafts": lambda row: f"{min(row['with_drafts_s']):.1f}",
        "times faster": "{gain:.2f}",
        "same responses": "{num_equal} of {responses}",
    }
    return _of(_load("drafts")["rows"], columns)


def _draft_costs() -> str:
    columns: dict[str, Cell] = {
        "model": lambda row: _DRAFT_MODELS[row["model"]],
        "sequences at once": "{sequences}",
        "a token decoded": "{decoded_ms:.2f} ms",
        "checked": "{checked_ms:.2f} ms",
        "ratio": lambda row: f"{row['decoded_ms'] / row['checked_ms']:.1f}",
    }
    return _of(_load("drafts")["costs"], columns)


def _engine_versions() -> str:
    columns: dict[str, Cell] = {
        "vLLM": "{vllm}",
        "torch": "{torch}",
        "transformers": "{transformers}",
        "passed": "{passed}",
        "failed": lambda row: ", ".join(f"`{name}`" for name in row["failures"]) or "none",
        "skipped": "{skipped}",
    }
    return _of(_load("engine_versions")["rows"], columns)


def _speed() -> str:
    """Return the answers of docs/performance.md, each with what it was measured on."""
    ahead = [ways["ahead"] for _, ways in _rollouts()]
    bare = [found["bare"]["times_ours"] for found in _load("update")["speed"].values()]
    trl = [ratio["per_step"] for name, ratio in _load("step_vs_trl")["ratios"].items() if "every group" in name]
    vllm, cores = "2 CPU cores, vLLM, 135M model", "2 CPU cores, 135M model"
    rows = [
        ("a rollout's speed, of raw vLLM's", _span(row["over_vllm"] for row in ahead), vllm),
        ("a rollout, times faster than in rounds", _span(row["over_barrier"] for row in ahead), vllm),
        ("an update: seconds of a bare loop over ours", _span(bare), cores),
        ("the same", f"{_load('gpu_update')['variants']['bare']['times_ours']:.2f}", "one H100, 1.5B model"),
        ("a step of GRPO, times faster than TRL's", _span(trl), cores),
        ("of a step, neither generation nor training", f"{_load('overhead')['overhead']:.1%}", vllm),
    ]
    return _markdown(["what", "figure", "measured on"], rows)


def _span(values: Iterable[float]) -> str:
    lowest, *_, highest = sorted(values)
    return f"{lowest:.2f} to {highest:.2f}"


def _rollouts() -> list[tuple[str, dict[str, Mapping[str, Any]]]]:
    """Return each work with its rows by way."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in _load("rollout")["rows"]:
        found.setdefault(f"{row['work']}, {row['prompts']}", {})[row["way"]] = row
    return list(found.items())


def _rollout() -> str:
    rows = [{"name": work} | dict(ways["ahead"]) for work, ways in _rollouts()]
    columns = {"work, prompts": "{name}", "speed, of raw vLLM's": "**{over_vllm:.2f}**"}
    return _of(rows, columns | {"times faster than rounds": "**{over_barrier:.2f}**", "dropped tokens": "{wasted:.1%}"})


def _rollout_seconds() -> str:
    names = {"vllm": "raw vLLM", "ahead": "ours", "continuous": "nothing ahead", "barrier": "rounds"}
    lines = [
        [work, *(f"{statistics.median(ways[way]['seconds']):.1f} s" for way in names)] for work, ways in _rollouts()
    ]
    return _markdown(["work, prompts", *names.values()], lines)


def _update() -> str:
    speed = _load("update")["speed"]
    rows = [{"kind": kind.replace("_", " ")} | dict(row) for kind, found in speed.items() for row in _named_rows(found)]
    columns = {"lengths": "{kind}", "variant": "{name}", "seconds": "{seconds:.2f} s"}
    return _of(rows, columns | {"tokens computed": "{computed_tokens}", "seconds over ours": "{times_ours:.2f}"})


def _update_memory() -> str:
    columns = {"case": "{name}", "before": "{before_gib:.2f} GiB", "peak": "{peak_gib:.2f} GiB"}
    return _of(_named_rows(_load("update")["memory"]), columns)


def _step_vs_trl() -> str:
    columns = {
        "variant": "{name}",
        **{part: f"{{{part}_s:.1f}} s" for part in ("step", "rollout", "update")},
        "tokens": "{tokens:.0f}",
        "groups with signal": "{signal_ratio:.0%}",
    }
    return _of(_named_rows(_load("step_vs_trl")["medians"]), columns)


def _step_vs_trl_search() -> str:
    rows = _load("step_vs_trl_search")["rows"]
    sizes = sorted({row["batch_size"] for row in rows})
    lines = []
    for name in dict.fromkeys(row["variant"] for row in rows):
        *plain, batched = [row for row in rows if row["variant"] == name]
        cells = [f"{row['step_s']:.1f} s" if "step_s" in row else "fails" for row in (*plain, batched)]
        lines.append([name, *cells[:-1], f"{cells[-1]} ({batched['batch_size']})"])
    return _markdown(["responses at once", *map(str, sizes), "continuous batching"], lines)


def _step_ratios() -> str:
    columns = {"times faster": "{name}", "per step": "{per_step:.2f}", "per generated token": "{per_token:.2f}"}
    return _of(_named_rows(_load("step_vs_trl")["ratios"]), columns)


def _overhead() -> str:
    found = _load("overhead")
    ordered = sorted(found["shares"].items(), key=lambda item: -item[1])
    rows = [(part, f"{share:.2%}") for part, share in ordered] + [("**overhead**", f"**{found['overhead']:.2%}**")]
    rows.append(("peak memory of the process, engine included", f"{found['peak_gib']:.1f} GiB"))
    return _markdown(["part", "share of a step"], rows)


def _cluster() -> str:
    lines = []
    for scenario in _load("cluster_sim")["scenarios"]:
        rows = {row["method"]: row for row in scenario["rows"]}
        equal = next(name for name in rows if name.startswith("GRPO") and name != "GRPO n=4")
        names = ("barrier + re-entry", "barrier", "continuous", "continuous, ahead", equal)
        *ratios, grpo = (f"{rows[name]['relative_to_grpo_4']:.2f}" for name in names)
        title = f"{scenario['model']}, {scenario['mix'].removeprefix('7B, ')}, M={scenario['block']}"
        dropped = f"{rows['continuous, ahead']['waste']:.1%}"
        lines.append([title, *ratios, f"{grpo} ({equal.removeprefix('GRPO ')})", dropped])
    ways = ["rounds + re-entry", "rounds", "nothing ahead", "ours", "GRPO, as many responses", "dropped"]
    return _markdown(["scenario", *ways], lines)


def _cluster_validation() -> str:
    columns = {"rollout": "{case}", "measured": "{measured_s:.2f} s", "simulated": "{simulated_s:.2f} s"}
    return _of(_load("cluster_sim")["validation"], columns | {"error": "{error:+.1%}"})


def _cluster_engines() -> str:
    columns = {"engines": "{engines}"}
    for name, way in (("GRPO", "GRPO n=4"), ("rounds", "barrier"), ("ours", "continuous, ahead")):
        columns[name] = f"{{{way}[seconds]:.0f}} s, {{{way}[efficiency]:.0%}}"
    columns["nothing ahead"] = "{continuous[seconds]:.0f} s"
    return _of(_load("cluster_sim")["engines"], columns)


def _step_overlap() -> str:
    columns: dict[str, Cell] = {"engine and trainer": "{way}", "step": "{step_s:.0f} s"}
    columns |= {"trainer waits": "{rollout_s:.0f} s", "per 1,000 tokens": "{s_per_1k_tokens:.2f} s"}
    return _of(_load("step_overlap")["rows"], columns)


def _cluster_overlap(model: str) -> str:
    cells: dict[tuple[int, str], dict[int, str]] = {}
    for row in _load("cluster_overlap")["rows"]:
        if row["model"] == model:
            way = (row["lag"], row["way"] + (", streamed" if row["streamed"] else ""))
            cells.setdefault(way, {})[row["engines"]] = f"{row['period_s']:.1f} s, {row['efficiency']:.0%}"
    numbers = sorted({number for of in cells.values() for number in of})
    lines = [[lag, way, *(of.get(number, "") for number in numbers)] for (lag, way), of in sorted(cells.items())]
    return _markdown(["lag", "weights and gradients", "1 engine", *(f"{number}" for number in numbers[1:])], lines)


def _engine_pool() -> str:
    columns: dict[str, Cell] = {
        "engine in": "{way}",
        "rollout": _median("seconds", "{:.2f} s"),
        "ratio": "{seconds_ratio:.2f}",
        "CPU seconds": _median("cpu_seconds", "{:.2f}"),
        "their ratio": "{cpu_seconds_ratio:.2f}",
        "weight sync": _median("sync_s", "{:.0f} ms", 1000),
        "same tokens": lambda row: "yes" if row["same_tokens"] else "no",
        "balance": lambda row: "" if row["balance"] is None else f"{row['balance']:.2f}",
    }
    return _of(_load("engine_pool")["rows"], columns)


def _attack() -> str:
    columns: dict[str, Cell] = {
        "reward, family": lambda row: f"{row['reward']}, {row['family'].removeprefix('function: ')}",
        "responses": "{responses}",
        "wrong verdicts": lambda row: _share(row["false_positives"] + row["false_negatives"], row["known_verdicts"]),
        "failed grades": lambda row: ", ".join(f"{times} {why}" for why, times in row["failures"].items()) or "none",
        "longest": lambda row: "" if row["max_ms"] is None else f"{row['max_ms']:.1f} ms",
    }
    return _of(_load("reward_attack", REWARDS)["rows"], columns)


def _false_negatives(row: Mapping[str, Any]) -> str:
    return _share(row["false_negatives"], row["known_verdicts"] - row["known_wrong"])


def _share(count: int, total: int) -> str:
    return f"{count} of {total}" if total else ""


def _attack_summary() -> str:
    found = _load("reward_attack", REWARDS)["summary"]
    rows = [
        ("responses", found["responses"]),
        ("that never came back", found["lost"]),
        ("watched grades during which anything was run", f"{found['executed']} of {found['watched']}"),
        ("files that injected code left", found["canaries"]),
        ("wrong answers taken for right (false positives)", _share(found["false_positives"], found["known_wrong"])),
        ("right answers taken for wrong (false negatives)", _false_negatives(found)),
        ("different answers of patterns judged by hand, among these", found["judged_by_hand"]),
        ("longest time without a grade", f"{found['longest_silence_s']:.1f} s"),
    ]
    return _markdown(["all families", "number"], rows)


def _attack_speed() -> str:
    columns = {"responses": "{work}", "reward": "{reward}", "number": "{responses}"}
    return _of(
        _load("reward_attack", REWARDS)["speed"], columns | {"grades per second, 2 workers": "{grades_per_s:.0f}"}
    )


def _grading() -> str:
    found = _load("grading", REWARDS)
    total = found["rows"][-1]

    def share(what: str, of: str) -> Cell:
        def cell(grader: Mapping[str, Any]) -> str:
            counts = total["graders"].get(grader["name"])
            return f"{counts[what]} of {total[of]} ({counts[what] / total[of]:.1%})" if counts else ""

        return cell

    columns: dict[str, Cell] = {
        "grader": lambda grader: f"{grader['name']} {grader['version']}".strip(),
        "equal answers refused": share("refused", "equal"),
        "unequal answers accepted": share("accepted", "unequal"),
        "slowest verdict": lambda grader: f"{grader['slowest_s']:.2f} s" if "slowest_s" in grader else "",
    }
    return _of(found["graders"], columns)


NOT_BY_KIND = ("math-verify, alone", "verl gsm8k")
"""Graders of which the page shows the sums over kinds alone."""


def _grading_kinds() -> str:
    found = _load("grading", REWARDS)
    names = [grader["name"] for grader in found["graders"] if grader["name"] not in NOT_BY_KIND]
    return _markdown(["pairs (equal / unequal)", *names], [graded_kind(row, names) for row in found["rows"]])


def _curriculum() -> str:
    columns = {
        "pass rates": "{mix}",
        "sampler": "{sampler}",
        "curriculum": "{curriculum}",
        "prompts with signal": "{signal_ratio:.0%}",
        "responses per prompt": "{responses_per_prompt:.1f}",
        "signals per 1,000 responses": "{signal_per_1000_responses:.0f}",
        "of all prompts visited": "{visited_ratio:.0%}",
        "most visits to one": "{most_visits}",
    }
    return _of(_load("curriculum", FOLDER.parent)["rows"], columns)


def _by_rate(form: Callable[[Mapping[str, Any], int], str]) -> str:
    """Return a figure of every combination of ``docs/estimator_bias.json`` by pass rate."""
    found = _load("estimator_bias", DOCS)
    columns = {rate: found["pass_rates"].index(rate) for rate in (0.02, 0.1, 0.2, 0.5, 0.8, 0.95)}
    rows = [[name, *(form(row, at) for at in columns.values())] for name, row in found["methods"].items()]
    return _markdown(["sampler / estimator", *(f"p = {rate:g}" for rate in columns)], rows)


def _exact_resume() -> str:
    def same(key: str, total: str) -> Cell:
        return lambda row: f"{row[total] - row[key]} of {row[total]}"

    columns: dict[str, Cell] = {
        "mode": "{mode}",
        "stopped by": "{run}",
        "rollouts with the same tokens": same("rollouts_with_other_tokens", "rollouts"),
        "updates with the same bits": same("updates_with_other_weights", "updates"),
        "what differs": _resumed_otherwise,
    }
    rows = [
        {"mode": row["mode"], "run": "nothing (run again)" if name == "again" else _stops(row["faults"])} | row[name]
        for row in _load("exact_resume", RELIABILITY)["rows"]
        for name in ("again", "killed")
    ]
    return _of(rows, columns)


def _stops(faults: Sequence[str]) -> str:
    """Return the kinds of faults, those of one kind counted; in which steps they came is in the file."""
    kinds = Counter(fault.partition(" in step ")[0].replace("_", " ") for fault in faults)
    return ", ".join(kind if times == 1 else f"{kind} ({times} times)" for kind, times in kinds.items())


def _resumed_otherwise(row: Mapping[str, Any]) -> str:
    """Say what of a run is not what it is without a stop, the largest differences with it."""
    columns = row["metric_cells_that_differ"]
    found = [f"{len(columns)} columns of figures"] if len(columns) > 3 else [f"`{column}`" for column in columns]
    found += [] if row["prompt_log_is_equal"] and row["responses_are_equal"] else ["responses"]
    if 0 < row["logprob_difference"] < math.inf:  # infinite where tokens differ
        found.append(f"log-probabilities ({row['logprob_difference']:.1g})")
    if row["weight_difference"]:
        found.append(f"weights ({row['weight_difference']:.1g})")
    return ", ".join(found) or "nothing"


def _soak() -> str:
    found = _load("soak", RELIABILITY)
    proof = found["proof"]
    rows = [
        ("rollout steps", found["steps"]),
        ("sessions", len(found["sessions"])),
        ("responses drawn", proof["responses_drawn"]),
        ("of these lost", proof["lost"]),
        ("counted twice", proof["twice"]),
        ("updates left out by the guard", proof["updates_left_out"]),
        ("updates repeated in halves", proof["memory_retries"]),
        ("grades that failed", proof["grades_failed"]),
        ("points of `train/loss` in MLflow", proof["mlflow"]["points"]),
    ]
    return _markdown(["all sessions", "number"], rows)


def _soak_faults() -> str:
    rows = [(row["kind"].replace("_", " "), row["times"]) for row in _load("soak", RELIABILITY)["faults"]]
    return _markdown(["fault", "times"], rows)


def _soak_memory() -> str:
    columns = {"session": "{seconds:.0f} s"}
    columns |= {f"highest in its {part} quarter": f"{{{part}_quarter_mb:.0f}} MB" for part in ("second", "last")}
    return _of(_load("soak", RELIABILITY)["memory"]["longest_sessions"], columns)


def _hostile_environments() -> str:
    found = _load("hostile_environments", RELIABILITY)
    proof = found["proof"]
    rows = [
        ("episodes", proof["episodes"]),
        ("lost", proof["lost"]),
        ("counted twice", proof["twice"]),
        ("counted as something else, or worth something else, than they should be", proof["wrong"]),
    ]
    reasons = [
        (f"ended by `{name.removeprefix('environment_')}`", times) for name, times in sorted(found["failures"].items())
    ]
    return _markdown(["of the hostile environments", "number"], [*rows, *reasons])


def _hostile_decoding() -> str:
    cells = {"steps": "{steps}"}
    for name, text in (("step", "a step"), ("gap", "between two steps"), ("work", "of it computed")):
        cells |= {f"{text}, {part}": f"{{{name}_{part}_ms:.1f}} ms" for part in ("median", "p99", "max")}
    cells |= {
        "waits longer than the step before": "{longer_than_their_step}",
        "of them computed that long": "{computed_longer}",
        "share of the time between steps": "{share_waited:.1%}",
    }
    found = _load("hostile_environments", RELIABILITY)
    kinds = found["decoding"]
    lines = [[title, *(cell.format_map(row) for row in kinds.values())] for title, cell in cells.items()]
    table = _markdown(["environments", *kinds], lines)
    return table + f"\n{_load_average(found).capitalize()}.\n"


def _environment_throughput() -> str:
    found = _load("environment_throughput")
    columns: dict[str, Cell] = {
        "seconds a call": "{seconds_a_call:g}",
        "tokens": "{tokens}",
        "tokens per second": _median("tokens_per_s", "{:.0f}"),
    }
    pairs = ", ".join(f"{ratio:.2f}" for ratio in found["pairs"])
    ratio = f"Slow over instant: **{found['ratio']:.2f}** (pairs: {pairs})"
    return _of(found["rows"], columns) + f"\n{ratio}, threads: {found['threads']}, {_load_average(found)}.\n"


def _load_average(found: Mapping[str, Any]) -> str:
    """Say how busy the machine was, whose own work is a part of it."""
    return f"load average {found['load_average']:.1f} on {found['machine']['cores']} cores"


def _allocators(mix: str) -> str:
    """Return what each allocator draws and finds for one distribution of pass rates."""
    from research.benchmarks.allocators import relative

    content = _load("allocators")
    width = stats.t.ppf(0.975, content["steps"] - 1)

    def shown(mean: Mapping[str, float], digits: int) -> str:
        if not mean["error"]:  # what the others are multiples of, or what never has a signal
            return f"{mean['mean']:.0f}"
        return f"{mean['mean']:.{digits}f} ± {width * mean['error']:.{digits}f}"

    columns: dict[str, Cell] = {
        "allocator": "{method}",
        "responses per prompt": lambda row: f"{row['responses_per_prompt']['mean']:.1f}",
        "signals": lambda row: shown(row["signals_per_1000"], 0),
        "variance": lambda row: shown(row["relative_variance"], 2),
        "variance, by tokens": lambda row: shown(row["relative_variance_by_tokens"], 2),
    }
    return _of([row for row in relative(content["rows"]) if row["mix"] == mix], columns)


def _of_contests(study: str, contests: Iterable[Contest]) -> dict[str, Callable[[], str]]:
    return {
        f"{study}_{contest.name}{kind}": make
        for contest in contests
        for kind, make in (("", contest.table), ("_prices", contest.prices))
    }


def _started(contest: Contest) -> str:
    """Return the table of a comparison, or how far it is."""
    try:
        return contest.table()
    except NotTunedError:
        raise
    except ValueError as error:
        return f"No figures yet: {error}.\n"


def _trl_cgrpo() -> str:
    """Return what updates follow, relative to that of a prompt that is solved every other time."""
    found = _load("cgrpo", TRL_RESULTS)
    rates = found["pass_rates"]
    middle, lines = rates.index(0.5), []
    for row in found["rows"]:
        pairs = zip(row["update"], row["responses"], strict=True)
        cells = [f"{update / row['update'][middle]:.2f} ({drawn:.1f})" for update, drawn in pairs]
        off = "states nothing"
        if "stated" in row:
            off = f"{max(abs(u / s - 1) for u, s in zip(row['update'], row['stated'], strict=True)):.0e}"
        name = row["method"] + (f", `scale_rewards={row['scale_rewards']}`" if "scale_rewards" in row else "")
        lines.append([name, *cells, off])
    return _markdown(["method", *(f"p = {rate:g}" for rate in rates), "error of its statement"], lines)


def _verl_slow() -> str:
    """Return which share of prompts is slow, by verl's mode."""
    return _slow(_load("memory", DOCS / "studies" / "verl")["rows"], "mode", "groups thrown away", "thrown_away")


def _age_limits() -> str:
    """Return which share of prompts is slow, by an asynchronous trainer's limit of age."""
    return _slow(_load("age_limits", DOCS / "studies")["rows"], "limit", "rows dropped", "dropped")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _slow(rows: Sequence[Mapping[str, Any]], first: str, last: str, key: str) -> str:
    lines = [
        [row["mode"], str(row["drawn"]), *map(_percent, (row["slow_drawn"], row["slow_trained"])), str(row[key])]
        for row in rows
    ]
    return _markdown([first, "prompts drawn", "slow among drawn", "slow among trained", last], lines)


def _verl_cost() -> str:
    """Return milliseconds of verl's trainer where it holds the memory, by the size of a step."""
    head = ["chosen", "sampled", "behind the last", "state", "theirs"]
    return _verl_times("trainer", ("choose_ms", "sample_ms", "last_ms", "state_ms", "theirs_ms"), head)


def _verl_actor() -> str:
    """Return milliseconds of verl's trainer, of its workers and of the actor that holds the memory."""
    head = ["calls", "chosen", "sampled", "behind the last", "actor", "workers", "a lone call"]
    parts = ("calls", "choose_ms", "sample_ms", "last_ms", "actor_ms", "told_ms", "call_ms")
    return _verl_times("actor", parts, head)


def _verl_times(where: str, parts: Sequence[str], head: list[str]) -> str:
    lines = [
        [f"{row['prompts']:,} x {row['responses']}", *(f"{row[part]:,.0f}" for part in parts)]
        for row in _load("cost", DOCS / "studies" / "verl")[where]
    ]
    return _markdown(["prompts x responses", *head], lines)


def _verl_room() -> str:
    """Return what a brain with many prompts takes."""
    lines = [
        [
            f"`{row['method']}`",
            f"{row['prompts']:,}",
            f"{row['texts_mb']:,.0f} MB",
            f"{row['after_steps_mb']:,.0f} MB",
            f"{row['made_s']:.1f} s",
            f"{max(row['choose_s']):.1f} s",
            f"{max(row['state_bytes']) / 1e6:,.1f} MB",
        ]
        for row in _load("cost", DOCS / "studies" / "verl")["rooms"]
    ]
    return _markdown(["method", "prompts", "ids and texts", "memory", "made in", "slowest choice", "state"], lines)


def _gate() -> str:
    found = _load("gate", DOCS / "studies" / "real_model")
    figures = {
        "prompts": found["num_prompts"],
        "pass rate": f"{found['pass_rate']:.2f}",
        "mean of p (1 - p)": f"{found['mean_spread']:.3f}",
        "best quarter of prompts, over that mean": f"**{found['best_quarter_over_mean']:.2f}** (asked: 2)",
        **{
            f"quarter that {number} responses each choose, over it": f"{ratio:.2f}"
            for number, ratio in found["found_over_mean"].items()
        },
        "groups of four with a signal": f"**{found['signal_ratio_of_4']:.0%}** (asked: a third)",
    }
    rates = [
        (f"pass rate, `{task}`" + ("" if row["is_readable"] else ", difficulty hidden"), f"{row['pass_rate']:.2f}")
        for task, row in found["by_task"].items()
    ]
    return _markdown(["of the start", "figure"], [*figures.items(), *rates])


def _calibration() -> str:
    columns: dict[str, Cell] = {
        "run": "`{run}`",
        "`spread_scale`": "{spread_scale:g}",
        "p (1 - p) expected": "{expected:.3f}",
        "shown": "{shown:.3f}",
        "correlation": "{correlation:.2f}",
        "signal of the best quarter": "{signal_of_chosen:.0%}",
        "of all": "{signal_of_all:.0%}",
    }
    return _of(_load("calibration", DOCS / "studies" / "real_model")["rows"], columns)


TABLES: dict[str, Callable[[], str]] = {
    "speed": _speed,
    "rollout": _rollout,
    "rollout_seconds": _rollout_seconds,
    "drafts": _drafts,
    "draft_costs": _draft_costs,
    "engines": _engines,
    "engine_versions": _engine_versions,
    "busy_machine": _busy_machine,
    "update": _update,
    "update_memory": _update_memory,
    "step_vs_trl": _step_vs_trl,
    "step_vs_trl_search": _step_vs_trl_search,
    "step_ratios": _step_ratios,
    "overhead": _overhead,
    "startup": startup,
    "million_runs": million_runs,
    "million_choices": million_choices,
    "cluster": _cluster,
    "cluster_validation": _cluster_validation,
    "cluster_engines": _cluster_engines,
    "cluster_overlap": partial(_cluster_overlap, "1.5B"),
    "cluster_overlap_7b": partial(_cluster_overlap, "7B"),
    "step_overlap": _step_overlap,
    "engine_pool": _engine_pool,
    "attack_summary": _attack_summary,
    "attack": _attack,
    "attack_speed": _attack_speed,
    "grading": _grading,
    "grading_kinds": _grading_kinds,
    "curriculum": _curriculum,
    **{f"allocators_{mix.replace(' ', '_')}": partial(_allocators, mix) for mix in ("step 50", "step 400", "wide")},
    "exact_resume": _exact_resume,
    "soak": _soak,
    "soak_faults": _soak_faults,
    "soak_memory": _soak_memory,
    "hostile_environments": _hostile_environments,
    "hostile_decoding": _hostile_decoding,
    "environment_throughput": _environment_throughput,
    "field_tuning": FIELD_TUNING.summary,
    "smollm2_tuning": SMOLLM2_TUNING.table,
    "trl": partial(_started, TRL),
    "trl_tuning": trl_tuning,
    "trl_cgrpo": _trl_cgrpo,
    "age_limits": _age_limits,
    "verl_slow": _verl_slow,
    "verl_cost": _verl_cost,
    "verl_actor": _verl_actor,
    "verl_room": _verl_room,
    **_of_contests("field", (*FIELD, FRESH)),
    **_of_contests("smollm2", SMOLLM2),
    **{f"controls_{contest.name}": partial(_started, contest) for contest in CONTROLS},
    "field_newer_tuning": NEWER_TUNING.summary,
    "field_newer": partial(_started, NEWER),
    "field_newer_prices": NEWER.prices,
    "does_it_pay": does_it_pay,
    "controls_main": partial(does_it_pay, OF_CONTROLS),
    "default_model_main": partial(does_it_pay, OF_DEFAULT_MODEL),
    "calculator": calculator,
    "auto_simulation": auto_simulation,
    "hints_gate": hints_gate,
    **auto_field(),
    **AUTO_REAL_MODEL[False].tables("auto_real_model"),
    **AUTO_REAL_MODEL[True].tables("auto_real_model_gpu"),
    "study_coverage": coverage,
    "evaluation_coverage": evaluation_coverage,
    "real_model": partial(real_model, FIRST.name),
    "real_model_long": partial(real_model, LONG.name),
    "real_model_gpu": partial(real_model, GPU.name),
    "real_model_gpu_arms": partial(real_model, GPU_ARMS.name),
    "real_model_gpu_repeated": repeated_table,
    "real_model_together": together_table,
    "real_model_main": real_model_main,
    **{f"real_model_{name}_prices": REAL_MODEL[name].prices for name in (LONG.name, GPU_ARMS.name)},
    "staleness": staleness,
    "staleness_tuning": STALENESS_TUNING.table,
    "real_model_tuning": partial(real_model_tuning, FIRST),
    "real_model_long_tuning": partial(real_model_tuning, LONG),
    "real_model_gate": _gate,
    "real_model_calibration": _calibration,
    **VARIANCE_TABLES,
    **ESTIMATOR_TABLES,
    **METHOD_TABLES,
    **GPU_TABLES,
    **DROPPING_TABLES,
    **FORECAST_TABLES,
    **HOSTS_TABLES,
    **OBJECTIVE_TABLES,
    "when_to_use": when_to_use,
    "when_to_use_by_signal": by_signal,
}

if __name__ == "__main__":
    main()
