"""Recipes: what they choose and set, and that the files, defaults and pages agree with them."""

from __future__ import annotations

import re

import pytest
import yaml

from ada_lightning.adapters import Core
from ada_lightning.adapters.composed import SETTINGS
from ada_lightning.config.generated import CONFIG_DIR
from ada_lightning.core.options import OPTIONS, Use, option, option_of, preset, use
from ada_lightning.core.protocols import Sampler
from ada_lightning.methods import recipes
from ada_lightning.methods.catalog import entries
from ada_lightning.methods.find import find_option, find_recipe, option_names, recipe_modules, recipe_names
from ada_lightning.methods.recipe import DEFAULTS, PARTS, Recipe, known
from ada_lightning.methods.sampling import BalanceSampler, UniformSampler

EXAMPLES = sorted(file.relative_to(CONFIG_DIR / "experiment").with_suffix("").as_posix()
                  for file in (CONFIG_DIR / "experiment").rglob("*.yaml"))  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_in_conf_says_what_its_recipe_says(name):
    file = yaml.safe_load((CONFIG_DIR / "experiment" / f"{name}.yaml").read_text())
    recipe = dict(find_recipe(name).node)

    def listed(node):
        return sorted(str(each) for each in node.pop("defaults", []) if each != "_self_")

    assert listed(file) == listed(recipe)
    assert file == recipe


def test_defaults_are_those_of_the_command_line():
    listed = re.findall(r"^  - (\w+): (\w+)", (CONFIG_DIR / "train.yaml").read_text(), re.MULTILINE)
    chosen = dict(listed)
    assert {group: chosen[group] for group in DEFAULTS} == DEFAULTS


def test_a_change_is_a_field_a_dotted_key_or_one_of_the_samplers():
    changed = recipes.ADA_SEQ_BALANCE.with_(
        k_pos=3, sampler="positive", **{"estimator.memory": 0.5, "loss/reduction": "x"}
    )
    assert changed.settings == {"sampler.k_pos": 3, "estimator.memory": 0.5}
    assert changed.words() == {
        "sampler": "positive",
        "selection": "balanced",
        "advantage": "exact",
        "loss/reduction": "x",
    }
    assert recipes.ADA_SEQ_BALANCE.settings == {}


def test_a_core_takes_a_recipe_and_leaves_it_as_it_was():
    core, other = (Core(recipes.ADA_SEQ_BALANCE.with_(k_pos=3), ["a", "b"]) for _ in range(2))
    sampler = core._method.sampler
    assert (sampler.k_pos, sampler.k_neg) == (3, 2)
    assert sampler is not other._method.sampler  # every core has parts of its own
    assert Core(recipes.GRPO, ["a"], sampler=use(UniformSampler, group_size=6))._method.sampler.group_size == 6
    assert Core("grpo", ["a"], sampler=BalanceSampler)._method.sampler.k_pos == 2


def test_every_recipe_is_found_by_its_name_alone():
    for name in recipe_names():
        assert find_recipe(name).name == name
    with pytest.raises(LookupError):
        find_recipe("nope")


def test_names_are_taken_once():
    with pytest.raises(ValueError, match="there is a method grpo already"):
        known(Recipe(name="grpo", text="another"))

    with pytest.raises(ValueError, match=r"sampler=uniform is \S*UniformSampler already"):

        @option("sampler", "uniform")
        class Other(Sampler):
            pass

    with pytest.raises(KeyError, match="sampler=uniform has no k_pos"):
        preset("sampler", "mine", "uniform", text="", k_pos=1)


def test_settings_are_the_signatures_and_references_stay_references():
    values = find_option("sampler", "vip").values
    assert values["group_size"] == "${.n_max}"
    assert values["variance"] == {"_target_": "ada_lightning.methods.published.vip.RlooVariance"}
    assert find_option("selection", "balanced").values["seed"] == "${seed}"
    assert isinstance(use(UniformSampler, group_size=2), Use)
    assert option_of(UniformSampler, "sampler") is OPTIONS["sampler"]["uniform"]
    with pytest.raises(LookupError, match="is no option: write @option"):
        option_of(Sampler, "sampler")


def test_a_default_that_no_file_can_hold_is_refused_where_the_class_is_defined():
    with pytest.raises(ValueError, match="part is of type object, which a file cannot hold"):

        @option("sampler", "unheard_of")
        class Strange(Sampler):
            def __init__(self, *, part: object = object()) -> None:
                pass


@pytest.mark.parametrize("name", recipe_names())
def test_a_part_with_the_settings_of_an_option_is_chosen_by_its_word(name):
    """Else ``+experiment=... advantage=another`` would be given settings that the other one has not."""
    recipe = find_recipe(name)
    for group in PARTS:
        if isinstance(chosen := getattr(recipe, group), Use) and chosen.arguments:
            values = option_of(chosen.kind, group).values | recipe.values()[group]
            alike = {word for word, option in OPTIONS[group].items() if option.values == values}
            assert alike <= {recipe.word(group)}


def test_every_recipe_of_the_catalog_is_found_by_its_name():
    shipped = [path.removeprefix("experiment/") for path in entries() if path.startswith("experiment/")]
    assert sorted({*shipped, *EXAMPLES}) == sorted(recipe_modules())
    assert find_recipe("cppo_batch").builds_on == ()


@pytest.mark.parametrize("group", [*PARTS, "curriculum/usefulness", "estimator/embedding", "sampler/gradient_norm"])
def test_every_option_of_a_part_is_found_by_its_word(group):
    shipped = [path.removeprefix(f"{group}/") for path in entries() if path.startswith(f"{group}/")]
    assert sorted(name for name in shipped if "/" not in name) == option_names(group)


def test_what_a_response_counts_as_in_a_core_is_what_it_counts_as_in_a_run():
    service = yaml.safe_load((CONFIG_DIR / "rollout" / "_service.yaml").read_text())
    assert {name: service[name] for name in SETTINGS} == SETTINGS
