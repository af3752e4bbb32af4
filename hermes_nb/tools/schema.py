"""A function's parameters as a JSON schema, and a model's arguments as the function's."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, get_args, get_origin

import docstring_parser
from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, TypeAdapter, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, to_jsonable_python

from hermes_nb.tools.context import InvalidArguments, ToolContext
from hermes_nb.vocabulary.failures import ToolDefinitionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Names of tools that every server accepts (OpenAI's and Anthropic's documented pattern)."""

_REPAIRS = 4
"""Rounds of repair of badly quoted arguments; one is needed for each level of nesting."""

_CONTAINERS = {"list_type", "tuple_type", "set_type", "frozen_set_type"}


class _PlainSchema(GenerateJsonSchema):
    """Pydantic's JSON schema without a title for each field, which only repeats its name."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  the base class's signature
        return False


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """A function's parameters, as a model sees them.

    Attributes:
        name: The tool's name.
        description: The docstring's text, without the part about parameters.
        parameters: The JSON schema of the arguments.
        context_parameter: The parameter that takes the `ToolContext`; empty if there is none.
        unbound: The function is a method that belongs to no object yet.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    context_parameter: str
    unbound: bool
    _model: type[BaseModel]
    _names: Mapping[str, str]

    @classmethod
    def of(cls, function: Callable[..., Any], name: str) -> Signature:
        """Read a function's signature and docstring.

        Raises:
            ToolDefinitionError: The name is not one, or a parameter gives no schema.
        """
        if not NAME.fullmatch(name):
            msg = f"a tool's name is 1 to 64 letters, digits, _ or -, not {name!r}; give one with @tool(name=...)"
            raise ToolDefinitionError(msg)
        description, notes = _documentation(function)
        context, fields = "", {}
        parameters = _parameters(function, name)
        if unbound := _is_method(function) and parameters[:1] and parameters[0].name in ("self", "cls"):
            del parameters[0]
        _refuse_nameless(parameters, name)
        for number, parameter in enumerate(parameters):
            if _wants_context(parameter.annotation):
                context = parameter.name
            else:
                fields[f"p{number}"] = _field(parameter, notes.get(parameter.name))
        model = _model(name, fields)
        schema = model.model_json_schema(schema_generator=_PlainSchema)
        schema.pop("title", None)
        names = {key: str(field.alias) for key, field in model.model_fields.items()}
        return cls(name, description, schema, context, bool(unbound), model, names)

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The function's keyword arguments; those that the model left out are left to the function's defaults.

        Values are converted where nothing is lost: `"42"` to 42, `"true"` to True, a single value to a list of one
        where a list is wanted, and JSON in a string to what it holds where an object or a list is wanted. Values
        that fit as they are stay as they are.

        Raises:
            InvalidArguments: They do not fit.
        """
        given, first = dict(arguments), None
        for _ in range(_REPAIRS):
            try:
                model = self._model.model_validate(given)
            except ValidationError as error:
                first = first or error
                repaired = _repaired(given, error)
                if repaired == given:
                    break
                given = repaired
            else:
                return {self._names[field]: getattr(model, field) for field in model.model_fields_set}
        raise InvalidArguments(self._complaint(first))

    def _complaint(self, error: ValidationError | None) -> str:
        problems = error.errors(include_url=False, include_context=False, include_input=False) if error else []
        told = "; ".join(dict.fromkeys(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in problems[:10]))
        return f"Invalid arguments for {self.name}: {told}. Valid: {self._valid() or 'none, it takes no arguments'}."

    def _valid(self) -> str:
        required = self.parameters.get("required", ())
        properties: dict[str, dict[str, Any]] = self.parameters.get("properties", {})
        return ", ".join(
            f"{name} ({schema.get('type', 'any')}, {'required' if name in required else 'optional'})"
            for name, schema in properties.items()
        )


# ---------------------------------------------------------------------------------------------- reading a function


def _documentation(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The docstring's text and what it says of the result; and what it says of each parameter."""
    while isinstance(function, partial):
        function = function.func
    text = inspect.getdoc(function) or ""
    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return text, {}
    notes = {param.arg_name: " ".join((param.description or "").split()) for param in parsed.params}
    returned = " ".join(((parsed.returns and parsed.returns.description) or "").split())
    told = [(parsed.description or text).strip(), f"Returns: {returned}" if returned else ""]
    return "\n\n".join(filter(None, told)), notes


