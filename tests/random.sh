#!/usr/bin/env bash
# Runs the random tests for a given time: all scenarios with new seeds. Prints what they did, and each violation with
# its scenario and seed. Fails if there is a violation.
#
#   tests/random.sh                                    one hour
#   tests/random.sh 600 --scenario engine,cancel       ten minutes of two scenarios
#   tests/random.sh 1 --scenario engine --seed 7       repeats one case
#
# The option --help lists the other options of the program. PostgreSQL and Redis are tested if they are installed.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-3600}
[ $# -eq 0 ] || shift
cargo build --release -p tests --bin random
"${CARGO_TARGET_DIR:-target}/release/random" --seconds "$seconds" --jobs "$(nproc)" "$@"
