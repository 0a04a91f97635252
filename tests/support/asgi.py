"""Requests to an application, without a server."""

import asyncio
import json


def ask(app, method, path, body=None, headers=()):
    """Return status, headers and content of the response to a request."""
    scope = {"type": "http", "method": method, "path": path, "headers": list(headers), "query_string": b""}
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"" if body is None else json.dumps(body).encode(), "more_body": False}

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]
