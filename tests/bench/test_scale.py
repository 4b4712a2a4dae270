"""The settings that benchmarks/scale.py measures."""

from erase.cli import _settings
from erase.methods import ERASE
from scale import METHODS


def test_the_recipe_is_the_preset_asked_for_by_name() -> None:
    told = [f"{key}={value}" for key, value in METHODS["erase"].items()]
    chosen = _settings(told, ERASE().get_params())
    assert ERASE(**chosen).get_params() == ERASE.preset(dataset="ogbn-arxiv").get_params()
