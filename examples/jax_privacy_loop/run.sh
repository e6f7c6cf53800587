#!/bin/sh
# Audits a jax-privacy loop in an environment of its own (.venv beside this file), which is made the first time.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
if [ ! -e "$here/.venv/.installed" ]; then
  "${PYTHON:-python3.11}" -m venv "$here/.venv"
  "$here/.venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    'jax-privacy>=2' jax jaxlib numpy -e "$here/../..[accounting]"
  touch "$here/.venv/.installed"
fi
exec "$here/.venv/bin/python" "$here/audit.py"
