"""What cells hold: dates in many spellings, numbers with a decimal comma or a percent sign."""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import erase
from erase.data.cells import are_dates, number_style
from erase.data.contract import FeatureContract, fit_contract
from erase.errors import EraseError

DAYS = pd.date_range("2019-01-02", periods=12, freq="19h") + pd.to_timedelta(range(12), unit="D")


@pytest.mark.parametrize(
    "form",
    [
        *("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%y", "%d.%m.%y", "%d %b %Y", "%B %d, %Y"),
        *("%H:%M", "%H:%M:%S", "%I:%M %p", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S+00:00"),
        *("%a, %d %b %Y %H:%M:%S", "%d-%b-%Y", "%d.%m.%Y, %H:%M", "%Y/%m/%d %I:%M:%S PM"),
    ],
)
def test_dates_and_times_in_text_are_left_out(form: str) -> None:
    texts = DAYS.strftime(form).tolist()
    for column in (texts, texts + texts, [f" {text} " for text in texts], [*texts, "?"]):
        contract, notes = fit_contract(pd.DataFrame({"joined": column, "size": range(len(column))}))
        assert contract.left_out[0] == "joined"
        assert "Not used as features: 'joined': dates or times." in notes


@pytest.mark.parametrize(
    "values",
    [
        *(["1/2/2019", "1/22/2019"], ["1. Februar 2020", "1. März 2020"], ["2 days 03:00:00"]),
        *([dt.date(2019, 1, 2), None], [dt.time(8), dt.time(9)], [pd.Timedelta(3, "h"), None]),
        *(list(pd.period_range("2019-01", periods=2, freq="M")), ["2019-01-11", "2019-01-12"]),
    ],
)
def test_dates_of_other_types_are_left_out(values: Any) -> None:
    table = pd.DataFrame({"joined": values * 6})
    assert fit_contract(table)[0].left_out == ("joined",)
    assert fit_contract(table.astype("category"))[0].left_out == ("joined",)


@pytest.mark.parametrize(
    "values",
    [
        *(
            ["1.2.3", "1.10.0"],
            ["22.04.1", "10.4.12"],
            ["10-20", "1-5"],
            ["2019-2020"],
            ["2019-20"],
        ),
        *(["030-1234567", "0172/123456"], ["1:50", "2:10"], ["1/2", "3/4"], ["12", "2019"]),
        *(["192.168.10.1"], ["may be", "mon ami"], ["3 days"], ["99.99.2019"], ["31/31/2019"]),
        *(["2019-01-11", "later", "never"], ["20190111"], [2019, 2020]),
    ],
)
def test_what_no_date_is(values: Any) -> None:
    assert not are_dates(pd.Series(values))


def test_a_date_that_is_asked_for_is_used_as_it_is_written() -> None:
    table = pd.DataFrame({"shift": ["08:00", "16:00"] * 6})
    assert fit_contract(table, ("shift",))[0].columns[0].categories == ("08:00", "16:00")
    assert fit_contract(table, None, ("shift",))[0].columns[0].kind == "text"


def test_csv_and_parquet_of_one_table_have_the_same_features(tmp_path: Path) -> None:
    table = pd.DataFrame({"id": range(12), "label": ["a", "b"] * 6, "size": range(12, 0, -1)})
    table = table.assign(joined=DAYS, day=DAYS.date, span=DAYS - DAYS[0], town=["Rome", "Oslo"] * 6)
    edges = pd.DataFrame({"source": [1, 2], "target": [2, 3]})
    found = []
    for suffix in ("csv", "parquet"):
        folder = tmp_path / suffix
        folder.mkdir()
        for name, each in (("nodes", table), ("edges", edges)):
            write = each.to_csv if suffix == "csv" else each.to_parquet
            write(folder / f"{name}.{suffix}", index=False)
        data = erase.read_graph(folder)
        found.append(data.feature_contract["columns"])
        assert data.feature_contract["left_out"] == ("joined", "day", "span")
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("values", "style", "numbers"),
    [
        (["12,50", "3", "1.234,5", ""], ",", [12.5, 3, 1234.5, np.nan]),
        (["1.234,567", "-2.000"], ",", [1234.567, -2000]),
        (["45%", "7.5 %", None], "%", [0.45, 0.075, np.nan]),
        (["45,5%", "100%"], ",%", [0.455, 1]),
    ],
)
def test_numbers_with_a_comma_or_a_percent_sign(
    values: list[Any], style: str, numbers: list[float]
) -> None:
    table = pd.DataFrame({"x0": values})
    contract, notes = fit_contract(table)
    assert [(column.kind, column.style) for column in contract.columns] == [("number", style)]
    assert "Numbers with a decimal comma or a percent sign: 'x0'." in notes
    x, _ = FeatureContract.from_dict(contract.to_dict()).encode(table)
    expected = np.nan_to_num(numbers, nan=contract.columns[0].medians[0])
    np.testing.assert_allclose(np.asarray(x)[:, 0], expected, rtol=1e-6)
    x, _ = contract.encode(pd.DataFrame({"x0": numbers}))
    np.testing.assert_allclose(np.asarray(x)[:, 0], expected, rtol=1e-6)


@pytest.mark.parametrize(
    "values",
    [["1,234", "2,500"], ["a,b", "1,5"], ["1,2,3"], ["12.5", "1,5"], ["50%", "few"], ["1.5", "2"]],
)
def test_what_is_not_read_so(values: list[str]) -> None:
    assert number_style(pd.Series(values)) == ""


def test_a_mistake_among_such_numbers_is_told() -> None:
    with pytest.raises(EraseError, match="numbers in the column 'price'; got 'dear' at row 19"):
        fit_contract(pd.DataFrame({"price": [*(f"{i},5" for i in range(19)), "dear"]}))
    contract, _ = fit_contract(pd.DataFrame({"price": ["1,5", "2,75"] * 9}))
    with pytest.raises(EraseError, match=r"'price'; got '2.75' at row 1"):
        contract.encode(pd.DataFrame({"price": ["1,5", "2.75"]}))


def test_a_comma_that_may_be_either_is_told() -> None:
    contract, notes = fit_contract(pd.DataFrame({"price": ["1,234", "950", "2,500"] * 4}))
    assert contract.columns[0].kind == "category"
    assert "'price' is not read as numbers: '1,234' may be 1234 or 1.234. Write it so." in notes


def test_a_csv_of_tomorrow_is_read_with_the_comma_of_the_fit(tmp_path: Path) -> None:
    edges = "source,target\n1,2\n"
    for name, prices in (("fit", ["1.234,50", "2,25", "3"]), ("new", ["1.234", "2.000", "3"])):
        (tmp_path / name).mkdir()
        rows = "".join(f"{i};a;{price}\n" for i, price in enumerate(prices))
        (tmp_path / name / "nodes.csv").write_text(f"id;label;x0\n{rows}")
        (tmp_path / name / "edges.csv").write_text(edges)
    fit = erase.read_graph(tmp_path / "fit")
    assert fit.x[:, 0].tolist() == [1234.5, 2.25, 3]
    contract = FeatureContract.from_dict(fit.feature_contract)
    new = erase.read_graph(tmp_path / "new", separator=None, contract=contract)
    assert new.x[:, 0].tolist() == [1234, 2000, 3]
