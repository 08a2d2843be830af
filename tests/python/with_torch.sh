#!/bin/sh
# Runs a Python script with an interpreter that has PyTorch; skipped where there is none.
#
#   with_torch.sh SCRIPT ARG...
set -eu
for python in python3 /usr/bin/python3; do
    if "$python" -c 'import torch' 2>/dev/null; then
        exec "$python" "$@"
    fi
done
echo "skipped: no python3 here has PyTorch (apt install python3-torch)"
exit 77
