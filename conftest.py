"""Runs the examples of the README and of the docstrings as tests."""

from __future__ import annotations

from doctest import ELLIPSIS

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser

readme = Sybil(
    [PythonCodeBlockParser(doctest_optionflags=ELLIPSIS), SkipParser()], filenames=["README.md"]
)
docstrings = Sybil(
    [DocTestParser(optionflags=ELLIPSIS)],
    patterns=["weftjobs/*.py", "weftjobs_controllers/*.py"],
)

pytest_collect_file = (readme + docstrings).pytest()
