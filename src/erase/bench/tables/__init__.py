"""The paper's tables by name, filled from records, the paper's figure beside ours."""

from erase.bench.tables.build import CLOSE, build, holm
from erase.bench.tables.layouts import TABLES
from erase.bench.tables.render import FORMATS
from erase.bench.tables.table import Table

__all__ = ["CLOSE", "FORMATS", "TABLES", "Table", "build", "holm"]
