"""Digests of the code that the result of a cell depends on: which records are out of date?

The code of a cell is its method's module, the loader of its dataset, the noise, the scoring, and
all that these import within the package. Comments, docstrings and formatting do not count, nor does
what cannot change a number: some modules and definitions, and checks that only refuse an input. The
runner is left out as well: it hands cells to methods.
"""

import ast
from collections.abc import Collection, Iterable, Iterator
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from erase.audit import DEFAULT_METHOD
from erase.bench.correction import CORRECTED_BY
from erase.bench.detection import AUDIT, MODEL, detects
from erase.bench.inductive import scores_drawn_nodes
from erase.bench.records import Cell
from erase.bench.review import reviews
from erase.data.datasets import DATASETS, dataset_name
from erase.methods import METHODS

PACKAGE = Path(__file__).parents[1]

# Modules that only show, read or write something, and packages of them.
WITHOUT_EFFECT: tuple[str, ...] = (
    "erase.audit.report",
    "erase.audit.statements",
    "erase.audit.storage",
    "erase.bench.records",
    "erase.data.parts",
    "erase.display",
    "erase.errors",
    "erase.training.progress",
    "erase.version",
)
# What several processes exchange, and where results lie: a cell is run by one process.
OF_MANY_PROCESSES: tuple[str, ...] = ("erase.training.disk", "erase.training.processes")
# Modules that only graphs in files and tables come through, not datasets by name.
OF_FILES: tuple[str, ...] = (
    "erase.data.cells",
    "erase.data.checks",
    "erase.data.columns",
    "erase.data.confirmations",
    "erase.data.contract",
    "erase.data.conversion",
    "erase.data.edge_sorter",
    "erase.data.files",
    "erase.data.folder",
    "erase.data.limits",
    "erase.data.tables",
    "erase.data.write_back",
)
# Definitions that cannot change a number: whether a tensor has been checked before.
CHECKED_BEFORE: dict[str, tuple[str, ...]] = {
    "erase.data.fields": ("_TOGETHER", "_writes", "mark_checked", "was_checked"),
}
# Imports that a cell does not use: (where, what).
_RELABELLED = ("erase.methods.erase", "erase.methods.relabelling.ensemble")
_NAMES_ONLY: tuple[tuple[str, str], ...] = (
    ("erase.bench.inductive", "erase.bench.correction"),
    ("erase.bench.inductive", "erase.bench.detection"),
    ("erase.bench.run", "erase.methods.network"),
)
# Cells of detection take probabilities from out-of-fold models and decide themselves.
_WHOLE_AUDITS = (
    ("erase.bench.detection", "erase.audit.result"),
    ("erase.bench.detection", "erase.audit.run"),
)
# The audit's rivals take the probabilities only.
_OWN_DECISION = (
    ("erase.audit.out_of_fold", "erase.audit.decision"),
    ("erase.bench.detection", "erase.audit.decision"),
    ("erase.bench.detection", "erase.audit.witnesses"),
)


def code_of(cell: Cell) -> str:
    """Return twelve hex digits that change with the code that the cell's result depends on."""
    return digest(*where_code_begins(cell))


