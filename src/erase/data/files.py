"""Graphs and results in and out of files: nothing read can execute code, nothing is half written.

A graph file gives a PyG ``Data`` that still holds test labels; `NodeTask.from_data` drops them.

``FILE.npz``
    numpy arrays, without pickles: `edge_index` [2, E]; `x` [N, F], or CSR as `x_data`, `x_indices`,
    `x_indptr`, `x_shape`; `y` [N], class numbers (-1: unknown) or names ("": unknown); and, each
    optional, `train_mask`, `val_mask`, `test_mask` [N] bool (or node numbers; or just `train`,
    `val`, `test`), `trusted` [N], written as `y`, `trusted_random` [N] bool, `edge_weight` [E],
    `directed`, `num_nodes` (where there is no `y`), `node_names` and `node_ids` [N],
    `feature_names` [F], `feature_contract` (JSON), `class_names` [K], which number labels index,
    and `class_values` [K], the number labels themselves where they are not 0..K-1. Or the layout of
    gnn-benchmark: `adj_data`, `adj_indices`, `adj_indptr`, `adj_shape`; `attr_data`, … (or
    `attr_matrix`); `labels`.
``FILE.pt``
    a PyG ``Data``, its ``to_dict()``, or the (data, slices) of a one-graph PyG dataset, saved with
    ``torch.save``. Only tensors, plain values and PyG's own data classes are read.
``FOLDER/``
    what `erase.write_folder` wrote: arrays that are opened without being read, see
    `erase.data.folder`. Or two tables, `nodes` and `edges`, each ``.csv`` or ``.parquet``. `nodes`:
    `id` (or `node`, `name`, or the first column), `label` (class number or name, empty: unknown),
    optional `name`, `split` (train, val, test or empty), `trusted` (the class that a person
    confirmed or corrected) and `trusted_random` (true where that node was drawn at random); the
    other columns become features, see `erase.data.contract`. `edges`: `source` and `target` (or the
    first two columns), ids of nodes; optional `weight`.
``FILE.graphml``, ``FILE.graphml.gz``
    node attributes as the columns above; the edge attribute `weight`.
"""

import gzip
import io
import json
import math
import os
import pickle
import re
import tempfile
import zipfile
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Literal
from xml.parsers import expat

import numpy as np
import pandas as pd
import safetensors
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from erase.data.conversion import from_arrays, read_networkx
from erase.data.edges import given_edges, without_weights
from erase.data.fields import are_whole, read_names, to_tensor, written
from erase.data.folder import is_folder, open_folder
from erase.data.kinds import graph_data
from erase.data.labels import label_fields, labels_if_any
from erase.data.limits import check_numbers, check_size, memory_limit
from erase.data.matrices import feature_matrix
from erase.data.parts import new_part, output_path, recover
from erase.data.splits import SPLIT_WORDS, split_mask
from erase.data.tables import (
    ID_COLUMNS,
    TableOptions,
    choose_column,
    read_csv,
    read_tables,
    table_options,
    with_ids,
    with_merged_classes,
)
from erase.data.trusted import read_trusted
from erase.errors import EraseError, input_errors, is_memory_error

ACCEPTED = (
    ".npz, .pt, .graphml, .graphml.gz, or a folder: of erase convert, or with nodes and edges "
    "(.csv or .parquet)"
)
_GRAPHML_GROWTH = 16  # bytes of a graph in memory for each byte of its text
_MAX_CELLS = 20_000_000  # of a table of features; beyond it CSV takes minutes and gigabytes

StrPath = str | os.PathLike[str]


