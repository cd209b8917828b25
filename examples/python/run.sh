#!/usr/bin/env bash
# Exports the kernels for Python and judges them: run.sh FOLDER, for the environment and the package. Exits with 3 if the
# packages of Python can't be had.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$1
mkdir -p "$folder"
if [ ! -e "$folder/venv/ready" ]; then
  python3 -m venv "$folder/venv"
  "$folder/venv/bin/pip" install --quiet torch==2.12.0 numpy transformers==5.22.2 kernels==0.17.2 apache-tvm-ffi || exit 3
  touch "$folder/venv/ready"
fi
cargo build --locked --release -p kernels-export
rm -rf "$folder/out"
cargo run --locked --release -p kernels-cli -- export --out "$folder/out" \
  --library "${CARGO_TARGET_DIR:-target}/release/libkernels_export.so"
compiler=()
command -v c++ >/dev/null || compiler=(--without-compiler)
"$folder/venv/bin/python" examples/python/judge.py "$folder/out" "${compiler[@]}"
# The wheel, in an environment that has torch alone of what the package needs.
"$folder/venv/bin/pip" install --quiet --no-deps --force-reinstall "$folder"/out/dist/*.whl
"$folder/venv/bin/python" -c 'import burn_kernels, torch; print(burn_kernels.rms_norm(torch.ones(2, 4), torch.ones(4)))'
