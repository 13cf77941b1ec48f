"""Put the benchmarks' figures into the pages of ``docs/``: ``python -m research.benchmarks.tables``.

Every table of those pages stands between ``<!-- table: name -->`` and ``<!-- end -->`` and is made here from the JSON
files in ``docs/performance/``, ``docs/rewards/``, ``docs/reliability/`` and ``docs/studies/`` and from
``docs/curriculum.json``, so that no figure is copied by hand. A test holds that pages and files agree.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from research.benchmarks.markdown import markdown as _markdown
from research.benchmarks.report import FOLDER, RELIABILITY, REWARDS
from research.studies.drift import table as drift
from research.studies.field.tables import TABLES as FIELD_TABLES
from research.studies.field.tune import NotTunedError
from research.studies.group_signal.tables import TABLES as SIGNAL_TABLES
from research.studies.variance.tables import TABLES as VARIANCE_TABLES
from research.studies.when_to_use import table as when_to_use

PAGES = tuple(
    FOLDER.parent / f"{name}.md"
    for name in (
        "performance",
        "curriculum",
        "estimators",
        "rewards",
        "scaling",
        "reliability",
        "methods",
        "when_to_use",
        "studies/cost_benefit",
        "studies/drift",
        "studies/gradient_variance",
        "studies/hard_prompts",
        "studies/levers",
        "studies/signal_loss",
    )
)
_TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
    """Rewrite the pages' tables."""
    for page in PAGES:
        page.write_text(filled(page.read_text()))


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


def _rollout() -> str:
    found = _load("rollout")["rows"]
    works = list(dict.fromkeys((row["work"], row["prompts"]) for row in found))
    lines = []
    for work, prompts in works:
        rows = {row["way"]: row for row in found if (row["work"], row["prompts"]) == (work, prompts)}
        ahead = rows["ahead"]
        lines.append(
            [
                f"{work}, {prompts}",
                *(
                    f"{statistics.median(rows[way]['seconds']):.1f} s"
                    for way in ("vllm", "barrier", "continuous", "ahead")
                ),
                f"**{ahead['over_vllm']:.2f}**",
                f"**{ahead['over_barrier']:.2f}**",
                f"{ahead['wasted']:.1%}",
            ]
        )
    head = [
        "work, prompts",
        "raw vLLM",
        "barrier",
        "continuous",
        "ours",
        "ours / vLLM",
        "ours / barrier",
        "dropped tokens",
    ]
    return _markdown(head, lines)


def _update() -> str:
    found = _load("update")["speed"]
    rows = [
        (kind.replace("_", " "), name, f"{row['seconds']:.2f} s", row["computed_tokens"], f"{row['times_ours']:.2f}")
        for kind, variants in found.items()
        for name, row in variants.items()
    ]
    return _markdown(["lengths", "variant", "seconds", "tokens computed", "seconds over ours"], rows)


def _update_memory() -> str:
    rows = [
        (name, f"{row['before_gib']:.2f} GiB", f"{row['peak_gib']:.2f} GiB")
        for name, row in _load("update")["memory"].items()
    ]
    return _markdown(["case", "before", "peak"], rows)


def _step_vs_trl() -> str:
    rows = [
        (
            name,
            f"{row['step_s']:.1f} s",
            f"{row['rollout_s']:.1f} s",
            f"{row['update_s']:.1f} s",
            f"{row['tokens']:.0f}",
            f"{row['signal_ratio']:.0%}",
        )
        for name, row in _load("step_vs_trl")["medians"].items()
    ]
    return _markdown(["variant", "step", "rollout", "update", "tokens", "groups with signal"], rows)


def _step_ratios() -> str:
    rows = [
        (name, f"{row['per_step']:.2f}", f"{row['per_token']:.2f}")
        for name, row in _load("step_vs_trl")["ratios"].items()
    ]
    return _markdown(["times faster", "per step", "per generated token"], rows)


