"""Tables of nodes and edges to a PyG ``Data``, test labels included: which column is what.

All that decides over columns is here, for pandas tables, CSV and Parquet files, and the attributes
of networkx nodes; `erase.data.contract` turns columns into features.
"""

import re
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from erase.data.cells import IDS, place_of
from erase.data.columns import is_wordy, names_rows
from erase.data.confirmations import confirms, read_confirmations, read_random
from erase.data.contract import FeatureContract, fit_contract
from erase.data.fields import not_a_graph, to_tensor
from erase.data.labels import label_column, merge_misspellings
from erase.data.matrices import csr_tensor
from erase.data.splits import SPLIT_WORDS
from erase.errors import EraseError, input_errors

Array = np.ndarray[Any, Any]

ID_COLUMNS = ("id", "node", "name")
_TITLE = "title"  # names nodes where no column is called name
_GAPS = ["", "NA", "N/A", "NaN", "nan", "null", "None"]  # a missing value in a CSV
_SEPARATORS = (",", ";", "\t", "|")
_CELLS_AT_ONCE = 10_000_000  # of a CSV, while it is read
_MOST_COLUMNS = 50_000  # of a CSV; more take minutes, and are a matrix rather than a table
_WHOLE = re.compile(r"-?\d+(?:\.0+)?")  # a whole number, perhaps written as a float
_EXACT = 2.0**24  # whole numbers up to here are exact in float32
# options for another table like this one; its features are in the contract
_REMEMBERED = (
    *("id", "name", "label", "split", "source", "target", "weight"),
    *("no_weights", "directed", "separator", "merge_classes"),
)


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """What the columns of a graph's tables are; ``None`` finds the column by its usual name.

    Attributes:
        id: the column of node ids, which the edges refer to; None: called id, node or name, else
            the index of the table where it has a name, else the first column.
        name: the column of names that people read; None: called name, where that is not the id,
            else called title, if most of its values differ. Names are no feature unless they are
            asked for; a column called title may be text besides.
        label: the column with the class; empty where unknown.
        trusted: the column with the class that a person confirmed or corrected, empty elsewhere;
            or with true and false (yes and no, 1 and 0, where these are no classes): whether the
            label is confirmed. It may be missing.
        trusted_random: the column with true where a trusted label was drawn at random; without it
            all of them were.
        features: the columns to use as features; None: all but identifiers.
        text: columns to read as text, whatever they look like.
        split: the column with train, val or test; it may be missing.
        source: the column of the edges where an edge starts; None: called source, else the first.
        target: the column where it ends; None: called target, else the second.
        weight: the column of the edges with their weights; None: called weight, if there is one.
        no_weights: ignore edge weights: all edges count the same.
        directed: keep which direction of an edge was given.
        separator: between the columns of a CSV; None: guessed from its first line.
        strict: refuse missing feature values instead of filling them with the column's median.
        merge_classes: merge class names that look like misspellings of a frequent one.
        contract: make the features as another graph's were made. The options that its tables were
            read with count where none is given here.
    """

    id: str | None = None
    name: str | None = None
    label: str = "label"
    trusted: str = "trusted"
    trusted_random: str = "trusted_random"
    features: Sequence[str] | str | None = None
    text: Sequence[str] | str = ()
    split: str = "split"
    source: str | None = None
    target: str | None = None
    weight: str | None = None
    no_weights: bool = False
    directed: bool = False
    separator: str | None = None
    strict: bool = False
    merge_classes: bool = False
    contract: FeatureContract | None = None

    def __post_init__(self) -> None:
        """Take one column's name for a list of it."""
        for key in ("features", "text"):
            if isinstance(value := getattr(self, key), str):
                object.__setattr__(self, key, (value,))
            elif value is not None and not isinstance(value, list | tuple | pd.Index | set):
                raise EraseError(f"{key} as a list of columns", repr(value), "Give their names.")
        if not isinstance(self.contract, FeatureContract | None):
            raise EraseError("contract, a FeatureContract", repr(self.contract), "Pass one.")

    def is_remembered(self, name: str) -> bool:
        """Say whether an option is that of the contract; its column may then be missing."""
        kept = {} if self.contract is None else self.contract.reading
        return name in kept and kept[name] == getattr(self, name)

    def to_remember(self) -> dict[str, str | bool]:
        """Return the options that another table of the same kind is read with."""
        kept = {each.name: getattr(self, each.name) for each in fields(self)}
        usual = {each.name: each.default for each in fields(self)}
        return {name: kept[name] for name in _REMEMBERED if kept[name] != usual[name]}

    def refuse(self, what: str, but: Sequence[str] = ()) -> None:
        """Raise an EraseError where an option is given, `but` some, for a graph without tables."""
        for each in fields(self):
            if each.name not in but and getattr(self, each.name) != each.default:
                given = f"{each.name}={True if isinstance(each.default, bool) else '…'}"
                raise EraseError(f"{given} with tables", what, f"Leave out {given}.", each.name)


