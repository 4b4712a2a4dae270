"""Reports: pages, and those of ``erase demo`` and of an audit."""

from erase.report.audit_page import write_audit_page
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
    "write_audit_page",
    "write_demo_report",
]
