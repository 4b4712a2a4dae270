"""What the cells of a column hold: words, dates, numbers with a decimal comma or a percent sign.

And where a cell is, for errors.
"""

import re
from typing import Any, Literal

import numpy as np
import pandas as pd

Style = Literal["", ",", "%", ",%"]  # plain numbers; decimal comma; percent sign; both
IDS = "ids of the nodes"  # the name of an index that holds them

_MOSTLY = 0.9  # share of the cells that says what a column holds
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d+)?)?(?:\s?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_CLOCK = r"(?:0?[1-9]|1[0-2])(?::[0-5]\d){1,2}\s?[ap]\.?m\.?"
_DAY, _MONTH, _YEAR = r"(?:0?[1-9]|[12]\d|3[01])", r"(?:0?[1-9]|1[0-2])", r"(?:1\d|2[01])\d\d"
_NAMED = r"(?:jan|feb|mar|mär|maerz|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez)[a-zä]{0,7}\.?"
_WEEKDAY = r"(?:(?:mon?|tue?|wed?|thu?|fri?|sat?|sun?|mo|di|mi|do|fr|sa|so)[a-z]{0,7}\.?,?\s)?"
_DATES = (
    rf"{_YEAR}([-/.]){_MONTH}\1{_DAY}",  # 2019-01-11
    rf"{_DAY}([-/.]){_MONTH}\2{_YEAR}",  # 11.01.2019
    rf"{_MONTH}([-/]){_DAY}\3{_YEAR}",  # 1/22/2019
    r"(?:0[1-9]|[12]\d|3[01])\.(?:0[1-9]|1[0-2])\.\d\d",  # 11.01.19
    rf"{_DAY}/{_MONTH}/\d\d",
    rf"{_MONTH}/{_DAY}/\d\d",
    rf"{_WEEKDAY}{_DAY}(?:st|nd|rd|th|\.)?[\s-]{_NAMED},?[\s-]{_YEAR}",  # 01 Feb 2020
    rf"{_WEEKDAY}{_NAMED}\s{_DAY}(?:st|nd|rd|th)?,?\s{_YEAR}",  # February 1, 2020
)
_MOMENT = re.compile(
    rf"(?:{'|'.join(_DATES)})(?:(?:T|,?\s)\s*(?:{_TIME}|{_CLOCK}))?|{_TIME}|{_CLOCK}"
    r"|-?\d+ days?,? [+-]?\d\d?:\d\d:\d\d(?:\.\d+)?",
    re.IGNORECASE,
)
_TIMES = ("datetime64", "datetime", "date", "timedelta64", "timedelta", "time", "period")
_PERCENT = re.compile(r"\s*%$")
_COMMA_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?")
_PLAIN_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
_UNCLEAR = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")


def place_of(column: "pd.Series[Any]", i: int) -> str:
    """Return where the cell in row i is, for an error: at a node with this id, if they are known.

    >>> place_of(pd.Series([4, 5]), 1)
    'row 1'
    """
    if column.index.name == IDS:
        return f"node {column.index[i : i + 1].tolist()[0]!r}"
    return f"row {i}"


def as_words(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return the values of a category as text, None where missing; a day without its midnight.

    >>> as_words(pd.Series(pd.to_datetime(["2019-01-11", None]))).tolist()
    ['2019-01-11', None]
    """
    known = column.notna()
    is_moment = pd.api.types.is_datetime64_any_dtype(column)
    words = column.astype(str) if is_moment else column.astype(object).map(str)
    return words.astype(object).where(known, None)


def are_moments(column: "pd.Series[Any]") -> bool:
    """Return whether the type of the values is one of dates, times, spans or periods."""
    is_category = isinstance(column.dtype, pd.CategoricalDtype)
    values = column.cat.categories if is_category else column
    if values.dtype != object:
        is_moment = pd.api.types.is_datetime64_any_dtype(values)
        is_span = pd.api.types.is_timedelta64_dtype(values)
        return is_moment or is_span or isinstance(values.dtype, pd.PeriodDtype)
    return pd.api.types.infer_dtype(values, skipna=True) in _TIMES


def are_dates(column: "pd.Series[Any]") -> bool:
    """Return whether nearly all values of a column are text that says a date or a time.

    >>> are_dates(pd.Series(["11.01.2019", "08:30"])), are_dates(pd.Series(["1.2.3", "10-20"]))
    (True, False)
    """
    texts = _texts(column)
    if not any(map(_MOMENT.fullmatch, _sample(texts))):
        return False
    found = sum(_MOMENT.fullmatch(text) is not None for text in texts)
    return _is_most(found, int(column.notna().sum()))


def number_style(column: "pd.Series[Any]") -> Style:
    """Return how nearly all text of a column writes numbers, if not in the plain way.

    A decimal comma is one where a comma somewhere is followed by other than three digits.

    >>> number_style(pd.Series(["12,50", "1.234,5"])), number_style(pd.Series(["1,234", "2,000"]))
    (',', '')
    """
    texts = _texts(column)
    total = len(texts)
    if not any("," in text or text.endswith("%") for text in _sample(texts)):
        return ""
    is_percent = _is_most(sum(text.endswith("%") for text in texts), total)
    numerals = [_PERCENT.sub("", text) for text in texts]
    with_comma = [text for text in numerals if _COMMA_NUMBER.fullmatch(text)]
    if _is_most(len(with_comma), total) and any(
        "," in text and ("." in text or len(text) - text.index(",") != 4) for text in with_comma
    ):
        return ",%" if is_percent else ","
    plain = sum(_PLAIN_NUMBER.fullmatch(text) is not None for text in numerals)
    return "%" if is_percent and _is_most(plain, total) else ""


def ambiguous_number(column: "pd.Series[Any]") -> str | None:
    """Return a value such as 1,234, where nearly all text of a column is written so; else None."""
    texts = _texts(column)
    if not any(map(_UNCLEAR.fullmatch, _sample(texts))):
        return None
    found = [text for text in texts if _UNCLEAR.fullmatch(text)]
    is_likely = _is_most(sum(text.isdigit() for text in texts) + len(found), len(texts))
    return found[0] if found and is_likely else None


def parse_numbers(column: "pd.Series[Any]", style: Style) -> "pd.Series[Any]":
    """Return cells as numbers, NaN where they are none; 45 % is 0.45."""
    if style:
        column = column.map(lambda value: _number(value, style))
    return pd.to_numeric(column, errors="coerce")


def _number(value: Any, style: Style) -> Any:
    if not isinstance(value, str):
        return value
    text, scale = value.strip(), 1.0
    if "%" in style:
        if not text.endswith("%"):
            return None  # 0.45 or 45?
        text, scale = _PERCENT.sub("", text), 100.0
    if "," in style:
        is_number = _COMMA_NUMBER.fullmatch(text)
        text = text.replace(".", "").replace(",", ".")
    else:
        is_number = _PLAIN_NUMBER.fullmatch(text)
    return float(text) / scale if is_number else None


def _texts(column: "pd.Series[Any]") -> list[str]:
    """Return the cells that are text and hold something, without blanks around it."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind != "O":
        return []
    return [text for value in column if isinstance(value, str) and (text := value.strip())]


def _sample(texts: list[str]) -> list[str]:
    """Return a thousand of many texts, from everywhere: all but a few have what nearly all have."""
    return texts[:: len(texts) // 1000 + 1]


def _is_most(count: int, total: int) -> bool:
    return count > 0 and count >= _MOSTLY * total
