"""How one column of a table becomes features.

- **number**: one feature, standardised to mean 0 and standard deviation 1. A column that is mostly
  zeros is divided by its largest absolute value instead, so that it stays sparse. Columns called
  x0, x1, … stay as they are. Text is read as numbers, also with a decimal comma or a percent sign.
- **boolean**: one feature, 0 or 1.
- **vector** (a list or array in each row): its numbers as they are.
- **category** (few different words): one feature per word, 0 or 1.
- **text**: TF-IDF of its words, at most 4,096 of them; no language is assumed.

Left out are dates and times, also those written as text, columns without a value, and columns that
look like identifiers: their values are all different, and they are

- single words: codes, hashes, addresses, names;
- on 20 nodes or more, text of fewer than three words on average, such as names of people, and whole
  numbers;
- on fewer nodes, whole numbers that count the rows, or in a column called id, index, key or number.

On 20 nodes or more, one in ten values of words, or of a column called so, may be repeated.
"""

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

from erase.data.cells import (
    Style,
    are_dates,
    are_moments,
    as_words,
    number_style,
    parse_numbers,
    place_of,
)
from erase.data.labels import MANY_NODES
from erase.data.matrices import SPARSE_BELOW, is_too_large, too_large
from erase.errors import EraseError

FEATURE_COLUMN = re.compile(r"x\d+")  # so `write_graph` names the features of a table
_HASH = re.compile(r"(0x)?[0-9a-fA-F-]{8,}")
_ID_NAME = re.compile(r"(?:.*[\W_])?(?:(?i:id|idx|index|key|no|nr|num|number))|.*[a-z]I[dD]")
_FEWEST_ROWS_TO_COUNT = 5  # fewer may be 1, 2, 3, … by chance
_WORDS_OF_A_TEXT = 3  # on average; values of fewer words that are all different are names
_MOST_DIFFER = 0.9  # share of different values from which they name rows: a few may be repeated
MOST_WORDS = 4096  # of the vocabulary of a text column
MOST_CATEGORIES = 100  # of one column; rarer ones become zeros
LONG_WORD = 12  # mean characters per word from which a text has no blanks between its words

Kind = Literal["number", "boolean", "vector", "category", "text"]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Column:
    """How one column of a table becomes features.

    Attributes:
        name: of the column.
        kind: what it holds.
        width: how many features it makes.
        medians: [width] what a missing number becomes; numbers, booleans and vectors.
        means: [width] what is subtracted.
        scales: [width] by which it is then divided.
        categories: [width] of a category.
        vocabulary: [width] words (or pieces of them, see `analyzer`) of a text.
        idf: [width] the weight of each word.
        analyzer: "word", or "char" where words are not separated by blanks.
        style: of numbers that are text: a decimal comma, a percent sign, both or neither.
    """

    name: str
    kind: Kind
    width: int = 1
    medians: tuple[float, ...] = ()
    means: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()
    categories: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] = ()
    idf: tuple[float, ...] = ()
    analyzer: Literal["word", "char"] = "word"
    style: Style = ""

    @property
    def feature_names(self) -> list[str]:
        """One name per feature."""
        if self.kind == "category":
            return [f"{self.name}={value}" for value in self.categories]
        if self.kind == "text":
            return [f"{self.name}: {word}" for word in self.vocabulary]
        if self.kind == "vector":
            return [f"{self.name}[{j}]" for j in range(self.width)]
        return [self.name]

    def encode(self, column: "pd.Series[Any]") -> tuple[Any, int]:
        """Return the features [N, width], dense or CSC, and how many values were missing."""
        if self.kind == "text":
            texts = _as_text(column)
            if (wrong := texts.isna() & column.notna()).any():
                raise _wrong_kind(self, column, wrong)
            block = self._vectorizer().transform(texts.fillna(""))
            return block.tocsc(), 0
        if self.kind == "category":
            return self._one_hot(column)
        block = read_numbers(column, self.style)
        if block is None or block.shape[1] != self.width:
            raise _wrong_kind(self, column, column.notna())
        missing = np.isnan(block)
        block = (np.where(missing, self.medians, block) - self.means) / self.scales
        return _thin(block), int(missing.any(1).sum())

    def count_unknown(self, column: "pd.Series[Any]") -> int:
        """Return how many values of a category are none of its categories, and not missing."""
        if self.kind != "category":
            return 0
        words = as_words(column)[column.notna()]
        return int((~words.isin(self.categories) & (words.str.strip() != "")).sum())

    def _one_hot(self, column: "pd.Series[Any]") -> tuple[Any, int]:
        known = column.notna()
        code = pd.Index(self.categories).get_indexer(pd.Index(as_words(column)))
        is_other = pd.api.types.is_numeric_dtype(column) or are_moments(column)
        if is_other and known.any() and not (code >= 0).any():
            raise _wrong_kind(self, column, known)
        row = np.flatnonzero(code >= 0)
        block = sp.csc_matrix((np.ones(len(row)), (row, code[row])), (len(code), self.width))
        return block, int((~known).sum())

    def _vectorizer(self) -> TfidfVectorizer:
        vectorizer = _vectorizer(self.analyzer, vocabulary=list(self.vocabulary))
        vectorizer.idf_ = np.array(self.idf)
        return vectorizer


