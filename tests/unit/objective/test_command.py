"""The command: what it prints, writes and refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ada_lightning.objective.command import main

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "grpo.yaml"
    path.write_text("num_generations: 8\nloss_type: grpo\nbeta: 0.04\nmy_key: 1\n")
    return path


def test_it_prints_a_card_and_writes_page_and_numbers(config, tmp_path, capsys):
    main([str(config), "--output", str(tmp_path / "card.html")])
    printed = " ".join(capsys.readouterr().out.split())
    for text in (
        "Held against TRL's GRPOTrainer 1.16.0",
        "weight of a prompt 1.33 1.14 1.00 1.14 1.33",
        "The nearest is the mean pass rate, f(p) = p",
        f"trl grpo --config {config} --scale_rewards none",
        "KL to the reference model, in the loss (beta), coefficient 0.04: moves groups without a signal, too",
        "does not guess: my_key",
    ):
        assert text in printed
    page = (tmp_path / "card.html").read_text()
    assert "<svg" in page
    assert "my_key" in page
    numbers = json.loads((tmp_path / "card.json").read_text())
    assert numbers[0]["weights"][0] == pytest.approx(1.3326, abs=1e-4)
    assert (numbers[0]["trainer"], numbers[0]["held_against"], numbers[0]["is_checked"]) == ("trl", "1.16.0", True)


def test_settings_behind_a_file_change_it_and_files_stand_side_by_side(config, tmp_path, capsys):
    output = tmp_path / "card.html"
    main([str(config), str(config), "scale_rewards=none", "loss_type=dr_grpo", "--output", str(output)])
    assert "Nothing is to be changed" in capsys.readouterr().out
    page = output.read_text()
    assert '<tr class="differs"><td>divided by</td>' in page
    assert "<tr><td>responses of a prompt</td><td>8</td><td>8</td></tr>" in page


def test_names_in_a_file_cannot_write_the_page(tmp_path, capsys):
    path = tmp_path / "<img src=x>.json"
    path.write_text(json.dumps({"num_generations": 8, "<script>alert(1)</script>": 1, "\x1b[31m": 2}))
    main([str(path), "--output", str(tmp_path / "card.html")])
    assert "<script>" not in (tmp_path / "card.html").read_text()
    assert "<img src=x>" not in (tmp_path / "card.html").read_text()
    assert "\x1b" not in capsys.readouterr().out


def test_another_version_is_said_to_be_unchecked(config, tmp_path, capsys):
    main([str(config), "--version", "0.19", "--output", str(tmp_path / "card.html")])
    assert "You run 0.19: that is unchecked" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("learning_rate: 1\n", [], "no key tells whose configuration this is; name the trainer by --trainer trl|verl"),
        ("num_generations: 8\n", ["loss_type=ppo"], "loss_type is 'ppo'"),
        ("num_generations: 8\n", ["beta=$X"], "beta is $X, which this file does not resolve; add beta=VALUE"),
        ("num_generations: !x 8\n", [], "the tag !x is not read"),
    ],
)
def test_wrong_input_ends_with_a_sentence(text, arguments, message, tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(SystemExit) as error:
        main([str(path), *arguments, "--output", str(tmp_path / "card.html")])
    assert message in str(error.value)
    assert not (tmp_path / "card.html").exists()


def test_a_setting_before_any_file_is_refused():
    with pytest.raises(SystemExit, match="stands before any file"):
        main(["loss_type=grpo"])


def test_a_card_of_sixty_keys_takes_no_torch(tmp_path):
    keys = (ROOT / "ada_lightning/objective/readers/keys/trl.txt").read_text().split()[:60]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(dict.fromkeys(keys, 1) | {"num_generations": 16, "loss_type": "dapo"}))
    code = (
        "import sys; from ada_lightning.objective.command import main; "
        f"main([{str(path)!r}, '--output', {str(tmp_path / 'card.html')!r}]); "
        "print([name for name in ('torch', 'transformers', 'trl') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"
