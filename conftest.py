"""Runs the examples of the README, of the documentation and of the docstrings as tests."""

from __future__ import annotations

from doctest import ELLIPSIS

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser

pages = Sybil(
    [PythonCodeBlockParser(doctest_optionflags=ELLIPSIS), SkipParser()],
    patterns=["README.md", "docs/*.md"],
)
docstrings = Sybil(
    [DocTestParser(optionflags=ELLIPSIS)],
    patterns=[
        "weftjobs/*.py",
        "weftjobs/stores/*.py",
        "weftjobs_controllers/*.py",
        "weftjobs_controllers/mutexes/*.py",
    ],
)

pytest_collect_file = (pages + docstrings).pytest()
