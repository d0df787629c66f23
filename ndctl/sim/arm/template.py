"""A template and its parameters, checked and evaluated into the resources it asks for, in a workable order."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ndctl.sim.arm import ids
from ndctl.sim.arm.catalogue import NAMESPACES, TYPES
from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.expressions import ExpressionError, NotYetKnown, Scope, evaluate_all
from ndctl.sim.arm.ids import ResourceId

_TOP_LEVEL = {"$schema", "contentversion", "apiprofile", "definitions", "parameters", "functions", "variables",
              "resources", "outputs", "languageversion", "metadata"}  # fmt: skip
_PARAMETER_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "securestring": str,
    "int": int,
    "bool": bool,
    "object": dict,
    "secureobject": dict,
    "array": list,
}
_MAX_RESOURCES = 800
_MAX_PARAMETERS = 256
_MAX_BYTES = 4_000_000
_NOT_BODY = ("type", "apiVersion", "name", "dependsOn", "condition", "copy", "comments", "metadata", "scope")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One resource a template asks for. `unknown`: parts of it are known only while the deployment runs."""

    rid: ResourceId
    api_version: str
    body: dict[str, Any]
    depends_on: tuple[str, ...]  # keys of other wanted resources
    unknown: bool = False


def invalid_template(message: str) -> ArmError:
    return ArmError(
        400,
        "InvalidTemplate",
        f"Deployment template validation failed: '{message}'.",
        info=[{"type": "TemplateViolation", "info": {"lineNumber": 0, "linePosition": 0, "path": ""}}],
    )


def wanted_resources(
    template: Any,
    parameters: Any,
    functions: Mapping[str, Callable[..., Any]],
    subscription: str,
    group: str,
) -> list[Wanted]:
    """Resources in an order in which each comes after those it depends on. ArmError for a template ARM refuses."""
    if not isinstance(template, dict):
        raise ArmError(400, "InvalidTemplate", "The template is missing or not a JSON object.")
    if len(json.dumps(template)) > _MAX_BYTES:
        raise ArmError(413, "RequestContentTooLarge", "The request content size exceeds the maximum size of 4 MB.")
    for key in template:
        if key.lower() not in _TOP_LEVEL:
            raise invalid_template(f"The template property '{key}' is not expected at this location")
    for key in ("$schema", "contentVersion", "resources"):
        if key not in template:
            raise invalid_template(f"Required property '{key}' not found in JSON")
    if "deploymentTemplate.json" not in str(template["$schema"]):
        raise invalid_template(f"The template schema '{template['$schema']}' is not supported")
    scope = _scope(template, parameters, functions)
    listed = template["resources"]
    sources = list(listed.values()) if isinstance(listed, dict) else list(listed)
    found: list[tuple[Wanted, list[str]]] = []
    for source, own_scope in _copies(sources, scope):
        one = _resource(source, own_scope, subscription, group)
        if one is not None:
            found.append(one)
    if len(found) > _MAX_RESOURCES:
        raise invalid_template(f"The template has {len(found)} resources, and the limit is {_MAX_RESOURCES}")
    return _ordered(_linked(found))


def _scope(template: Mapping[str, Any], given: Any, functions: Mapping[str, Callable[..., Any]]) -> Scope:
    declared = template.get("parameters") or {}
    if len(declared) > _MAX_PARAMETERS:
        raise invalid_template(f"The number of template parameters exceeds the limit of {_MAX_PARAMETERS}")
    given = given or {}
    extra = [name for name in given if name.lower() not in {one.lower() for one in declared}]
    if extra:
        raise invalid_template(
            f"The template parameters '{', '.join(extra)}' in the parameters file are not valid; they are not present "
            "in the original template and can therefore not be provided at deployment time"
        )
    values: dict[str, Any] = {}
    for name, told in declared.items():
        values[name] = _parameter(name, told, given, Scope({}, None, functions))
    variables: dict[str, Any] = {}
    told_variables = template.get("variables") or {}

    def variable(name: str) -> Any:
        key = next((one for one in told_variables if one.lower() == name.lower()), None)
        if key is None:
            raise ExpressionError(
                f"The template variable '{name}' is not found. Please see https://aka.ms/arm-syntax/#variables"
            )
        if key not in variables:
            variables[key] = evaluate_all(told_variables[key], Scope(values, variable, functions))
        return variables[key]

    return Scope(values, variable, functions)


