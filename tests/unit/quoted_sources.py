"""Where the numbers of the pages' own words are from, as ``test_quoted_numbers.py`` reads it.

``TABLES``: the pages whose generated tables a page quotes beside its own. ``NUMBERS``: number by number

- a committed JSON file that has it, perhaps with the way to it: ``docs/a.json rows/0/seconds``;
- another text file that has it, written alike: ``conf/a.yaml``;
- ``= 93 / 45``: what follows from figures of these tables, each of which has to stand there (``= 1.37``: rounded);
- ``calc 1 - 0.7 ** 4``: arithmetic;
- ``ada audit LOG``: what this command prints;
- anything else: in words, for nothing that is committed has it.
"""

from __future__ import annotations

STUDIES = "docs/studies/"
MAIN = [f"{STUDIES}{name}.md" for name in ("cost_benefit", "real_model", "controls", "dropping_once")]
TABLES = {
    "README.md": [f"{STUDIES}{name}.md" for name in ("cost_benefit", "real_model", "auto_protocol")],
    "docs/auto.md": [f"{STUDIES}auto_protocol.md"],
    "docs/architecture.md": ["docs/performance.md"],
    "docs/choose/index.md": [f"{STUDIES}rule_costs.md"],
    "docs/start.md": [f"{STUDIES}real_model.md"],
    "docs/staleness.md": ["docs/simulated.md"],
    "docs/studies/controls.md": [f"{STUDIES}cost_benefit.md"],
    "docs/studies/cost_benefit.md": [f"{STUDIES}tiny_model.md"],
    "docs/studies/forecast.md": [f"{STUDIES}real_model.md"],
    "docs/studies/auto_protocol.md": [f"{STUDIES}cost_benefit.md"],
    "docs/studies/real_model_protocol.md": [f"{STUDIES}README.md", f"{STUDIES}real_model.md"],
    "docs/trl.md": MAIN,
    "docs/use.md": ["docs/gpu.md", "docs/estimators.md"],
    "docs/when_to_use.md": [
        *MAIN,
        *(
            f"{STUDIES}{name}.md"
            for name in ("rule_costs", "tiny_model", "default_model", "real_model_protocol", "auto_protocol")
        ),
    ],
}
"""By page, the pages whose tables it quotes."""

GPU = "docs/performance/gpu_update.json"
GATES = "docs/studies/real_model/gate"
TRL_LOG = "ada audit docs/audit/trl"
AUDITED = "printed by ada audit, on the logs that python -m research.audit.logs ours and verl make"
WALK = "the run of 2026-11-21 that the page shows; its folder is not kept"
GAP = "sync/logprob_gap of the default run, 2026-11-21"
FIELD = "docs/studies/cost_benefit/tuning.jsonl"
BY_HAND = "exact calculations, not kept"
TINY = "0.15 million parameters: the tiny model's size"
H100 = "measured by hand on the H100 on 2026-11-26, before the change that the sentence is about"
SUPERSEDED = "the percentile bootstrap of the protocol, before other intervals took its place"