IDENTIFIERS = "values that are all different and look like identifiers"


def describe(column: "pd.Series[Any]", is_text: bool, is_asked_for: bool) -> Column | str:
    """Return how a column becomes features, or why it does not."""
    name = str(column.name)
    known = column if _is_whole_type(column) else column[column.notna()]
    if is_text:
        return _text_column(name, column)
    if are_moments(column) or (not is_asked_for and are_dates(known)):
        return "dates or times"
    if known.empty:
        return "no value in any row"
    if not is_asked_for and _are_hashes(known):
        return IDENTIFIERS
    style = number_style(known)
    is_category = isinstance(column.dtype, pd.CategoricalDtype)
    numbers = None if is_category else read_numbers(column, style)
    if numbers is not None:
        if not is_asked_for and _are_identifiers(column, numbers):
            return IDENTIFIERS
        return replace(_number_column(name, column, numbers), style=style)
    words = known.map(lambda value: value if isinstance(value, str) else None).astype(object)
    if is_category:
        words = known.astype(str)
    if words.isna().any():
        return "values that are neither numbers nor text"
    words = words[words.str.strip() != ""]
    if words.empty:
        return "no value in any row"
    counts = words.value_counts(sort=False)
    if is_category or (2 * len(counts) <= len(words) and len(counts) <= MOST_CATEGORIES):
        return _category_column(name, counts)
    if _is_written_without_blanks(words) or _is_text(words, len(counts), is_asked_for):
        return _text_column(name, column)
    if len(counts) < _MOST_DIFFER * len(words):  # many different words, but nodes share them
        return _category_column(name, counts)
    if is_asked_for:
        return _text_column(name, column)
    return IDENTIFIERS


def names_rows(column: "pd.Series[Any]") -> bool:
    """Return whether a column has words that differ from row to row, as names do."""
    words = _as_text(column).dropna()
    words = words[words.str.strip() != ""]
    return len(words) > 0 and bool(words.nunique() >= _MOST_DIFFER * len(words))


def is_wordy(column: "pd.Series[Any]") -> bool:
    """Return whether names could serve as text: they differ, and have three words on average."""
    words = _as_text(column).dropna()
    words = words[words.str.strip() != ""]
    return names_rows(words) and bool(words.str.split().str.len().mean() >= _WORDS_OF_A_TEXT)


def _is_text(words: "pd.Series[Any]", different: int, is_asked_for: bool) -> bool:
    """Return whether values, of which `different` ones differ, are text rather than names."""
    if words.str.contains(r"\s", regex=True).mean() <= 0.5:
        return False
    are_names = (
        different >= _MOST_DIFFER * len(words) and len(words) >= MANY_NODES and not is_asked_for
    )
    return not are_names or bool(words.str.split().str.len().mean() >= _WORDS_OF_A_TEXT)