@input_errors("tables of a graph")
def from_tables(nodes: pd.DataFrame, edges: pd.DataFrame, **options: Any) -> Data:
    """Return two pandas tables as a graph, test labels included.

    Args:
        nodes: one row per node.
        edges: one row per edge, holding the ids of two nodes.
        **options: the attributes of `TableOptions`.

    >>> nodes = pd.DataFrame({"id": [7, 8, 9], "label": ["a", "b", None], "age": [1, 2, 3]})
    >>> from_tables(nodes, pd.DataFrame({"source": [7], "target": [9]})).edge_index.tolist()
    [[0], [2]]
    """
    return read_tables(nodes, edges, table_options(options))


def table_options(given: dict[str, Any]) -> TableOptions:
    """Return keyword arguments as options; those of their contract count where none is given."""
    known = [each.name for each in fields(TableOptions)]
    if strange := [name for name in given if name not in known]:
        raise EraseError(
            f"options among {', '.join(known)}", f"{strange[0]}=…", "Correct its name."
        )
    contract = given.get("contract")
    return TableOptions(**({} if contract is None else contract.reading) | given)


def read_tables(nodes: pd.DataFrame, edges: pd.DataFrame, options: TableOptions) -> Data:
    """Return two pandas tables as a graph, test labels included."""
    for table in (nodes, edges):
        if not isinstance(table, pd.DataFrame):
            raise not_a_graph(table)
        refuse_equal_names(table.columns)
    of_nodes = nodes.columns
    nodes = with_ids(nodes, options.id)
    id = choose_column(nodes.columns, options.id, ID_COLUMNS, 0, "id")
    source = choose_column(edges.columns, options.source, ("source",), 0, "source")
    target = choose_column(edges.columns, options.target, ("target",), 1, "target")
    if source == target:
        raise EraseError(
            "two columns of node ids in the edges table",
            f"{source!r} for both ends",
            "Name them source and target.",
        )
    if id in (options.label, options.split, options.trusted, options.trusted_random):
        raise EraseError(
            "a column of node ids",
            f"the column {id!r}",
            "Name the one that holds them: id=….",
            option="id",
        )
    _refuse_features(options, {id: "the node ids"})
    ids = pd.Index(nodes[id])
    empty = ids.isna() | np.array([isinstance(each, str) and not each for each in ids], dtype=bool)
    if (wrong := ids.duplicated() | empty).any():
        i = int(np.flatnonzero(wrong)[0])
        raise EraseError(
            f"a different id for each node in the column {id!r}",
            f"{'none' if empty[i] else f'{ids[i : i + 1].tolist()[0]!r} again'} in row {i + 1} "
            f"of the nodes (line {i + 2} of a CSV)",
            "Give each node its own id, or name the column that holds the ids: id=….",
            option="id",
        )
    of_edges = [edges[source], edges[target]]
    ends = torch.from_numpy(np.stack([_rows_of(ids, of_edges, k) for k in (0, 1)]))
    weight, notes = _edge_weight(edges, options, source, target)
    if (source, target) != (options.source or "source", options.target or "target"):
        notes = [f"Ends of the edges: the columns {source!r} and {target!r}.", *notes]
    if options.id is None and id not in ID_COLUMNS and id in of_nodes:
        notes = [f"Ids of the nodes: the column {id!r}, the first one.", *notes]
    frame = nodes.drop(columns=id).reset_index(drop=True)
    return data_from_frame(
        frame, ids.tolist(), ends, weight, options, notes, id=id, columns=nodes.columns
    )