@contextmanager
def atomic_write(path: StrPath, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file ("w": UTF-8 text, or "wb") that appears at `path` only when the block succeeds.

    The bytes go to a temporary file in the same folder, to the disk, and then take the name in one
    step. After an exception the old file is untouched and the temporary one is gone. Missing
    folders are made.
    """
    path = Path(os.path.realpath(output_path(path)))  # a link stays, and its target is replaced
    if path.exists() and not path.is_file():
        raise EraseError(
            "a file to write",
            f"{str(path)!r}, which is a folder, a device or a pipe",
            "Choose another name.",
        )
    # half of a surrogate pair, as in names of files, is written as its escape
    text = {"encoding": "utf-8", "errors": "backslashreplace", "newline": ""}
    with new_part(path) as part:
        with open(part, mode, **({} if "b" in mode else text)) as file:  # type: ignore[call-overload]
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)


def write_json(value: Any, path: StrPath) -> None:
    """Write `value` as JSON; numpy values and tensors become lists, NaN and ∞ become null."""
    with atomic_write(path) as file:
        json.dump(_plain(value), file, indent=2, ensure_ascii=False, allow_nan=False)
        file.write("\n")


def read_json(path: StrPath) -> dict[str, Any]:
    """Return the object that `write_json` wrote."""
    path = _existing(path, _CHECK_PATH)
    with reading(path, "a JSON file"):
        found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise EraseError("a JSON object", f"something else in {path.name!r}", "Restore the file.")
    return found


def write_table(table: pd.DataFrame, path: StrPath, *, safe_csv: bool = False) -> None:
    """Write `table` without its index, as ``.csv`` or ``.parquet``.

    With `safe_csv`, cells that a spreadsheet would take for formulas are escaped, see `safe_cells`.
    """
    is_escaped = safe_csv and Path(path).suffix == ".csv"
    content = _table_bytes(safe_cells(table) if is_escaped else table, Path(path).suffix)
    with atomic_write(path, "wb") as file:
        file.write(content)


_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def safe_cells(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which no cell or column name is a formula to a spreadsheet.

    Text that starts with = + - @, a tab or a carriage return, and is no number, gets a ' in front.
    """

    def escape(cell: Any) -> Any:
        is_text = isinstance(cell, str) and cell.startswith(_FORMULA_STARTS)
        return f"'{cell}" if is_text and not _is_number(cell) else cell

    escaped = table.copy()
    for place, name in enumerate(table.columns):
        if not pd.api.types.is_numeric_dtype(table[name]):
            escaped.isetitem(place, table[name].astype(object).map(escape))
    escaped.columns = [escape(name) for name in table.columns]
    return escaped


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _table_bytes(table: pd.DataFrame, suffix: str) -> bytes:
    if suffix == ".csv":
        return csv_bytes(table)
    if suffix == ".parquet":
        need_pyarrow()
        return bytes(table.to_parquet(index=False))
    raise EraseError("a table's name ending in .csv or .parquet", f"{suffix!r}", "Use one of them.")


def csv_bytes(table: pd.DataFrame, *, header: bool = True) -> bytes:
    """Return a table as CSV in UTF-8; half of a surrogate pair is written as its escape."""
    text = table.to_csv(index=False, header=header, lineterminator="\n")
    return bytes(text.encode(errors="backslashreplace"))


def need_pyarrow() -> None:
    """Raise an EraseError where pyarrow is not installed."""
    if find_spec("pyarrow") is None:
        raise EraseError(
            "pyarrow, to read or write Parquet",
            "an installation without it",
            "Run pip install 'graph-erase[parquet]', or use CSV.",
        )


_SAFETENSORS_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def save_arrays(path: StrPath, arrays: Mapping[str, Tensor], metadata: Any = None) -> None:
    """Write named dense tensors and JSON-able `metadata` as safetensors; it round-trips exactly."""
    # not by safetensors.torch.save, which holds all arrays twice more
    header: dict[str, Any] = {"__metadata__": {"json": json.dumps(metadata)}}
    start = 0
    arrays = dict(sorted(arrays.items()))  # equal contents are equal files
    for name, array in arrays.items():
        end = start + array.numel() * array.element_size()
        kind = _SAFETENSORS_NAMES[array.dtype]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # arrays begin at a multiple of eight bytes
    with atomic_write(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            flat = array.detach().cpu().contiguous().reshape(-1)
            file.write(flat.view(torch.uint8).numpy().data)


def load_arrays(path: StrPath) -> tuple[dict[str, Tensor], Any]:
    """Return the (arrays, metadata) that `save_arrays` wrote."""
    path = _existing(path, _CHECK_PATH)
    with (
        reading(path, "a safetensors file"),
        _utf8_path(path) as named,
        safetensors.safe_open(named, framework="pt") as file,
    ):
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return arrays, json.loads((file.metadata() or {}).get("json", "null"))


def read_npz(path: StrPath) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of an ``.npz`` file; pickles are refused."""
    path = _existing(path, _CHECK_PATH)
    with reading(path, "an .npz file of arrays"):
        _check_archive(path)
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}


@contextmanager
def _utf8_path(path: Path) -> Iterator[Path]:
    """Yield a path to the same file that is UTF-8, which safetensors needs."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        with tempfile.TemporaryDirectory() as folder:
            link = Path(folder) / "link"
            link.symlink_to(path.resolve())
            yield link
    else:
        yield path


@input_errors("a graph that can be read")
def read_graph(path: StrPath, **options: Any) -> Data:
    """Return the graph in a file or folder, test labels included; the module says which formats.

    Args:
        path: a file or folder.
        **options: the attributes of `erase.data.tables.TableOptions`. Those that name columns are
            for tables and GraphML.
    """
    path = _existing(path)
    chosen = table_options(options)
    data = _read_graph(path, chosen)
    return without_weights(data) if chosen.no_weights else data


def _read_graph(path: Path, chosen: TableOptions) -> Data:
    if path.is_dir() and not is_folder(path):
        return _read_tables(path, chosen)
    if path.is_file() and path.suffix.lower() in (".csv", ".parquet"):
        remedy = "Pass the folder that holds the two tables, called nodes and edges."
        raise EraseError(f"a graph file: {ACCEPTED}", f"{path.name!r}", remedy)
    if not path.name.lower().endswith((".graphml", ".graphml.gz")):
        general = () if path.is_dir() else ("directed", "strict", "merge_classes")
        chosen.refuse(f"{path.name!r}, which has no tables", but=("no_weights", *general))
    if path.is_dir():
        return open_folder(path)
    readers: dict[str, Callable[[Path, TableOptions], Data]] = {
        ".npz": _read_npz,
        ".pt": _read_pt,
        ".graphml": _read_graphml,
        ".graphml.gz": _read_graphml,
    }
    for suffix, reader in readers.items():
        if path.name.lower().endswith(suffix):
            with reading(path, f"a graph in a {suffix} file"):
                return reader(path, chosen)
    raise EraseError(
        f"a graph file: {ACCEPTED}", f"{path.name!r}", "Convert it, or correct the ending."
    )


def _check_archive(path: Path) -> None:
    """Compare the sizes that a zip file declares with the limit, before any of it is read."""
    with zipfile.ZipFile(path) as archive:
        total, numbers = 0, 0
        for entry in archive.infolist():
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise EraseError(
                    "arrays stored as they are, or deflated",
                    f"{entry.filename!r} in {path.name!r}, compressed in another way",
                    "Write the file again with numpy.",
                )
            total += entry.file_size
            if entry.filename.endswith(".npy"):
                with archive.open(entry) as file:
                    numbers += _declared_numbers(file)
        check_size(total, repr(path.name), path)
        check_numbers(numbers, repr(path.name), path)


def _declared_numbers(file: IO[bytes]) -> int:
    """Return how many numbers the header of a .npy file declares."""
    formats = np.lib.format
    is_first = formats.read_magic(file) == (1, 0)
    read = formats.read_array_header_1_0 if is_first else formats.read_array_header_2_0
    return math.prod(read(file)[0])


def _read_npz(path: Path, options: TableOptions) -> Data:
    _check_archive(path)
    # opened here, for np.load leaves a broken file open
    with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
        if "edge_index" in file:
            edges, x, y = file["edge_index"], _npz_matrix(file, "x", "x"), "y"
        elif "adj_data" in file:
            edges, x = _npz_matrix(file, "adj", ""), _npz_matrix(file, "attr", "attr_matrix")
            y = "labels"
        else:
            raise EraseError(
                "the arrays edge_index [2, E], x and y",
                f"{', '.join(file.files) or 'no array'} in {path.name!r}",
                "Write the file with erase.write_graph, or name the arrays so.",
            )
        data = from_arrays(
            edges,
            file.get(y),
            x,
            num_nodes=int(file["num_nodes"]) if "num_nodes" in file else None,
            edge_weight=file.get("edge_weight"),
            directed=options.directed or bool(file.get("directed", False)),
            strict=True,  # NaN in a stored matrix is a mistake rather than a gap
            trusted=file.get("trusted"),
            trusted_random=file.get("trusted_random"),
        )
        words = [word for each in SPLIT_WORDS.values() for word in each]
        for key in file.files:
            if key.split("_")[0] in words:
                name = f"{key}_mask" if key in words else key
                if name == key or name not in file:
                    data[name] = to_tensor(file[key], key)
        if "feature_contract" in file:
            data.feature_contract = json.loads(str(file["feature_contract"]))
        for key in ("node_names", "node_ids", "feature_names", "class_names", "class_values"):
            if key in file:
                try:
                    data[key] = file[key].tolist()
                except ValueError:  # an array of Python objects, as old files have: a pickle
                    note = f"{key} is ignored: it is pickled, and no pickle is opened."
                    data.notes = [*data.to_dict().get("notes", ()), note]
        if _NPZ_NOTES in file and file[_NPZ_NOTES].dtype.kind == "U":
            data.notes = [*file[_NPZ_NOTES].ravel().tolist(), *data.to_dict().get("notes", ())]
    return with_merged_classes(data) if options.merge_classes else data


def _npz_matrix(file: Any, name: str, dense: str) -> Any:
    """Return the matrix `name`_data, _indices, _indptr, _shape, else the array `dense`, or None."""
    if f"{name}_data" in file:
        data, indices, indptr = (file[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
        return sp.csr_matrix((data, indices, indptr), shape=tuple(file[f"{name}_shape"]))
    return file.get(dense)


def _read_pt(path: Path, options: TableOptions) -> Data:
    data = _load_pt(path)
    if options.directed:
        data.directed = True
    return with_merged_classes(data) if options.merge_classes else data


def _load_pt(path: Path) -> Data:
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    # only what is not allowed yet: leaving the block forbids all it names, also what PyG allowed
    allowed = torch.serialization.get_safe_globals()
    classes = (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage)
    if zipfile.is_zipfile(path):
        _check_archive(path)
    with torch.serialization.safe_globals([each for each in classes if each not in allowed]):
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            # torch's own message is pages long, with the colours of a terminal
            named = re.search(r"GLOBAL ([\w.]+)", str(error))
            raise EraseError(
                "a .pt file with a PyG Data, or its to_dict(), and nothing that runs code",
                f"{path.name!r}, refused: it holds {named[1] if named else 'something else'}",
                "Where you trust it, load it yourself and save data.to_dict() with torch.save.",
            ) from None
    if isinstance(content, tuple) and content:  # an InMemoryDataset: (data, slices, class)
        if len(content) > 1 and content[1] is not None:
            raise EraseError(
                "one graph", f"several in {path.name!r}", "Save one of them: dataset[0].to_dict()."
            )
        content = content[0]
    # a tensor may repeat a few numbers as often as it says
    values = content.to_dict() if isinstance(content, Data) else content
    given = values.values() if isinstance(values, Mapping) else ()
    tensors = [each for each in given if isinstance(each, Tensor) and each.layout == torch.strided]
    check_numbers(sum(each.numel() for each in tensors), repr(path.name), path)
    if isinstance(content, Mapping) and {"edge_index", "adj_t"} & content.keys():
        return Data.from_dict(dict(content))
    if isinstance(content, Data):
        return content
    raise EraseError(
        "a PyG Data, or its to_dict()",
        f"a {type(content).__name__} in {path.name!r}",
        "Save data.to_dict() with torch.save.",
    )


def _read_graphml(path: Path, options: TableOptions) -> Data:
    import networkx

    text = _graphml_text(path)
    guard = expat.ParserCreate()
    guard.StartDoctypeDeclHandler = _refuse_doctype
    guard.Parse(text, True)
    graph = networkx.read_graphml(io.BytesIO(text))
    return read_networkx(graph, options)


def _graphml_text(path: Path) -> bytes:
    """Return the text of a file; a compressed one is read until the limit."""
    is_compressed = path.suffix.lower() == ".gz"
    content = io.BytesIO()
    with gzip.open(path) if is_compressed else path.open("rb") as file:
        while part := file.read(2**20):
            content.write(part)
            if is_compressed:
                check_size(_GRAPHML_GROWTH * content.tell(), repr(path.name), path)
    return content.getvalue()


def _refuse_doctype(name: str, *_: Any) -> None:
    raise EraseError(
        "GraphML without a document type",
        f"<!DOCTYPE {name}>",
        "Remove it: entities and defaults can make a small file grow without end.",
    )


def table_file(folder: Path, name: str) -> Path:
    """Return the file of the table `name`, nodes or edges, in a folder."""
    found = [file for end in (".csv", ".parquet") if (file := folder / f"{name}{end}").is_file()]
    if len(found) != 1:
        raise EraseError(
            f"one table {name}.csv or {name}.parquet in the folder {str(folder)!r}",
            "both" if found else "none",
            "A graph's folder has one nodes table and one edges table.",
        )
    return found[0]


def _read_tables(path: Path, options: TableOptions) -> Data:
    tables = {}
    for name in ("nodes", "edges"):
        file = table_file(path, name)
        with reading(file, f"a table of {name}"):
            if file.suffix == ".parquet":
                need_pyarrow()
                _check_parquet(file)
                tables[name] = pd.read_parquet(file)
            else:
                tables[name] = read_csv(file, name, options)
        if name == "edges" and file.suffix == ".csv":
            _refuse_ids_as_header(tables["nodes"], tables["edges"], options.id)
    return read_tables(tables["nodes"], tables["edges"], options)


def _check_parquet(path: Path) -> None:
    """Compare the sizes that a Parquet file declares with the limit."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        about = file.metadata
    groups = [about.row_group(i) for i in range(about.num_row_groups)]
    parts = [group.column(i) for group in groups for i in range(group.num_columns)]
    check_size(sum(group.total_byte_size for group in groups), repr(path.name), path)
    check_numbers(about.num_rows * about.num_columns, repr(path.name), path)
    check_numbers(sum(part.num_values for part in parts), repr(path.name), path)
    # a long text is stored once, whichever number of rows have it
    texts = sorted({i for part in parts for i in [part.path_in_schema] if _is_text(part)})
    most = sum(part.num_values * part.total_uncompressed_size for part in parts if _is_text(part))
    if most <= memory_limit(path.stat().st_size):
        return
    total = 0
    for name in texts:
        with pq.ParquetFile(path, read_dictionary=[name]) as file:
            for batch in file.iter_batches(columns=[name]):
                total += _text_bytes(batch.column(0))
                check_size(total, repr(path.name), path)


def _is_text(part: Any) -> bool:
    return "BYTE_ARRAY" in part.physical_type


def _text_bytes(column: Any) -> int:
    """Return the bytes that texts of an Arrow array take, each row by itself."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    try:
        lengths = pc.binary_length(column.dictionary)
    except pa.ArrowNotImplementedError:  # not text
        return int(column.nbytes)
    return int(pc.sum(lengths.cast(pa.int64()).take(column.indices)).as_py() or 0)


def _refuse_ids_as_header(nodes: pd.DataFrame, edges: pd.DataFrame, id: str | None) -> None:
    """Refuse a file of edges that starts with an edge: it would be lost as a header."""
    nodes = with_ids(nodes, id)
    ids = set(nodes[choose_column(nodes.columns, id, ID_COLUMNS, 0, "id")].astype(str))
    header = [str(name) for name in edges.columns[:2]]
    if len(header) == 2 and ids.issuperset(header) and header != ["source", "target"]:
        raise EraseError(
            "a header line in edges.csv",
            f"the ids of two nodes, {header[0]!r} and {header[1]!r}",
            "Add a first line that says source,target.",
        )


@input_errors("a graph that can be written")
def write_graph(graph: Any, path: StrPath, tables: Literal["csv", "parquet"] = "csv") -> None:
    """Write what `read_graph` reads back: ``FILE.npz``, or a folder of two `tables`.

    Edges, features, labels (test and trusted labels too; there need not be any), splits and names
    are kept. A folder of tables keeps the names of classes rather than their numbers; for large
    graphs there is
    `write_folder`.

    Args:
        graph: a PyG ``Data``, or anything ``NodeTask.of`` takes.
        path: ``FILE.npz``, or the folder.
        tables: format of the tables in a folder.
    """
    path, data = Path(path), graph_data(graph)
    if path.suffix == ".npz":
        arrays = _npz_arrays(data)
        with atomic_write(path, "wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
    elif path.suffix == "" or path.is_dir():
        nodes, edges = (_table_bytes(each, f".{tables}") for each in _graph_tables(data))
        with (
            atomic_write(path / f"nodes.{tables}", "wb") as node_file,
            atomic_write(path / f"edges.{tables}", "wb") as edge_file,
        ):
            node_file.write(nodes)
            edge_file.write(edges)
    else:
        raise EraseError(
            "FILE.npz or a folder to write a graph to", f"{path.name!r}", "Use one of them."
        )


def _npz_arrays(data: Data) -> dict[str, Any]:
    y, class_names, values = labels_if_any(data)
    row, col, weight, directed = given_edges(data, y.numel())
    arrays: dict[str, Any] = {"edge_index": torch.stack([row, col]).numpy()}
    if class_names:
        arrays |= label_fields(y.numpy(), class_names, values)
        if values.dtype.kind == "U" and "class_names" not in data:
            del arrays["class_names"]  # the names that occur; `merge_classes` may change them
        else:
            arrays["class_names"] = np.array(class_names, dtype=str)
        trusted, random = read_trusted(data)
        if trusted is not None:
            arrays["trusted"] = label_fields(trusted.numpy(), class_names, values)["y"]
        if random is not None:
            arrays["trusted_random"] = random.numpy()
    else:
        arrays["num_nodes"] = np.array(y.numel())
    x = feature_matrix(data.x)
    if isinstance(x, Tensor):
        arrays["x"] = x.numpy()
    elif x is not None:
        parts = {"data": x.data, "indices": x.indices, "indptr": x.indptr, "shape": x.shape}
        arrays |= {f"x_{part}": np.asarray(value) for part, value in parts.items()}
    for key in ("node_names", "node_ids", "feature_names"):
        if key in data:
            if key == "node_ids" and are_whole(data[key]):
                arrays[key] = np.array(data[key], dtype=np.int64)
            else:
                arrays[key] = _text_array([str(each) for each in data[key]], key)
    if notes := read_names(data, "notes"):
        arrays[_NPZ_NOTES] = np.array(notes, dtype=str)
    if weight is not None:
        arrays["edge_weight"] = weight.numpy()
    if directed:
        arrays["directed"] = np.array(True)
    if "feature_contract" in data:
        arrays["feature_contract"] = np.array(json.dumps(data.feature_contract))
    return arrays | {f"{part}_mask": mask.numpy() for part, mask in _masks(data, y.numel()).items()}


def _text_array(texts: list[str], name: str) -> np.ndarray[Any, Any]:
    """Return texts as an array; each entry takes the memory of the longest."""
    longest, total = max(map(len, texts), default=0), sum(map(len, texts))
    if longest * len(texts) > max(_MAX_CELLS, 20 * total):
        raise EraseError(
            f"{name} of similar lengths, for FILE.npz",
            f"one of {longest:,} characters among {len(texts):,}",
            "Shorten it, or write a folder: erase convert GRAPH FOLDER.",
        )
    return np.array(texts, dtype=str)


def _graph_tables(data: Data) -> tuple[pd.DataFrame, pd.DataFrame]:
    y, class_names, values = labels_if_any(data)
    n = y.numel()
    key = "node_ids" if "node_ids" in data else "node_names"
    ids = np.empty(n, dtype=object)
    ids[:] = written(data[key]) if key in data else range(n)
    if not all(isinstance(each, Hashable) for each in ids):
        raise EraseError(f"{key} as numbers or names", f"{ids[0]!r}", "Turn them into names.")
    if len(set(ids)) != n:
        raise EraseError(
            f"{n} different {key}",
            f"{len(set(ids))}",
            "Make them different, or write FILE.npz, which does not need them to be.",
        )
    named = values.dtype.kind == "U" or "class_names" in data
    names = np.array([*(class_names if named else values.tolist()), None], dtype=object)
    nodes = {"id": ids, "label": names[y.numpy()]} if class_names else {"id": ids}
    trusted, random = read_trusted(data) if class_names else (None, None)
    if trusted is not None:
        nodes["trusted"] = names[trusted.numpy()]
    if random is not None:
        nodes["trusted_random"] = random.numpy()
    if "node_names" in data and list(map(str, ids)) != list(data.node_names):
        nodes["name"] = np.array(written(data.node_names), dtype=object)
    split = np.full(n, None, dtype=object)
    for part, mask in _masks(data, n).items():
        if (twice := mask.numpy() & (split != None)).any():  # noqa: E711  (elementwise)
            raise EraseError(
                "each node in one of train, val and test",
                f"node {int(np.flatnonzero(twice)[0])} in two",
                "Make the masks disjoint, or write FILE.npz.",
            )
        split[mask.numpy()] = part
        nodes["split"] = split
    x = feature_matrix(data.x)
    if x is not None:
        if x.shape[0] * x.shape[1] > _MAX_CELLS:
            raise EraseError(
                f"at most {_MAX_CELLS:,} feature values in a table",
                f"{x.shape[0]} × {x.shape[1]}",
                "Write FILE.npz, which keeps sparse features sparse.",
            )
        dense = x.numpy() if isinstance(x, Tensor) else x.toarray()
        nodes |= {f"x{j}": dense[:, j] for j in range(dense.shape[1])}
    row, col, weight, _ = given_edges(data, n)
    edges = {"source": ids[row.numpy()], "target": ids[col.numpy()]}
    if weight is not None:
        edges["weight"] = weight.numpy()
    return pd.DataFrame(nodes), pd.DataFrame(edges)


def _masks(data: Data, n: int) -> dict[str, Tensor]:
    masks = {part: split_mask(data, part, n) for part in SPLIT_WORDS}
    return {part: mask for part, mask in masks.items() if mask is not None}


_CHECK_PATH = "Check the path."
_NPZ_NOTES = "graph_notes"  # the array of an .npz file


def _existing(path: StrPath, remedy: str | None = None) -> Path:
    """Return the path of a file or folder that can be read; links are followed."""
    is_path = isinstance(path, str | os.PathLike) and isinstance(os.fspath(path), str)
    if is_path and not os.path.exists(path):  # Path.exists raises for names that are too long
        with suppress(OSError, ValueError):
            recover(Path(path))
    if is_path and os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise EraseError(
            "a regular file or a folder", f"{str(path)!r}, a pipe or device", "Copy it to a file."
        )
    if not is_path or not os.path.exists(path):
        raise EraseError(
            "an existing file or folder",
            f"{str(path) if isinstance(path, str | os.PathLike) else path!r}",
            remedy
            or f"Check the path. Graphs are read from {ACCEPTED}; a dataset by its name with "
            "erase.load_dataset(name).",
        )
    return Path(path)


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn whatever a parser raises on a broken file into an EraseError."""
    try:
        yield
    except EraseError:
        raise
    except Exception as error:
        if is_memory_error(error):
            raise EraseError(
                f"{what} that fits into the memory",
                f"{path.name!r}, which does not",
                "Use a larger machine, or `erase convert` it there into a folder.",
            ) from error
        if isinstance(error, pd.errors.EmptyDataError) or not path.stat().st_size:
            raise EraseError(
                f"{what} that can be read",
                f"{path.name!r}, which is empty",
                "Copy or write it again.",
            ) from error
        if path.suffix == ".csv" and isinstance(error, UnicodeError):
            raise EraseError(
                f"{what}, a CSV in UTF-8",
                f"{path.name!r}, which is in another encoding",
                'Save it as "CSV UTF-8".',
            ) from error
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise EraseError(
            f"{what} that can be read",
            f"{path.name!r}, which cannot: {reason[0]}",
            "It may be cut short or of another kind: copy or write it again.",
        ) from error


def _plain(value: Any) -> Any:
    """Return `value` in JSON's own types."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | np.generic | Tensor):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return os.fspath(value) if isinstance(value, os.PathLike) else value