def where_code_begins(
    cell: Cell,
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Return the modules that a cell runs, those that do not count, and imports it does not use."""
    skipped, unused = WITHOUT_EFFECT + OF_MANY_PROCESSES, _NAMES_ONLY
    dataset = dataset_name(cell.dataset)
    if dataset is not None:
        load = DATASETS[dataset].load
        roots = [(load.func if isinstance(load, partial) else load).__module__]
        skipped += OF_FILES
    else:
        roots = ["erase.data.files"]
    roots.append("erase.bench.run")
    methods = [cell.method]
    if reviews(cell):
        roots.append("erase.bench.review")
        methods = [DEFAULT_METHOD]
    elif detects(cell):
        roots += ["erase.bench.detection", "erase.audit.out_of_fold"]
        unused += _WHOLE_AUDITS if cell.method == AUDIT else _WHOLE_AUDITS + _OWN_DECISION
        methods = [cell.params.get(MODEL, "")]
    if CORRECTED_BY in cell.params:
        roots.append("erase.bench.correction")
        methods.append(cell.params[CORRECTED_BY])
    if scores_drawn_nodes(cell):
        roots.append("erase.bench.inductive")
    if cell.params.get("semantics") != "relabelling":
        unused += (_RELABELLED,)
    roots += [known.__module__ for name, known in METHODS.items() if name in methods]
    return tuple(roots), skipped, unused


@cache
def digest(
    roots: tuple[str, ...],
    skipped: tuple[str, ...] = (),
    unused: tuple[tuple[str, str], ...] = (),
    package: Path = PACKAGE,
) -> str:
    """Return twelve hex digits of the code that `roots` reach; see `reached`."""
    found = sha256()
    for module in reached(roots, skipped, unused, package):
        code = _code(_path(module, package), CHECKED_BEFORE.get(module, ()))
        found.update(f"{module}\0{code}\0".encode())
    return found.hexdigest()[:12]


@cache
def reached(
    roots: tuple[str, ...],
    skipped: tuple[str, ...] = (),
    unused: tuple[tuple[str, str], ...] = (),
    package: Path = PACKAGE,
) -> tuple[str, ...]:
    """Return the modules that `roots` import, directly or not, and the roots, sorted.

    The ``__init__`` of a package is a list of names: a name that it imports is followed to its
    module, and the package itself does not count.

    Args:
        roots: modules; those outside the package are passed over.
        skipped: modules, or packages of them, that do not count.
        unused: imports that are not followed: (importing module, imported module).
        package: folder of the package.
    """
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        module = waiting.pop()
        path = _path(module, package)
        if module in found or path is None or _is_among(module, skipped):
            continue
        found.add(module)
        waiting += [name for name in _imports(path, package) if (module, name) not in unused]
    return tuple(sorted(found))


def _is_among(module: str, modules: Iterable[str]) -> bool:
    return any(module == other or module.startswith(f"{other}.") for other in modules)


def _path(module: str, package: Path) -> Path | None:
    """Return the file of a module; None for packages and for what is outside `package`."""
    top, *parts = module.split(".")
    path = package.joinpath(*parts).with_suffix(".py") if parts else None
    return path if top == package.name and path is not None and path.is_file() else None


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


@cache
def _imports(path: Path, package: Path) -> tuple[str, ...]:
    """Return the modules of the package that a file imports, anywhere in it."""
    found: dict[str, None] = {}
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            found |= dict.fromkeys(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {_origin(node.module, alias.name, package): None for alias in node.names}
    return tuple(found)


def _origin(module: str, name: str, package: Path) -> str:
    """Return the module that ``from module import name`` leads to."""
    if _path(f"{module}.{name}", package) is not None:
        return f"{module}.{name}"
    listing = package.joinpath(*module.split(".")[1:], "__init__.py")
    if module.split(".")[0] == package.name and listing.is_file():
        for node in _tree(listing).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    if name == (alias.asname or alias.name):
                        return _origin(node.module, alias.name, package)
    return module


@cache
def _code(path: Path, without: Collection[str] = ()) -> str:
    """Return a file's code as text that depends neither on its form nor on Python's version.

    Args:
        path: the file.
        without: names whose definitions are left out.
    """
    statements = [each for each in _tree(path).body if _defined(each) not in without]
    return "".join(_written(ast.Module(statements, [])))


def _defined(statement: ast.stmt) -> str | None:
    """Return the name that a statement defines, if it is one."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return statement.name
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return None


def _written(node: Any) -> Iterator[str]:
    """Yield a syntax tree as text.

    Left out are empty fields, docstrings, how a name is used, and checks that refuse an input.
    """
    if isinstance(node, ast.Constant):
        yield f"{node.value!r};"
    elif isinstance(node, ast.If) and not node.orelse and all(map(_refuses, node.body)):
        return
    elif _refuses(node):
        yield "refuses;"
    elif isinstance(node, ast.AST):
        yield f"{type(node).__name__}("
        for name, value in ast.iter_fields(node):
            if value is None or value == [] or name in ("ctx", "type_comment", "type_ignores"):
                continue
            yield f"{name}="
            yield from _written(_without_docstring(node, value) if name == "body" else value)
        yield ")"
    elif isinstance(node, list):
        yield "["
        for each in node:
            yield from _written(each)
        yield "]"
    else:
        yield f"{node!r};"


def _refuses(node: Any) -> bool:
    """Return whether a statement does nothing but raise an EraseError."""
    raised = node.exc if isinstance(node, ast.Raise) else None
    return isinstance(raised, ast.Call) and getattr(raised.func, "id", "") == "EraseError"


def _without_docstring(node: ast.AST, body: Any) -> Any:
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
        return body[1:]
    return body