def _edge_weight(
    edges: pd.DataFrame, options: TableOptions, source: str, target: str
) -> tuple[Tensor | None, list[str]]:
    """Return the weights [E] of an edges table, if it has any, and a note on other columns."""
    name = options.weight or ("weight" if "weight" in edges.columns else None)
    if options.no_weights or (name not in edges.columns and options.is_remembered("weight")):
        name = None
    weight = None
    if name is not None:
        choose_column(edges.columns, name, (), 0, "weight")
        if name in (source, target):
            raise EraseError(
                "a column of weights",
                f"{name!r}, the ends of the edges",
                "Name another one: weight=….",
                option="weight",
            )
        weight = _numbers_of(edges[name], [edges[source], edges[target]])
    used = (source, target, name)
    extra = [repr(column) for column in edges.columns if column not in used]
    if not extra:
        return weight, []
    hint = "" if name else " (to use one as weights, name it: weight=… or --weight)"
    return weight, [f"Columns of the edges are ignored: {', '.join(extra)}{hint}."]


def _numbers_of(column: "pd.Series[Any]", ends: Sequence["pd.Series[Any]"]) -> Tensor:
    """Return the weights [E] in a column of an edges table; NaN where there is none.

    Args:
        column: of the table.
        ends: its columns of sources and targets, for an error.
    """
    values = column.astype(object).where(column.notna(), None)
    numbers = pd.to_numeric(values, errors="coerce")
    if (wrong := (numbers.isna() & values.notna()).to_numpy()).any():
        i = int(np.flatnonzero(wrong)[0])
        raise EraseError(
            f"numbers in the column {column.name!r} of the edges",
            f"{column.iloc[i]!r} at {_edge(ends, i)}",
            "Correct it, or name another column: weight=….",
            option="weight",
        )
    return torch.from_numpy(numbers.to_numpy(np.float32, na_value=np.nan))


def _refuse_features(options: TableOptions, used: dict[str, str]) -> None:
    """Refuse features that are asked for in a column with another meaning."""
    for option in ("features", "text"):
        for column in getattr(options, option) or ():
            if column in used:
                raise EraseError(
                    f"a column of features in {option}=…",
                    f"{column!r}, which holds {used[column]}",
                    "Leave it out.",
                    option=option,
                )


def refuse_equal_names(columns: "pd.Index[Any]") -> None:
    """Refuse a table with two columns of one name."""
    if (twice := columns[columns.duplicated()]).size:
        raise EraseError(
            "columns of different names", f"two called {twice[0]!r}", "Rename or remove one."
        )


def with_ids(nodes: pd.DataFrame, id: str | None) -> pd.DataFrame:
    """Return the table with its index as the first column, where the index holds the node ids."""
    name = nodes.index.name
    wanted = not any(usual in nodes.columns for usual in ID_COLUMNS) if id is None else name == id
    return nodes.reset_index() if wanted and name not in (None, *nodes.columns) else nodes


def choose_column(
    columns: "pd.Index[Any]",
    name: str | None,
    usual: tuple[str, ...],
    place: int,
    option: str,
    listed: "pd.Index[Any] | None" = None,
) -> str:
    """Return the column to read: `name` if given, else the first of the `usual`, else by place.

    An error lists the columns that are `listed`; None: `columns`.
    """
    if name is None:
        by_place = columns[place] if place < len(columns) else usual[0]
        name = next((each for each in usual if each in columns), by_place)
    if name not in columns:
        if (other := _other_separator(columns, name)) is not None:
            raise EraseError(
                f"a column {name!r}",
                f"one called {str(columns[0])!r}",
                f"Name what separates the columns: separator={other!r}.",
                option="separator",
            )
        raise EraseError(
            f"a column {name!r}",
            f"{[str(each) for each in (columns if listed is None else listed)]}",
            f"Add it, or name one of these: {option}=….",
            option=option,
        )
    return name


