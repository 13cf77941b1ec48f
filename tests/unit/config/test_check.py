from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from lightning.pytorch import Callback
from omegaconf import DictConfig, OmegaConf

from ada_lightning.config.check import ConfigError, check_config, override_errors
from ada_lightning.config.overrides import options_first

BALANCE = "ada_lightning.methods.sampling.sequential.BalanceSampler"
FILES = {
    "train.yaml": """
        defaults: [sampler: balance, data: jsonl, _self_]
        seed: 0
        ckpt: null
        rollout:
          max_model_tokens: 100
          engine: {_target_: ada_lightning.core.records.SamplingSettings, _partial_: true}
          sampling: {_target_: ada_lightning.core.records.SamplingSettings, max_new_tokens: 32}
        callbacks:
          table: {_target_: tests.unit.config.test_check.Table, every_n_steps: 5}
        trainer: {devices: 1, num_nodes: 1}
        hydra: {output_subdir: null}
        """,
    "sampler/balance.yaml": f"""
        _target_: {BALANCE}
        k_pos: 2
        k_neg: 2
        n_max: 32
        samples_per_round: 4
        group_size: 4
        """,
    "sampler/uniform.yaml": """
        _target_: ada_lightning.methods.sampling.uniform.UniformSampler
        group_size: 4
        """,
    "data/jsonl.yaml": """
        max_prompt_tokens: 64
        prompts_per_step: 8
        num_minibatches: 2
        source: {_target_: tests.unit.config.test_check.Source, path: here, num_heldout: 5, arguments: {}}
        """,
    "experiment/ada.yaml": "# @package _global_\ndefaults:\n  - override /sampler: uniform\nseed: 1\n",
    "experiment/paper/big.yaml": "# @package _global_\nseed: 2\n",
    "experiment/typo.yaml": "# @package _global_\nseeed: 2\n",
}


class Source:
    """A prompt source whose check finds a missing file."""

    def __init__(self, *, path, num_heldout, arguments=None):
        if num_heldout < 1:
            raise ValueError(f"num_heldout must be at least 1; got {num_heldout}; the held-out list may not be empty")
        self.path = path

    def check(self):
        if self.path == "missing":
            raise FileNotFoundError("missing has no train.jsonl")


class Table(Callback):
    """A callback with one parameter in the configuration and one that is not."""

    def __init__(self, *, every_n_steps, max_prompts=4):
        pass


class Evaluation(Callback):
    """A third one, which samples."""

    def __init__(self, *, sampling, service):
        pass


class Chart:
    """Another one, with another parameter."""

    def __init__(self, *, every_n_steps, kind):
        pass


@pytest.fixture(scope="module")
def conf(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("conf")
    for name, text in FILES.items():
        lines = text.strip("\n").splitlines()
        indent = len(lines[0]) - len(lines[0].lstrip())
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join(line[indent:] for line in lines) + "\n")
    return folder


def composed(conf: Path, *overrides: str) -> DictConfig:
    with initialize_config_dir(str(conf), version_base="1.3"):
        return compose("train", overrides=list(overrides))


