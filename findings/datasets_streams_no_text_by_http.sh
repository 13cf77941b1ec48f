#!/usr/bin/env bash
# datasets 5.2.0: load_dataset("text", streaming=True) finds no file at an http address where "json" reads the same one.
#
# Expected: in streaming mode both readers open the address in the same way.
# Observed: the text reader opens the file with an encoding. fsspec 2026.9.0 passes that on as an argument of the HTTP
# request, which aiohttp refuses with a TypeError. fsspec reports it as FileNotFoundError, though the server has
# answered. The JSON reader opens bytes, and works. So does the text reader without streaming: it downloads the file.
# What to do: read the file with "json" or "parquet", or leave streaming out.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
    datasets==5.2.0 fsspec==2026.9.0 aiohttp==3.14.5
mkdir "$folder/served"
printf '{"a": 1}\n{"a": 2}\n' > "$folder/served/rows.jsonl"
cat > "$folder/check.py" <<'PYTHON'
import functools
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import datasets


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


folder = sys.argv[1]
server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=f"{folder}/served"))
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/rows.jsonl"
datasets.disable_progress_bars()


def rows(kind, streaming):
    try:
        found = datasets.load_dataset(
            kind, data_files=address, split="train", streaming=streaming, cache_dir=f"{folder}/{kind}"
        )
        return len(list(found))
    except Exception as error:
        return type(error).__name__


found = {(kind, streaming): rows(kind, streaming) for kind in ("json", "text") for streaming in (True, False)}
print("datasets 5.2.0: rows read from an http address (expected: 2 each time)")
for (kind, streaming), outcome in found.items():
    print(f"{kind}, streaming={streaming}: {outcome}")
raise SystemExit(list(found.values()) != [2, 2, "FileNotFoundError", 2])
PYTHON
HF_HOME="$folder/hf" "$folder/venv/bin/python" -W ignore "$folder/check.py" "$folder"
