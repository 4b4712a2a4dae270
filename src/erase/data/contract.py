"""Feature contracts: which columns of a table make which features.

Reading a table fits a contract; the contract then makes the same features from another table, such
as tomorrow's. It is plain data (JSON) and is kept with the graph.

How a column becomes features:

- **number**: one feature, standardised to mean 0 and standard deviation 1. A column that is mostly
  zeros is divided by its largest absolute value instead, so that it stays sparse. Columns called
  x0, x1, … stay as they are.
- **boolean**: one feature, 0 or 1.
- **vector** (a list or array in each row): its numbers as they are.
- **category** (few different words): one feature per word, 0 or 1.
- **text**: TF-IDF of its words, at most 4,096 of them; no language is assumed.

Left out are columns that look like identifiers (all different whole numbers, codes, hashes or
addresses, on 20 nodes or more), dates, and columns without a value.
"""

import re
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

from erase.data.labels import MANY_NODES
from erase.data.matrices import SPARSE_BELOW, is_too_large, too_large
from erase.errors import EraseError

FEATURE_COLUMN = re.compile(r"x\d+")  # so `write_graph` names the features of a table
_HASH = re.compile(r"(0x)?[0-9a-fA-F-]{8,}")
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
        block = read_numbers(column)
        if block is None or block.shape[1] != self.width:
            raise _wrong_kind(self, column, column.notna())
        missing = np.isnan(block)
        block = (np.where(missing, self.medians, block) - self.means) / self.scales
        return _thin(block), int(missing.any(1).sum())

    def _one_hot(self, column: "pd.Series[Any]") -> tuple[Any, int]:
        known = column.notna()
        texts = column.astype(object).where(known, None).map(str, na_action="ignore")
        code = pd.Index(self.categories).get_indexer(pd.Index(texts))
        if pd.api.types.is_numeric_dtype(column) and known.any() and not (code >= 0).any():
            raise _wrong_kind(self, column, known)
        row = np.flatnonzero(code >= 0)
        block = sp.csc_matrix((np.ones(len(row)), (row, code[row])), (len(code), self.width))
        return block, int((~known).sum())

    def _vectorizer(self) -> TfidfVectorizer:
        vectorizer = _vectorizer(self.analyzer, vocabulary=list(self.vocabulary))
        vectorizer.idf_ = np.array(self.idf)
        return vectorizer