def _is_written_without_blanks(words: "pd.Series[Any]") -> bool:
    """Return whether these are sentences of a language that puts no blanks between words."""
    return bool(words.str.contains(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]").mean() > 0.5)


def _are_identifiers(column: "pd.Series[Any]", block: Array) -> bool:
    """Return whether a column holds numbers that name nodes: whole, and none of them twice.

    In a column that is called id, index, key or number, a few of many may be there twice.

    Few nodes may differ in any quantity: fewer than `MANY_NODES` values are identifiers where they
    count the rows, or where the column is called so.
    """
    if FEATURE_COLUMN.fullmatch(str(column.name)) or _holds_vectors(column):
        return False
    known = ~np.isnan(block[:, 0])
    values = block[known, 0]
    if not len(values):
        return False
    counts_rows = len(values) >= _FEWEST_ROWS_TO_COUNT and bool((np.diff(values) == 1).all())
    if len(values) < MANY_NODES and not counts_rows and not _ID_NAME.fullmatch(str(column.name)):
        return False
    low, high = values.min(), values.max()
    if high - low < _MOST_DIFFER * len(values) - 1 and max(-low, high) < 2**53:
        return False  # there are fewer whole numbers between them than nodes
    if not bool((values == np.rint(values)).all()):
        return False
    # of the column itself: as float64, different numbers beyond 2**53 may be equal
    different: int = column[known].nunique()
    is_called_so = _ID_NAME.fullmatch(str(column.name)) and len(values) >= MANY_NODES
    return different >= (_MOST_DIFFER if is_called_so else 1) * len(values)


def _is_whole_type(column: "pd.Series[Any]") -> bool:
    """Return whether the column's type has neither fractions nor gaps."""
    return isinstance(column.dtype, np.dtype) and column.dtype.kind in "biu"


def _are_hashes(known: "pd.Series[Any]") -> bool:
    """Return whether these are hashes or UUIDs, all different; some may read as numbers."""
    if len(known) < MANY_NODES or not isinstance(known.iloc[0], str) or not known.is_unique:
        return False
    return all(isinstance(value, str) and _HASH.fullmatch(value) for value in known) and any(
        not value.isdigit() for value in known
    )


def _number_column(name: str, column: "pd.Series[Any]", block: Array) -> Column:
    width = block.shape[1]
    with np.errstate(all="ignore"):
        known = ~np.isnan(block)
        medians = [
            float(np.median(block[known[:, j], j])) if known[:, j].any() else 0.0
            for j in range(width)
        ]
    means, scales = [0.0] * width, [1.0] * width
    kind: Kind = "number"
    if _holds_vectors(column):
        kind = "vector"
    elif _holds_booleans(column):
        kind = "boolean"
    elif not FEATURE_COLUMN.fullmatch(name):
        values = np.where(known[:, 0], block[:, 0], medians[0])
        if np.count_nonzero(values) <= SPARSE_BELOW * len(values):
            scales = [float(np.abs(values).max()) or 1.0]
        else:
            means, scales = [float(values.mean())], [float(values.std()) or 1.0]
    return Column(name, kind, width, tuple(medians), tuple(means), tuple(scales))


def _category_column(name: str, counts: "pd.Series[Any]") -> Column:
    common = counts[counts > 0].sort_values(ascending=False, kind="stable")[:MOST_CATEGORIES]
    values = tuple(sorted(common.index.astype(str)))
    return Column(name, "category", len(values), categories=values)


def _text_column(name: str, column: "pd.Series[Any]") -> Column | str:
    texts = _as_text(column).fillna("")
    lengths = texts.str.findall(r"\w+")
    characters = sum(len(word) for words in lengths for word in words)
    words = sum(map(len, lengths))
    analyzer: Literal["word", "char"] = "char" if characters > LONG_WORD * words else "word"
    many = len(texts) >= MANY_NODES
    for bounds in ({"min_df": 2, "max_df": 0.5} if many else {}, {}):
        vectorizer = _vectorizer(analyzer, max_features=MOST_WORDS, **bounds)
        try:
            vectorizer.fit(texts)
        except ValueError:  # no word is left
            continue
        vocabulary = tuple(vectorizer.get_feature_names_out().tolist())
        idf = tuple(vectorizer.idf_.tolist())
        return Column(name, "text", len(idf), vocabulary=vocabulary, idf=idf, analyzer=analyzer)
    return "no word in any row"


def _vectorizer(analyzer: str, **options: Any) -> TfidfVectorizer:
    ngrams = (1, 2) if analyzer == "char" else (1, 1)
    return TfidfVectorizer(
        analyzer=analyzer, ngram_range=ngrams, sublinear_tf=True, dtype=np.float32, **options
    )


def _as_text(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return a column of text; None where it holds none."""
    return column.astype(object).map(lambda value: value if isinstance(value, str) else None)


def read_numbers(column: "pd.Series[Any]", style: Style = "") -> Array | None:
    """Return a column of numbers, or of vectors of one length, as [N, f] float64; else None.

    Text that reads as numbers is numbers. Where half of it does, the rest are mistakes.

    Args:
        column: of a table.
        style: how text writes numbers.
    """
    if _holds_vectors(column):
        try:
            block = np.array(column.tolist())
        except ValueError:  # of different lengths
            return None
        if block.ndim != 2 or block.dtype.kind not in "biufc":
            return None
    elif pd.api.types.is_numeric_dtype(column):
        block = _plain_numbers(column)
    elif isinstance(column.dtype, pd.StringDtype) or column.dtype == object:
        empty = [isinstance(value, str) and not value.strip() for value in column]
        given = column.astype(object).mask(column.isna() | np.array(empty, dtype=bool), None)
        parsed = parse_numbers(given, style)
        bad = given.notna() & parsed.isna()
        if 2 * int(bad.sum()) > int(given.notna().sum()) or not parsed.notna().any():
            return None
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            raise EraseError(
                f"numbers in the column {column.name!r}",
                f"{column.iloc[i]!r} at {place_of(column, i)}",
                "Correct it, leave it empty, or name the columns to use: features=….",
                option="features",
            )
        block = _plain_numbers(parsed)
    else:
        return None
    if block.dtype.kind == "c":
        raise EraseError(
            f"real numbers in the column {column.name!r}", f"{block.dtype}", "Use the real part."
        )
    block = block.astype(np.float64, copy=False)
    if (large := is_too_large(block)).any():
        i, j = np.argwhere(large)[0].tolist()
        raise too_large(float(block[i, j]), f"{place_of(column, i)}, column {column.name!r}")
    if np.isinf(block).any():
        i = int(np.argwhere(np.isinf(block))[0][0])
        raise EraseError(
            f"finite numbers in the column {column.name!r}",
            f"{block[i].tolist()[0]} at {place_of(column, i)}",
            "Correct it, or leave it empty.",
        )
    return block


def _plain_numbers(column: "pd.Series[Any]") -> Array:
    """Return numbers as [N, 1], float64 unless they are complex."""
    wide = complex if pd.api.types.is_complex_dtype(column) else np.float64
    values: Array = column.to_numpy(wide, na_value=np.nan)
    return values[:, None]


def _holds_vectors(column: "pd.Series[Any]") -> bool:
    return len(column) > 0 and isinstance(column.iloc[0], list | tuple | np.ndarray)


def _holds_booleans(column: "pd.Series[Any]") -> bool:
    if pd.api.types.is_bool_dtype(column):
        return True
    return column.dtype == object and all(
        isinstance(value, bool | np.bool_) for value in column[column.notna()]
    )


def _thin(block: Array) -> Any:
    """Return a mostly empty block as CSC, another one as float32."""
    if np.count_nonzero(block) <= SPARSE_BELOW * block.size:
        return sp.csc_matrix(block.astype(np.float32))
    return block.astype(np.float32)


def _wrong_kind(column: Column, given: "pd.Series[Any]", where: Any) -> EraseError:
    at = np.flatnonzero(np.asarray(where))
    i = int(at[0]) if at.size else 0
    got = (
        f"{given.iloc[i : i + 1].tolist()[0]!r} at {place_of(given, i)}"
        if len(given)
        else "nothing"
    )
    what = f"a {column.kind} of length {column.width}" if column.kind == "vector" else column.kind
    return EraseError(
        f"the column {column.name!r} with {what} values, as in the fit", got, "Correct the column."
    )
