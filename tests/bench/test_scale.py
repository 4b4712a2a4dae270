"""The settings that benchmarks/scale.py measures."""

from erase.methods import ERASE
from scale import USUAL


def test_usual_settings_undo_the_recipe_that_the_name_of_the_file_brings() -> None:
    usual, recipe = ERASE().get_params(), ERASE.preset(dataset="ogbn-arxiv").get_params()
    chosen = {"batch_size", "num_neighbors", "hidden", "epochs"}
    undone = {key for key, value in recipe.items() if value != usual[key]} - chosen
    assert undone <= set(USUAL)
    for key in undone:
        assert str(USUAL[key]) == str(usual[key]).lower(), key
