"""Reports: pages, and the page of ``erase demo``."""

from erase.report.demo import write_demo_report
from erase.report.page import Block, Code, Page, Picture, Section, Table, Text

__all__ = [
    "Block",
    "Code",
    "Page",
    "Picture",
    "Section",
    "Table",
    "Text",
    "write_demo_report",
]