@dataclass(frozen=True)
class FeatureContract:
    """What the features of a graph are, and how to make them for another graph.

    Attributes:
        width: F.
        source: "table" (made from `columns`), "matrix" (given as numbers) or "edges" (a graph
            without features, whose embedding stands in for them).
        columns: of a table, in the order of the features.
        left_out: columns of the table that are not features.
        names: F names of the features of a matrix, if it has any.

    >>> table = pd.DataFrame({"age": [30, 50], "home": ["Rome", "Rome"]})
    >>> contract, _ = fit_contract(table)
    >>> contract.feature_names
    ['age', 'home=Rome']
    >>> contract.encode(pd.DataFrame({"age": [70], "home": ["Rome"]}))[0].tolist()
    [[3.0, 1.0]]
    """

    width: int
    source: Literal["table", "matrix", "edges"] = "matrix"
    columns: tuple[Column, ...] = ()
    left_out: tuple[str, ...] = ()
    names: tuple[str, ...] | None = None

    @property
    def feature_names(self) -> list[str] | None:
        """One name per feature, where there are names."""
        if self.columns:
            return [name for column in self.columns for name in column.feature_names]
        return None if self.names is None else list(self.names)

    def to_dict(self) -> dict[str, Any]:
        """Return the contract as JSON's own types; `from_dict` is the inverse."""
        return msgspec.to_builtins(self)  # type: ignore[no-any-return]

    @classmethod
    def from_dict(cls, given: Any) -> "FeatureContract":
        """Return the contract that `to_dict` described."""
        try:
            return msgspec.convert(given, cls)
        except msgspec.ValidationError as error:
            raise EraseError(
                "a feature contract", f"one that is damaged: {error}", "Write the file again."
            ) from None

    def encode(self, table: pd.DataFrame, *, strict: bool = False) -> tuple[Any, list[str]]:
        """Return the features [N, F] of a table, dense float32 or CSR, and notes.

        Args:
            table: a row per node; the columns of the contract, in any order.
            strict: raise an EraseError for a missing value instead of filling it.
        """
        given = [str(name) for name in table.columns]
        wanted = [column.name for column in self.columns]
        _refuse_difference(
            [name for name in wanted if name not in given],
            [name for name in given if name not in {*wanted, *self.left_out}],
        )
        by_name = dict(zip(given, table.columns, strict=True))
        blocks, filled = [], {}
        for column in self.columns:
            series = table[by_name[column.name]]
            block, missing = column.encode(series)
            if missing and strict:
                raise _missing(series)
            if missing:
                filled[column.name] = (column.kind, missing)
            blocks.append(block)
        return _joined(blocks, len(table), self.width), _filling_notes(filled)

    def check(self, other: "FeatureContract") -> None:
        """Raise an EraseError unless features made by `other` mean what those of this one mean."""
        if self.source == "edges" or other.source == "edges":
            if self.source != other.source or self.width != other.width:
                raise EraseError(
                    f"features from {_SOURCES[self.source]}, as in the fit",
                    f"features from {_SOURCES[other.source]}",
                    "Give both graphs the same features.",
                )
            return
        if self.columns and other.columns:
            mine, theirs = ({c.name: c for c in each.columns} for each in (self, other))
            _refuse_difference(
                [name for name in mine if name not in theirs],
                [name for name in theirs if name not in mine],
            )
            for name, column in mine.items():
                if column.kind != theirs[name].kind:
                    raise EraseError(
                        f"the column {name!r} with a {column.kind}, as in the fit",
                        f"a {theirs[name].kind}",
                        "Correct the column.",
                    )
            if self.columns != other.columns:
                raise EraseError(
                    "features made as those of the fit",
                    "features of the same columns with other words, categories or scales",
                    "Read the table with the contract of the fit: contract=….",
                    option="contract",
                )
            return
        wanted, given = self.feature_names, other.feature_names
        if wanted and given and set(wanted) != set(given):
            _refuse_difference(
                [name for name in wanted if name not in given],
                [name for name in given if name not in wanted],
            )
        if self.width != other.width:
            raise EraseError(
                f"{self.width} features, as in the fit", f"{other.width}", "Give the same features."
            )
        if wanted and given and wanted != given:
            j = next(j for j in range(self.width) if wanted[j] != given[j])
            raise EraseError(
                f"the feature {wanted[j]!r} in column {j}, as in the fit",
                f"{given[j]!r}",
                "Put the features into the order of the fit.",
            )


_SOURCES = {"table": "columns of a table", "matrix": "a matrix", "edges": "the edges alone"}


def fit_contract(
    table: pd.DataFrame,
    features: tuple[str, ...] | None = None,
    text: tuple[str, ...] = (),
) -> tuple[FeatureContract, list[str]]:
    """Return the contract that a table of nodes suggests, and notes on what it uses and leaves out.

    Args:
        table: a row per node, without ids, labels and splits.
        features: the columns to use; None: all that are not identifiers.
        text: columns to read as text, whatever they look like.
    """
    columns: list[Column] = []
    left_out: dict[str, list[str]] = {}
    for name in table.columns:
        if features is not None and name not in {*features, *text}:
            left_out.setdefault("", []).append(str(name))
            continue
        found = _describe(table[name], name in text, features is not None)
        if isinstance(found, Column):
            columns.append(found)
        else:
            left_out.setdefault(found, []).append(str(name))
    notes = []
    if features is not None and any(left_out):
        why, names = next((why, names) for why, names in left_out.items() if why)
        raise EraseError(
            "features that hold numbers, categories or text",
            f"{names[0]!r}, a column of {why}",
            "Convert it, or leave it out of features=….",
            option="features",
        )
    for why, names in left_out.items():
        if why:
            remedy = (
                " (to use one, name it: features=… or --features)" if why == _IDENTIFIERS else ""
            )
            notes.append(f"Not used as features: {_listed(names)}: {why}{remedy}.")
    if columns:
        notes.append(f"Features: {_used(columns)}.")
    width = sum(column.width for column in columns)
    dropped = tuple(name for names in left_out.values() for name in names)
    return FeatureContract(width, "table", tuple(columns), dropped), notes


