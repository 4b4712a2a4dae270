"""Columns of a table become features, and a contract makes the same ones from another table."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

import erase
from erase.data.columns import MOST_CATEGORIES, MOST_WORDS, Column
from erase.data.contract import FeatureContract, fit_contract
from erase.data.task import NodeTask
from erase.errors import EraseError

WORDS = ["wolf", "bear", "lynx", "otter", "hawk", "seal", "crane", "viper", "moose", "heron"]


def mixed(n: int = 40, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "income": np.round(rng.lognormal(10, 1, n), 2),
            "member": rng.random(n) < 0.5,
            "home": rng.choice(["Rome", "Oslo", "New York"], n),
            "about": [" ".join(rng.choice(WORDS, 6)) for _ in range(n)],
            "key": rng.permutation(n) + 10_000,
            "code": [f"{i * 2654435761 % 2**32:08x}" for i in range(n)],
            "joined": pd.date_range("2020-01-01", periods=n),
            "empty": [None] * n,
            "at": list(rng.random((n, 2))),
            "x7": rng.integers(0, 9, n),
        }
    )


def dense(x: Any) -> Any:
    return x.toarray() if sp.issparse(x) else x


def test_each_column_is_used_by_what_it_holds() -> None:
    contract, notes = fit_contract(mixed())
    kinds = {column.name: column.kind for column in contract.columns}
    assert kinds == {
        "age": "number",
        "income": "number",
        "member": "boolean",
        "home": "category",
        "about": "text",
        "at": "vector",
        "x7": "number",
    }
    assert contract.left_out == ("key", "code", "joined", "empty")
    assert "Not used as features: 'key', 'code': values that are all different" in notes[0]
    assert notes[1:3] == [
        "Not used as features: 'joined': dates or times.",
        "Not used as features: 'empty': no value in any row.",
    ]
    assert notes[3] == (
        f"Features: {contract.width} from numbers: 'age', 'income', 'x7'; true or false: 'member'; "
        "vectors: 'at'; categories: 'home'; text (TF-IDF): 'about'."
    )
    names = contract.feature_names
    assert names is not None
    assert len(names) == contract.width == 2 + 1 + 3 + len(contract.columns[4].vocabulary) + 2 + 1
    assert {"home=New York", "about: wolf", "at[1]", "x7"} <= set(names)


def test_numbers_are_standardised_and_x_columns_and_vectors_stay_as_they_are() -> None:
    table = mixed()
    x = dense(fit_contract(table)[0].encode(table)[0])
    names = fit_contract(table)[0].feature_names
    assert names is not None
    by_name = dict(zip(names, x.T, strict=True))
    for name in ("age", "income"):
        values = table[name].to_numpy(float)
        np.testing.assert_allclose(by_name[name], (values - values.mean()) / values.std(), 1e-4)
    np.testing.assert_array_equal(by_name["x7"], table["x7"])
    np.testing.assert_array_equal(by_name["member"], table["member"])
    np.testing.assert_array_equal(by_name["home=Oslo"], table["home"] == "Oslo")
    np.testing.assert_allclose(by_name["at[1]"], [pair[1] for pair in table["at"]], 1e-6)


def test_mostly_empty_numbers_are_scaled_by_their_largest_and_stay_sparse() -> None:
    table = pd.DataFrame(np.zeros((50, 30)), columns=[f"w{j}" for j in range(30)])
    table.iloc[[0, 1], 3] = [4.0, -8.0]
    x, _ = fit_contract(table)[0].encode(table)
    assert sp.issparse(x)
    assert x[:2, 3].toarray().ravel().tolist() == [0.5, -1.0]


def test_text_equals_scikit_learns_tfidf() -> None:
    table = mixed()[["about"]]
    contract, _ = fit_contract(table)
    expected = TfidfVectorizer(sublinear_tf=True, min_df=2, max_df=0.5).fit_transform(
        table["about"]
    )
    np.testing.assert_allclose(dense(contract.encode(table)[0]), expected.toarray(), rtol=1e-5)


def test_vocabulary_and_categories_are_bounded() -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(f"word{i}" for i in rng.integers(0, 9000, 300)) for _ in range(200)]
    cities = [f"city{i}" for i in rng.integers(0, 300, 1000)]
    assert fit_contract(pd.DataFrame({"t": texts}))[0].width == MOST_WORDS
    assert fit_contract(pd.DataFrame({"c": cities}))[0].width == MOST_CATEGORIES


def test_text_without_blanks_between_words_is_cut_into_characters() -> None:
    texts = ["猫はとても静かに眠っている動物です", "犬は公園で元気に走っている動物です"] * 15
    table = pd.DataFrame(
        {"t": [text + "一二三四五六七八九"[i % 9] * 2 for i, text in enumerate(texts)]}
    )
    column = fit_contract(table, text=("t",))[0].columns[0]
    assert column.analyzer == "char"
    assert "猫" in column.vocabulary


@pytest.mark.parametrize(
    ("values", "is_used"),
    [
        ([f"https://node/{i}" for i in range(30)], False),
        ([f"{i:032x}" for i in range(30)], False),
        ([f"a sentence on topic {i}" for i in range(30)], True),
        ([f"Ann{i} Smith{i}" for i in range(30)], False),
        ([f"{['Ann', 'Bob'][i % 2]} {i % 20}" for i in range(30)], True),
        ([f"Ann{i} Smith{i}" for i in range(10)], True),
        ([f"Ann{i}" for i in range(10)], False),
        (["red", "blue"] * 15, True),
        ([f"tag{i % 20}" for i in range(30)], True),
        ([{"a": 1}] * 30, False),
        (pd.Categorical([f"c{i}" for i in range(30)]), True),
    ],
)
def test_what_text_is_used(values: Any, is_used: bool) -> None:
    contract, _ = fit_contract(pd.DataFrame({"c": values}))
    assert bool(contract.columns) == is_used


@pytest.mark.parametrize(
    ("name", "values", "is_used"),
    [
        ("age", [30, 50, 41, 22, 64, 19], True),
        ("age", [1, 2, 3], True),
        ("row", [4, 5, 6, 7, 8], False),
        ("id", [30, 50, 41], False),
        ("Account number", [30, 50, 41], False),
        ("nodeId", [30, 50, 41], False),
        ("id", [30, 50, 50], True),
        ("kid", [30, 50, 41], True),
        ("income", [*range(100, 300, 7)], False),
        ("user_id", [100, *range(100, 300, 7)], False),
        ("user_id", [100, 107, 114, 121, *range(100, 300, 7)], True),
        ("income", [100, *range(100, 300, 7)], True),
    ],
)
def test_which_whole_numbers_are_identifiers(name: str, values: Any, is_used: bool) -> None:
    contract, _ = fit_contract(pd.DataFrame({name: values}))
    assert bool(contract.columns) == is_used


def test_a_contract_survives_json_and_makes_the_same_features() -> None:
    table, tomorrow = mixed(), mixed(15, seed=1)
    contract, _ = fit_contract(table)
    back = FeatureContract.from_dict(json.loads(json.dumps(contract.to_dict())))
    assert back == contract
    shuffled = table[table.columns[::-1]]
    np.testing.assert_array_equal(dense(back.encode(shuffled)[0]), dense(contract.encode(table)[0]))
    few = dense(contract.encode(tomorrow)[0])
    assert few.shape == (15, contract.width)
    age = contract.columns[0]
    np.testing.assert_allclose(
        few[:, 0], (tomorrow["age"] - age.means[0]) / age.scales[0], rtol=1e-5
    )
    unknown = tomorrow.assign(home="Paris", about="zebra")
    names = contract.feature_names or []
    at = [j for j, name in enumerate(names) if name.startswith(("home=", "about:"))]
    assert not dense(contract.encode(unknown)[0])[:, at].any()


def test_a_damaged_contract_is_refused() -> None:
    with pytest.raises(EraseError, match="a feature contract; got one that is damaged"):
        FeatureContract.from_dict({"width": "wide"})
    with pytest.raises(EraseError, match="a feature contract; got one that is damaged"):
        FeatureContract.from_dict("\udcff")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns=["age", "home"]), "got a table without 'age', 'home'"),
        (
            lambda t: t.assign(age="old"),
            "'age' with number values, as in the fit; got 'old' at row 0",
        ),
        (lambda t: t.assign(about=3), "the column 'about' with text values, as in the fit; got 3"),
        (lambda t: t.assign(home=3), "the column 'home' with category values, .*; got 3 at row 0"),
        (lambda t: t.assign(at=[[1.0]] * 40), r"'at' with a vector of length 2 values.*\[1.0\] at"),
    ],
)
def test_another_table_that_does_not_fit_is_refused_by_its_column(
    change: Any, message: str
) -> None:
    with pytest.raises(EraseError, match=message):
        fit_contract(mixed())[0].encode(change(mixed()))


def test_columns_that_were_not_in_the_fit_are_ignored_and_named() -> None:
    contract, _ = fit_contract(mixed())
    x, notes = contract.encode(mixed().assign(height=1.8, key=7))
    np.testing.assert_array_equal(dense(x), dense(contract.encode(mixed())[0]))
    assert notes == ["Columns that were not in the fit are ignored: 'height'."]


def test_missing_values_become_the_median_or_no_category_and_strict_refuses_them() -> None:
    table = pd.DataFrame(
        {
            "age": [10.0, None, 20.0, 90.0],
            "old": [True, None, True, False],
            "home": ["Rome", "Rome", None, "Rome"],
        }
    )
    contract, _ = fit_contract(table)
    x, notes = contract.encode(table)
    age = contract.columns[0]
    assert age.medians == (20.0,)
    assert x[1, 0] == pytest.approx((20 - 35) / np.std([10, 20, 20, 90]))
    assert x[1, 1] == 1.0
    assert x[:, 2].tolist() == [1, 1, 0, 1]
    assert notes == [
        "Missing values became the column's median: 1 in 'age', 1 in 'old'.",
        "Missing values became no category: 1 in 'home'.",
    ]
    with pytest.raises(EraseError, match=r"column 'age'; got none at row 1. Fill it") as caught:
        contract.encode(table, strict=True)
    assert caught.value.option == "strict"
    assert "leave out --strict, and" in caught.value.for_command_line()


def graph(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    n = len(table)
    nodes = table.assign(id=range(n), label=["a", "b"] * (n // 2) + ["a"] * (n % 2))
    return nodes, pd.DataFrame({"source": range(n - 1), "target": range(1, n)})


def test_a_task_carries_its_contract_and_reads_other_tables_by_it() -> None:
    task = NodeTask.of(graph(mixed()))
    contract = task.feature_contract
    assert contract.source == "table"
    assert contract.width == task.num_features
    nodes, edges = graph(mixed(30, seed=1))
    other = NodeTask.of((nodes.drop(columns="label"), edges), labelled=False, contract=contract)
    assert other.feature_contract == contract
    assert other.num_features == task.num_features
    with pytest.raises(EraseError, match="got a table without 'age'"):
        NodeTask.of((nodes.drop(columns="age"), edges), labelled=False, contract=contract)
    read_alone = erase.from_tables(nodes, edges)
    with pytest.raises(EraseError, match=r"other words, categories or scales. Make the features"):
        NodeTask.of(read_alone, labelled=False, contract=contract)


def test_matrices_are_compared_by_width_and_names() -> None:
    ends, y = [(0, 1)], [0, 1, 0]
    named = erase.from_arrays(ends, y, np.ones((3, 2)), feature_names=["a", "b"])
    contract = NodeTask.of(named).feature_contract
    assert contract == FeatureContract(2, names=("a", "b"))
    assert NodeTask.of(erase.from_arrays(ends, y, np.ones((3, 2))), contract=contract)
    with pytest.raises(EraseError, match="2 features, as in the fit; got 3"):
        NodeTask.of(erase.from_arrays(ends, y, np.ones((3, 3))), contract=contract)
    turned = erase.from_arrays(ends, y, np.ones((3, 2)), feature_names=["b", "a"])
    with pytest.raises(EraseError, match="the feature 'a' in column 0, as in the fit; got 'b'"):
        NodeTask.of(turned, contract=contract)
    bare = erase.from_arrays(ends, y)
    assert NodeTask.of(bare).feature_contract.source == "edges"
    with pytest.raises(EraseError, match=r"features from a matrix.*got features from the edges"):
        NodeTask.of(bare, contract=contract)


def test_names_of_the_wrong_number_are_refused() -> None:
    with pytest.raises(EraseError, match="2 feature_names, one each; got 1"):
        NodeTask.of(erase.from_arrays([(0, 1)], [0, 1], np.ones((2, 2)), feature_names=["a"]))


def test_values_that_are_no_category_of_the_fit_are_counted() -> None:
    contract, _ = fit_contract(pd.DataFrame({"town": ["Rome", "Oslo"] * 10}))
    x, notes = contract.encode(pd.DataFrame({"town": ["Rome", "Bern", None, "Bern", " "]}))
    assert dense(x).tolist() == [[0, 1], [0, 0], [0, 0], [0, 0], [0, 0]]
    assert notes[0] == "Values that are no category of the fit became zeros: 2 in 'town'."
    assert len(notes) == 2  # and one on the missing value


def test_a_contract_is_shown_in_one_line_however_many_words_it_has() -> None:
    words = [f"w{i} v{i} u{i}" for i in range(50)]
    contract, _ = fit_contract(pd.DataFrame({"about": words, "age": np.arange(50) % 7}))
    assert repr(contract) == "<FeatureContract: 151 features, from 'about', 'age'>"
    assert repr(FeatureContract(3)) == "<FeatureContract: 3 features, from a matrix>"


def test_a_category_that_arrives_as_a_date_is_written_as_in_the_fit() -> None:
    """An older contract may have categories that are dates."""
    days = ["2019-01-11", "2019-02-01"] * 10
    column = Column("day", "category", 2, categories=("2019-01-11", "2019-02-01"))
    contract = FeatureContract(2, "table", (column,))
    table = pd.DataFrame({"day": [*days, None]})
    expected = dense(contract.encode(table)[0])
    assert expected.sum() == 20
    for kind in ("datetime64[ns]", "category"):
        found, notes = contract.encode(table.astype({"day": kind}))
        np.testing.assert_array_equal(dense(found), expected)
        assert notes == ["Missing values became no category: 1 in 'day'."]
    moved = pd.DataFrame({"day": pd.to_datetime(table["day"]) + pd.Timedelta(1, "h")})
    with pytest.raises(
        EraseError, match="'day' with category values, as in the fit; got Timestamp"
    ):
        contract.encode(moved)
    some = pd.DataFrame({"day": pd.to_datetime(["2019-01-11", "2020-01-01"])})
    assert "became zeros: 1 in 'day'" in contract.encode(some)[1][0]


def test_rare_categories_of_the_fit_are_told_as_such() -> None:
    rare = [f"town{i}" for i in range(150)]
    nodes = pd.DataFrame({"id": range(900), "label": ["a", "b"] * 450, "town": rare * 6})
    edges = pd.DataFrame({"source": [0], "target": [1]})
    task = NodeTask.from_tables(nodes, edges)
    only = "Only the 100 most frequent of 150 values of 'town' are features; 300 rows have another"
    assert any(only in note for note in task.notes)
    assert not any("no category of the fit" in note for note in task.notes)
    other = NodeTask.of((nodes, edges), labelled=False, contract=task.feature_contract)
    assert any("no category of the fit became zeros: 300 in 'town'" in n for n in other.notes)
