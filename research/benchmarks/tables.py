"""Put the benchmarks' figures into the pages of ``docs/``: ``python -m research.benchmarks.tables``.

Every table of those pages stands between ``<!-- table: name -->`` and ``<!-- end -->`` and is made here from the JSON
files in ``docs/performance/``, ``docs/rewards/``, ``docs/reliability/`` and ``docs/studies/`` and from
``docs/curriculum.json``, so that no figure is copied by hand. A test holds that pages and files agree.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from scipy import stats

from research.audit.coverage import table as evaluation_coverage
from research.benchmarks.grading.corpus import cells as graded_kind
from research.benchmarks.method_tables import TABLES as METHOD_TABLES
from research.benchmarks.report import DOCS, FOLDER, RELIABILITY, REWARDS
from research.benchmarks.report import markdown as _markdown
from research.studies.by_signal import table as by_signal
from research.studies.calculator import table as calculator
from research.studies.contest import Contest
from research.studies.coverage import table as coverage
from research.studies.field.compare import CONTESTS as FIELD
from research.studies.field.controls import CONTESTS as CONTROLS
from research.studies.field.dropping import TABLES as DROPPING_TABLES
from research.studies.field.fresh import CONTEST as FRESH
from research.studies.field.newer import CONTEST as NEWER
from research.studies.field.newer import TUNING as NEWER_TUNING
from research.studies.field.staleness import TUNING as STALENESS_TUNING
from research.studies.field.staleness import report as staleness
from research.studies.field.tune import TUNING as FIELD_TUNING
from research.studies.real_model.compare import CONTESTS as REAL_MODEL
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
    columns = {"way": "{way}", "busy processes beside it": "{others}", "generation": "{generation_s:.1f} s"}
    return _of(_load("busy_machine")["rows"], columns | {"update": "{update_s:.1f} s"})


def _engines() -> str:
    columns = {"requests at once": "{requests}", "vLLM, tokens/s": "{vllm}", "transformers": "{transformers}"}
    return _of(_load("engines")["rows"], columns)


def _rollout() -> str:
    found = _load("rollout")["rows"]
    ways = ("vllm", "barrier", "continuous", "ahead")
    lines = []
    for work, prompts in dict.fromkeys((row["work"], row["prompts"]) for row in found):
        rows = {row["way"]: row for row in found if (row["work"], row["prompts"]) == (work, prompts)}
        ahead = rows["ahead"]
        seconds = (f"{statistics.median(rows[way]['seconds']):.1f} s" for way in ways)
        ratios = f"**{ahead['over_vllm']:.2f}**", f"**{ahead['over_barrier']:.2f}**", f"{ahead['wasted']:.1%}"
        lines.append([f"{work}, {prompts}", *seconds, *ratios])
    ours = ("ours", "ours / vLLM", "ours / barrier", "dropped tokens")
    return _markdown(["work, prompts", "raw vLLM", "barrier", "nothing ahead", *ours], lines)


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
    ways = ["barrier + re-entry", "barrier", "nothing ahead", "ours", "GRPO, as many responses", "dropped"]
    return _markdown(["scenario", *ways], lines)


def _cluster_validation() -> str:
    columns = {"rollout": "{case}", "measured": "{measured_s:.2f} s", "simulated": "{simulated_s:.2f} s"}
    return _of(_load("cluster_sim")["validation"], columns | {"error": "{error:+.1%}"})


def _cluster_engines() -> str:
    columns = {"engines": "{engines}"}
    columns |= {name: f"{{{name}[seconds]:.0f}} s" for name in ("GRPO n=4", "barrier", "continuous")}
    columns |= {"ours": "{continuous, ahead[seconds]:.0f} s", "efficiency of GRPO": "{GRPO n=4[efficiency]:.0%}"}
    columns |= {"of barrier": "{barrier[efficiency]:.0%}", "of ours": "{continuous, ahead[efficiency]:.0%}"}
    return _of(_load("cluster_sim")["engines"], columns)


def _step_overlap() -> str:
    columns: dict[str, Cell] = {"engine and trainer": "{way}", "step": "{step_s:.0f} s"}
    columns["sampling"] = lambda row: f"{row['latency_s'] or row['rollout_s']:.0f} s"
    columns |= {"trainer waits": "{rollout_s:.0f} s", "update": "{update_s:.0f} s", "streamed": "{streamed_ratio:.0%}"}
    return _of(_load("step_overlap")["rows"], columns | {"per 1,000 tokens": "{s_per_1k_tokens:.2f} s"})


def _cluster_overlap() -> str:
    cells: dict[tuple[str, ...], dict[int, str]] = {}
    for row in _load("cluster_overlap")["rows"]:
        way = (row["model"], str(row["lag"]), row["way"], "streamed" if row["streamed"] else "at the end")
        cells.setdefault(way, {})[row["engines"]] = f"{row['period_s']:.1f} s, {row['efficiency']:.0%}"
    numbers = sorted({number for of in cells.values() for number in of})
    columns = ["model", "lag", "weights", "gradient", "1 engine", *(f"{number}" for number in numbers[1:])]
    lines = [[*way, *(of.get(number, "") for number in numbers)] for way, of in sorted(cells.items())]
    return _markdown(columns, lines)


def _engine_pool() -> str:
    columns: dict[str, Cell] = {
        "engine in": "{way}",
        "rollout": _median("seconds", "{:.2f} s"),
        "ratio": "{seconds_ratio:.2f}",
        "CPU": _median("cpu_seconds", "{:.2f} s"),
        "CPU ratio": "{cpu_seconds_ratio:.2f}",
        "weight sync": _median("sync_s", "{:.0f} ms", 1000),
        "same tokens": lambda row: "yes" if row["same_tokens"] else "no",
        "balance": lambda row: "" if row["balance"] is None else f"{row['balance']:.2f}",
    }
    return _of(_load("engine_pool")["rows"], columns)


def _attack() -> str:
    def milliseconds(name: str) -> Cell:
        return lambda row: "" if row[name] is None else f"{row[name]:.1f} ms"

    columns: dict[str, Cell] = {
        "reward": "{reward}",
        "family": "{family}",
        "responses": "{responses}",
        "false positives": lambda row: _share(row["false_positives"], row["known_wrong"]),
        "false negatives": _false_negatives,
        "failed grades": lambda row: ", ".join(f"{times} {why}" for why, times in row["failures"].items()) or "none",
        "median": milliseconds("median_ms"),
        "99%": milliseconds("p99_ms"),
        "longest": milliseconds("max_ms"),
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


def _grading_kinds() -> str:
    found = _load("grading", REWARDS)
    names = [grader["name"] for grader in found["graders"]]
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


def _supported() -> str:
    """Return how much of 1/p the exact estimator of log p follows: its factor on grad p, by exact sums, times p."""
    found = _load("estimator_bias", DOCS)
    columns = {rate: found["pass_rates"].index(rate) for rate in (0.02, 0.05, 0.1, 0.2, 0.5)}
    rows = [
        (name.partition(" / ")[0], *(f"{row['multiplier'][at] * rate:.0%}" for rate, at in columns.items()))
        for name, row in found["methods"].items()
        if name.endswith(" / exact log p")
    ]
    return _markdown(["sampler", *(f"p = {rate:g}" for rate in columns)], rows)


def _by_rate(form: Callable[[Mapping[str, Any], int], str]) -> str:
    """Return a figure of every combination of ``docs/estimator_bias.json`` by pass rate."""
    found = _load("estimator_bias", DOCS)
    columns = {rate: found["pass_rates"].index(rate) for rate in (0.02, 0.1, 0.2, 0.5, 0.8, 0.95)}
    rows = [[name, *(form(row, at) for at in columns.values())] for name, row in found["methods"].items()]
    return _markdown(["sampler / estimator", *(f"p = {rate:g}" for rate in columns)], rows)


def _multiplier() -> str:
    def form(row: Mapping[str, Any], at: int) -> str:
        value, wanted = row["multiplier"][at], row["wanted"][at]
        return f"{value:.3g} ({value / wanted:.{6 if row['exact'] else 2}f})"

    return _by_rate(form)


def _noise_per_signal() -> str:
    return _by_rate(lambda row, at: f"{row['noise_per_signal'][at]:.3g}")


def _giving_up() -> str:
    columns = {"pass rates": "{mix}", "price": "{price:g}", "responses per prompt": "{responses_per_prompt:.1f}"}
    columns |= {"completed per 1,000 responses": "{completed_per_1000:.0f}"}
    columns |= {"completed prompts": "{completed_ratio:.0%}"}
    return _of(_load("giving_up", DOCS)["rows"], columns)


def _memory_plan() -> str:
    def gib(*parts: str) -> Cell:
        return lambda row: f"{sum(row['gib'][part] for part in parts):.1f}"

    columns: dict[str, Cell] = {
        "model": "{name}",
        "GPUs": "{gpus}",
        "settings": "`{overrides}`",
        "weights, gradients, Adam": gib("weights", "gradients", "optimizer"),
        "activations, logits": gib("activations", "logits"),
        "engine, KV cache": gib("engine_weights", "kv_cache"),
        "GiB a GPU": lambda row: ("**{:.0f}**" if row["fits"] else "{:.0f}: does not fit").format(row["total_gib"]),
        "sequences in the KV cache": "{sequences_in_cache}",
    }
    return _of(_load("memory_plan")["plans"], columns)


def _gpu_update() -> str:
    found = _load("gpu_update")
    rows = [{"name": name, **row} for name, row in found["variants"].items()]
    names = {"ours": "`parameters=lora`", "checkpointing": "`parameters=lora`, checkpointing"}
    ours = found["variants"]["ours"]["seconds"]
    for name, title in names.items():
        row = found["lora"][name]
        rows.append({"name": title, **row, "times_ours": row["seconds"] / ours})
    columns: dict[str, Cell] = {
        "update": "{name}",
        "seconds (lowest to highest)": "{seconds:.2f} ({lowest_s:.2f} to {highest_s:.2f})",
        "beside ours": "{times_ours:.2f}",
        "tokens": "{computed_tokens:,}",
        "tokens/s": "{tokens_per_s:,}",
        "TFLOP/s": "{tflops:.0f}",
        "the first, s": "{first_s:.1f}",
        "peak GiB": "{peak_gib:.1f}",
    }
    return _of(rows, columns)


def _memory_activations() -> str:
    columns = {"layer of": "{model}", "tokens": "{tokens}"}
    columns |= {"bytes by formula": "{formula:,}", "bytes counted": "{counted:,}"}
    return _of(_load("memory_plan")["activations"], columns)


def _exact_resume() -> str:
    def same(key: str, total: str) -> Cell:
        return lambda row: f"{row[total] - row[key]} of {row[total]}"

    columns: dict[str, Cell] = {
        "mode": "{mode}",
        "run": "{run}",
        "rollouts with the same tokens": same("rollouts_with_other_tokens", "rollouts"),
        "with the same dropped tokens": same("rollouts_with_other_waste", "rollouts"),
        "largest difference of a log-probability": "{logprob_difference:.1g}",
        "updates with the same bits": same("updates_with_other_weights", "updates"),
        "largest difference of a weight": "{weight_difference:.1g}",
        "columns of metrics.csv that differ": lambda row: _named(row["metric_cells_that_differ"]),
        "prompts.csv, responses": lambda row: (
            "equal" if row["prompt_log_is_equal"] and row["responses_are_equal"] else "differ"
        ),
    }
    rows = [
        {"mode": row["mode"], "run": "again" if name == "again" else ", ".join(row["faults"])} | row[name]
        for row in _load("exact_resume", RELIABILITY)["rows"]
        for name in ("again", "killed")
    ]
    return _of(rows, columns)


def _named(columns: Sequence[str]) -> str:
    if len(columns) > 3:
        return str(len(columns))
    return ", ".join(f"`{column}`" for column in columns) or "none"


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
    columns: dict[str, Cell] = {"environments": "{name}", "steps": "{steps}"}
    for name, text in (("step", "a step"), ("gap", "between steps"), ("work", "of it computed")):
        columns |= {f"{text}, {part}": f"{{{name}_{part}_ms:.1f}} ms" for part in ("median", "p99", "max")}
    columns |= {
        "waits longer than the step before": "{longer_than_their_step}",
        "of them computed that long": "{computed_longer}",
        "of the time": "{share_waited:.1%}",
    }
    found = _load("hostile_environments", RELIABILITY)
    return _of(_named_rows(found["decoding"]), columns) + f"\n{_load_average(found).capitalize()}.\n"


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


def _allocators() -> str:
    from research.benchmarks.allocators import relative

    content = _load("allocators")
    width = stats.t.ppf(0.975, content["steps"] - 1)
    found = {(row["method"], row["mix"]): row for row in relative(content["rows"])}
    methods, mixes = (list(dict.fromkeys(names)) for names in zip(*found, strict=True))
    lines = []
    for method in methods:
        drawn = [found[method, mix]["responses_per_prompt"]["mean"] for mix in (mixes[0], mixes[-1])]
        cells = [method, "-".join(dict.fromkeys(f"{number:.1f}" for number in sorted(drawn)))]
        for mix in mixes:
            signals = found[method, mix]["signals_per_1000"]
            cells.append(f"{signals['mean']:.0f} ± {width * signals['error']:.0f}")
            for key in ("relative_variance", "relative_variance_by_tokens"):
                variance = found[method, mix][key]
                cells.append(f"{variance['mean']:.2f} ± {width * variance['error']:.2f}" if variance["error"] else "1")
        lines.append(cells)
    parts = [f"{mix}: {part}" for mix in mixes for part in ("signals", "variance", "by tokens")]
    return _markdown(["allocator", "responses per prompt", *parts], lines)


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
    return _markdown(["method", *(f"p = {rate:g}" for rate in rates), "off what it states"], lines)


def _gate() -> str:
    found = _load("gate", DOCS / "studies" / "real_model")
    figures = {
        "prompts": found["num_prompts"],
        "pass rate": f"{found['pass_rate']:.2f}",
        "mean of p (1 - p)": f"{found['mean_spread']:.3f}",
        "that of the best quarter, over it": f"**{found['best_quarter_over_mean']:.2f}** (asked: 2)",
        **{
            f"that of the quarter which {number} responses of each choose, over it": f"{ratio:.2f}"
            for number, ratio in found["found_over_mean"].items()
        },
        "groups of four with a signal": f"**{found['signal_ratio_of_4']:.0%}** (asked: a third)",
    }
    rates = [
        (f"pass rate, `{task}`" + ("" if row["is_readable"] else ", not to be read off"), f"{row['pass_rate']:.2f}")
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
    "rollout": _rollout,
    "engines": _engines,
    "busy_machine": _busy_machine,
    "update": _update,
    "update_memory": _update_memory,
    "step_vs_trl": _step_vs_trl,
    "step_vs_trl_search": _step_vs_trl_search,
    "step_ratios": _step_ratios,
    "overhead": _overhead,
    "cluster": _cluster,
    "cluster_validation": _cluster_validation,
    "cluster_engines": _cluster_engines,
    "cluster_overlap": _cluster_overlap,
    "step_overlap": _step_overlap,
    "engine_pool": _engine_pool,
    "attack_summary": _attack_summary,
    "attack": _attack,
    "attack_speed": _attack_speed,
    "grading": _grading,
    "grading_kinds": _grading_kinds,
    "curriculum": _curriculum,
    "supported": _supported,
    "allocators": _allocators,
    "memory_plan": _memory_plan,
    "gpu_update": _gpu_update,
    "memory_activations": _memory_activations,
    "exact_resume": _exact_resume,
    "soak": _soak,
    "soak_faults": _soak_faults,
    "soak_memory": _soak_memory,
    "hostile_environments": _hostile_environments,
    "hostile_decoding": _hostile_decoding,
    "environment_throughput": _environment_throughput,
    "multiplier": _multiplier,
    "noise_per_signal": _noise_per_signal,
    "giving_up": _giving_up,
    "field_tuning": FIELD_TUNING.table,
    "smollm2_tuning": SMOLLM2_TUNING.table,
    "trl": partial(_started, TRL),
    "trl_tuning": trl_tuning,
    "trl_cgrpo": _trl_cgrpo,
    **_of_contests("field", (*FIELD, FRESH)),
    **_of_contests("smollm2", SMOLLM2),
    **{f"controls_{contest.name}": partial(_started, contest) for contest in CONTROLS},
    "field_newer_tuning": NEWER_TUNING.table,
    "field_newer": partial(_started, NEWER),
    "field_newer_prices": NEWER.prices,
    "calculator": calculator,
    "study_coverage": coverage,
    "evaluation_coverage": evaluation_coverage,
    "real_model": partial(real_model, FIRST.name),
    "real_model_long": partial(real_model, LONG.name),
    "real_model_gpu": partial(real_model, GPU.name),
    "real_model_gpu_arms": partial(real_model, GPU_ARMS.name),
    "real_model_gpu_repeated": repeated_table,
    "real_model_together": together_table,
    **{f"real_model_{name}_prices": REAL_MODEL[name].prices for name in (LONG.name, GPU_ARMS.name)},
    "staleness": staleness,
    "staleness_tuning": STALENESS_TUNING.table,
    "real_model_tuning": partial(real_model_tuning, FIRST),
    "real_model_long_tuning": partial(real_model_tuning, LONG),
    "real_model_gate": _gate,
    "real_model_calibration": _calibration,
    **VARIANCE_TABLES,
    **METHOD_TABLES,
    **DROPPING_TABLES,
    "when_to_use": when_to_use,
    "when_to_use_by_signal": by_signal,
}

if __name__ == "__main__":
    main()