_IDENTIFIERS = "values that are all different and look like identifiers"


def _describe(column: "pd.Series[Any]", is_text: bool, is_asked_for: bool) -> Column | str:
    """Return how a column becomes features, or why it does not."""
    name = str(column.name)
    known = column if _is_whole_type(column) else column[column.notna()]
    if is_text:
        return _text_column(name, column)
    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        return "dates or times"
    if known.empty:
        return "no value in any row"
    if not is_asked_for and _are_hashes(known):
        return _IDENTIFIERS
    numbers = None if isinstance(column.dtype, pd.CategoricalDtype) else read_numbers(column)
    if numbers is not None:
        if not is_asked_for and _are_identifiers(column, numbers):
            return _IDENTIFIERS
        return _number_column(name, column, numbers)
    words = known.map(lambda value: value if isinstance(value, str) else None).astype(object)
    if isinstance(column.dtype, pd.CategoricalDtype):
        words = known.astype(str)
    if words.isna().any():
        return "values that are neither numbers nor text"
    words = words[words.str.strip() != ""]
    if words.empty:
        return "no value in any row"
    counts = words.value_counts(sort=False)
    is_category = isinstance(column.dtype, pd.CategoricalDtype)
    if is_category or (2 * len(counts) <= len(words) and len(counts) <= MOST_CATEGORIES):
        return _category_column(name, counts)
    if words.str.contains(r"\s", regex=True).mean() > 0.5 or _is_written_without_blanks(words):
        return _text_column(name, column)
    if len(counts) < 0.9 * len(words):  # many different words, but nodes share them
        return _category_column(name, counts)
    if is_asked_for:
        return _text_column(name, column)
    return _IDENTIFIERS


