"""Reports: pages, and those of ``erase demo`` and of an audit."""

from erase.audit.report.audit_page import write_audit_page
from erase.audit.report.demo import write_demo_report
from erase.audit.report.page import Block, Code, Page, Picture, Section, Table, Text

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