def _parameter(name: str, told: Mapping[str, Any], given: Mapping[str, Any], scope: Scope) -> Any:
    kind = str(told.get("type", "")).lower()
    if kind not in _PARAMETER_TYPES:
        raise invalid_template(f"The template parameter '{name}' has the type '{told.get('type')}', which is not known")
    entry = next((value for key, value in given.items() if key.lower() == name.lower()), None)
    if isinstance(entry, Mapping) and "value" in entry:
        value = entry["value"]
    elif "defaultValue" in told:
        value = _evaluated(told["defaultValue"], scope, f"the default of parameter '{name}'")
    else:
        raise invalid_template(
            f"The value for the template parameter '{name}' is not provided. Please see "
            "https://aka.ms/arm-create-parameter-file for usage details"
        )
    expected = _PARAMETER_TYPES[kind]
    if not isinstance(value, expected) or (kind == "int" and isinstance(value, bool)):
        raise invalid_template(
            f"The provided value for the template parameter '{name}' is not of type '{told['type']}'"
        )
    if "allowedValues" in told and value not in told["allowedValues"]:
        raise invalid_template(
            f"The provided value for the template parameter '{name}' is not valid. The value '{value}' is not part of "
            f"the allowed value(s): '{','.join(str(one) for one in told['allowedValues'])}'"
        )
    measure = value if kind == "int" else len(value) if isinstance(value, (str, list)) else 0
    low, high = ("minValue", "maxValue") if kind == "int" else ("minLength", "maxLength")
    if (low in told and measure < told[low]) or (high in told and measure > told[high]):
        raise invalid_template(f"The provided value for the template parameter '{name}' is outside its limits")
    return value


def _copies(sources: list[Any], scope: Scope) -> list[tuple[Any, Scope]]:
    """Each resource with the scope it is evaluated in; one with `copy` comes `count` times."""
    found: list[tuple[Any, Scope]] = []
    for source in sources:
        if not isinstance(source, dict):
            raise invalid_template("A resource of the template is not a JSON object")
        copy = source.get("copy")
        if not isinstance(copy, dict):
            found.append((source, scope))
            continue
        count = _evaluated(copy.get("count", 0), scope, "copy.count")
        for index in range(int(count)):
            functions = {**scope.functions, "copyindex": _index_function(index)}
            found.append((source, Scope(scope.parameters, scope.variables, functions)))
    return found


def _index_function(index: int) -> Callable[..., int]:
    def copy_index(*arguments: Any) -> int:
        return index + sum(one for one in arguments if isinstance(one, int))

    return copy_index


def _resource(
    source: Mapping[str, Any], scope: Scope, subscription: str, group: str
) -> tuple[Wanted, list[str]] | None:
    for key in ("type", "apiVersion", "name"):
        if not source.get(key):
            raise invalid_template(f"Required property '{key}' not found in a resource of the template")
    name = str(_evaluated(source["name"], scope, f"resource '{source['name']}'"))
    where = f"resource '{name}'"
    if not _evaluated(source.get("condition", True), scope, where):
        return None
    kind, version = str(source["type"]), str(_evaluated(source["apiVersion"], scope, where))
    rid = _id_of(kind, name, subscription, group)
    check_version(rid.type, version, str(source.get("location", "")))
    unknown = False
    body: dict[str, Any] = {}
    for key, value in source.items():
        if key in _NOT_BODY:
            continue
        try:
            body[key] = evaluate_all(value, scope)
        except NotYetKnown:
            unknown, body[key] = True, value
        except ExpressionError as error:
            raise _language_error(where, error) from None
    needs = [str(_evaluated(one, scope, where)) for one in source.get("dependsOn") or []]
    return Wanted(rid, version, body, (), unknown), needs


