"""A Ray over several hosts, and training runs on them."""

from __future__ import annotations

import contextlib
import csv
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from research.hosts.network import ROOT, Host, Network, network, wait_for

PORT = 6379
SMALL = (
    "+experiment=ada_seq_balance",
    "model=tiny",
    "reward=function",
    "reward.reward.path=tests.integration.graders.has_few_letters",
    "trainer.precision=32-true",
    "rollout.sampling.max_new_tokens=8",
    "data.prompts_per_step=4",
    "data.source.num_train=40",
    "data.source.num_heldout=8",
    "callbacks.evaluation.num_prompts=2",
    "callbacks.evaluation.every_n_steps=0",
    "callbacks.checkpoint.every_n_steps=0",
    "callbacks.response_log.every_n_steps=1",
    "callbacks.response_log.max_prompts=inf",
    "~callbacks.preview",
    "~callbacks.curves",
    "~callbacks.sampling_plots",
    "~callbacks.sample_page",
    "~logger.mlflow",
    "optimizer.lr=1e-3",
)
"""A run of the random model, in float32 on both sides, that keeps every response."""
VLLM = ("rollout.engine.dtype=float32", "rollout.engine.kv_cache_gib=0.05", "rollout.engine.max_num_seqs=32")
TRANSFORMERS = (
    "rollout.engine._target_=ada_lightning.rollout.engines.transformers_engine.TransformersEngine",
    "~rollout.engine.kv_cache_gib", "~rollout.engine.block_size", "~rollout.engine.enforce_eager",
    "rollout.engine.dtype=float32", "rollout.engine.max_num_seqs=32",
)  # fmt: skip
"""Starts in a moment."""
LAG = ("rollout.max_staleness=1", "loss.anchor=behaviour", "loss.importance_cap=0")
QUIET = {
    "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "VLLM_CONFIGURE_LOGGING": "0", "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONPATH": str(ROOT),
}  # fmt: skip
"""Of every process on a host."""