def _parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError as error:
        unresolved = inspect.signature(function).parameters.values()
        culprit = next((p.name for p in unresolved if str(error.name) in str(p.annotation)), "?")
        msg = f"tool {name!r}: the annotation of parameter {culprit!r} cannot be resolved: {error}"
        raise ToolDefinitionError(msg) from error
    except (TypeError, ValueError) as error:
        msg = f"tool {name!r}: {function!r} has no readable signature: {error}"
        raise ToolDefinitionError(msg) from error
    fixed = function.keywords if isinstance(function, partial) else {}
    return [parameter for parameter in signature.parameters.values() if parameter.name not in fixed]


def _refuse_nameless(parameters: Iterable[inspect.Parameter], name: str) -> None:
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            msg = (
                f"tool {name!r}: parameter {parameter.name!r} is {parameter.kind.description}; a model gives each "
                "argument by its name, so write it as an ordinary parameter"
            )
            raise ToolDefinitionError(msg)


def _is_method(function: Callable[..., Any]) -> bool:
    """Whether this is a function written in the body of a class, not yet bound to an object."""
    around = getattr(function, "__qualname__", "").rpartition(".")[0]
    return bool(around) and not around.endswith("<locals>") and not inspect.ismethod(function)


def _wants_context(annotation: Any) -> bool:
    return annotation is ToolContext or (get_origin(annotation) is not None and ToolContext in get_args(annotation))


def _field(parameter: inspect.Parameter, description: str | None) -> tuple[Any, Any]:
    annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
    told: dict[str, Any] = {"alias": parameter.name} | ({"description": description} if description else {})
    default = parameter.default
    if default is parameter.empty:
        return annotation, Field(**told)
    try:
        json.dumps(to_jsonable_python(default), allow_nan=False)
    except (PydanticSerializationError, ValueError):
        return annotation, Field(default_factory=lambda: default, **told)  # a default that is not told
    return annotation, Field(default, **told)


def _model(name: str, fields: dict[str, tuple[Any, Any]]) -> type[BaseModel]:
    config = ConfigDict(extra="forbid", coerce_numbers_to_str=True, protected_namespaces=())
    try:
        model: type[BaseModel] = create_model(name, __config__=config, **fields)  # type: ignore[call-overload]  # made here
        model.model_json_schema()
    except PydanticUserError as error:
        culprit = next((field.alias for kind, field in fields.values() if not _has_schema(kind)), "?")
        msg = (
            f"tool {name!r}: parameter {culprit!r} has a type that JSON cannot express; use a type of numbers, texts, "
            "lists, dicts, dataclasses or pydantic models, or fix the argument with functools.partial"
        )
        raise ToolDefinitionError(msg) from error
    return model


def _has_schema(kind: Any) -> bool:
    try:
        TypeAdapter(kind).json_schema()
    except PydanticUserError:
        return False
    return True


# ---------------------------------------------------------------------------------------------- mending arguments


def _repaired(arguments: dict[str, Any], error: ValidationError) -> dict[str, Any]:
    """A copy in which each value that was refused is unpacked from JSON, or wrapped in a list."""
    copy = json.loads(json.dumps(arguments))
    for problem in error.errors(include_url=False, include_context=False):
        holder, key = _locate(copy, problem["loc"])
        if holder is not None:
            holder[key] = _mended(holder[key], wants_list=problem["type"] in _CONTAINERS)
    return copy  # type: ignore[no-any-return]


def _locate(arguments: Any, path: tuple[int | str, ...]) -> tuple[Any, Any]:
    """The container and key of the refused value; steps of the path that name a type are passed over."""
    holder, key, value = None, None, arguments
    for step in path:
        inside = range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
        if step in inside:
            holder, key, value = value, step, value[step]
    return holder, key


def _mended(value: Any, *, wants_list: bool) -> Any:
    if isinstance(value, str):
        try:
            unpacked = json.loads(value)
        except (ValueError, RecursionError):
            pass
        else:
            if unpacked is None or isinstance(unpacked, dict | list):
                return unpacked
    return [value] if wants_list and not isinstance(value, list) else value