def _other_separator(columns: "pd.Index[Any]", name: str) -> str | None:
    """Return what may separate the columns of a CSV that was read with another separator."""
    first = str(columns[0]) if len(columns) else ""
    found = (each for each in ";\t|," if each in first)
    return next((each for each in found if len(columns) == 1 or name in first.split(each)), None)


def data_from_frame(
    frame: pd.DataFrame,
    ids: list[Any],
    edge_index: Tensor,
    edge_weight: Tensor | None,
    options: TableOptions,
    notes: list[str],
    *,
    id: str | None = None,
    columns: "pd.Index[Any] | None" = None,
) -> Data:
    """Return a graph from one row of attributes per node.

    Args:
        frame: the attributes.
        ids: of the nodes.
        edge_index: [2, E].
        edge_weight: [E], or None.
        options: what the columns are.
        notes: on the edges.
        id: the column that held the ids, if there was one.
        columns: those of the whole table; None: of `frame`.
    """
    columns = frame.columns if columns is None else columns
    frame = frame.copy(deep=False)
    frame.index = pd.Index(ids, dtype=object, name=IDS, tupleize_cols=False)  # for errors
    wanted = {"features": options.features or (), "text": options.text}
    wanted["name"] = () if options.name in (None, id) else (options.name,)
    for option in ("label", "trusted", "trusted_random"):
        column = getattr(options, option)
        wanted[option] = () if column == option else (column,)
    wanted = {key: () if options.is_remembered(key) else wanted[key] for key in wanted}
    for option, names in wanted.items():
        for column in names:
            choose_column(frame.columns, column, (), 0, option, columns)
    data = Data(edge_index=edge_index, num_nodes=len(ids), node_ids=ids)
    if edge_weight is not None:
        data.edge_weight = edge_weight
    name = _name_column(frame, options, id)
    gone = {
        options.label: "the labels",
        options.split: "the splits",
        options.trusted: "the trusted labels",
        options.trusted_random: "which trusted labels were drawn at random",
    }
    _refuse_features(options, gone)
    made = () if options.contract is None else tuple(c.name for c in options.contract.columns)
    asked = {*(options.features or ()), *options.text, *made}
    is_found_title = name == _TITLE and options.name is None  # it may serve as text besides
    if name is not None and name not in asked and not is_found_title:
        gone[name] = "the names"
    if is_found_title:
        notes = [*notes, f"Names of the nodes: the column {name!r}."]
    elif name is not None and options.name is None and name in gone and is_wordy(frame[name]):
        hint = "to use it as text, name it: text=… or --text"
        notes = [*notes, f"Names of the nodes: the column {name!r}; it is no feature ({hint})."]
    data.node_names = [str(each) for each in (ids if name is None else _names(frame[name], ids))]
    if options.label in frame.columns:
        labels = label_column(frame[options.label])
        data.y = labels if labels.dtype.kind == "U" else to_tensor(labels)
    else:
        data.table_columns = [str(column) for column in columns]  # for an error without labels
    if options.trusted in frame.columns:
        data.trusted, found = read_confirmations(
            frame[options.trusted], frame.get(options.label), options.merge_classes
        )
        notes = [*notes, *found]
        if options.trusted_random in frame.columns:
            data.trusted_random = read_random(frame[options.trusted_random])
    if options.split in frame.columns:
        for part, mask in _parts(frame[options.split]).items():
            data[f"{part}_mask"] = mask
    table = frame[[column for column in frame.columns if column not in gone]]
    contract = options.contract
    is_new = contract is None or not contract.columns
    if contract is None or not contract.columns:
        features = None if options.features is None else tuple(options.features)
        contract, found = fit_contract(table, features, tuple(options.text))
        notes = [*notes, *found]
    reading = options.to_remember()
    if name == _TITLE:
        reading["name"] = _TITLE  # tomorrow's titles may repeat
    contract = replace(contract, reading=reading)
    if contract.columns or contract.reading:
        data.feature_contract = contract.to_dict()
    if contract.columns:
        x, filled = contract.encode(table, strict=options.strict, is_own=is_new)
        data.x = csr_tensor(x) if sp.issparse(x) else torch.from_numpy(x)
        notes = [*notes, *filled]
    if options.directed:
        data.directed = True
    if notes:
        data.notes = notes
    return with_merged_classes(data) if options.merge_classes else data


