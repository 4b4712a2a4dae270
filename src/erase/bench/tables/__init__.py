"""The paper's tables by name, filled from records, the paper's figure beside ours."""

from erase.bench.tables.build import CLOSE, Table, build, holm
from erase.bench.tables.measures import MEASURES
from erase.bench.tables.render import FORMATS
from erase.bench.tables.spec import TABLES

__all__ = ["CLOSE", "FORMATS", "MEASURES", "TABLES", "Table", "build", "holm"]
