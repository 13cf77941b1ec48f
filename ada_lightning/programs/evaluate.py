"""One evaluation from its composed configuration to its results, or the comparison of two finished ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from ada_lightning.analysis.evaluation.report import find_evaluation, flat_figures, write_comparison, write_results
from ada_lightning.analysis.evaluation.results import EvaluationPlan, set_folder
from ada_lightning.analysis.evaluation.sets import EvaluationSet
from ada_lightning.analysis.offline import ResponseStore, SamplingJob
from ada_lightning.callbacks.metrics_csv import MetricsCsv
from ada_lightning.config.assembly import SamplingParts, read_model
from ada_lightning.config.evaluation import check_evaluation
from ada_lightning.core.records import Prompt
from ada_lightning.data.encoder import PromptEncoder, RefusedPromptError
from ada_lightning.data.formats import warn_of_other_end
from ada_lightning.data.prompts import place_of
from ada_lightning.rewards.hints import ungradable_prompts
from ada_lightning.rollout.fixed_weights import check_room
from ada_lightning.run.credentials import take_from_config
from ada_lightning.run.files import write_text
from ada_lightning.run.run_dir import make_private
from ada_lightning.run.stopping import StopSignals
from ada_lightning.run.terminal import quiet_libraries

NOT_COMPARED = ("checkpoint", "eval", "sampling", "positive_threshold", "grader_failure")
"""Settings of an evaluation that one comparing two finished ones does not read."""


def evaluate(cfg: DictConfig, overrides: Sequence[str] = ()) -> dict[str, Any] | None:
    """Do what the configuration asks for; ``overrides`` are the arguments of the command line.

    Returns:
        The results as in ``results.json``; None where two evaluations were only compared.

    Raises:
        ValueError: something about configuration, data or folders is wrong; no model has been loaded then.
        SamplingStoppedError: a signal ended it.
    """
    take_from_config(cfg)
    others = [] if cfg.compare is None else [cfg.compare] if isinstance(cfg.compare, str) else list(cfg.compare)
    if len(others) > 2:
        raise ValueError(f"compare takes one or two evaluations; got {len(others)}: {', '.join(others)}")
    found = [find_evaluation(other, Path(cfg.run_dir)) for other in others]
    if len(found) == 2:
        if unread := [line for line in overrides if line.partition("=")[0].partition(".")[0] in NOT_COMPARED]:
            raise ValueError(
                f"compare={','.join(others)} compares two evaluations and evaluates nothing, so {unread[0]} has no "
                "effect; leave it out, or give compare one evaluation to compare the new one with"
            )
        print(write_comparison(found[0], found[1]))
        return None
    check_evaluation(cfg, overrides)
    results = Evaluation(cfg).run()
    if found:
        print(write_comparison(found[0], Path(cfg.run_dir)))
    return results


class Evaluation:
    """Every part of a checked evaluation; the constructor reads the data and the tokenizer, and no weights.

    Raises:
        ValueError: data or folders are wrong.
    """

    def __init__(self, cfg: DictConfig) -> None:
        quiet_libraries()
        self.cfg, self.folder = cfg, Path(cfg.run_dir)
        self.sets: dict[str, EvaluationSet] = {name: instantiate(node) for name, node in cfg.eval.sets.items()}
        read = {name: _prompts(name, of_set) for name, of_set in self.sets.items()}
        self.model = read_model(instantiate(cfg.model).prepare())
        encoder = PromptEncoder(
            self.model.tokenizer,
            max_prompt_tokens=cfg.max_prompt_tokens,
            prompt_format=instantiate(cfg.data.get("format")),
        )
        self.prompts = {name: self._encoded(encoder, name, prompts) for name, prompts in read.items()}
        self.left_out = {name: len(read[name]) - len(prompts) for name, prompts in self.prompts.items()}
        self.service = instantiate(cfg.rollout)
        self.service.check_template(self.model.tokenizer, self.model.eos_token_ids)
        warn_of_other_end(self.model.tokenizer, encoder.prompt_format, self.model.eos_token_ids)
        self.sampling = instantiate(cfg.sampling)
        self._check_room()
        self._is_open = False

    def _encoded(self, encoder: PromptEncoder, name: str, prompts: Sequence[Prompt]) -> list[Prompt]:
        try:
            return encoder.encode(self._gradable(name, prompts))
        except RefusedPromptError as error:
            where = place_of(self.sets[name].source, error.prompt.prompt_id)
            raise ValueError(f"eval.sets.{name}: {where}: {error.reason}") from error

    def _gradable(self, name: str, prompts: Sequence[Prompt]) -> list[Prompt]:
        """Leave out, with a warning, what the set's reward could never grade."""
        grader = self.sets[name].reward
        try:
            reasons = ungradable_prompts(grader, prompts, f"eval.sets.{name}")
        finally:
            grader.close()
        return [prompt for prompt in prompts if prompt.prompt_id not in reasons]

    def run(self) -> dict[str, Any]:
        """Draw what is missing, and write the results."""
        signals = StopSignals("and up to prompts_per_file finished prompts may be lost")
        signals.install()
        make_private(self.folder)
        for of_set in self.sets.values():
            for report in getattr(of_set.source, "reports", ()):
                print("\n".join(report.lines()), flush=True)
        try:
            for name in self.sets:
                self._draw(name, signals)
        finally:
            signals.restore()
            self.service.close()
        plan = EvaluationPlan(
            num_samples=self.cfg.eval.num_samples,
            positive_threshold=self.cfg.positive_threshold,
            grader_failure=self.cfg.grader_failure,
            weights={name: of_set.weight for name, of_set in self.sets.items()},
        )
        about = {
            "name": self.folder.name,
            "model": str(self.cfg.checkpoint or self.model.path),
            "model_path": str(self.model.path),
            "left_out": self.left_out,
            "sampling": OmegaConf.to_container(self.cfg.sampling, resolve=True),
        }
        text, results = write_results(self.folder, plan, about)
        print(f"{text}\nevaluation folder: {self.folder}")
        self._track(results)
        return results

    def _draw(self, name: str, signals: StopSignals) -> None:
        """Complete the responses of one set."""
        cfg, prompts, store = self.cfg, self.prompts[name], ResponseStore(set_folder(self.folder, name))
        parts = SamplingParts(self.model, self.sets[name].reward, self.service)
        drawn: dict[str, Any] = {
            "prompts": prompts,
            "num_samples": cfg.eval.num_samples,
            "stage": f"evaluate/{name}",
            "sampling": self.sampling,
        }
        store.claim(parts.job_settings(cfg, cfg.eval.sets[name].reward.reward, **drawn))
        try:
            self._write_config()
            job = SamplingJob(**drawn, store=store, service=self.service, prompts_per_file=cfg.prompts_per_file)
            each = f"{len(prompts)} prompts, {cfg.eval.num_samples} responses each"
            print(f"{name}: {each}, {job.num_pending} prompts to draw")
            if job.num_pending and self._is_open:  # the engine stays from set to set, only the grader changes
                parts.grader.start()
                self.service.grade_with(parts.grader)
            elif job.num_pending:
                parts.open(self.folder / "engine.log")
                self._is_open = True
            if job.num_pending:
                job.run(signals.check)
        finally:
            parts.grader.close()
            store.release()

    def _write_config(self) -> None:
        write_text(self.folder / "config.yaml", OmegaConf.to_yaml(self.cfg, resolve=True))

    def _check_room(self) -> None:
        """Every set at once, before the first is drawn."""
        for name, prompts in self.prompts.items():
            check_room(prompts, self.sampling, self.service.max_model_tokens, of=f"eval.sets.{name}")

    def _track(self, results: dict[str, Any]) -> None:
        """Send settings, figures and files to MLflow, whose logger never fails a program."""
        if self.cfg.mlflow is None:
            return
        logger = instantiate(self.cfg.mlflow)
        logger.log_hyperparams(json.loads(json.dumps(OmegaConf.to_container(self.cfg, resolve=True))))
        figures = flat_figures(results)
        for each in (MetricsCsv(run_dir=self.folder), logger):  # MLflow is sent from the folder's files
            each.log_metrics(figures, step=0)
        logger.finalize("success")


def _prompts(name: str, of_set: EvaluationSet) -> list[Prompt]:
    try:
        return of_set.prompts()
    except ValueError as error:
        raise ValueError(f"eval.sets.{name}: {error}") from error
