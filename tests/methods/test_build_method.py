"""Methods by name: the preset with changes, and errors that suggest near names."""

from typing import Any

import pytest

from erase.errors import EraseError
from erase.methods import ERASE, METHODS, build_method, default_params
from graphs import two_communities


@pytest.mark.parametrize("name", METHODS)
def test_a_name_gives_the_preset_of_its_method(name: str) -> None:
    built = build_method(name, seed=4)
    assert type(built) is METHODS[name]
    assert built.get_params() == METHODS[name].preset(seed=4).get_params()
    assert default_params(name) == METHODS[name]().get_params(deep=False)


def test_recipe_dataset_and_changes_reach_the_preset() -> None:
    built = build_method("erase", "paper", "citeseer", trust=0.2)
    assert built.get_params() == ERASE.preset("paper", "citeseer", trust=0.2).get_params()


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("eraze", {}, "a method among .*; got 'eraze'. Did you mean erase"),
        ("xyzzy", {}, "got 'xyzzy'. Choose one"),
        (3, {}, "a method among .*; got 3"),
        ("ce", {"epoch": 3}, "a parameter of ce among .*; got 'epoch'. Did you mean epochs"),
        ("ce", {"recipe": "magic"}, "recipe"),
    ],
)
def test_unknown_names_are_refused(name: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(EraseError, match=message):
        build_method(name, **changes)


@pytest.mark.parametrize("name", ["ce", "erase"])
def test_a_network_larger_than_the_memory_is_refused_before_it_is_made(name: str) -> None:
    method = build_method(name, hidden=10**11, heads=1, device="cpu")
    with pytest.raises(EraseError, match=r"a network that fits into .*hidden=100000000000"):
        method.fit(two_communities(size=10))
