"""Looking at a recorded run: as a page, as a trace, as text, as numbers."""

from minidp.parallel.timeline.analysis import Lane, Step, Totals, analyse, measure, totals
from minidp.parallel.timeline.chrome import trace, write_trace
from minidp.parallel.timeline.page import page, write_page
from minidp.parallel.timeline.text import step_table, summary

__all__ = [
    "Lane", "Step", "Totals", "analyse", "measure", "page", "step_table", "summary", "totals",
    "trace", "write_page", "write_trace",
]  # fmt: skip
