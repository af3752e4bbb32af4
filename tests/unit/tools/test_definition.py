"""A function becomes a tool: its schema, its arguments, its refusals."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import json
import math
import pickle
from typing import Annotated, Any, Literal

import anyio
import anyio.lowlevel
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_nb.tools.context import InvalidArguments, ToolContext
from hermes_nb.tools.definition import FunctionTool, Tool, ToolOptions, tool
from hermes_nb.vocabulary.failures import ToolDefinitionError

steady = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def invoke(made, context=None, /, **arguments):
    return anyio.run(made.invoke, arguments, context or ToolContext())


@tool
def population(city: str, year: int = 2024) -> int:
    """Inhabitants of a city.

    As counted by the census.

    Args:
        city: The city's name,
            in English.
        year: Of the census.
    """
    return len(city) * year


class Point(pydantic.BaseModel):
    x: float
    y: float


@dataclasses.dataclass
class Span:
    start: int
    end: int


def test_a_tool_is_still_called_like_the_function():
    assert population("Lyon", year=2) == 8
    assert population.__doc__.startswith("Inhabitants")
    assert isinstance(population, FunctionTool)
    assert isinstance(population, Tool)
    assert repr(population) == "<tool population>"


def test_the_model_is_told_the_docstring_and_a_plain_schema():
    assert population.spec.name == "population"
    assert population.spec.description == "Inhabitants of a city.\n\nAs counted by the census."
    assert population.spec.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "The city's name, in English."},
            "year": {"type": "integer", "description": "Of the census.", "default": 2024},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_numpy_and_rest_docstrings_describe_parameters_too():
    @tool
    def numpy_style(a: int) -> int:
        """Do it.

        Parameters
        ----------
        a : int
            The number.
        """
        return a

    @tool
    def rest_style(a: int) -> int:
        """Do it.

        :param a: The number.
        """
        return a

    for made in (numpy_style, rest_style):
        assert made.spec.description == "Do it."
        assert made.spec.parameters["properties"]["a"] == {"type": "integer", "description": "The number."}


def test_what_a_docstring_says_of_the_result_is_told_too():
    @tool
    def f(a: int) -> int:
        """Double it.

        Args:
            a: The number.

        Returns:
            The double.
        """
        return 2 * a

    assert f.spec.description == "Double it.\n\nReturns: The double."


def test_options_are_kept_and_given_names_win():
    @tool(name="look_up", description="Looks.", parallel_safe=True, timeout=3, writes="path", type="datastore")
    def f(path: str) -> str:
        """Another text."""
        return path

    assert (f.spec.name, f.spec.description) == ("look_up", "Looks.")
    assert f.options == ToolOptions(parallel_safe=True, timeout=3, writes="path", type="datastore")


def test_a_tool_without_options_runs_alone_costs_an_iteration_and_changes_no_files():
    options = tool(name="f")(lambda: 1).options
    assert options == ToolOptions(parallel_safe=False, timeout=None, free=False, writes=False, result_limit=None,
                                  type="function", delegate="")  # fmt: skip


def test_every_kind_of_callable_can_be_a_tool():
    class Library:
        def __init__(self, books: list[str]) -> None:
            self.books = books

        @tool(parallel_safe=True)
        def search(self, word: str) -> list[str]:
            """Find books."""
            return [book for book in self.books if word in book]

        def count(self, least: int = 0) -> int:
            return max(least, len(self.books))

        def __call__(self, number: int) -> str:
            return self.books[number]

    async def later(word: str) -> str:
        await anyio.lowlevel.checkpoint()
        return word.upper()

    def plain(index: str, word: str) -> str:
        return f"{index}:{word}"

    one, other = Library(["red", "blue"]), Library(["green"])
    assert invoke(one.search, word="r") == ["red"]
    assert invoke(other.search, word="r") == ["green"]
    assert one.search("bl") == ["blue"]
    assert one.search.options.parallel_safe
    assert list(one.search.spec.parameters["properties"]) == ["word"]
    assert invoke(tool(one.count)) == 2
    assert invoke(tool(name="book")(one), number=1) == "blue"
    assert invoke(tool(later), word="a") == "A"
    assert invoke(tool(functools.partial(later)), word="a") == "A"
    fixed = tool(functools.partial(plain, index="papers"))
    assert list(fixed.spec.parameters["properties"]) == ["word"]
    assert invoke(fixed, word="x") == "papers:x"
    assert invoke(tool(functools.partial(plain, "papers")), word="x") == "papers:x"


def test_a_tool_can_be_made_of_a_tool_with_other_options():
    other = tool(name="other", parallel_safe=True)(population)
    assert (other.spec.name, other.options.parallel_safe) == ("other", True)
    assert other.spec.parameters == population.spec.parameters


def test_the_context_is_filled_in_and_hidden_from_the_model():
    @tool
    def whoami(context: ToolContext, greeting: str = "hello") -> str:
        return f"{greeting} {context.agent_name}"

    @tool
    def perhaps(context: ToolContext | None = None) -> bool:
        return context is None

    assert list(whoami.spec.parameters["properties"]) == ["greeting"]
    assert invoke(whoami, ToolContext(agent_name="ada")) == "hello ada"
    assert invoke(perhaps) is False
    with pytest.raises(InvalidArguments, match="context"):
        invoke(whoami, context={"agent_name": "eve"})


@pytest.mark.parametrize(
    ("function", "culprit"),
    [
        (lambda *values: values, "values"),
        (lambda **values: values, "values"),
        (lambda value, /: value, "value"),
    ],
)
def test_a_parameter_without_a_name_is_refused_by_name(function, culprit):
    with pytest.raises(ToolDefinitionError, match=f"'{culprit}'"):
        tool(name="f")(function)


def test_a_type_that_json_cannot_express_is_refused_by_name():
    class Socket:
        pass

    def f(good: int, bad: Socket) -> None: ...

    f.__annotations__.update(good=int, bad=Socket)
    with pytest.raises(ToolDefinitionError, match="'bad'"):
        tool(f)


def test_an_annotation_that_cannot_be_resolved_is_refused_by_name():
    def f(a: int, b: Unheard) -> None: ...  # noqa: F821

    with pytest.raises(ToolDefinitionError, match=r"'b'.*Unheard"):
        tool(f)


@pytest.mark.parametrize("name", ["", "two words", "x" * 65, "é", "a.b"])
def test_names_that_servers_refuse_are_refused_at_once(name):
    with pytest.raises(ToolDefinitionError, match="name"):
        tool(name=name or " ")(lambda: None)


@pytest.mark.parametrize("option", [{"timeout": 0}, {"timeout": -1}, {"timeout": math.nan}, {"result_limit": 0}])
def test_limits_that_cannot_work_are_refused(option):
    with pytest.raises(ToolDefinitionError, match=next(iter(option))):
        tool(**option)(population.function)


def test_parameters_may_have_any_name():
    @tool
    def odd(copy: int, json: str, model_config: bool, schema: float, self_: int = 0, _hidden: int = 1) -> list[Any]:
        return [copy, json, model_config, schema, self_, _hidden]

    assert invoke(odd, copy=1, json="{}", model_config=True, schema=2, _hidden=7) == [1, "{}", True, 2.0, 0, 7]


def test_a_parameter_without_annotation_takes_any_json_value():
    @tool
    def anything(value, other=None):
        return value, other

    assert anything.spec.parameters["properties"]["value"] == {}
    assert invoke(anything, value="42") == ("42", None)
    assert invoke(anything, value={"a": [1]}, other=2) == ({"a": [1]}, 2)


def test_defaults_are_the_functions_own_and_need_not_be_json():
    marker = object()

    @tool
    def f(a: Any = marker, b: list[int] = [], c: float = math.inf) -> Any:  # noqa: B006
        return a, b, c

    assert invoke(f) == (marker, [], math.inf)
    for hidden in "ac":
        assert "default" not in f.spec.parameters["properties"][hidden]
    json.dumps(f.spec.parameters, allow_nan=False)


def test_arguments_arrive_as_the_annotated_types():
    @tool
    def draw(
        at: Point,
        over: Span,
        day: dt.date,
        mode: Literal["fast", "slow"],
        count: Annotated[int, pydantic.Field(ge=1, description="How many.")] = 1,
    ) -> Any:
        return at, over, day, mode, count

    assert draw.spec.parameters["properties"]["count"]["description"] == "How many."
    got = invoke(draw, at={"x": 1, "y": 2}, over={"start": 0, "end": 3}, day="2024-02-29", mode="slow")
    assert got == (Point(x=1, y=2), Span(0, 3), dt.date(2024, 2, 29), "slow", 1)
    with pytest.raises(InvalidArguments, match="count"):
        invoke(draw, at={"x": 1, "y": 2}, over={"start": 0, "end": 3}, day="2024-02-29", mode="slow", count=0)


# --------------------------------------------------------------------------------------------- coercion


@tool
def typed(  # noqa: PLR0913, PLR0917  one parameter for each kind of type
    n: int = 0,
    flag: bool = False,
    names: list[str] | None = None,
    numbers: list[int] | None = None,
    points: list[Point] | None = None,
    either: int | str = 0,
    maybe: int | None = None,
    text: str = "",
    table: dict[str, list[int]] | None = None,
) -> Any:
    return {key: value for key, value in locals().items()}  # noqa: C416


@pytest.mark.parametrize(
    ("name", "sent", "received"),
    [
        ("n", "42", 42),
        ("n", 42.0, 42),
        ("n", "12345678901234567890123", 12345678901234567890123),
        ("n", 12345678901234567890123, 12345678901234567890123),
        ("flag", "true", True),
        ("flag", "false", False),
        ("names", "x", ["x"]),
        ("names", "007", ["007"]),
        ("names", "1e5", ["1e5"]),
        ("names", '["a", "b"]', ["a", "b"]),
        ("names", "[broken", ["[broken"]),
        ("numbers", 5, [5]),
        ("numbers", "5", [5]),
        ("numbers", '[1, "2"]', [1, 2]),
        ("points", {"x": 1, "y": 2}, [Point(x=1, y=2)]),
        ("points", '{"x": 1, "y": 2}', [Point(x=1, y=2)]),
        ("points", ['{"x": 1, "y": 2}'], [Point(x=1, y=2)]),
        ("points", '["{\\"x\\": 1, \\"y\\": 2}"]', [Point(x=1, y=2)]),
        ("either", "42", "42"),
        ("either", 42, 42),
        ("maybe", "null", None),
        ("maybe", "7", 7),
        ("text", 42, "42"),
        ("text", "null", "null"),
        ("text", '{"a": 1}', '{"a": 1}'),
        ("table", '{"a": "[1, 2]"}', {"a": [1, 2]}),
    ],
)
def test_arguments_are_converted_where_nothing_is_lost(name, sent, received):
    got = invoke(typed, **{name: sent})[name]
    assert got == received
    assert type(got) is type(received)


@tool
def gather(row: tuple[str, ...] = (), some: set[str] = set(), fixed: frozenset[str] = frozenset()) -> Any:  # noqa: B006
    return {"row": row, "some": some, "fixed": fixed}


@pytest.mark.parametrize(("name", "received"), [("row", ("x",)), ("some", {"x"}), ("fixed", frozenset({"x"}))])
def test_one_thing_where_several_may_be_is_several_of_it(name, received):
    assert invoke(gather, **{name: "x"})[name] == received


@pytest.mark.parametrize(("levels", "taken"), [(3, True), (4, False)])
def test_lists_that_are_quoted_within_quotes_are_understood_three_levels_deep(levels, taken):
    kind = eval("list[" * levels + "int" + "]" * levels)

    def f(x):
        return x

    f.__annotations__ = {"x": kind}
    quoted, plain = [1], [1]
    for _ in range(levels - 1):
        quoted, plain = [json.dumps(quoted)], [plain]
    if taken:
        assert invoke(tool(f), x=json.dumps(quoted)) == plain
    else:
        with pytest.raises(InvalidArguments):
            invoke(tool(f), x=json.dumps(quoted))


@pytest.mark.parametrize(
    ("name", "sent"), [("n", "4.5"), ("n", 4.5), ("n", "many"), ("n", None), ("flag", "perhaps"), ("points", "here")]
)
def test_what_would_lose_something_is_refused(name, sent):
    with pytest.raises(InvalidArguments, match=f"{name}.*Valid: n \\(integer, optional\\)"):
        invoke(typed, **{name: sent})


def test_missing_and_extra_parameters_are_refused_with_the_valid_ones():
    with pytest.raises(InvalidArguments) as refusal:
        invoke(population, town="Lyon")
    told = str(refusal.value)
    assert "city: Field required" in told
    assert "town: Extra inputs are not permitted" in told
    assert "Valid: city (string, required), year (integer, optional)." in told


def test_a_tool_without_parameters_says_so():
    with pytest.raises(InvalidArguments, match="takes no arguments"):
        invoke(tool(name="f")(lambda: 1), x=1)


@steady
@given(st.integers())
def test_integers_are_exact_however_they_are_written(number):
    assert invoke(typed, n=number)["n"] == number
    assert invoke(typed, n=str(number))["n"] == number


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@steady
@given(st.dictionaries(st.sampled_from(["n", "flag", "names", "points", "either", "maybe", "text", "x"]), json_values))
def test_any_arguments_are_taken_or_refused_and_never_break_the_tool(arguments):
    before = repr(arguments)
    try:
        got = invoke(typed, **arguments)
    except InvalidArguments:
        pass
    else:
        assert isinstance(got["n"], int)
        assert isinstance(got["text"], str)
    assert repr(arguments) == before


@steady
@given(json_values)
def test_values_that_fit_as_they_are_stay_as_they_are(value):
    @tool
    def same(value: Any) -> Any:
        return value

    got = invoke(same, value=value)
    assert got == value
    assert type(got) is type(value)


def _module_level(a: int) -> int:
    """Twice."""
    return 2 * a


def test_tools_travel_to_other_processes():
    travelled = pickle.loads(pickle.dumps(tool(name="twice")(_module_level)))
    assert travelled(4) == 8
    assert travelled.spec == tool(name="twice")(_module_level).spec
