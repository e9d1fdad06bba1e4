"""The OpenAPI description as a page that needs neither scripts nor the internet."""

from __future__ import annotations

from html import escape
from typing import Any

_STYLE = """
body { font: 16px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222 }
code, pre { background: #f4f4f2; border-radius: 3px; padding: .1em .3em }
pre { padding: .8em; overflow-x: auto; white-space: pre-wrap }
table { border-collapse: collapse; width: 100% }
td { vertical-align: top; padding: .3em .6em .3em 0 }
h2 { border-top: 1px solid #ccc; padding-top: .8em; margin-top: 1.5em }
"""

_EXAMPLES = {
    "/v1/steps/{step}/poses": "curl -F scene=@scene.ply -F n=8 ADDRESS/v1/steps/STEP/poses",
    "/v1/steps/{step}/ratings": "curl -F scene=@scene.ply -F 'poses=[[[1, 0, 0, 0.4], "
    "[0, -1, 0, 0], [0, 0, -1, 0.3], [0, 0, 0, 1]]]' ADDRESS/v1/steps/STEP/ratings",
    "/v1/steps/{step}/tracks": "curl -X POST ADDRESS/v1/steps/STEP/tracks",
    "/v1/tracks/{track}/frames": "curl -F scene=@scene.ply ADDRESS/v1/tracks/TRACK/frames",
    "/v1/tracks/{track}": "curl -X DELETE ADDRESS/v1/tracks/TRACK",
    "/v1/health": "curl ADDRESS/v1/health",
    "/v1/tasks": "curl ADDRESS/v1/tasks",
}


def page_of(openapi: dict[str, Any], steps: list[str]) -> str:
    """The page.

    Args:
        openapi: The description.
        steps: Names of the steps, for the examples.
    """
    info = openapi["info"]
    parts = [
        f"<!doctype html><meta charset=utf-8><title>{escape(info['title'])}</title>",
        f"<style>{_STYLE}</style><h1>{escape(info['title'])} {escape(info['version'])}</h1>",
        f"<p>{escape(info['description'])} Steps: {', '.join(map(_code, steps))}.",
        "The same for programs: <a href=/openapi.json>/openapi.json</a>. If the service has a "
        "token, send it as <code>Authorization: Bearer TOKEN</code>.</p>",
    ]
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            parts.append(_operation(openapi, path, method, operation, steps[0]))
    return "\n".join(parts)


def _operation(
    openapi: dict[str, Any], path: str, method: str, operation: dict[str, Any], step: str
) -> str:
    example = _EXAMPLES.get(path, "").replace("STEP", step.replace(" ", "%20"))
    about = escape(operation.get("description", ""))
    parts = [
        f"<h2>{method.upper()} {escape(path)}</h2><p>{about}</p>",
        f"<pre>{escape(example)}</pre>",
    ]
    for kind, schema in _bodies(openapi, operation):
        parts.append(f"<p>Body: {escape(kind)}</p>{_fields(schema)}")
    rows = []
    for status, answer in sorted(operation["responses"].items()):
        rows.append(f"<tr><td>{status}</td><td>{escape(answer.get('description', ''))}</td></tr>")
        for content in answer.get("content", {}).values():
            if status.startswith("2"):
                schema = _resolved(openapi, content.get("schema", {}))
                rows.append(f"<tr><td></td><td>{_fields(schema)}</td></tr>")
    return "\n".join([*parts, f"<table>{''.join(rows)}</table>"])


def _bodies(openapi: dict[str, Any], operation: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    content = operation.get("requestBody", {}).get("content", {})
    return [(kind, _resolved(openapi, one["schema"])) for kind, one in content.items()]


def _resolved(openapi: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The schema itself, of an array its items', of a reference what it refers to."""
    if schema.get("type") == "array":
        return _resolved(openapi, schema.get("items", {}))
    for one in schema.get("allOf", [])[:1]:
        return _resolved(openapi, one)
    name = schema.get("$ref", "").rsplit("/", 1)[-1]
    return dict(openapi["components"]["schemas"][name]) if name else schema


def _fields(schema: dict[str, Any]) -> str:
    rows = []
    for name, one in schema.get("properties", {}).items():
        inner = _fields(one.get("items", {})) if one.get("type") == "array" else ""
        about = f"{escape(one.get('description', ''))}{inner}"
        rows.append(f"<tr><td>{_code(name)}</td><td>{about}</td></tr>")
    return f"<table>{''.join(rows)}</table>" if rows else ""


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"
