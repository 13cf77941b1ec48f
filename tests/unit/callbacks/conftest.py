import pytest
from lightning.pytorch import Trainer

from tests.unit.callbacks.small_run import Data, Driver, Policy


@pytest.fixture
def fit(tmp_path):
    """Train the two-parameter policy with some callbacks and loggers."""

    def run(callbacks, loggers=(), data=None, driver=None, **fit_arguments):
        trainer = Trainer(
            accelerator="cpu", max_epochs=1, log_every_n_steps=1, enable_progress_bar=False,
            enable_model_summary=False, enable_checkpointing=False, default_root_dir=tmp_path,
            logger=list(loggers), callbacks=[driver or Driver(), *callbacks],
        )  # fmt: skip
        policy = Policy()
        if data and data.first_step:
            policy.policy_version = data.first_step
        trainer.fit(policy, datamodule=data or Data(), **fit_arguments)
        return trainer

    return run


@pytest.fixture(scope="session")
def mlflow_uri(tmp_path_factory):
    """One database for the session: making one takes a second."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"