def _overhead() -> str:
    found = _load("overhead")
    ordered = sorted(found["shares"].items(), key=lambda item: -item[1])
    rows = [(part, f"{share:.2%}") for part, share in ordered] + [("**overhead**", f"**{found['overhead']:.2%}**")]
    rows.append(("peak memory of the process, engine included", f"{found['peak_gib']:.1f} GiB"))
    return _markdown(["part", "share of a step"], rows)


def _adaptive_cost() -> str:
    found = _load("adaptive_cost")

    def median(rows: Sequence[dict[str, float]], name: str) -> float:
        return statistics.median(row[name] for row in rows)

    rows = [
        (
            method,
            *(f"{median(steps, name):.1f} s" for name in ("step_s", "time/rollout_s", "time/update_s")),
            *(f"{median(steps, name):.0f}" for name in ("rollout/num_sampled", "rollout/generated_tokens")),
        )
        for method, steps in found["steps"].items()
    ]
    return _markdown(["method", "step", "rollout", "update", "responses", "tokens"], rows)


def _adaptive_ratios() -> str:
    rows = [
        (name, *(f"{row[key]:.2f}" for key in ("step", "step_per_token", "rollout", "rollout_per_token")))
        for name, row in _load("adaptive_cost")["ratios"].items()
    ]
    return _markdown(["ada_seq_balance over", "step", "step, per token", "rollout", "rollout, per token"], rows)


def _cluster() -> str:
    lines = []
    for scenario in _load("cluster_sim")["scenarios"]:
        rows = {row["method"]: row for row in scenario["rows"]}
        equal = next(name for name in rows if name.startswith("GRPO") and name != "GRPO n=4")
        ratios = [
            f"{rows[name]['relative_to_grpo_4']:.2f}"
            for name in ("barrier + re-entry", "barrier", "continuous", "continuous, ahead")
        ]
        lines.append(
            [
                f"{scenario['model']}, {scenario['mix'].removeprefix('7B, ')}, M={scenario['block']}",
                *ratios,
                f"{rows[equal]['relative_to_grpo_4']:.2f} ({equal.removeprefix('GRPO ')})",
                f"{rows['continuous, ahead']['waste']:.1%}",
            ]
        )
    head = ["scenario", "barrier + re-entry", "barrier", "continuous", "ours", "GRPO, as many responses", "dropped"]
    return _markdown(head, lines)


def _cluster_validation() -> str:
    rows = [
        (row["case"], f"{row['measured_s']:.2f} s", f"{row['simulated_s']:.2f} s", f"{row['error']:+.1%}")
        for row in _load("cluster_sim")["validation"]
    ]
    return _markdown(["rollout", "measured", "simulated", "error"], rows)


def _cluster_engines() -> str:
    rows = [
        (
            row["engines"],
            *(f"{row[name]['seconds']:.0f} s" for name in ("GRPO n=4", "barrier", "continuous", "continuous, ahead")),
            *(f"{row[name]['efficiency']:.0%}" for name in ("GRPO n=4", "barrier", "continuous, ahead")),
        )
        for row in _load("cluster_sim")["engines"]
    ]
    head = ["engines", "GRPO n=4", "barrier", "continuous", "ours", "efficiency of GRPO", "of barrier", "of ours"]
    return _markdown(head, rows)


def _engine_pool() -> str:
    rows = [
        (
            row["way"],
            f"{statistics.median(row['seconds']):.2f} s",
            f"{row['seconds_ratio']:.2f}",
            f"{statistics.median(row['cpu_seconds']):.2f} s",
            f"{row['cpu_seconds_ratio']:.2f}",
            f"{1000 * statistics.median(row['sync_s']):.0f} ms",
            "yes" if row["same_tokens"] else "no",
            "" if row["balance"] is None else f"{row['balance']:.2f}",
        )
        for row in _load("engine_pool")["rows"]
    ]
    head = ["engine in", "rollout", "ratio", "CPU", "ratio", "weight sync", "same tokens", "balance"]
    return _markdown(head, rows)


