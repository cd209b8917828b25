#!/usr/bin/env bash
# Runs torch_npu, as it comes from the Python index, on the emulator, and compares it with torch on the CPU.
#
#   run.sh [FOLDER]    the folder keeps the virtual environment, 6 GB or less; ~/.cache/burn-kernels/torch-npu by default
#
# With KERNELS=PROGRAM, an absolute path, `kernels run` computes a batch too. Ends with 3 if the packages can't be
# installed: nothing was checked then.
set -euo pipefail
cd "$(dirname "$0")"
folder=${1:-$HOME/.cache/burn-kernels/torch-npu}
python=${PYTHON:-python3}
version=2.7.1

installed() { "$folder/venv/bin/python" -c 'import torch, torch_npu.version, transformers' >/dev/null 2>&1; }

# torch without CUDA is on an index of its own. The usual one has torch with CUDA's libraries, which works as well.
packages() {
  local pip=("$folder/venv/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check)
  "${pip[@]}" --timeout 20 --retries 1 "torch==$version" --index-url https://download.pytorch.org/whl/cpu ||
    "${pip[@]}" "torch==$version" || return
  "${pip[@]}" numpy pyyaml decorator attrs psutil scipy transformers==4.57.1 &&
    "${pip[@]}" --no-deps "torch_npu==$version"
}

if [ "$(uname -sm)" != 'Linux x86_64' ]; then
  echo 'torch_npu is checked on Linux x86_64'
  exit 3
fi
if ! installed; then
  mkdir -p "$folder"
  if ! "$python" -m venv "$folder/venv" || ! packages || ! installed; then
    echo "torch $version, torch_npu $version or transformers can't be installed"
    exit 3
  fi
fi

cargo run --quiet --locked -p cann-emulator --bin cann-emulator-install -- "$folder/cann"
export LD_LIBRARY_PATH="$folder/cann" HF_HUB_OFFLINE=1 PYTHONDONTWRITEBYTECODE=1
"$folder/venv/bin/python" operators.py
"$folder/venv/bin/python" layers.py
"$folder/venv/bin/python" train.py
"$folder/venv/bin/python" ddp.py
if [ -n "${KERNELS:-}" ]; then
  "$folder/venv/bin/python" three.py "$KERNELS"
else
  echo 'NOT CHECKED: kernels run beside torch_npu; KERNELS names the program, built with the feature npu'
fi