def _is_written_without_blanks(words: "pd.Series[Any]") -> bool:
    """Say whether these are sentences of a language that puts no blanks between words."""
    return bool(words.str.contains(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]").mean() > 0.5)


def _are_identifiers(column: "pd.Series[Any]", block: Array) -> bool:
    """Say whether a column holds numbers that name nodes: whole, and none of them twice.

    Few nodes may differ in any quantity: below `MANY_NODES` values no column is an identifier.
    """
    if FEATURE_COLUMN.fullmatch(str(column.name)) or _holds_vectors(column):
        return False
    known = ~np.isnan(block[:, 0])
    values = block[known, 0]
    if len(values) < MANY_NODES:
        return False
    low, high = values.min(), values.max()
    if high - low < len(values) - 1 and max(-low, high) < 2**53:
        return False  # there are fewer whole numbers between them than nodes
    whole = bool((values == np.rint(values)).all())
    # of the column itself: as float64, different numbers beyond 2**53 may be equal
    return whole and bool(column[known].is_unique)


def _is_whole_type(column: "pd.Series[Any]") -> bool:
    """Say whether the column's type has neither fractions nor gaps."""
    return isinstance(column.dtype, np.dtype) and column.dtype.kind in "biu"


def _are_hashes(known: "pd.Series[Any]") -> bool:
    """Say whether these are hashes or UUIDs, all different; some may read as numbers."""
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


def read_numbers(column: "pd.Series[Any]") -> Array | None:
    """Return a column of numbers, or of vectors of one length, as [N, f] float64; else None.

    Text that reads as numbers is numbers. Where half of it does, the rest are mistakes.
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
        parsed = pd.to_numeric(given, errors="coerce")
        bad = given.notna() & parsed.isna()
        if 2 * int(bad.sum()) > int(given.notna().sum()) or not parsed.notna().any():
            return None
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            raise EraseError(
                f"numbers in the column {column.name!r}",
                f"{column.iloc[i]!r} in row {i}",
                "Correct it, leave it empty, or name the columns to use: features=….",
                option="features",
            )
        block = _plain_numbers(parsed)
    else:
        return None
    if block.dtype.kind == "c":
        raise EraseError(
            f"real numbers in the column {column.name!r}", f"{block.dtype}", "Take a part of them."
        )
    block = block.astype(np.float64, copy=False)
    if (large := is_too_large(block)).any():
        i, j = np.argwhere(large)[0].tolist()
        raise too_large(float(block[i, j]), f"row {i} of the column {column.name!r}")
    if np.isinf(block).any():
        i = int(np.argwhere(np.isinf(block))[0][0])
        raise EraseError(
            f"finite numbers in the column {column.name!r}",
            f"{block[i].tolist()[0]} in row {i}",
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


def _joined(blocks: list[Any], n: int, width: int) -> Any:
    """Return blocks side by side: CSR where most entries are zero, else dense float32."""
    filled = sum(each.nnz if sp.issparse(each) else each.size for each in blocks)
    if filled <= SPARSE_BELOW * n * width:
        return sp.hstack([sp.csc_matrix(each) for each in blocks], "csr", dtype=np.float32)
    joined = np.empty((n, width), np.float32)
    start = 0
    for each in blocks:
        end = start + each.shape[1]
        joined[:, start:end] = each.toarray() if sp.issparse(each) else each
        start = end
    return joined


def _refuse_difference(missing: list[str], extra: list[str]) -> None:
    """Refuse a table that lacks columns of the fit, or has others."""
    if missing or extra:
        parts = [f"without {_listed(missing)}"] if missing else []
        parts += [f"with {_listed(extra)} besides"] if extra else []
        raise EraseError(
            "the columns of the fit",
            f"a table {' and '.join(parts)}",
            "Add what is missing, drop what is not a feature, or say what it is: label=…, name=….",
        )


def _wrong_kind(column: Column, given: "pd.Series[Any]", where: Any) -> EraseError:
    at = np.flatnonzero(np.asarray(where))
    i = int(at[0]) if at.size else 0
    got = f"{given.iloc[i : i + 1].tolist()[0]!r} in row {i}" if len(given) else "nothing"
    what = f"a {column.kind} of length {column.width}" if column.kind == "vector" else column.kind
    return EraseError(
        f"the column {column.name!r} with {what} values, as in the fit", got, "Correct the column."
    )


def _missing(column: "pd.Series[Any]") -> EraseError:
    gaps = column.map(lambda value: _is_gap(value))
    i = int(np.flatnonzero(gaps)[0])
    return EraseError(
        f"a value in every row of the column {column.name!r}",
        f"none in row {i}",
        "Fill it; or leave out strict=True, and gaps get the column's median.",
        option="strict",
    )


def _is_gap(value: Any) -> bool:
    if isinstance(value, list | tuple | np.ndarray):
        return bool(pd.isna(np.asarray(value, dtype=float)).any())
    return bool(pd.isna(value)) or (isinstance(value, str) and not value.strip())


def _filling_notes(filled: dict[str, tuple[Kind, int]]) -> list[str]:
    notes = []
    for is_category, what in ((False, "the column's median"), (True, "no category")):
        parts = [
            f"{count} in {name!r}"
            for name, (kind, count) in filled.items()
            if (kind == "category") == is_category
        ]
        if parts:
            more = f" and {len(parts) - 10} more columns" if len(parts) > 10 else ""
            notes.append(f"Missing values became {what}: {', '.join(parts[:10])}{more}.")
    return notes


def _used(columns: list[Column]) -> str:
    """Return which columns are used as what, in words."""
    words = {
        "number": "numbers",
        "boolean": "true or false",
        "vector": "vectors",
        "category": "categories",
        "text": "text (TF-IDF)",
    }
    parts = []
    for kind, what in words.items():
        if found := [column for column in columns if column.kind == kind]:
            parts.append(f"{what}: {_listed([column.name for column in found])}")
    width = sum(column.width for column in columns)
    return f"{width} from {'; '.join(parts)}"


def _listed(names: list[str], most: int = 10) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(name) for name in names[:most]) + more
