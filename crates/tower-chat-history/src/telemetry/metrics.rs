//! The metrics. Their labels have few values: no ids and no texts.

use std::time::Duration;

use opentelemetry::{
    KeyValue, global,
    metrics::{Counter, Histogram, UpDownCounter},
};

use super::{
    Telemetry,
    names::{attributes, metrics},
    save::Saved,
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
        let global = || global::meter(env!("CARGO_PKG_NAME"));
        let meter = telemetry.meter.clone().unwrap_or_else(global);
        let counter = |name, unit| meter.u64_counter(name).with_unit(unit).build();
        let tokens = |name| meter.u64_histogram(name).with_unit("{token}").with_boundaries(TOKENS.to_vec()).build();
        let numbers = |name, unit, bounds: &[f64]| {
            meter.f64_histogram(name).with_unit(unit).with_boundaries(bounds.to_vec()).build()
        };
        Self {
            turns: counter(metrics::TURNS, "{turn}"),
            tokens_before: tokens(metrics::TOKENS_BEFORE),
            tokens_after: tokens(metrics::TOKENS_AFTER),
            tokens_evicted: counter(metrics::TOKENS_EVICTED, "{token}"),
            messages_evicted: counter(metrics::MESSAGES_EVICTED, "{message}"),
            compactions: counter(metrics::COMPACTIONS, "{compaction}"),
            recall_duration: numbers(metrics::RECALL_DURATION, "s", &SECONDS),
            recall_conversations: meter
                .u64_histogram(metrics::RECALL_CONVERSATIONS)
                .with_unit("{conversation}")
                .with_boundaries(CONVERSATIONS.to_vec())
                .build(),
            tokens_recalled: tokens(metrics::TOKENS_RECALLED),
            summaries: counter(metrics::SUMMARIES, "{summary}"),
            summary_calls: counter(metrics::SUMMARY_CALLS, "{call}"),
            load_duration: numbers(metrics::LOAD_DURATION, "s", &SECONDS),
            save_duration: numbers(metrics::SAVE_DURATION, "s", &SECONDS),
            save_conflicts: counter(metrics::SAVE_CONFLICTS, "{conflict}"),
            saves_pending: meter.i64_up_down_counter(metrics::SAVES_PENDING).with_unit("{save}").build(),
            estimate_error: numbers(metrics::ESTIMATE_ERROR, "1", &ERRORS),
            cached_prefix_ratio: numbers(metrics::CACHED_PREFIX_RATIO, "1", &RATIOS),
        }
    }

    /// Counts a turn that ended, or that did not begin.
    pub(super) fn turn(&self, outcome: &'static str, failed: Option<&'static str>, fallback: Option<&'static str>) {
        let label = |name, value: Option<&'static str>| value.map(|value| KeyValue::new(name, value));
        let labels = [
            label(attributes::OUTCOME, Some(outcome)),
            label(attributes::ERROR_TYPE, failed),
            label(attributes::FALLBACK, fallback),
        ];
        self.turns.add(1, &labels.into_iter().flatten().collect::<Vec<_>>());
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

    pub(super) fn saved(&self, store: &'static str, saved: &Saved<'_>) {
        let failed = saved.appended.err().map(SaveError::kind);
        self.save_duration.record(saved.took.as_secs_f64(), &labels(store, failed));
        if let Some(conflict) = saved.conflict() {
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

fn labels(store: &'static str, failed: Option<&'static str>) -> Vec<KeyValue> {
    let failed = failed.map(|kind| KeyValue::new(attributes::ERROR_TYPE, kind));
    std::iter::once(KeyValue::new(attributes::STORE, store)).chain(failed).collect()
}
