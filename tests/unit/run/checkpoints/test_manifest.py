from __future__ import annotations

import pytest

from ada_lightning.run.checkpoints import MANIFEST, damage, write_manifest


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "step_000010"
    (folder / "policy").mkdir(parents=True)
    (folder / "policy" / "model.safetensors").write_bytes(bytes(range(256)) * 40_000)  # several blocks
    (folder / "trainer.ckpt").write_bytes(b"state")
    write_manifest(folder, policy_version=10)
    return folder


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda f: flip_a_bit(f / "policy" / "model.safetensors"),
            "model.safetensors has 10240000 bytes, but not those",
        ),
        (lambda f: (f / "trainer.ckpt").write_bytes(b"stat"), "trainer.ckpt has 4 bytes instead of 5"),
        (lambda f: (f / "trainer.ckpt").unlink(), "trainer.ckpt is missing"),
        (lambda f: (f / MANIFEST).write_text("{}"), "manifest.json or a file cannot be read"),
        (lambda f: (f / MANIFEST).unlink(), "manifest.json or a file cannot be read (FileNotFoundError"),
    ],
)
def test_damage_is_found_and_named(folder, change, message):
    assert damage(folder) == ""
    change(folder)
    assert message in damage(folder)
