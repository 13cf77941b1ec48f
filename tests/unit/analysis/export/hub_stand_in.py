"""A Hugging Face hub on loopback: who am I, a model made, files uploaded, small ones in the commit, others by LFS."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "hf_of_the_test"
LARGE = (".safetensors", ".png")
"""What the hub keeps in its large-file storage, by its ``.gitattributes``."""


class HubStandIn:
    """Answers the part of the hub's API that an upload needs; a wrong token or a broken checksum is refused.

    ``models`` holds the files of each model by name, ``visibility`` who may see it, ``messages`` the commits.
    """

    def __init__(self):
        self.models: dict[str, dict[str, bytes]] = {}
        self.visibility: dict[str, str] = {}
        self.messages: list[str] = []
        self.objects: dict[str, bytes] = {}
        self.refuses_commits = False
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                is_known = self.headers.get("Authorization") == f"Bearer {TOKEN}" or self.command == "PUT"
                status, reply = hub.reply(self.command, self.path, body) if is_known else (401, {"error": "who?"})
                content = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = answer

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def reply(self, method, path, body):
        path = path.partition("?")[0]
        if path == "/api/whoami-v2":
            return 200, {"name": "tester", "type": "user", "orgs": []}
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            if name in self.models:
                return 409, {"error": "exists", "url": f"{self.address}/{name}"}
            self.models[name], self.visibility[name] = {}, asked["visibility"]
            return 200, {"url": f"{self.address}/{name}", "name": name}
        if "/preupload/" in path:
            return 200, {"files": [self._mode(file["path"]) for file in json.loads(body)["files"]]}
        if path.endswith("/info/lfs/objects/batch"):
            return 200, {"transfer": "basic", "objects": [self._upload(each) for each in json.loads(body)["objects"]]}
        if method == "PUT" and path.startswith("/objects/"):
            oid = path.rpartition("/")[2]
            if hashlib.sha256(body).hexdigest() != oid:
                return 400, {"error": "broken on the way"}
            self.objects[oid] = body
            return 200, {}
        if "/commit/" in path:
            return self._commit(path.split("/api/models/")[1].split("/commit/")[0], body)
        return 404, {"error": f"{method} {path}"}

    def _mode(self, path):
        return {"path": path, "uploadMode": "lfs" if path.endswith(LARGE) else "regular", "shouldIgnore": False}

    def _upload(self, each):
        return each | {"actions": {"upload": {"href": f"{self.address}/objects/{each['oid']}"}}}

    def _commit(self, name, body):
        if self.refuses_commits or name not in self.models:
            return 403, {"error": "not here"}
        for line in body.decode().splitlines():
            record = json.loads(line)
            value = record["value"]
            if record["key"] == "header":
                self.messages.append(value["summary"])
            elif record["key"] == "file":
                self.models[name][value["path"]] = base64.b64decode(value["content"])
            elif record["key"] == "lfsFile":
                self.models[name][value["path"]] = self.objects[value["oid"]]
        oid = "0" * 40
        return 200, {"success": True, "commitUrl": f"{self.address}/{name}/commit/{oid}", "commitOid": oid}