def with_merged_classes(data: Data) -> Data:
    """Return `data` with probably misspelt class names replaced, and a note in either case."""
    merged = merge_misspellings(data)
    if merged is data:
        merged = copy(data)
        merged.notes = [*(data.to_dict().get("notes") or ()), "No class name looked misspelt."]
    return merged


def _name_column(frame: pd.DataFrame, options: TableOptions, id: str | None) -> str | None:
    """Return the column of names: the given one, else called name, else title if most differ."""
    if options.name is not None and options.name == id:
        return None  # the ids themselves
    for name in (options.name, "name"):
        if name is not None and name in frame.columns:
            return name
    used = (options.label, options.split, options.trusted, options.trusted_random)
    if _TITLE in frame.columns and _TITLE not in used and names_rows(frame[_TITLE]):
        return _TITLE
    return None


def _names(column: "pd.Series[Any]", ids: list[Any]) -> list[Any]:
    """Return the names of nodes, the id where one is missing."""
    return [
        id
        if (not isinstance(name, str) and pd.isna(name) is True) or not str(name).strip()
        else name
        for name, id in zip(column, ids, strict=True)
    ]


def _parts(words: "pd.Series[Any]") -> dict[str, Tensor]:
    """Return the masks [N] of the words train, val and test."""
    plain = words.astype(object).where(words.notna(), "").astype(str).str.strip().str.lower()
    meaning = {word: part for part, words in SPLIT_WORDS.items() for word in words}
    parts = plain.map({**meaning, "": ""})
    if parts.isna().any():
        i = int(np.flatnonzero(parts.isna())[0])
        raise EraseError(
            "train, val, test or nothing as a node's split",
            f"{words.iloc[i]!r} at {place_of(words, i)}",
            "Use those words, and leave the others empty.",
        )
    return {part: to_tensor(parts == part) for part in SPLIT_WORDS}


def _rows_of(ids: "pd.Index[Any]", ends: Sequence["pd.Series[Any]"], k: int) -> Array:
    """Return the row in `ids` of one end of each edge, [E] int64.

    Blanks around an id and the .0 of a whole number, which pandas writes after a gap, do not count
    where ids differ without them.

    Args:
        ids: of the nodes.
        ends: the columns of sources and targets.
        k: which of them to look up.
    """
    given = pd.Index(ends[k])
    if pd.api.types.is_numeric_dtype(ids) != pd.api.types.is_numeric_dtype(given):
        ids, given = ids.astype(str), given.astype(str)
    found: Array = ids.get_indexer(given)
    if (found < 0).any():
        are_whole = all(_WHOLE.fullmatch(str(each).strip()) for each in ids)
        plain = ids.map(lambda each: _plain_id(each, are_whole))
        if plain.is_unique:
            others = given[found < 0].map(lambda each: _plain_id(each, are_whole))
            found[found < 0] = plain.get_indexer(others)
    if (found < 0).any():
        i = int(np.flatnonzero(found < 0)[0])
        raise EraseError(
            "edges between nodes of the nodes table",
            f"{given[i : i + 1].tolist()[0]!r} in the column {ends[k].name!r}, {_edge(ends, i)}",
            "Add that node, remove the edge, or name the column with these ids: id=….",
            option="id",
        )
    return found.astype(np.int64)