def problems(conf: Path, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        check_config(composed(conf, *overrides))
    return error.value.problems


def errors(conf: Path, *argv: str) -> list[str]:
    return override_errors(argv, conf, "train")


class TestCheckConfig:
    def test_shipped_values_pass(self, conf):
        check_config(composed(conf))

    @pytest.mark.parametrize(
        ("override", "message"),
        [
            ("+sampler.k_poss=3", "unknown key sampler.k_poss; did you mean k_pos?"),
            ("+sampler.zz=3", "unknown key sampler.zz; BalanceSampler takes: budget_per_step, give_up, group_size, "
             "k_neg, k_pos, n_max, samples_per_round"),
            ("+rollout.sampling.temprature=1", "unknown key rollout.sampling.temprature; did you mean temperature?"),
            ("callbacks.table=7", "callbacks.table=7 is not a part with settings; to leave it out write "
             "~callbacks.table"),
            ("callbacks.table=null", "callbacks.table=null is not a part with settings; to leave it out write "
             "~callbacks.table"),
            ("+callbacks.tabel.every_n_steps=1", "unknown key callbacks.tabel; did you mean table? (it has no "
             "_target_)"),
            ("data.source.path=missing", "data.source: FileNotFoundError: missing has no train.jsonl"),
            ("sampler.k_pos=many", "sampler.k_pos=many is the word 'many', write a whole number"),
        ],
    )  # fmt: skip
    def test_one_problem_is_one_message_with_the_way_out(self, conf, override, message):
        assert problems(conf, override) == [message]

    def test_missing_value_says_how_to_give_it(self, conf):
        cfg = composed(conf)
        OmegaConf.update(cfg, "data.source.path", "???")
        with pytest.raises(ConfigError, match=r"data.source.path needs a value.* data.source.path=<value>"):
            check_config(cfg)

    def test_target_that_cannot_be_loaded_is_one_problem(self, conf):
        (problem,) = problems(conf, "sampler._target_=ada_lightning.methods.sampling.sequential.Balanced")
        assert problem.startswith(
            "sampler._target_ = ada_lightning.methods.sampling.sequential.Balanced cannot be loaded"
        )

    def test_everything_wrong_is_reported_together_and_numbered(self, conf):
        with pytest.raises(ConfigError) as error:
            check_config(
                composed(
                    conf,
                    "sampler.k_pos=0",
                    "sampler.n_max=30",
                    "data.source.num_heldout=0",
                    "rollout.sampling.max_new_tokens=64",
                    "data.num_minibatches=9",
                    "trainer.devices=2",
                    "+callbacks.table.evry=1",
                )
            )
        text = str(error.value)
        assert text.startswith("the configuration has 6 problems:\n  1. unknown key callbacks.table.evry")
        for part in (
            "sampler: k_pos must be at least 1; got 0; ",
            "samples_per_round = 4 does not divide n_max = 30",
            "data.source: num_heldout must be at least 1; got 0",
            "rollout.max_model_tokens = 100 is less than data.max_prompt_tokens + rollout.sampling.max_new_tokens = "
            "64 + 64",
            "use data.num_minibatches=8 or fewer",
            "use trainer.devices=1",
        ):
            assert part in text

    def test_evaluation_has_to_fit_the_engine_too(self, conf):
        (problem,) = problems(
            conf, f"+callbacks.evaluation={{_target_:{__name__}.Evaluation,sampling:{{max_new_tokens:37}}}}"
        )
        assert "callbacks.evaluation.sampling.max_new_tokens = 64 + 37" in problem


class TestOverrideErrors:
    @pytest.mark.parametrize(
        "argv",
        [
            (),
            ("sampler.k_pos=3", "seed=4"),
            ("+experiment=ada",),
            ("+experiment=paper/big", "sampler=balance", "sampler.k_neg=1"),
            ("-m", "+experiment=ada,paper/big", "seed=1,2"),
            ("-m", "sampler.k_pos=2,4", "sampler.n_max=choice(16,32)", "seed=range(1,4)"),
            ("~ckpt", "++seed=3", "+callbacks.table.max_prompts=2", "~callbacks.table"),
            ("+callbacks.mine._target_=some.Callback", "sampler={k_pos: 3}", "hydra.job.chdir=true"),
            ("-m", "sampler=glob(*)"),
        ],
    )
    def test_good_command_lines_pass(self, conf, argv):
        assert errors(conf, *argv) == []

    @pytest.mark.parametrize(
        ("argv", "message"),
        [
            (["sampler=balanec"], "unknown option sampler=balanec; did you mean balance? options: balance, "),
            (
                ["+experiment=paper/bigg"],
                "unknown option experiment=paper/bigg; did you mean paper/big",
            ),
            (
                ["-m", "sampler=balance,unifrom"],
                "unknown option sampler=unifrom; did you mean uniform? options: balance, ",
            ),
            (["sampler.k_poss=3"], "unknown key sampler.k_poss; did you mean k_pos?"),
            (["-m", "sampler.k_poss=3,4"], "unknown key sampler.k_poss; did you mean k_pos?"),
            (["samplr=balance"], "unknown key samplr; did you mean sampler?"),
            (["+seeed=1"], "unknown key seeed; did you mean seed?"),
            (["++seeed=1"], "unknown key seeed; did you mean seed?"),
            (["~seeed"], "unknown key seeed; did you mean seed?"),
            (["+sampler.k_poss=1"], "unknown key sampler.k_poss; did you mean k_pos?"),
            (["+seed=1"], "+seed=1: seed exists already; leave out the plus: seed=1"),
            (["+data.source=5"], "+data.source=5: data.source exists already; leave out the plus: data.source=5"),
            (["seed.x=1"], "seed.x=1: seed is a value and has no keys"),
            (["+sampler=uniform"], "+sampler=uniform: sampler has an option already; leave out the plus"),
            (["experiment=ada"], "experiment=ada: experiment needs a plus: +experiment=ada"),
            (["~experiment"], "~experiment: nothing was chosen for experiment"),
            (["callbacks.table.max_prompts=2"], "to add it write +callbacks.table.max_prompts=2"),
            (["data.source.arguments.use_mp=false"], "to add it write +data.source.arguments.use_mp=false"),
            (["~callbacks.table.max_prompts"], "there is nothing to leave out"),
            (["sampler/x=1"], "sampler/x=1: there is no config group sampler/x"),
            (["seed=[1"], "cannot read 'seed=[1'"),
            (["-cn", "trian"], "the configuration cannot be composed: Cannot find primary config 'trian'"),
            (["+experiment=typo"], "unknown key seeed; did you mean seed?"),
            (
                ["seed=0,1"],
                "seed=0,1: several values start a sweep of runs: add -m. If you mean one list: seed=[0,1]",
            ),
            (["-m", "seed=range(3,1)"], "seed=range(3,1): no value is in this range, so no job would run"),
            (["-m", "sampler=glob(zz*)"], "sampler=glob(zz*): no option of sampler matches; options: balance, "),
            (["sampler=null"], "sampler=null: null is no option; options: balance, "),
            (
                ["data.source=[a]"],
                "data.source=[a]: data.source is not a list but keys with values (path, num_heldout, arguments); "
                "to add one: +data.source.<name>={}",
            ),
            (["data.source.path=a(b"], """key=value; quotes keep every character: 'data.source.path="a(b"'"""),
            (["seed=1,2,"], "an argument is key=value; leave out the comma at its end"),
            (["sampler={k_poss: 3}"], "unknown key sampler.k_poss; did you mean k_pos?"),
            (["sampler={budget_per_step: 3}"], "to add it write +sampler.budget_per_step=..."),
        ],
    )
    def test_wrong_command_line_names_the_way_out(self, conf, argv, message):
        (error,) = errors(conf, *argv)
        assert message in error

    def test_options_may_stand_anywhere(self, conf):
        argv = ["+experiment=ada", "-m", "seed=0,1", f"--config-dir={conf}", "sampler=glob(b*)"]
        assert options_first(argv) == ["-m", f"--config-dir={conf}", "+experiment=ada", "seed=0,1", "sampler=glob(b*)"]
        assert errors(conf, *options_first(argv)) == []
        assert options_first(["seed=0", "--mulitrun", "seed=1"]) == ["seed=0", "--mulitrun", "seed=1"]  # said elsewhere

    def test_a_missing_folder_is_named_before_what_might_stand_in_it(self, conf, tmp_path):
        missing = tmp_path / "my_cnf"
        for words in (["--config-dir", f"{missing}"], [f"--config-dir={missing}"]):
            assert errors(conf, *words, "+experiment=mine") == [f"--config-dir {missing}: no such folder"]
        (missing / "experiment").mkdir(parents=True)
        (missing / "experiment" / "mine.yaml").write_text("# @package _global_\nseed: 3\n")
        assert errors(conf, f"--config-dir={missing}", "+experiment=mine") == []
        assert errors(conf, f"--config-dir={missing}", "mine")[0].endswith("did you mean +experiment=mine?")

    def test_the_name_of_an_experiment_alone_is_told_how_it_is_chosen(self, conf):
        assert errors(conf, "ada") == ["ada: an argument is key=value; did you mean +experiment=ada?"]
        assert errors(conf, "paper/big") == ["paper/big: an argument is key=value; did you mean +experiment=paper/big?"]
        assert errors(conf, "sampler={k_pos: 3, }")[0].endswith("; an argument is key=value")
        assert errors(conf, "big") == ["cannot read 'big': Error parsing override 'big'; an argument is key=value"]

    def test_every_wrong_argument_is_named_against_the_option_that_is_chosen(self, conf):
        assert len(errors(conf, "sed=1", "sampler.k_poss=1")) == 2
        assert errors(conf, "sampler=uniform", "sampler.k_pos=3") == [
            "unknown key sampler.k_pos; UniformSampler takes: group_size"
        ]
        assert len(errors(conf, "+experiment=ada", "sampler.k_pos=3")) == 1
        assert len(errors(conf, "-m", "sampler=balance,uniform", "sampler.k_pos=2,3")) == 1

    def test_hydra_can_start_afterwards(self, conf):
        errors(conf, "seed=1")
        assert composed(conf).seed == 0

    def test_a_part_of_another_class_takes_the_keys_of_that_class(self, conf):
        chart = "callbacks.table._target_=tests.unit.config.test_check.Chart"
        assert errors(conf, chart, "+callbacks.table.kind=bar") == []
        (problem,) = errors(conf, chart, "+callbacks.table.max_prompts=2")
        assert problem == "unknown key callbacks.table.max_prompts; Chart takes: every_n_steps, kind"