def _engine_pool_affinity() -> str:
    rows = [
        (
            row["name"],
            f"{statistics.median(row['seconds']):.2f} s",
            f"{row['seconds_ratio']:.2f}",
            f"{row['cpu_seconds_ratio']:.2f}",
            f"{row['balance']:.2f}",
        )
        for row in _load("engine_pool")["affinity"]
    ]
    return _markdown(["responses of a prompt", "rollout", "ratio", "CPU ratio", "balance"], rows)


def _growth() -> str:
    rows = [
        (
            row["phase"],
            f"{row['value']} {row['axis']}",
            row["tokens"],
            f"{row['ms_per_token']:.2f} ms",
            f"{row['peak_gib']:.1f} GiB",
        )
        for row in _load("growth")["rows"]
    ]
    return _markdown(["phase", "size", "tokens", "per token", "peak memory"], rows)


def _engine() -> str:
    rows = _load("engine")["rows"]
    base = rows[0]["tokens_per_s"]
    return _markdown(
        ["setting", "tokens/s", "ratio", "ready after"],
        (
            (
                row["variant"],
                f"{row['tokens_per_s']:.0f}",
                f"{row['tokens_per_s'] / base:.2f}",
                f"{row['start_s']:.0f} s",
            )
            for row in rows
        ),
    )


def _attack() -> str:
    rows = []
    for row in _load("reward_attack", REWARDS)["rows"]:
        failures = ", ".join(f"{count} {reason}" for reason, count in row["failures"].items()) or "none"
        rows.append(
            (
                row["reward"],
                row["family"],
                row["responses"],
                _share(row["false_positives"], row["known_wrong"]),
                _share(row["false_negatives"], row["known_verdicts"] - row["known_wrong"]),
                failures,
                *(f"{row[name]:.1f} ms" if row[name] is not None else "" for name in ("median_ms", "p99_ms", "max_ms")),
            )
        )
    head = [
        "reward",
        "family",
        "responses",
        "false positives",
        "false negatives",
        "failed grades",
        "median",
        "99%",
        "longest",
    ]
    return _markdown(head, rows)


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
        (
            "right answers taken for wrong (false negatives)",
            _share(found["false_negatives"], found["known_verdicts"] - found["known_wrong"]),
        ),
        ("different answers of patterns judged by hand, among these", found["judged_by_hand"]),
        ("longest time without a grade", f"{found['longest_silence_s']:.1f} s"),
    ]
    return _markdown(["all families", "number"], rows)


def _attack_speed() -> str:
    rows = [
        (row["work"], row["reward"], row["responses"], f"{row['grades_per_s']:.0f}")
        for row in _load("reward_attack", REWARDS)["speed"]
    ]
    return _markdown(["responses", "reward", "number", "grades per second, 2 workers"], rows)


def _curriculum() -> str:
    rows = [
        (
            row["mix"],
            row["sampler"],
            row["curriculum"],
            f"{row['signal_ratio']:.0%}",
            f"{row['responses_per_prompt']:.1f}",
            f"{row['signal_per_1000_responses']:.0f}",
            f"{row['visited_ratio']:.0%}",
            row["most_visits"],
        )
        for row in json.loads((FOLDER.parent / "curriculum.json").read_text())["rows"]
    ]
    head = [
        "pass rates",
        "sampler",
        "curriculum",
        "prompts with signal",
        "responses per prompt",
        "signals per 1,000 responses",
        "of all prompts visited",
        "most visits to one",
    ]
    return _markdown(head, rows)


