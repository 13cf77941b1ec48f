from ada_lightning.analysis.report.method import differing_keys, group_runs
from tests.unit.analysis.report.small_folder import make_run


def groups(*runs):
    return [(method.name, method.seeds) for method in group_runs(runs)]


def test_runs_that_differ_in_seed_name_and_folder_are_one_method(tmp_path):
    runs = [make_run(tmp_path / f"grpo-{seed}", seed=seed) for seed in (2, 0, 1)]
    assert groups(*runs) == [("grpo", [0, 1, 2])]


def test_another_value_makes_another_method_named_after_it(tmp_path):
    runs = [
        make_run(tmp_path / f"{k}-{seed}", seed=seed, settings={"sampler": {"k_pos": k}})
        for k in (2, 4)
        for seed in (0, 1)
    ]
    assert groups(*runs) == [("grpo (k_pos=2)", [0, 1]), ("grpo (k_pos=4)", [0, 1])]


def test_a_key_that_follows_another_is_not_named_beside_it(tmp_path):
    settings = {n: {"data": {"num_steps": n, "size": n}, "num_steps": n, "eval": {"size": 9 - n}} for n in (2, 4)}
    runs = [make_run(tmp_path / str(number), settings=of_run) for number, of_run in settings.items()]
    assert groups(*runs) == [("grpo (size=2, num_steps=2, size=7)", [0]), ("grpo (size=4, num_steps=4, size=5)", [0])]


def test_a_seed_that_is_fixed_in_all_runs_is_no_difference(tmp_path):
    runs = [make_run(tmp_path / str(seed), seed=seed, settings={"data": {"seed": 0}}) for seed in (0, 1, 2)]
    assert groups(*runs) == [("grpo", [0, 1, 2])]
    assert group_runs(runs)[0].settings["data.seed"] == 0


def test_a_seed_of_its_own_is_a_difference(tmp_path):
    runs = [make_run(tmp_path / str(seed), settings={"data": {"seed": seed}}) for seed in (0, 1)]
    assert groups(*runs) == [("grpo (seed=0)", [0]), ("grpo (seed=1)", [0])]


def test_a_short_name_of_a_run_does_not_change_its_other_settings(tmp_path):
    settings = {"trainer": {"accelerator": "cpu"}, "path": "a/cpu/b"}
    runs = [make_run(tmp_path / name, seed=seed, settings=settings) for seed, name in enumerate(("cpu", "c"))]
    assert [method.settings["trainer.accelerator"] for method in group_runs(runs)] == ["cpu"] * len(group_runs(runs))
    runs = [
        make_run(tmp_path / f"x{name}", seed=seed, settings={"path": f"out/x{name}/b"})
        for seed, name in enumerate("cd")
    ]
    assert groups(*runs) == [("grpo", [0, 1])]


def test_a_key_that_one_method_lacks_differs():
    assert differing_keys([{"a": 1, "b": 2}, {"a": 1}]) == ["b"]
    assert differing_keys([{"a": 1}, {"a": 1.0}, {"a": True}]) == ["a"]


def test_methods_that_differ_in_much_are_called_by_the_classes_that_differ_then_by_the_first_keys(tmp_path):
    models = {
        "a": {"seed": 0, "size": 1, "layers": 2, "heads": 3, "_target_": "ada_lightning.training.models.TinyLlama"},
        "b": {"seed": 0, "size": 9, "layers": 9, "heads": 9, "_target_": "ada_lightning.training.models.Pretrained"},
    }
    runs = [make_run(tmp_path / name, seed=0, settings={"model": model}) for name, model in models.items()]
    assert groups(*runs) == [
        ("grpo (model=TinyLlama, size=1, layers=2, ...)", [0]),
        ("grpo (model=Pretrained, size=9, layers=9, ...)", [0]),
    ]
