#!/usr/bin/env bash
# lightning 2.6.6: `import lightning.pytorch` imports transformers' model classes where transformers is installed.
#
# Expected: a program that trains a plain torch module with Lightning does not import a language model library that it
# never names; at most Lightning would look whether the package is there.
# Observed: Lightning compares the version of torchmetrics, and imports it for that. torchmetrics 1.9.0 imports all of
# its metrics, and its BERTScore takes AutoModel from transformers as it is imported. So transformers' automatic model
# and generation modules come with Lightning, 500 modules more than without transformers.
# What to do: nothing in a program that uses transformers anyway. Leave transformers out of environments that do not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
    torch==2.13.0 lightning==2.6.6 torchmetrics==1.9.0 transformers==5.19.0
cat > "$folder/check.py" <<'PYTHON'
import sys

import lightning.pytorch

print(len(sys.modules), "transformers.models.auto.modeling_auto" in sys.modules, sys.argv[1])
PYTHON
with=$("$folder/venv/bin/python" -W ignore "$folder/check.py" installed)
"$folder/venv/bin/python" -m pip uninstall --quiet --yes transformers
without=$("$folder/venv/bin/python" -W ignore "$folder/check.py" "not installed")
echo "lightning 2.6.6, torchmetrics 1.9.0, transformers 5.19.0: modules imported, transformers' models among them"
printf '%s\n' "$with" "$without"
[[ "$with" == *True* && "$without" == *False* ]]
