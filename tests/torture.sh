#!/usr/bin/env bash
# Runs large reliability tests: every store with many exchanges, killed processes, restarted servers and cut
# connections. Half of the conversations are chat completions, the others are in the signing dialect. Besides, the
# processes list, label, expire, delete and erase conversations of people. Writes a report of each run to a file. Fails
# if an exchange was lost, duplicated, damaged or stored in the wrong place, if a prompt was refused, if an erased
# conversation returned, if another one was touched, or if a listing or a receipt is wrong.
#
#   tests/torture.sh                         all stores, 100,000 exchanges and 200 kills each
#   tests/torture.sh postgres redis          these stores
#
# These environment variables set the sizes: EXCHANGES, KILLS, RESTARTS (in a cluster, each restarts one node in turn),
# PROCESSES, LANES and CONVERSATIONS. With ENCRYPTED=1, everything is encrypted, and keys are replaced all the time.
# SEED sets the seed (default: taken from the clock) and REPORT the file. The stores for PostgreSQL and Redis need these
# servers installed.
set -euo pipefail
cd "$(dirname "$0")/.."

stores=("$@")
[ ${#stores[@]} -gt 0 ] || stores=(sqlite postgres redis redis-cluster)
options=(
  --exchanges "${EXCHANGES:-100000}" --kills "${KILLS:-200}" --restarts "${RESTARTS:-20}"
  --processes "${PROCESSES:-4}" --lanes "${LANES:-8}" --conversations "${CONVERSATIONS:-300}"
)
[ -z "${SEED:-}" ] || options+=(--seed "$SEED")
[ "${ENCRYPTED:-}" != 1 ] || options+=(--encrypted)
target=${CARGO_TARGET_DIR:-target}
report=${REPORT:-$target/torture-report.txt}

cargo build --release -p tests --bin torture
torture=$target/release/torture
echo "torture ${options[*]}" >"$report"
failed=()
for store in "${stores[@]}"; do
  printf '\n== %s\n' "$store" | tee -a "$report"
  # The servers end when the program ends, even if it is killed.
  "$torture" --store "$store" "${options[@]}" | tee -a "$report" || failed+=("$store")
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "runs with violations: ${failed[*]} (see $report)" | tee -a "$report" >&2
  exit 1
fi
printf '\nno violations; the report is %s\n' "$report"