NUMBERS: dict[str, dict[str, str]] = {
    "docs/allocators.md": {"0.4": "a setting of the simulation"},
    "docs/architecture.md": {
        "0.46": "docs/performance/rollout.json rows/8/over_vllm",
        "0.025": GAP,
        "0.3": "conf/callbacks/default.yaml",
    },
    "docs/audit.md": {
        "0.7": "conf/rollout/_service.yaml",
        **dict.fromkeys(["33 [26, 41]", "0.2 [0.0, 0.8]", "1.36 [1.27, 1.46]", "54 [49, 59]", "38 [33, 44]"], AUDITED),
        **dict.fromkeys(["15 [12, 19]", "1.20 [1.16, 1.23]", "1.94 [1.63, 2.36]", "28 %", "16 %"], AUDITED),
        "71 %": "calc 100 - 29",
        **dict.fromkeys(["29 [22, 38]", "29 [21, 37]", "0.2 [0.0, 1.5]", "1.32 [1.23, 1.42]"], TRL_LOG),
        **dict.fromkeys(["1.72 [1.48, 2.06]", "29 %", "25 %", "2.7 %"], TRL_LOG),
        "95.8 %": "docs/audit/coverage.json all", "93.0 %": "docs/audit/coverage.json lowest",
        "96.7 %": "docs/audit/coverage.json highest", "93.6 %": "calc 100 * 936 / 1000",
        "95.4 %": "python -m research.audit.coverage --prompts 40, printed",
    },
    "docs/cluster.md": {"1.5 %": "= 100 * (799 / 787 - 1)"},
    "docs/curriculum.md": {
        "1.3": "calc 100 * (0.5 * 0.5 / 1536) ** 0.5",
        "1.2": "= 81 / 68", "1.5": "= 124 / 81", "2.1": "= 93 / 45",
        "1.0": "= 132 / 130", "1.1": "= 196 / 183", "1.4": "= 152 / 112",
        "23 %": "= 100 - 77", "3 %": "= 100 - 97", "0.15": "an example", "0.5": "an example",
    },
    "docs/environments.md": {**dict.fromkeys(["0.1", "0.3", "0.4", "0.7"], "a version of a package")},
    "docs/estimators.md": {
        "0.06": "exact, two of each class, blocks of 4, at most 32: 0.059",
        "0.01": "docs/estimator_bias.json pass_rates/0",
        "2.68": "docs/estimator_bias.json simulated/z", "4.69": "docs/estimator_bias.json simulated/limit",
        "0.92": "calc 1 - 0.3 ** 4 - 4 * 0.7 * 0.3 ** 3", "0.52": "calc 1 - 0.6 ** 4 - 4 * 0.4 * 0.6 ** 3",
        "0.74": BY_HAND, "0.91": BY_HAND,
        "30 %": "= 100 * (1.30 - 1)", "9 %": "= 100 * (1 - 0.91)", "7 %": "= 100 * (1 - 0.93)",
        "1 %": BY_HAND, "5 %": BY_HAND, "10 %": BY_HAND, "60 %": "an example", "0.4": "a setting",
        "4.1": "calc 4 + 0.1",
    },
    "docs/extending.md": {"1.7": "calc 1 / 0.60"},
    "docs/auto.md": {
        "0.15": TINY, "0.9": "research/studies/field/auto.py", "0.93": "research/studies/field/auto.py",
        "0.05": "the default of curriculum.alpha",
        "3.0": "the logarithm of 20, to one digit",
        "1.4": "calc 2 ** 0.5",
    },
    "docs/gpu.md": {
        "2.2": "calc 24e6 / (3600 * 3000)",
        "29.8": f"{GPU} plan_gib/checkpointing",
        "1.21": f"{GPU} trainers/gpu/seconds",
        "2.9": f"{GPU} trainers/gpu/to_engine/gib", "3.3": f"{GPU} trainers/gpu/to_engine/seconds",
        "11 %": "= 100 * (1 - 0.89)",
        **dict.fromkeys(["2.65", "1.22", "1.42", "1.26"], H100),
        "92 %": "vLLM's default of gpu_memory_utilization",
    },
    "docs/math_grader.md": {
        "0.4": "ada_lightning/rewards/latex/compare.py", "0.5": "an example", "3.5": "an example",
    },
    "docs/methods.md": {
        "0.2": "conf/paper/base.yaml", "0.28": "conf/paper/base.yaml",
        **dict.fromkeys(
            ["5.4", "9.4", "0.5", "0.02", "1.25", "1.3", "2.3"], "tests/unit/training/losses/test_update_size.py"
        ),
        "5 %": "DUET's public code",
        **dict.fromkeys(["0.280", "0.270", "0.648", "0.656", "0.301", "0.312", "0.294"], "marin-community/marin#8765"),
    },
    "docs/metrics.md": {"0.025": GAP, "0.3": "conf/callbacks/default.yaml"},
    "docs/hints.md": {"0.05": "a setting", "0.25": "ada_lightning/methods/hints.py"},
    "docs/studies/hints.md": {
        **dict.fromkeys(["0.05", "0.1"], "a threshold of this protocol"),
        **dict.fromkeys(["0.6 %", "3.0 %", "16 %"], "docs/studies/real_model_protocol.md"),
    },
    "docs/own_loop.md": {
        "0.02": "python -m research.benchmarks.startup, printed", "0.06": "calc (0.5 * 0.5 / 64) ** 0.5",
        "0.12": "python -m research.benchmarks.startup, printed; docs/one_file.json steps/0/pass_rate",
        "0.7": "docs/one_file.json steps/29/pass_rate", "0.38": "a version",
    },
    "docs/performance.md": {
        "1.6": "Reinforce-Ada, arXiv:2510.04996v3, Table 3", "11 %": "= 100 * (1 - 0.89)",
        "10 %": "the default of max_waste_ratio in core/schedule.py",
    },
    "docs/rewards.md": {"0.7": "conf/rollout/_service.yaml"},
    "docs/runs.md": {
        "0.000 [0.000, 0.141]": "an interval that analysis/evaluation/test_intervals.py works out",
        "0.05": "the usual limit",
        "2 %": "worked out for rates that differ between prompts; not kept",
    },
    "docs/scaling.md": {"2 %": "calc 100 * (1 - 29.76 / 30.37)"},
    "docs/simulated.md": dict.fromkeys(["0.2", "0.8", "0.5"], "a setting of the simulation"),
    "docs/staleness.md": {"0.06": "= 0.439 - 0.378", "0.04": "= 0.434 - 0.390"},
    "docs/start.md": {"80 %": "an example"},
    "docs/studies/README.md": {"1.6": "docs/studies/coverage.json", "92 %": "= 92.0"},
    "docs/studies/auto_protocol.md": {
        "0.9": "research/studies/field/auto.py", "0.93": "research/studies/field/auto.py",
        "1.15": "research/studies/real_model/compare.py", "1.3": "research/studies/real_model/compare.py",
    },
    "docs/studies/cost_benefit.md": {
        "0.15": TINY, "0.18": FIELD, "0.37": FIELD,
        "1.9": "read off the picture", "2.1": "read off the picture",
    },
    "docs/studies/dropping_once.md": {
        "3 %": "8 responses a prompt, of ten such budgets",
        "0.15": TINY, "4.5": "calc (8 + 4 * 0.57) / (4 * 0.57)",
        "50 %": "docs/studies/dropping_once/runs.jsonl", "59 %": "docs/studies/dropping_once/runs.jsonl",
        "44 %": "docs/studies/cost_benefit/controls.jsonl", "67 %": "docs/studies/cost_benefit/newer.jsonl",
        "70 %": "docs/studies/cost_benefit/controls.jsonl",
    },
    "docs/studies/gradient_variance.md": {
        "134.5": "millions of parameters of SmolLM2-135M",
        "1.4": "= 1.37", "2.2": "= 2.15", "0.5": "= 0.50", "0.8": "= 0.83", "1.0": "= 1.04", "1.5": "= 1.50",
        "1.8": "= 1.84", "3.7": "= 3.65", "2.1": "= 2.05", "3.1": "= 3.07",
        "6.0": "= 5.96", "1.2": "= 1.16", "1.6": "= 1.61",
    },
    "docs/studies/real_model.md": {"1.42": SUPERSEDED, "1.3": "a definition", "5 %": "a definition"},
    "docs/studies/forecast.md": {"50 %": "the target that was set", "3.5": "calc 4 - 2 / 4"},
    "docs/studies/real_model_protocol.md": {
        "1.15": "a definition", "1.3": "a definition",
        "0.002": "docs/studies/real_model/first.jsonl: last evaluations, grpo_chosen minus grpo_n4",
        "0.107": "docs/studies/real_model/first.jsonl: last evaluations, grpo_chosen minus grpo_n4",
        "25.7 %": f"{GATES}_first_ranges.json signal_ratio_of_4",
        "32.9 %": f"{GATES}_second_ranges.json signal_ratio_of_4",
        "0.6 %": f"{GATES}_first_ranges.json by_task", "3.0 %": f"{GATES}_first_ranges.json by_task",
        "4.3 %": f"{GATES}_second_ranges.json by_task/prime_factorization/pass_rate",
        "90 %": "= 100 * 1.92 / 2.14", "0.5": "size of a checkpoint in float32",
        "0.211": "docs/studies/real_model/first_tuning.jsonl", "0.238": "docs/studies/real_model/first_tuning.jsonl",
        "0.297": "docs/studies/real_model/long.jsonl",
        **dict.fromkeys(["1.62", "1.34", "1.97", "0.56", "0.42", "0.88", "1.99", "1.60", "2.71"], SUPERSEDED),
    },
    "docs/studies/rule_costs.md": {"15 %": "= 100 - 100 * 0.85"},
    "docs/studies/tiny_model.md": {
        "0.15": TINY, "0.22": FIELD, "0.2": "conf/paper/base.yaml", "0.28": "conf/paper/base.yaml",
        "0.015": "spread of runs on the first model, 2026-11-22",
    },
    "docs/glossary.md": {"0.7": "conf/rollout/_service.yaml"},
    "docs/trl.md": {
        "0.7": "conf/rollout/_service.yaml", "0.15": TINY, "0.5": "an even chance",
        "0.1": "an example", "1.5": "an example", "0.18": "calc 1 / 31 ** 0.5",
        "0.34": "calc 1 - 0.1 ** 4 - 0.9 ** 4", "70 %": "docs/when_to_use.md, a rule",
    },
    "docs/use.md": {"1.7": "= 1.74"},
    "docs/verl.md": {
        "7 %": "rounded, of the actor's busy ms in docs/studies/verl/cost.json",
        "5.11": "a version", "5.19": "a version",
    },
    "docs/walkthrough.md": dict.fromkeys(
        [
            "0.055 [0.037, 0.082]", "0.330 [0.240, 0.430]", "0.100 [0.050, 0.170]", "23.7 [23.2, 24.2]",
            "0.494 [0.414, 0.576]", "0.740 [0.650, 0.820]", "0.550 [0.455, 0.645]", "10.7 [10.4, 11.0]",
            "0.485 [0.401, 0.570]", "0.650 [0.550, 0.740]", "0.520 [0.425, 0.615]", "0.009 [0.043, 0.027]",
            "0.090 [0.170, 0.030]", "0.030 [0.090, 0.025]", "0.63", "0.022", "0.41", "0.240", "0.426", "0.162", "0.015",
            "90 %", "47 %",
        ],
        WALK,
    ),
    "docs/when_to_use.md": {
        "0.15": TINY, "67 %": "docs/studies/cost_benefit/newer.jsonl", "15 %": "= 100 - 100 * 0.85",
        "0.02": "= 0.023", "0.03": "= 0.033", "0.3": "= 0.32", "0.5": "an even chance",
        "1.3": "docs/studies/cost_benefit/smollm2.jsonl: ratios",
    },
}  # fmt: skip
"""By page and number."""
