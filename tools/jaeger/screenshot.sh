#!/usr/bin/env bash
# Takes a screenshot of one trace in the Jaeger UI.
#
#   screenshot.sh OUTPUT.png [COMMAND ...]
#
# COMMAND sends traces over OTLP to OTEL_EXPORTER_OTLP_ENDPOINT. The default is the example `jaeger` of this repository.
# The screenshot in the README is made with
#
#   OPEN=trim HEIGHT=1260 tools/jaeger/screenshot.sh docs/jaeger.png
#
# Environment variables, with their defaults in parentheses:
#
#   TRACE_SPAN     name of a span: of all traces with such a span, the one with the most spans is shown (summarize)
#   OPEN           name of a span: the first such span is shown with its details and tags (none)
#   WIDTH, HEIGHT  size of the window, in CSS pixels (1400, 800)
#   SCALE          image pixels per CSS pixel (1)
#   OTEL_EXPORTER_OTLP_PROTOCOL  grpc or http/protobuf (grpc)
set -euo pipefail

fail() {
    echo "screenshot.sh: $*" >&2
    exit 1
}

[ $# -ge 1 ] || fail "usage: screenshot.sh OUTPUT.png [COMMAND ...]"
output=$1
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
span=${TRACE_SPAN:-summarize}

missing=()
for program in cargo protoc curl jq; do
    command -v "$program" >/dev/null || missing+=("$program")
done
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || missing+=(chromium)
[ ${#missing[@]} -eq 0 ] || fail "missing: ${missing[*]} (Debian: protobuf-compiler curl jq chromium)"

work=$(mktemp -d)
started=()
cleanup() {
    for process in "${started[@]}"; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    # Chromium's child processes may still be writing to the profile.
    rm -rf "$work" 2>/dev/null || { sleep 1 && rm -rf "$work"; }
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Cargo prints the path of the program, because the target directory may be anywhere.
program=$(cargo build --locked --manifest-path "$here/Cargo.toml" --message-format=json-render-diagnostics |
    jq -r 'select(.reason == "compiler-artifact") | .executable // empty')
"$program" --ui 0 --grpc 0 --http 0 >"$work/jaeger" &
jaeger=$!
started+=("$jaeger")

# address_of NAME: prints the address on NAME's line of the tool's output.
address_of() {
    sed -n "s|^$1 *||p" "$work/jaeger"
}
for _ in {1..100}; do
    [ -n "$(address_of OTLP/HTTP)" ] && break
    kill -0 "$jaeger" 2>/dev/null || fail "the tool did not start"
    sleep 0.1
done
ui=$(address_of "Jaeger UI")
[ -n "$ui" ] || fail "the tool did not print its address"

export OTEL_EXPORTER_OTLP_PROTOCOL=${OTEL_EXPORTER_OTLP_PROTOCOL:-grpc}
case $OTEL_EXPORTER_OTLP_PROTOCOL in
grpc) OTEL_EXPORTER_OTLP_ENDPOINT=$(address_of OTLP/gRPC) ;;
http/protobuf) OTEL_EXPORTER_OTLP_ENDPOINT=$(address_of OTLP/HTTP) ;;
*) fail "OTEL_EXPORTER_OTLP_PROTOCOL must be grpc or http/protobuf" ;;
esac
export OTEL_EXPORTER_OTLP_ENDPOINT
# The tool accepts only traces.
export OTEL_METRICS_EXPORTER=none
if [ $# -gt 0 ]; then
    "$@" || fail "the command failed: $*"
else
    (cd "$here/../.." && cargo run -p examples --bin jaeger) || fail "the example failed"
fi

trace=
for _ in {1..50}; do
    curl -fsS "$ui/api/traces?limit=1000" >"$work/traces"
    trace=$(jq -r --arg span "$span" '
        [.data[] | select(any(.spans[]; .operationName == $span))] | max_by(.spans | length) | .traceID // empty
    ' "$work/traces")
    [ -n "$trace" ] && break
    sleep 0.1
done
if [ -z "$trace" ]; then
    seen=$(jq -r '[.data[].spans[].operationName] | unique | join(", ")' "$work/traces")
    fail "no complete trace has a span named $span (TRACE_SPAN); spans seen: ${seen:-none}"
fi

# Chromium is controlled with the DevTools protocol over a pair of pipes. Requests and answers are JSON, each followed
# by a NUL. The sandbox is off, because it does not start in most containers; the only page that is opened is the
# tool's.
mkfifo "$work/requests" "$work/answers"
"$chromium" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
    --disable-component-update --disable-sync --hide-scrollbars --user-data-dir="$work/profile" \
    --remote-debugging-pipe 3<"$work/requests" 4>"$work/answers" >"$work/chromium" 2>&1 &
started+=($!)
# If Chromium dies, the missing answer is reported as an error.
trap '' PIPE
exec {requests}>"$work/requests" {answers}<"$work/answers"
session=

# devtools METHOD PARAMETERS: calls the method and prints its result as JSON.
devtools() {
    jq -cjn --arg method "$1" --argjson params "$2" --arg session "$session" \
        '{id: 1, $method, $params} + if $session == "" then {} else {sessionId: $session} end, "\u0000"' \
        1>&"$requests" 2>/dev/null || true
    local answer
    while IFS= read -r -d '' -t 30 -u "$answers" answer; do
        # Events have no id.
        if jq -e '.id == 1' <<<"$answer" >/dev/null; then
            jq -ce '.result // empty' <<<"$answer" || fail "chromium rejected $1: $answer"
            return
        fi
    done
    cat "$work/chromium" >&2
    fail "chromium did not answer $1"
}

target=$(devtools Target.createTarget '{"url": "about:blank"}')
attached=$(devtools Target.attachToTarget "$(jq -c '{targetId, flatten: true}' <<<"$target")")
session=$(jq -r .sessionId <<<"$attached")
devtools Emulation.setDeviceMetricsOverride "$(jq -cn \
    --argjson width "${WIDTH:-1400}" --argjson height "${HEIGHT:-800}" --argjson scale "${SCALE:-1}" \
    '{$width, $height, deviceScaleFactor: $scale, mobile: false}')" >/dev/null
devtools Page.navigate "$(jq -cn --arg url "$ui/trace/$trace" '{$url}')" >/dev/null

# Waits for the page, opens the span, and returns "done" or an error.
script=$(
    jq -rn --arg open "${OPEN:-}" '"const open = \($open | tojson);"'
    cat <<'END'
(async () => {
    const find = async (selector, text) => {
        for (let tries = 0; tries < 200; tries++) {
            const found = [...document.querySelectorAll(selector)].find(e => !text || e.textContent === text);
            if (found) return found;
            await new Promise(resolve => setTimeout(resolve, 50));
        }
        throw `not found on the page: ${selector} ${text ?? ""}`;
    };
    await find(".endpoint-name");
    if (open) {
        // A screenshot cannot be scrolled, so all tags must be visible.
        const style = document.createElement("style");
        style.textContent = ".KeyValueTable { max-height: none !important; }";
        document.head.append(style);
        (await find(".endpoint-name", open)).click();
        (await find(".AccordianKeyValues--header")).click();
    }
    // There is no event for the end of the transitions.
    await new Promise(resolve => setTimeout(resolve, 500));
    return "done";
})().catch(String)
END
)
loaded=$(devtools Runtime.evaluate \
    "$(jq -cn --arg expression "$script" '{$expression, awaitPromise: true}')" | jq -r .result.value)
[ "$loaded" = "done" ] || fail "$loaded"
devtools Page.captureScreenshot '{"format": "png"}' | jq -r .data | base64 -d >"$work/picture.png"
session=
devtools Browser.close '{}' >/dev/null
mv "$work/picture.png" "$output"
echo "$output: trace $trace"