class Cluster:
    """Ray on the hosts of a network: the head on ``a``, which computes nothing, and one place for an engine on others.

    Args:
        hosts: of :func:`~research.hosts.network.network`.
        folder: for what everything prints, and for runs.
    """

    def __init__(self, hosts: Network, folder: Path) -> None:
        self.hosts, self.folder = hosts, folder
        self.token = secrets.token_hex(32)
        self.address = f"{hosts['a'].address}:{PORT}"

    @property
    def environment(self) -> dict[str, str]:
        """Of whoever may join."""
        return {**QUIET, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token}

    def start(self, *others: str) -> None:
        """Start the head and join the other hosts to it."""
        self.start_head()
        for name in others:
            self.join(name)
        self.wait_for_nodes(1 + len(others))

    def start_head(self) -> None:
        """Start Ray on ``a``."""
        self._ray("a", "--head", f"--port={PORT}", "--num-cpus=0", "--include-dashboard=false")
        self.wait_for_nodes(1)

    def join(self, name: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start Ray on a further host."""
        return self._ray(name, f"--address={self.address}", "--num-cpus=1", environment=environment)

    def _ray(self, name: str, *options: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        host = self.hosts[name]
        program = (sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats")
        memory = "--object-store-memory=100000000"
        return host.start(
            *program, *options, f"--node-ip-address={host.address}", memory, log=self.folder / f"ray-{name}.log",
            environment=self.environment | dict(environment or {}),
        )  # fmt: skip

    def wait_for_nodes(self, number: int, seconds: float = 120.0) -> float:
        """Wait until so many nodes are alive; returns the seconds."""
        return wait_for(lambda: len(self.nodes()) >= number, seconds, f"{number} nodes of Ray")

    def nodes(self) -> list[str]:
        """Addresses of the nodes that Ray counts as alive."""
        listing = (
            "from ray._raylet import GcsClient\n"
            "import sys\n"
            "nodes = GcsClient(address=sys.argv[1]).get_all_node_info(timeout=5)\n"
            "print(*(node.node_manager_address for node in nodes.values() if node.state == 0))"
        )
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        with contextlib.suppress(RuntimeError):
            return self.hosts["a"].run("env", *variables, sys.executable, "-c", listing, self.address).split()
        return []

    def train(
        self,
        name: str,
        *overrides: str,
        engine: Sequence[str] = VLLM,
        environment: Mapping[str, str] | None = None,
    ) -> Training:
        """Start ``train.py`` on ``a`` with an engine on each other host."""
        places = (
            "rollout=ray", f"rollout.host.num_engines={len(self.hosts.hosts) - 1}",
            f"rollout.host.address={self.address}",
        )  # fmt: skip
        return Training(
            self.hosts["a"], self.folder, name, (*places, *engine, *overrides), environment or self.environment
        )


class Training:
    """A ``train.py`` that runs on a host.

    Args:
        host: where.
        folder: that of the run, and what it prints, are in there.
        name: of the run.
        overrides: in addition to :data:`SMALL`.
        environment: in addition to this process's.
    """

    def __init__(
        self, host: Host, folder: Path, name: str, overrides: Sequence[str], environment: Mapping[str, str] = QUIET
    ) -> None:
        self.run_dir, self.log = folder / name, folder / f"{name}.log"
        options = (*SMALL, f"run_name={name}", f"run_dir={self.run_dir}", *overrides)
        self.process = host.start(sys.executable, "train.py", *options, log=self.log, environment=environment)

    def wait(self, seconds: float = 600.0) -> int:
        """Wait for its end; returns the exit code."""
        return self.process.wait(seconds)

    def printed(self) -> str:
        """What it has printed so far."""
        return self.log.read_text(errors="replace")

    def finish(self, seconds: float = 600.0) -> Path:
        """Wait for its end, which must be a good one; returns the run folder.

        Raises:
            RuntimeError: it failed.
        """
        if code := self.wait(seconds):
            raise RuntimeError(f"{self.log.stem} ended with {code}: {self.printed()[-3000:]}")
        return self.run_dir


@contextlib.contextmanager
def cluster(*names: str, folder: Path | None = None) -> Iterator[Cluster]:
    """Make hosts, the first of which has Ray's head; the caller joins the others."""
    with (
        tempfile.TemporaryDirectory(prefix="ada_lightning-runs-") as temporary,
        network(names or ("a", "b", "c")) as hosts,
    ):
        (folder or Path(temporary)).mkdir(parents=True, exist_ok=True)
        yield Cluster(hosts, folder or Path(temporary))


def differences(run_dir: Path, wanted: Path) -> dict[str, float]:
    """Compare two runs: responses that differ, and the largest differences of final weights and log-probabilities."""
    from safetensors.torch import load_file

    from ada_lightning.callbacks.response_log import read_responses

    key = ["step", "slot", "sample_index"]
    ours, theirs = (read_responses(folder, "train").set_index(key) for folder in (run_dir, wanted))
    same = ours.index.intersection(theirs.index)
    texts = (ours.loc[same].text.to_numpy() != theirs.loc[same].text.to_numpy()).sum()
    weights, wanted_weights = (
        load_file(folder / "checkpoints/last/policy/model.safetensors") for folder in (run_dir, wanted)
    )
    return {
        "responses": len(theirs),
        "missing": len(theirs.index.difference(ours.index)),
        "twice": int(ours.index.duplicated().sum()),
        "differ": int(texts) + len(ours.index.difference(theirs.index)),
        "weights": max(float((weights[name] - wanted_weights[name]).abs().max()) for name in wanted_weights),
        "logprob_gap": max(column(run_dir, "sync/logprob_gap_max"), default=0.0),
    }


def column(run_dir: Path, name: str) -> list[float]:
    """A figure of every step that has it."""
    with (run_dir / "metrics.csv").open() as file:
        return [float(row[name]) for row in csv.DictReader(file) if row.get(name)]
