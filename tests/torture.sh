#!/usr/bin/env bash
# Reliability under fire, large: every store with many exchanges, killed processes, restarted servers and cut connections.
# Writes what each run came to into a file, and fails if anything was lost, doubled, torn or mixed up.
#
#   tests/torture.sh                         all stores, 100,000 exchanges and 200 kills each
#   tests/torture.sh postgres redis          these stores
#
# The environment has the sizes: EXCHANGES, KILLS, RESTARTS (of a cluster: one node each, by turns), PROCESSES, LANES,
# CONVERSATIONS, SEED (by the clock), and REPORT, the file. PostgreSQL and Redis must be installed for their stores; SQLite
# needs nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

stores=("$@")
[ ${#stores[@]} -gt 0 ] || stores=(sqlite postgres redis redis-cluster)
options=(
  --exchanges "${EXCHANGES:-100000}" --kills "${KILLS:-200}" --restarts "${RESTARTS:-20}"
  --processes "${PROCESSES:-4}" --lanes "${LANES:-8}" --conversations "${CONVERSATIONS:-300}"
)
[ -z "${SEED:-}" ] || options+=(--seed "$SEED")
target=${CARGO_TARGET_DIR:-target}
report=${REPORT:-$target/torture-report.txt}

cargo build --release -p tests --bin torture
torture=$target/release/torture
echo "torture ${options[*]}" >"$report"
failed=()
for store in "${stores[@]}"; do
  printf '\n== %s\n' "$store" | tee -a "$report"
  # The servers end with the program, however it ends.
  "$torture" --store "$store" "${options[@]}" | tee -a "$report" || failed+=("$store")
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "not as it must be: ${failed[*]} (see $report)" | tee -a "$report" >&2
  exit 1
fi
printf '\nall was well; the report is %s\n' "$report"
