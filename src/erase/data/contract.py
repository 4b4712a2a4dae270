"""Feature contracts: which columns of a table make which features.

Reading a table fits a contract; the contract then makes the same features from another table, such
as tomorrow's. It is plain data (JSON) and is kept with the graph. `erase.data.columns` decides how
a column becomes features.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import numpy as np
import pandas as pd
import scipy.sparse as sp

from erase.data.cells import ambiguous_number, place_of
from erase.data.columns import IDENTIFIERS, Column, Kind, describe
from erase.data.matrices import SPARSE_BELOW
from erase.display import fact_line
from erase.errors import WITH_CONTRACT, EraseError


@dataclass(frozen=True, repr=False)
class FeatureContract:
    """What the features of a graph are, and how to make them for another graph.

    Attributes:
        width: F.
        source: "table" (made from `columns`), "matrix" (given as numbers) or "edges" (a graph
            without features, whose embedding stands in for them).
        columns: of a table, in the order of the features.
        left_out: columns of the table that are not features.
        names: F names of the features of a matrix, if it has any.
        reading: the options that its tables were read with, see `erase.data.tables.TableOptions`.

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
    reading: dict[str, str | bool] = field(default_factory=dict)

    def __repr__(self) -> str:
        of = _listed([column.name for column in self.columns]) or _SOURCES[self.source]
        return fact_line("FeatureContract", {"features": self.width, "from": of})

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
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            raise EraseError(
                "a feature contract", f"one that is damaged: {error}", "Write the file again."
            ) from None

    def encode(
        self, table: pd.DataFrame, *, strict: bool = False, is_own: bool = False
    ) -> tuple[Any, list[str]]:
        """Return the features [N, F] of a table, dense float32 or CSR, and notes.

        Args:
            table: a row per node; the columns of the contract, in any order. Others are ignored,
                and a note names them.
            strict: raise an EraseError for a missing value instead of filling it.
            is_own: whether this is the table that the contract was fitted to; categories without
                a feature are then rare ones rather than unknown ones.
        """
        given = [str(name) for name in table.columns]
        wanted = [column.name for column in self.columns]
        extra = [name for name in given if name not in {*wanted, *self.left_out}]
        if missing_columns := [name for name in wanted if name not in given]:
            raise _difference(missing_columns, extra, "Add what is missing.")
        notes = []
        if extra:
            notes.append(f"Columns that were not in the fit are ignored: {_listed(extra)}.")
        by_name = dict(zip(given, table.columns, strict=True))
        blocks, filled, strange = [], {}, []
        for column in self.columns:
            series = table[by_name[column.name]]
            block, missing = column.encode(series)
            if missing and strict:
                raise _missing(series)
            if missing:
                filled[column.name] = (column.kind, missing)
            unknown = column.count_unknown(series)
            if unknown and is_own:
                notes.append(
                    f"Only the {column.width} most frequent of {series.nunique():,} values of "
                    f"{column.name!r} are features; {unknown:,} rows have another one."
                )
            elif unknown:
                strange.append(f"{unknown} in {column.name!r}")
            blocks.append(block)
        if strange:
            more = f" and {len(strange) - 10} more columns" if len(strange) > 10 else ""
            found = f"{', '.join(strange[:10])}{more}"
            notes.append(f"Values that are no category of the fit became zeros: {found}.")
        return _joined(blocks, len(table), self.width), [*notes, *_filling_notes(filled)]

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
            if mine.keys() != theirs.keys():
                raise _difference(
                    [name for name in mine if name not in theirs],
                    [name for name in theirs if name not in mine],
                    _AS_IN_THE_FIT,
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
                    _AS_IN_THE_FIT,
                )
            return
        wanted, given = self.feature_names, other.feature_names
        if wanted and given and set(wanted) != set(given):
            raise _difference(
                [name for name in wanted if name not in given],
                [name for name in given if name not in wanted],
                "Give the features of the fit.",
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


_AS_IN_THE_FIT = f"Make the features as those of the fit: {WITH_CONTRACT}."
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
    unclear: dict[str, str] = {}
    for name in table.columns:
        if features is not None and name not in {*features, *text}:
            left_out.setdefault("", []).append(str(name))
            continue
        found = describe(table[name], name in text, features is not None)
        if name not in text and (value := ambiguous_number(table[name])):
            unclear[str(name)] = value
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
                " (to use one, name it: features=… or --features)" if why == IDENTIFIERS else ""
            )
            notes.append(f"Not used as features: {_listed(names)}: {why}{remedy}.")
    if styled := [column.name for column in columns if column.style]:
        notes.append(f"Numbers with a decimal comma or a percent sign: {_listed(styled)}.")
    notes += [
        f"{name!r} is not read as numbers: {value!r} may be {value.replace(',', '')} or "
        f"{value.replace(',', '.')}. Write it so."
        for name, value in unclear.items()
    ]
    if columns:
        notes.append(f"Features: {_used(columns)}.")
    width = sum(column.width for column in columns)
    dropped = tuple(name for names in left_out.values() for name in names)
    return FeatureContract(width, "table", tuple(columns), dropped), notes


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


def _difference(missing: list[str], extra: list[str], remedy: str) -> EraseError:
    """Return what to raise for features that lack columns of the fit, or have others."""
    parts = [f"without {_listed(missing)}"] if missing else []
    parts += [f"with {_listed(extra)} besides"] if extra else []
    return EraseError("the columns of the fit", f"a table {' and '.join(parts)}", remedy)


def _missing(column: "pd.Series[Any]") -> EraseError:
    gaps = column.map(lambda value: _is_gap(value))
    i = int(np.flatnonzero(gaps)[0])
    return EraseError(
        f"a value in every row of the column {column.name!r}",
        f"none at {place_of(column, i)}",
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
