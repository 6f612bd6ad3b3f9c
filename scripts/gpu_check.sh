#!/usr/bin/env bash
# Everything that needs a GPU, in one go and one table, in under eight minutes.
#
#   scripts/gpu_check.sh pack [--python 3.12]   here: prepare out/gpu_check (model in fp16, demo rows,
#                                               wheels of the small libraries that a bare image lacks)
#   scripts/gpu_check.sh                        on the GPU machine, in the same checkout
#   scripts/gpu_check.sh --rehearse             without a GPU: the same steps on the CPU, few rows
#
# It installs nothing into the machine's Python, and runs where cuDF, Dask or Prefect are missing:
# what can't be measured is marked so.
set -euo pipefail
cd "$(dirname "$0")/.."
pack=${GPU_CHECK_PACK:-out/gpu_check}
python=python3
[ -x .venv/bin/python ] && python=.venv/bin/python

if [ "${1:-}" = pack ]; then
  shift
  exec "$python" scripts/gpu_check_pack.py --out "$pack" "$@"
fi
if [ ! -d "$pack/model" ]; then
  echo "gpu_check: expected $pack/model; make it with: scripts/gpu_check.sh pack" >&2
  exit 2
fi
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
# Wheels that the interpreter has already, or that were packed for another one, are passed over.
for wheel in "$pack"/wheels/*.whl; do
  [ -e "$wheel" ] || continue
  name=$(basename "$wheel" | cut -d- -f1)
  "$python" -c "import importlib.metadata as m; m.version('$name')" 2>/dev/null ||
    "$python" -m pip install -q --no-index --no-deps --no-compile --target "$site" "$wheel" ||
    echo "gpu_check: $wheel does not fit $("$python" -V)" >&2
done
export HF_HUB_OFFLINE=1 PYTHONPATH="src:scripts:$site${PYTHONPATH:+:$PYTHONPATH}"
"$python" scripts/gpu_check.py --pack "$pack" "$@"
