#!/usr/bin/env bash
# Random tests for a given time: all scenarios over new seeds. It prints what they did, and each violation with its scenario and
# seed, and fails if there is one.
#
#   tests/random.sh                                    an hour
#   tests/random.sh 600 --scenario engine,cancel       ten minutes of two scenarios
#   tests/random.sh 1 --scenario engine --seed 7       one case again
#
# The program's other options are listed by --help. PostgreSQL and Redis are tested where they are installed.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-3600}
[ $# -eq 0 ] || shift
cargo build --release -p tests --bin random
"${CARGO_TARGET_DIR:-target}/release/random" --seconds "$seconds" --jobs "$(nproc)" "$@"
