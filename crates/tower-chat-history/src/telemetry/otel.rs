//! Metrics, and the trace context that is passed to the model's provider.

use std::time::Duration;

use opentelemetry::{
    Context, KeyValue, global,
    metrics::{Counter, Histogram, Meter, UpDownCounter},
    propagation::Injector,
    trace::TraceContextExt as _,
};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::{
    Telemetry,
    names::{attributes, metrics},
};
use crate::{
    error::SaveError,
    report::{Fallback, RecallReport, TurnReport},
    summary::SummaryReport,
};

/// The histogram boundaries of OpenTelemetry's conventions for durations, in seconds.
const SECONDS: [f64; 14] = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// The histogram boundaries of OpenTelemetry's conventions for numbers of tokens.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// The histogram boundaries for numbers of conversations.
const CONVERSATIONS: [f64; 7] = [0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0];

/// The histogram boundaries for ratios.
const RATIOS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95];

/// The histogram boundaries for relative errors, which may be negative.
const ERRORS: [f64; 11] = [-0.5, -0.2, -0.1, -0.05, -0.02, 0.0, 0.02, 0.05, 0.1, 0.2, 0.5];

/// The metrics. Their labels have few values: no ids and no texts.
#[derive(Clone)]
pub(crate) struct Metrics {
    turns: Counter<u64>,
    tokens_before: Histogram<u64>,
    tokens_after: Histogram<u64>,
    tokens_evicted: Counter<u64>,
    messages_evicted: Counter<u64>,
    compactions: Counter<u64>,
    recall_duration: Histogram<f64>,
    recall_conversations: Histogram<u64>,
    tokens_recalled: Histogram<u64>,
    summaries: Counter<u64>,
    summary_calls: Counter<u64>,
    load_duration: Histogram<f64>,
    save_duration: Histogram<f64>,
    save_conflicts: Counter<u64>,
    saves_pending: UpDownCounter<i64>,
    estimate_error: Histogram<f64>,
    cached_prefix_ratio: Histogram<f64>,
}

impl Metrics {
    pub(super) fn new(telemetry: &Telemetry) -> Self {
        let meter = match &telemetry.meter {
            Some(meter) => meter.clone(),
            None => global::meter(env!("CARGO_PKG_NAME")),
        };
        let meter = &meter;
        Self {
            turns: counter(meter, metrics::TURNS, "{turn}"),
            tokens_before: tokens(meter, metrics::TOKENS_BEFORE),
            tokens_after: tokens(meter, metrics::TOKENS_AFTER),
            tokens_evicted: counter(meter, metrics::TOKENS_EVICTED, "{token}"),
            messages_evicted: counter(meter, metrics::MESSAGES_EVICTED, "{message}"),
            compactions: counter(meter, metrics::COMPACTIONS, "{compaction}"),
            recall_duration: numbers(meter, metrics::RECALL_DURATION, "s", &SECONDS),
            recall_conversations: meter
                .u64_histogram(metrics::RECALL_CONVERSATIONS)
                .with_unit("{conversation}")
                .with_boundaries(CONVERSATIONS.to_vec())
                .build(),
            tokens_recalled: tokens(meter, metrics::TOKENS_RECALLED),
            summaries: counter(meter, metrics::SUMMARIES, "{summary}"),
            summary_calls: counter(meter, metrics::SUMMARY_CALLS, "{call}"),
            load_duration: numbers(meter, metrics::LOAD_DURATION, "s", &SECONDS),
            save_duration: numbers(meter, metrics::SAVE_DURATION, "s", &SECONDS),
            save_conflicts: counter(meter, metrics::SAVE_CONFLICTS, "{conflict}"),
            saves_pending: meter.i64_up_down_counter(metrics::SAVES_PENDING).with_unit("{save}").build(),
            estimate_error: numbers(meter, metrics::ESTIMATE_ERROR, "1", &ERRORS),
            cached_prefix_ratio: numbers(meter, metrics::CACHED_PREFIX_RATIO, "1", &RATIOS),
        }
    }

    /// Counts a turn that ended, or that did not begin.
    pub(super) fn turn(&self, outcome: &'static str, failed: Option<&'static str>, fallback: Option<&'static str>) {
        let mut labels = vec![KeyValue::new(attributes::OUTCOME, outcome)];
        labels.extend(failed.map(|kind| KeyValue::new(attributes::ERROR_TYPE, kind)));
        labels.extend(fallback.map(|fallback| KeyValue::new(attributes::FALLBACK, fallback)));
        self.turns.add(1, &labels);
    }

    pub(super) fn ended(&self, report: &TurnReport) {
        let failed = report.save_error().map(SaveError::kind);
        self.turn(report.outcome.kind(), failed, report.fallback().map(Fallback::kind));

        let Some(tokens) = &report.tokens else { return };
        self.tokens_before.record(tokens.before(), &[]);
        self.tokens_after.record(tokens.prompt.total(), &[]);
        if let Some(reason) = tokens.trimming.reason {
            let reason = [KeyValue::new(attributes::TRIM_REASON, reason.kind())];
            self.tokens_evicted.add(tokens.evicted_tokens, &reason);
            self.messages_evicted.add(tokens.evicted_messages as u64, &reason);
            self.compactions.add(u64::from(tokens.compacted), &reason);
        }

        if let Some(error) = tokens.estimate_error() {
            self.estimate_error.record(error, &[]);
        }
        if let Some(ratio) = tokens.cached_prefix_ratio() {
            self.cached_prefix_ratio.record(ratio, &[]);
        }
    }

