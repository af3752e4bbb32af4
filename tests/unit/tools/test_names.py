"""Which tool a model means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_nb.tools.names import closest, words

KNOWN = ("todo", "read_file", "write_file", "searchWeb", "create_user", "HTTPGet", "population")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("todo", "todo"),
        ("TodoTool_tool", "todo"),
        ("Todo", "todo"),
        ("read-file", "read_file"),
        ("read file", "read_file"),
        ("readFile", "read_file"),
        ("ReadFileTool", "read_file"),
        ("functions.read_file", "read_file"),
        ("default_api:read_file", "read_file"),
        ('read_file"><arguments', "read_file"),
        ('"read_file"', "read_file"),
        ("create_users", "create_user"),
        ("search_web", "searchWeb"),
        ("http_get", "HTTPGet"),
        ("populatoin", "population"),
        ("pupolatoin", "population"),
        ("reads_file", "read_file"),
    ],
)
def test_other_spellings_are_understood(said, meant):
    assert closest(said, KNOWN) == meant


@pytest.mark.parametrize(
    "said", ["", "  ", "<>", "delete_user", "set_file", "weather", "file", "read_file_now", "tool", "reed_file"]
)
def test_other_tools_are_not_taken_for_known_ones(said):
    assert closest(said, KNOWN) == ""


def test_words_that_mean_the_opposite_are_not_alike_enough():
    assert closest("import_data", ("export_data",)) == ""


def test_what_could_be_two_tools_is_neither():
    assert closest("read_file", ("read_filo", "read_fila")) == ""
    assert closest("readfile", ("read_file", "read-file")) == ""


@given(st.text())
def test_any_name_has_words_or_none(name):
    assert all(word == word.lower() and word for word in words(name))
    assert closest(name, KNOWN) in (*KNOWN, "")


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("tool", ["tool"]),
        ("todo_tool_tool", ["todo"]),
        ("todo_tool_tool_tool", ["todo", "tool"]),
        ("tool_tool", ["tool"]),
    ],
)
def test_two_suffixes_are_forgiven_and_a_name_is_never_all_suffix(name, left):
    assert words(name) == left
