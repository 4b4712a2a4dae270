"""The settings that benchmarks/scale.py measures."""

from erase.cli.options import parse_settings
from erase.methods import ERASE
from scale import METHODS


def test_the_recipe_is_the_preset_of_that_name() -> None:
    settings = [f"{key}={value}" for key, value in METHODS["erase"].items()]
    chosen = parse_settings(settings, ERASE().get_params())
    assert ERASE(**chosen).get_params() == ERASE.preset(dataset="ogbn-arxiv").get_params()