def _id_of(kind: str, name: str, subscription: str, group: str) -> ResourceId:
    namespace, *types = kind.split("/")
    names = name.split("/")
    if namespace.lower() not in {one.lower() for one in NAMESPACES}:
        raise ArmError(
            400, "InvalidResourceNamespace", f"The resource namespace '{namespace}' is invalid.", target=kind
        )
    if len(types) != len(names):
        raise invalid_template(
            f"The template resource '{name}' for type '{kind}' has incorrect segment lengths. A nested resource type "
            "must have identical number of segments as its resource name. A root resource type must have segment "
            "length one greater than its resource name. Please see https://aka.ms/arm-syntax-resources for usage"
            " details"
        )
    return ids.make_id(subscription, group, namespace, tuple(types), tuple(names))


def check_version(type_name: str, version: str, location: str) -> None:
    """ArmError when the region's provider does not know the type in this API version."""
    known = TYPES.get(type_name.lower())
    if known is None:
        namespace, _, kind = type_name.partition("/")
        raise ArmError(
            400,
            "InvalidResourceType",
            f"The resource type '{kind}' could not be found in the namespace '{namespace}' for api version "
            f"'{version}'.",
        )
    if version not in known.versions:
        namespace, _, kind = known.name.partition("/")
        at = f"location '{location}' and " if location else ""
        raise ArmError(
            400,
            "NoRegisteredProviderFound",
            f"No registered resource provider found for {at}API version '{version}' for type '{kind}'. The supported "
            f"api-versions are '{', '.join(reversed(known.versions))}'.",
        )


def _linked(found: list[tuple[Wanted, list[str]]]) -> list[Wanted]:
    by_key = {one.rid.key: one.rid.key for one, _ in found}
    if len(by_key) < len(found):
        raise invalid_template("The template names one resource more than once")
    by_name: dict[str, list[str]] = {}
    for one, _ in found:
        by_name.setdefault(one.rid.name.lower(), []).append(one.rid.key)
    linked = []
    for one, needs in found:
        keys = []
        for need in needs:
            key = need.lower()
            same_name = by_name.get(key, [])
            if key in by_key:
                keys.append(key)
            elif len(same_name) == 1:
                keys.append(same_name[0])
            else:
                short = need.rpartition("/providers/")[2]
                raise invalid_template(
                    f"The resource '{short}' is not defined in the template. Please see "
                    "https://aka.ms/arm-syntax for usage details"
                )
        linked.append(Wanted(one.rid, one.api_version, one.body, tuple(keys), one.unknown))
    return linked


def _ordered(wanted: list[Wanted]) -> list[Wanted]:
    done: dict[str, Wanted] = {}
    left = list(wanted)
    while left:
        ready = [one for one in left if all(need in done for need in one.depends_on)]
        if not ready:
            names = ", ".join(one.rid.name for one in left)
            raise invalid_template(f"Circular dependency detected on resources: {names}")
        for one in ready:
            done[one.rid.key] = one
        left = [one for one in left if one.rid.key not in done]
    return list(done.values())


def _evaluated(value: Any, scope: Scope, where: str) -> Any:
    try:
        return evaluate_all(value, scope)
    except NotYetKnown:
        raise invalid_template(
            f"The template function 'reference' is not expected at this location ({where}). Please see "
            "https://aka.ms/arm-functions for usage details"
        ) from None
    except ExpressionError as error:
        raise _language_error(where, error) from None


def _language_error(where: str, error: ExpressionError) -> ArmError:
    return ArmError(400, "InvalidTemplate", f"Unable to process template language expressions for {where}: '{error}'")