def _supported() -> str:
    """Return how much of 1/p the exact estimator of log p follows: its factor on grad p, by exact sums, times p."""
    found = json.loads((FOLDER.parent / "estimator_bias.json").read_text())
    shown = [found["pass_rates"].index(rate) for rate in (0.02, 0.05, 0.1, 0.2, 0.5)]
    rates = [found["pass_rates"][column] for column in shown]
    rows = [
        (
            name.partition(" / ")[0],
            *(f"{row['multiplier'][column] * rate:.0%}" for column, rate in zip(shown, rates, strict=True)),
        )
        for name, row in found["methods"].items()
        if name.endswith(" / exact log p")
    ]
    return _markdown(["sampler", *(f"p = {rate:g}" for rate in rates)], rows)


def _memory_plan() -> str:
    lines = []
    for row in _load("memory_plan")["plans"]:
        gib = row["gib"]
        shared = gib["weights"] + gib["gradients"] + gib["optimizer"]
        lines.append(
            (
                row["name"],
                row["gpus"],
                f"`{row['overrides']}`",
                f"{shared:.1f}",
                f"{gib['activations'] + gib['logits']:.1f}",
                f"{gib['engine_weights'] + gib['kv_cache']:.1f}",
                f"**{row['total_gib']:.0f}**" if row["fits"] else f"{row['total_gib']:.0f}: does not fit",
                row["sequences_in_cache"],
            )
        )
    head = [
        "model",
        "GPUs",
        "settings",
        "weights, gradients, Adam",
        "activations, logits",
        "engine, KV cache",
        "GiB a GPU",
        "sequences in the KV cache",
    ]
    return _markdown(head, lines)


def _memory_activations() -> str:
    rows = (
        (row["model"], row["tokens"], f"{row['formula']:,}", f"{row['counted']:,}")
        for row in _load("memory_plan")["activations"]
    )
    return _markdown(["layer of", "tokens", "bytes by formula", "bytes counted"], rows)


def _exact_resume() -> str:
    rows = []
    for row in _load("exact_resume", RELIABILITY)["rows"]:
        for name in ("again", "killed"):
            found = row[name]
            rows.append(
                (
                    row["mode"],
                    name if name == "again" else ", ".join(row["faults"]),
                    f"{found['rollouts'] - found['rollouts_with_other_tokens']} of {found['rollouts']}",
                    f"{found['rollouts'] - found['rollouts_with_other_waste']} of {found['rollouts']}",
                    f"{found['logprob_difference']:.1g}",
                    f"{found['updates'] - found['updates_with_other_weights']} of {found['updates']}",
                    f"{found['weight_difference']:.1g}",
                    _named(found["metric_cells_that_differ"]),
                    "equal" if found["prompt_log_is_equal"] and found["responses_are_equal"] else "differ",
                )
            )
    head = [
        "mode",
        "run",
        "rollouts with the same tokens",
        "with the same dropped tokens",
        "largest difference of a log-probability",
        "updates with the same bits",
        "largest difference of a weight",
        "columns of metrics.csv that differ",
        "prompts.csv, responses",
    ]
    return _markdown(head, rows)


def _named(columns: Sequence[str]) -> str:
    if len(columns) > 3:
        return str(len(columns))
    return ", ".join(f"`{column}`" for column in columns) or "none"


def _reproducible_cost() -> str:
    rows = [
        (row["variant"], f"{row['seconds']:.1f} s", f"{row['ratio']:.2f}", row["responses"], row["wasted_tokens"][-1])
        for row in _load("reproducible_cost", RELIABILITY)["rows"]
    ]
    return _markdown(["verdicts count", "rollout", "ratio", "responses", "tokens drawn ahead and dropped"], rows)


def _checkpoint_cost() -> str:
    found = _load("checkpoint_cost", RELIABILITY)["seconds"]
    rows = [
        ("write the files", f"{found['write']:.2f} s"),
        ("checksums and manifest", f"{found['manifest']:.2f} s"),
        ("verify at a resume", f"{found['verify']:.2f} s"),
        ("SHA-256 instead, for comparison", f"{found['sha256']:.2f} s"),
    ]
    return _markdown(["part", "seconds"], rows)


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
    rows = [
        (f"{row['seconds']:.0f} s", f"{row['second_quarter_mb']:.0f} MB", f"{row['last_quarter_mb']:.0f} MB")
        for row in _load("soak", RELIABILITY)["memory"]["longest_sessions"]
    ]
    return _markdown(["session", "highest in its second quarter", "highest in its last quarter"], rows)


