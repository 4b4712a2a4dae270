"""Reports: an audit as a page, and the drawing of every figure."""

from erase.audit.report.audit_page import write_audit_page
from erase.audit.report.render import render, write_page

__all__ = ["render", "write_audit_page", "write_page"]