    pub(super) fn loaded(&self, store: &'static str, failed: Option<&'static str>, took: Duration) {
        self.load_duration.record(took.as_secs_f64(), &labels(store, failed));
    }

    pub(super) fn saved(
        &self,
        store: &'static str,
        failed: Option<&'static str>,
        conflict: Option<&'static str>,
        took: Duration,
    ) {
        self.save_duration.record(took.as_secs_f64(), &labels(store, failed));
        if let Some(conflict) = conflict {
            self.save_conflicts.add(1, &[KeyValue::new(attributes::SAVE_CONFLICT, conflict)]);
        }
    }

    pub(super) fn recalled(&self, report: &RecallReport) {
        let mut labels = vec![KeyValue::new(attributes::RECALL_OUTCOME, report.outcome.kind())];
        labels.extend(report.outcome.error_kind().map(|kind| KeyValue::new(attributes::ERROR_TYPE, kind)));
        self.recall_duration.record(report.took.as_secs_f64(), &labels);
        self.recall_conversations.record(report.conversations.into(), &[]);
        if report.messages > 0 {
            self.tokens_recalled.record(report.tokens, &[]);
        }
    }

    pub(super) fn summarized(&self, report: &SummaryReport) {
        let mut labels = vec![KeyValue::new(attributes::SUMMARY_OUTCOME, report.outcome.kind())];
        labels.extend(report.outcome.error_kind().map(|kind| KeyValue::new(attributes::ERROR_TYPE, kind)));
        self.summaries.add(1, &labels);
        self.summary_calls.add(report.cost.calls.into(), &labels);
    }

    pub(super) fn pending(&self, saves: i64) {
        self.saves_pending.add(saves, &[]);
    }
}

fn counter(meter: &Meter, name: &'static str, unit: &'static str) -> Counter<u64> {
    meter.u64_counter(name).with_unit(unit).build()
}

fn tokens(meter: &Meter, name: &'static str) -> Histogram<u64> {
    meter.u64_histogram(name).with_unit("{token}").with_boundaries(TOKENS.to_vec()).build()
}

fn numbers(meter: &Meter, name: &'static str, unit: &'static str, bounds: &[f64]) -> Histogram<f64> {
    meter.f64_histogram(name).with_unit(unit).with_boundaries(bounds.to_vec()).build()
}

fn labels(store: &'static str, failed: Option<&'static str>) -> Vec<KeyValue> {
    let failed = failed.map(|kind| KeyValue::new(attributes::ERROR_TYPE, kind));
    std::iter::once(KeyValue::new(attributes::STORE, store)).chain(failed).collect()
}

/// Writes the trace context of the current span into the headers of a request. If the span has none, writes
/// OpenTelemetry's current context. The format is that of the program's
/// [propagator](opentelemetry::global::set_text_map_propagator): `traceparent` and `tracestate` for the W3C
/// propagator.
///
/// The layer calls its inner service within the span of the model call. If a client calls this function there, its
/// request becomes part of the turn's trace. The services and the client of `tower-chat-history-openai` do so with
/// their feature `otel`.
pub fn inject_context(headers: &mut dyn Injector) {
    let span = Span::current().context();
    let context = if span.has_active_span() { span } else { Context::current() };
    global::get_text_map_propagator(|propagator| propagator.inject_context(&context, headers));
}

/// Writes the trace context of the current span into the headers of an HTTP request, as [`inject_context`] does
/// (feature `http`). Names and values that are invalid in headers are left out, so that the call does not fail. Empty
/// values are left out, too, because `tracestate` is mostly empty.
///
/// Call it inside of [`ChatHistoryLayer`](crate::ChatHistoryLayer). The provider's spans are then children of the
/// model's call:
///
/// ```
/// use http::Request;
/// use tower::ServiceBuilder;
/// use tower_chat_history::{
///     ChatHistoryLayer, MemoryStore,
///     http::{HistoryBody, HttpHistory},
///     telemetry::inject_headers,
/// };
///
/// let layers = ServiceBuilder::new()
///     .layer(ChatHistoryLayer::new(MemoryStore::new(), HttpHistory::new()))
///     .map_request(|mut request: Request<HistoryBody>| {
///         inject_headers(request.headers_mut());
///         request
///     });
/// ```
#[cfg(feature = "http")]
pub fn inject_headers(headers: &mut http::HeaderMap) {
    inject_context(&mut Headers(headers));
}

#[cfg(feature = "http")]
struct Headers<'a>(&'a mut http::HeaderMap);

#[cfg(feature = "http")]
impl Injector for Headers<'_> {
    fn set(&mut self, name: &str, value: String) {
        if value.is_empty() {
            return;
        }
        if let (Ok(name), Ok(value)) = (http::HeaderName::try_from(name), http::HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn invalid_and_empty_headers_are_skipped() {
        let mut headers = HeaderMap::new();
        let mut injector = Headers(&mut headers);
        for (name, value) in
            [("a b", "1"), ("broken", "1\n2"), ("tracestate", ""), ("TraceParent", "1"), ("traceparent", "2")]
        {
            injector.set(name, value.to_owned());
        }
        assert_eq!(
            headers,
            [(HeaderName::from_static("traceparent"), HeaderValue::from_static("2"))].into_iter().collect()
        );
    }
}
