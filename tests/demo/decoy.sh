#!/bin/sh
# A learning rate that fails in bf16 too is not blamed on the arithmetic.
# shellcheck source=tests/cli/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"

try decoy 0 "${PLUMB:?}" demo decoy --study "$place/study"
shows decoy 'Not the FP8 arithmetic: the bf16 twin fails too'
shows decoy 'VERDICT      not numerics'
finish