def _plain_id(id: Any, is_whole: bool) -> str:
    """Return an id without blanks around it, a whole number without its fraction .0."""
    plain = str(id).strip()
    return plain.split(".")[0] if is_whole and _WHOLE.fullmatch(plain) else plain


def _edge(ends: Sequence["pd.Series[Any]"], i: int) -> str:
    """Return how errors call the edge in row i."""
    source, target = (end.iloc[i : i + 1].tolist()[0] for end in ends)
    return f"the edge from {source!r} to {target!r}"


def read_csv(path: Path, kind: str, options: TableOptions) -> pd.DataFrame:
    """Return a CSV file, the nodes or the edges of a graph, some rows at a time.

    Ids, names, labels and splits are taken as written: 007 keeps its zeros, and NA is a name.
    Numbers take the smallest type that holds them exactly, so a wide table of counts stays small.
    """
    separator = csv_separator(path, options)
    if (width := _first_line(path).count(separator) + 1) > _MOST_COLUMNS:
        raise EraseError(
            f"at most {_MOST_COLUMNS:,} columns in {path.name}",
            f"{width:,}",
            "Give the features as a matrix: FILE.npz, see erase.write_graph.",
        )
    # as a row, for pandas renames the second of two equal names
    first = pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False, sep=separator)
    refuse_equal_names(pd.Index([name for name in first.iloc[0] if name]))
    columns = pd.read_csv(path, nrows=0, sep=separator).columns
    if kind == "nodes":
        id = choose_column(columns, options.id, ID_COLUMNS, 0, "id")
        words = [id, options.name or "name", options.label, options.split, *options.text]
        words += [options.trusted, options.trusted_random]
    else:
        words = [options.source or "source", options.target or "target", *columns[:2]]
    styled = [] if options.contract is None else [c for c in options.contract.columns if c.style]
    as_text = {*words, *(column.name for column in styled)}  # 1.234 may be 1234
    chunks = pd.read_csv(
        path,
        sep=separator,
        dtype={word: str for word in as_text if word in columns},
        keep_default_na=False,
        na_values={column: _GAPS for column in columns if column not in words},
        chunksize=max(1, _CELLS_AT_ONCE // max(1, len(columns))),
        low_memory=False,
    )
    table = pd.concat(_shrunk(chunks), ignore_index=True)
    if kind == "nodes" and options.label in table:
        trusted = options.trusted
        has_classes = trusted in table and confirms(table[trusted], table[options.label]) is None
        classes = [options.label, *([trusted] if has_classes else [])]
        numbers = table[classes].apply(pd.to_numeric, errors="coerce")
        if numbers.notna().equals(table[classes] != ""):  # names as soon as one is a name
            table[classes] = numbers
    return table


def _shrunk(chunks: Any) -> Iterator[pd.DataFrame]:
    """Yield tables whose numbers have the smallest type that holds them exactly.

    Columns of a type stay together: pandas is slow on thousands of columns one by one.
    """
    for chunk in chunks:
        parts = [chunk.select_dtypes(exclude=["int64", "float64"])]
        whole, real = chunk.select_dtypes("int64"), chunk.select_dtypes("float64")
        if whole.size:
            ends = zip(whole.to_numpy().min(0), whole.to_numpy().max(0), strict=True)
            kinds = np.array([np.result_type(*map(np.min_scalar_type, pair)) for pair in ends])
            parts += [whole.loc[:, kinds == kind].astype(kind) for kind in set(kinds.tolist())]
        if real.size:
            large = (real.abs() >= _EXACT).any().to_numpy()
            parts += [real.loc[:, large], real.loc[:, ~large].astype(np.float32)]
        yield pd.concat([part for part in parts if part.shape[1]], axis=1)[chunk.columns]


def csv_separator(path: Path, options: TableOptions) -> str:
    """Return the given separator, else the one that the first line has most of, else a comma."""
    given, line = options.separator, _first_line(path)
    if given and (given in line or not options.is_remembered("separator")):
        return given
    return max(_SEPARATORS, key=line.count)


def _first_line(path: Path) -> str:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        return file.readline()
