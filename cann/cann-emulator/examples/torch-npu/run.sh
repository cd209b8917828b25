#!/usr/bin/env bash
# Runs torch_npu, as it comes from the Python index, on the emulator, and compares it with torch on the CPU.
#
#   run.sh [FOLDER]    the folder keeps the virtual environment, 6 GB or less; ~/.cache/burn-kernels/torch-npu by default
#
# TORCH_NPU=VERSION chooses the release of torch_npu and of torch, 2.12.0 by default. With KERNELS=PROGRAM, an absolute
# path, `kernels run` computes a batch too. Ends with 3 if the packages can't be installed: nothing was checked then.
set -euo pipefail
cd "$(dirname "$0")"
folder=${1:-$HOME/.cache/burn-kernels/torch-npu}
python=${PYTHON:-python3}
version=${TORCH_NPU:-2.12.0}
venv="$folder/venv-$version"

# Without the libraries of CANN, torch_npu can't be imported.
installed() {
  TORCH_DEVICE_BACKEND_AUTOLOAD=0 "$venv/bin/python" -c \
    'import torch, transformers, importlib.metadata; importlib.metadata.version("torch_npu")' >/dev/null 2>&1
}

# torch without CUDA is on an index of its own. The usual one has torch with CUDA's libraries, which works as well.
packages() {
  local pip=("$venv/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check)
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
  if ! "$python" -m venv "$venv" || ! packages || ! installed; then
    echo "torch $version, torch_npu $version or transformers can't be installed"
    exit 3
  fi
fi

cargo run --quiet --locked -p cann-emulator --bin cann-emulator-install -- "$folder/cann"
export LD_LIBRARY_PATH="$folder/cann" HF_HUB_OFFLINE=1 PYTHONDONTWRITEBYTECODE=1
"$venv/bin/python" operators.py
# The same in memory that torch_npu maps piece by piece to addresses that it reserved.
PYTORCH_NPU_ALLOC_CONF=expandable_segments:True "$venv/bin/python" operators.py
"$venv/bin/python" layers.py
"$venv/bin/python" train.py
"$venv/bin/python" ddp.py
if [ -n "${KERNELS:-}" ]; then
  "$venv/bin/python" three.py "$KERNELS"
else
  echo 'NOT CHECKED: kernels run beside torch_npu; KERNELS names the program, built with the feature npu'
fi
