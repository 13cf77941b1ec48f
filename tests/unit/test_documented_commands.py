"""Commands of the pages and scripts: they compose, pass the check and mean what the page says."""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from functools import cache
from itertools import zip_longest

import pytest
import yaml
from hydra import compose, initialize_config_dir

from ada_lightning.audit import command
from ada_lightning.config import overrides as overrides_module
from ada_lightning.config.check import check_config, override_errors
from ada_lightning.config.notices import settings_notices
from ada_lightning.config.prepare import check_prepare_config
from ada_lightning.config.view import ConfigView
from ada_lightning.methods.catalog import entries, names
from ada_lightning.parallel.environment import Launch
from ada_lightning.parallel.hardware import choose_hardware
from ada_lightning.programs import export, report
from ada_lightning.programs.start import CONFIG_DIR as CONF
from research.studies.real_model.setting import ARMS, GPU_ARMS, LONG
from tests.unit.config.composing import composed, problems
from tests.unit.documented import PAGES, ROOT, SOURCES, arguments, commands, settings

SEVERAL_PROCESSES = [
    (page, overrides)
    for page in ("docs/use.md", "docs/scaling.md", "docs/slurm_example.sh")
    for overrides in commands(page)
    if "trainer=fsdp" in overrides
]


OWN_DATA = [
    (page, program, overrides)
    for page in ("README.md", "docs/use.md", "docs/gpu.md", "docs/data.md")
    for program in ("train", "prepare")
    for overrides in commands(page, program)
    if any(word.startswith("data.source.path=") for word in overrides) and "..." not in " ".join(overrides)
]

SYSTEM_PACKAGES = "build-essential git make python3-dev python3-venv libnuma1"
"""Debian's: for pycosat and vLLM's kernels, which are compiled; the library that vLLM links."""

PROGRAMS = ("train", "evaluate", "prepare")

COMPOSED = [
    (page, program, [word for word in words if word == "-m" or re.fullmatch(r"[^$<>|]+=[^$<>|]+", word)])  # no blanks
    for page in (*PAGES, *SOURCES)
    for program in PROGRAMS
    for words in arguments(page, program)
    if "--config-dir" not in words  # names of somebody's own
    and (page in PAGES or "=" in " ".join(words))
]

NEEDS = {"objective": ["advantage=exact"]}
"""What a group that is there beside one option only goes with."""
OWN = {
    "sampler=contrast",
    "selection=shortest",
    "loss=soft_clip",  # docs/extending.md makes them
    "+experiment=mine",
    "trainer.rollout_data_dir=DIR",  # verl's, and the next
    "data.train_batch_size=128",
    "+experiment=NAME",
    "data.dataloader.num_workers=0",  # SkyRL's, as those that follow
    "data.dataloader.persistent_workers=false",
    "trainer.algorithm.advantage_estimator=ada",
    "trainer.algorithm.loss_reduction=seq_mean_token_sum_norm",
    "trainer.algorithm.max_seq_len=4096",
    "trainer.algorithm.policy_loss_type=rollout_is",
    "trainer.algorithm.use_kl_loss=false",
    "trainer.fully_async.enabled=true",
    "trainer.policy_mini_batch_size=128",
    "trainer.train_batch_size=128",
}

PARSED = {"report": report._arguments, "export": export._arguments, "audit": command._arguments}
"""Programs that read their words themselves."""