def _calm_memory() -> str:
    found = _load("calm_memory", RELIABILITY)
    head = ["", "first quarter", "second", "third", "last"]
    return _markdown(head, [(f"{found['steps']} steps", *(f"{mb} MB" for mb in found["quarters_mb"]))])


def _allocators() -> str:
    from research.benchmarks.allocators import relative

    found = relative(_load("allocators")["rows"])
    mixes = list(dict.fromkeys(row["mix"] for row in found))
    lines = []
    for method in dict.fromkeys(row["method"] for row in found):
        rows = {row["mix"]: row for row in found if row["method"] == method}
        first = rows[mixes[0]]["responses_per_prompt"]["mean"], rows[mixes[-1]]["responses_per_prompt"]["mean"]
        drawn = f"{first[0]:.1f}" if first[0] == first[1] else f"{min(first):.1f}-{max(first):.1f}"
        cells = [method, drawn]
        for mix in mixes:
            signals, variance = rows[mix]["signals_per_1000"], rows[mix]["relative_variance"]
            cells.append(f"{signals['mean']:.0f} ± {2 * signals['error']:.0f}")
            cells.append(f"{variance['mean']:.2f} ± {2 * variance['error']:.2f}" if variance["error"] else "1")
        lines.append(cells)
    head = [
        "allocator",
        "responses per prompt",
        *(f"{mix}: {part}" for mix in mixes for part in ("signals", "variance")),
    ]
    return _markdown(head, lines)


def _allocators_planning() -> str:
    lines = [
        (
            row["method"],
            *(f"{1000 * row[size]['seconds']:.1f} ms" for size in ("512", "8192")),
            f"{row['8192']['of_rollout']:.2%}",
        )
        for row in _load("allocators")["planning"]
        if row["8192"]["seconds"] > 1e-3
    ]
    head = [
        "plans a step of",
        "512 prompts",
        "8,192 prompts",
        "of the larger one's rollout (8 x 512 tokens at 50,000 a second)",
    ]
    return _markdown(head, lines)


TABLES: dict[str, Callable[[], str]] = {
    "rollout": _rollout,
    "update": _update,
    "update_memory": _update_memory,
    "step_vs_trl": _step_vs_trl,
    "step_ratios": _step_ratios,
    "overhead": _overhead,
    "adaptive_cost": _adaptive_cost,
    "adaptive_ratios": _adaptive_ratios,
    "cluster": _cluster,
    "cluster_validation": _cluster_validation,
    "cluster_engines": _cluster_engines,
    "engine_pool": _engine_pool,
    "engine_pool_affinity": _engine_pool_affinity,
    "growth": _growth,
    "engine": _engine,
    "attack_summary": _attack_summary,
    "attack": _attack,
    "attack_speed": _attack_speed,
    "curriculum": _curriculum,
    "supported": _supported,
    "allocators": _allocators,
    "allocators_planning": _allocators_planning,
    "memory_plan": _memory_plan,
    "memory_activations": _memory_activations,
    "exact_resume": _exact_resume,
    "reproducible_cost": _reproducible_cost,
    "checkpoint_cost": _checkpoint_cost,
    "soak": _soak,
    "soak_faults": _soak_faults,
    "soak_memory": _soak_memory,
    "calm_memory": _calm_memory,
    **FIELD_TABLES,
    **SIGNAL_TABLES,
    **VARIANCE_TABLES,
    "drift": drift,
    "when_to_use": when_to_use,
}

if __name__ == "__main__":
    main()