@pytest.fixture
def problems_file(tmp_path):
    lines = [json.dumps({"problem": f"{n} + {n} = ?", "answer": str(2 * n)}) for n in range(300)]
    (tmp_path / "problems.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path / "problems.jsonl"


def here(overrides, problems_file):
    """The command with data and a model that need no network."""
    local = [f"data.source.path={problems_file}" if "data.source.path=" in word else word for word in overrides]
    return [*local, "model=tiny", "run_name=test"]


def checked(overrides, monkeypatch, launched):
    assert override_errors(overrides, CONF, "train") == []
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("train", overrides)
    choose_hardware(cfg.trainer, num_gpus=8, launched=launched)
    monkeypatch.setattr("ada_lightning.config.parallel.launch", lambda: launched)
    check_config(cfg)
    return cfg


def without_those_of_a_run(words):
    """What of a command can be checked without the run that it continues or evaluates."""
    of_run = "reward." if any(word.startswith("checkpoint=") for word in words) else "+experiment=..."
    return [word for word in words if not word.startswith(of_run)]


@pytest.mark.parametrize(("page", "program", "words"), COMPOSED, ids=lambda value: str(value)[:80])
def test_a_command_of_a_page_names_what_there_is(page, program, words):
    named = without_those_of_a_run(words)
    experiment = ["+experiment=grpo"] if program == "train" and not any("experiment=" in word for word in named) else []
    assert override_errors([*named, *experiment], CONF, program) == []


@pytest.fixture
def composed_once(monkeypatch):
    """Hundreds of settings are laid over few configurations."""
    compose_plain = overrides_module._compose_plain
    once = cache(lambda name, lines: compose_plain(name, lines))
    monkeypatch.setattr(overrides_module, "_compose_plain", lambda name, lines: once(name, tuple(lines)))


def written_out(line):
    """Arguments that ``key=a|b`` and ``key=`` stand for: a value that is left open is any option, or any text."""
    key, _, value = line.partition("=")
    if not value and (options := names(CONF, key.lstrip("+~"))):
        value = options[0]
    return [f"{key}={choice}" for choice in (value or "text").split("|") if choice]


@cache
def options_of(group):
    return [f"{group}={name}" for name in names(CONF, group)]


def text_of(option):
    """What an option has, as YAML."""
    path = option.replace("=", "/")
    file = CONF / f"{path}.yaml"
    return file.read_text() if file.exists() else yaml.safe_dump(entries()[path].node)


@cache
def parts_of(program):
    return set(composed(program=program))


def programs_of(head):
    """Programs that have a part; of what none has at first, all."""
    return [program for program in PROGRAMS if head in parts_of(program)] or PROGRAMS


def contexts(key, neighbours):
    """Command lines with which a setting may make sense, the likeliest first: alone, beside those in its line, each
    option around it."""
    head, *below = re.split("[./]", key.lstrip("+~"))

    def num_named(beside):
        return sum(f"{part}:" in text_of(option) for option in beside for part in set(below))

    yield []
    yield from filter(None, [neighbours, NEEDS.get(head)])
    if below:
        options, inner_options = options_of(head), options_of(f"{head}/{below[0]}")
        around = [[option] for option in options] + [[option] for option in inner_options]
        around += [[option, inner] for option in options for inner in inner_options]
        yield from sorted(around, key=num_named, reverse=True)


def is_accepted(argument, neighbours):
    key = argument.partition("=")[0]
    return any(
        override_errors([*beside, argument], CONF, program) == []
        for beside in contexts(key, neighbours)
        for program in programs_of(re.split("[./]", key.lstrip("+~"))[0])
    )


def named_settings():
    """Each setting once, with a file that names it and what stands beside it there."""
    groups = [str(folder.relative_to(CONF)) for folder in sorted(CONF.rglob("*")) if folder.is_dir()]
    known = {*groups, *(part for program in PROGRAMS for part in parts_of(program))}
    found = {}
    for file, lines in settings():
        for line in set(lines) - OWN:
            head = re.split("[./=]", line.lstrip("+~"))[0]
            if head in known or get_close_matches(head, known, cutoff=0.85):  # a typing error is a setting too
                others = [other for other in lines if other != line]
                found |= {argument: (file, others) for argument in written_out(line) if argument not in found}
    return found


def accepted_together(arguments):
    """Of choices those that one command line may have for each group; a command line takes a while to compose."""
    defaults = yaml.safe_load((CONF / "train.yaml").read_text())["defaults"]
    of_train = {group for default in defaults if isinstance(default, dict) for group in default} | {"+experiment"}
    by_group = {}
    for argument in arguments:
        by_group.setdefault(argument.partition("=")[0], []).append(argument)
    rows = zip_longest(*(choices for group, choices in by_group.items() if group in of_train))
    for row in rows:
        together = [argument for argument in row if argument]
        if override_errors(together, CONF, "train") == []:
            yield from together


def test_every_setting_that_is_named_passes_the_check_of_the_command_line(composed_once):
    """In pages, comments of ``conf/``, docstrings and messages: each with something that it can go with."""
    found = named_settings()
    assert len(found) > 300
    accepted = {word for _, _, words in COMPOSED for word in without_those_of_a_run(words)}  # by the test of commands
    accepted |= {*accepted_together(argument for argument in found if argument not in accepted)}
    assert {
        argument: file
        for argument, (file, others) in found.items()
        if argument not in accepted and not is_accepted(argument, others)
    } == {}


@pytest.mark.parametrize("program", PARSED)
def test_a_command_of_a_page_can_be_read(program):
    found = [words for page in PAGES for words in arguments(page, program)]
    assert found
    for words in found:
        PARSED[program](words)  # exits where it cannot


def test_the_pages_have_commands():
    assert {(page, program) for page, program, _ in COMPOSED} >= {
        ("README.md", "train"),
        ("docs/start.md", "train"),
        ("docs/start.md", "evaluate"),
        ("docs/install.md", "train"),
        ("docs/install.md", "evaluate"),
        ("docs/install.md", "prepare"),
        ("docs/use.md", "prepare"),
        ("docs/notebooks/first_run.ipynb", "evaluate"),
        ("docs/walkthrough.md", "evaluate"),
        ("docs/reliability.md", "train"),
    }


@pytest.mark.parametrize("page", ["README.md", "docs/start.md", "docs/install.md"])
def test_a_command_of_the_first_run_can_be_copied(page):
    """``runs/<run_name>`` would redirect the shell's input and output."""
    blocks = re.findall(r"^```bash\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    assert [block for block in blocks if set("<>") & set(block.replace("<this repository>", ""))] == []


def test_what_follows_the_first_run_reads_it():
    words = [word for page, _, overrides in COMPOSED if page == "docs/start.md" for word in overrides]
    assert {"run_name=first", "checkpoint=runs/first"} <= set(words)


def test_python_of_the_readme_is_that_of_make():
    readme = (ROOT / "README.md").read_text()
    assert 0 < readme.index("source .venv/bin/activate") < readme.index("\npython train.py")


@pytest.mark.parametrize("page", ["README.md", "docs/start.md", "docs/install.md"])
def test_a_page_that_is_read_first_says_what_the_system_has_to_have(page):
    assert f"`apt-get install {SYSTEM_PACKAGES}`" in (ROOT / page).read_text()


def test_the_pages_have_such_commands():
    assert {page for page, _ in SEVERAL_PROCESSES} == {"docs/use.md", "docs/scaling.md", "docs/slurm_example.sh"}
    assert len(SEVERAL_PROCESSES) == 5


@pytest.mark.parametrize(("page", "overrides"), SEVERAL_PROCESSES, ids=lambda value: str(value)[:80])
def test_a_command_for_several_gpus_passes_the_check_and_starts_an_engine_for_a_gpu(
    page, overrides, monkeypatch, problems_file
):
    launched = Launch("", 1, 1) if "trainer.devices=8" in overrides else Launch("torchrun", 8, 1)
    cfg = checked(here(overrides, problems_file), monkeypatch, launched)
    assert cfg.trainer.accelerator == "cuda"
    assert cfg.trainer.devices == 8
    assert cfg.rollout.engine.kv_cache_gib >= 1
    assert not cfg.rollout.engine.enforce_eager
    assert list(settings_notices(ConfigView(cfg))) == []


@pytest.mark.parametrize("rollout", ["vllm_cpu", "vllm_process", "ray"])
def test_an_engine_with_the_settings_of_a_cpu_is_warned_of_on_a_gpu(rollout):
    with pytest.warns(
        UserWarning, match=r"the settings of a CPU .*Use rollout=vllm_gpu\. With several training processes"
    ):
        check_config(composed("trainer=gpu", f"rollout={rollout}"))


@pytest.mark.parametrize(
    "overrides",
    [["trainer=gpu", "rollout=vllm_gpu"], ["rollout=vllm_cpu"], ["trainer=gpu", "rollout.engine.kv_cache_gib=8"]],
    ids=" ".join,
)
def test_an_engine_that_goes_with_the_trainer_is_not_warned_of(overrides):
    assert list(settings_notices(ConfigView(composed(*overrides)))) == []


@pytest.mark.parametrize(
    ("accelerator", "way_out"),
    [
        ("cuda", "use rollout=ray_gpu, which"),
        ("cpu", "use rollout=vllm_process, which"),
    ],
)
def test_the_way_out_of_an_engine_in_the_trainer_goes_with_the_device(accelerator, way_out):
    several = ["trainer=fsdp", "trainer.devices=2", "trainer.num_nodes=1", f"trainer.accelerator={accelerator}"]
    assert any(way_out in problem for problem in problems(*several))


@pytest.mark.parametrize(("page", "program", "overrides"), OWN_DATA, ids=lambda value: str(value)[:80])
def test_a_command_for_data_of_ones_own_leaves_room_for_an_answer_and_says_where_it_stands(page, program, overrides):
    assert override_errors(overrides, CONF, program) == []
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose(program, ["run_name=test", *overrides])
    assert cfg.rollout.sampling.max_new_tokens == 512
    assert cfg.rollout.max_model_tokens == 512 + cfg.data.max_prompt_tokens
    assert "reward=math" not in overrides or r" \boxed{}." in cfg.data.source.system_prompt
    assert list(settings_notices(ConfigView(cfg))) == []


@pytest.mark.parametrize("where", ["on a CPU", "on a GPU", "with vLLM"])
def test_a_command_for_a_run_of_ones_own_passes_the_check(where, monkeypatch, problems_file):
    """And is the method, and the size of a step, that the study of a real model has."""
    of_page = "docs/use.md" if where == "on a CPU" else "docs/gpu.md"
    (overrides,) = [words for page, _, words in OWN_DATA if page == of_page]
    overrides = [word for word in overrides if word != "preview=true"]
    if where == "with vLLM":
        engine = "rollout=vllm_gpu rollout.engine.kv_cache_gib=16"
        replaced = "rollout=transformers rollout.engine.max_num_seqs=512"
        assert f"put `{engine}` in place of `{replaced}`" in (ROOT / "docs/gpu.md").read_text()
        assert set(replaced.split()) <= set(overrides)
        overrides = [word for word in overrides if word not in replaced.split()] + engine.split()
    of_the_hub = ("model.path=", "data.source.name=", "data.source.answer_pattern=")
    offline = [word for word in overrides if not word.startswith(of_the_hub)]
    cfg = checked(here(offline, problems_file), monkeypatch, Launch("", 1, 1))
    assert cfg.trainer.accelerator == ("cpu" if where == "on a CPU" else "cuda")
    arm, settings = ARMS["grpo_chosen_by_spread"], set(overrides)
    assert {f"+experiment={arm.experiment}", *arm.settings, "optimizer/schedule=linear"} <= settings
    assert (cfg.data.prompts_per_step, cfg.data.num_minibatches) == (LONG.prompts, 1)
    assert set(GPU_ARMS.machine[:2]) <= settings or where != "on a GPU"


def test_the_pages_have_commands_for_data_of_ones_own():
    assert [(page, program) for page, program, _ in OWN_DATA] == [
        ("README.md", "train"),
        ("docs/use.md", "train"),
        ("docs/gpu.md", "train"),
        ("docs/data.md", "train"),
        ("docs/data.md", "train"),
        ("docs/data.md", "train"),
        ("docs/data.md", "prepare"),
    ]


@pytest.mark.parametrize(
    ("overrides", "what"),
    [(["data=dataset", "data.source.path=x"], "a data set"), (["reward=math"], "reward=math")],
    ids=["data", "reward"],
)
def test_the_default_length_is_warned_of_where_answers_need_more(overrides, what):
    (notice,) = settings_notices(ConfigView(composed(*overrides)))
    assert notice == (
        f"rollout.sampling.max_new_tokens = 32 cuts every response of {what} at 32 tokens, which is too short for "
        "most answers. For responses of up to 512 tokens: rollout.sampling.max_new_tokens=512 "
        "rollout.max_model_tokens=768. If you want short responses: rollout.sampling.max_new_tokens=32"
    )
    assert list(settings_notices(ConfigView(composed(*overrides)), ["rollout.sampling.max_new_tokens=32"])) == []
    assert list(settings_notices(ConfigView(composed(*overrides, "rollout.sampling.max_new_tokens=64")))) == []


def test_the_default_length_is_not_warned_of_with_the_default_task():
    assert list(settings_notices(ConfigView(composed()))) == []


def test_preparing_warns_of_the_default_length_too(problems_file):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("prepare", ["data=dataset", f"data.source.path={problems_file}", "run_name=x", "reward=math"])
    with pytest.warns(UserWarning, match=r"rollout.sampling.max_new_tokens = 32 cuts every response of a data set"):
        check_prepare_config(cfg)
