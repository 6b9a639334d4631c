//! Metrics: each is recorded with its unit, and with labels that have few values.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures_util::future;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::{
    InMemoryMetricExporter, SdkMeterProvider,
    data::{AggregatedMetrics, Metric, MetricData},
};
use tests::{BOTH_KINDS, CallKind, Chat, Storage, over_every_store, user_call};
use tower_chat_history::{
    ExchangeId, HistoryOptions, Policies,
    policy::{OnConflict, OnLoadFailure},
    recall::RecallOptions,
    summary::{Summaries, SummarizeWhen},
    telemetry::{
        Telemetry,
        names::{attributes, metrics},
    },
};
use tower_chat_history_openai::summarizer;
use tower_chat_history_test::{ApiFailure, Fault, MockLlm, Op, Replies, Reply};

use crate::{
    chats::{ask, drain, long, small},
    recalls::{CyclicRecall, Found},
};

over_every_store! {
    #[tokio::test(start_paused = true)]
    every_metric_is_recorded_with_its_unit_and_few_labels,
    metrics_of_a_turn_equal_its_report,
    pending_saves_are_counted_up_and_down,
}

const UNITS: &[(&str, &str)] = &[
    (metrics::TURNS, "{turn}"),
    (metrics::TOKENS_BEFORE, "{token}"),
    (metrics::TOKENS_AFTER, "{token}"),
    (metrics::TOKENS_EVICTED, "{token}"),
    (metrics::MESSAGES_EVICTED, "{message}"),
    (metrics::COMPACTIONS, "{compaction}"),
    (metrics::RECALL_DURATION, "s"),
    (metrics::RECALL_CONVERSATIONS, "{conversation}"),
    (metrics::TOKENS_RECALLED, "{token}"),
    (metrics::SUMMARIES, "{summary}"),
    (metrics::SUMMARY_CALLS, "{call}"),
    (metrics::LOAD_DURATION, "s"),
    (metrics::SAVE_DURATION, "s"),
    (metrics::SAVE_CONFLICTS, "{conflict}"),
    (metrics::SAVES_PENDING, "{save}"),
    (metrics::ESTIMATE_ERROR, "1"),
    (metrics::CACHED_PREFIX_RATIO, "1"),
];

/// Every label, with all values that it may have.
const LABELS: &[(&str, &[&str])] = &[
    (attributes::OUTCOME, &["stored", "failed", "refused", "interrupted", "call_failed", "already_recorded"]),
    (attributes::ERROR_TYPE, &["unavailable", "conflict", "does_not_fit", "failed", "backend", "search"]),
    (attributes::FALLBACK, &["without_history", "without_new_summary"]),
    (attributes::TRIM_REASON, &["tokens", "messages", "turns"]),
    (attributes::STORE, &["memory", "sqlite", "postgresql", "redis"]),
    (attributes::SAVE_CONFLICT, &["rebased", "rejected", "duplicate"]),
    (attributes::SUMMARY_OUTCOME, &["stored", "rejected"]),
    (attributes::RECALL_OUTCOME, &["shown", "nothing", "failed"]),
];

/// A meter, and an exporter for its measurements.
struct Meters {
    exporter: InMemoryMetricExporter,
    provider: SdkMeterProvider,
}

/// One series: its labels, the number of recordings (1 for a sum), and its sum.
type Series = (BTreeMap<String, String>, u64, f64);

struct Measured {
    unit: String,
    series: Vec<Series>,
}

impl Meters {
    fn new() -> Self {
        let exporter = InMemoryMetricExporter::default();
        let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
        Self { exporter, provider }
    }

    fn telemetry(&self) -> Telemetry {
        Telemetry::new().meter(self.provider.meter("tests"))
    }

    /// Returns the measurements so far, by name.
    fn measured(&self) -> BTreeMap<String, Measured> {
        self.exporter.reset();
        // A flush gives up after five seconds, for which a busy machine can stall its thread.
        assert!((0..12).any(|_| self.provider.force_flush().is_ok()));
        let all = self.exporter.get_finished_metrics().unwrap();
        let scopes = all.last().unwrap().scope_metrics();
        scopes.flat_map(|scope| scope.metrics()).map(|metric| (metric.name().to_owned(), measured(metric))).collect()
    }
}

fn measured(metric: &Metric) -> Measured {
    let series = match metric.data() {
        AggregatedMetrics::F64(data) => series(data, |value| value),
        AggregatedMetrics::U64(data) => series(data, |value| value as f64),
        AggregatedMetrics::I64(data) => series(data, |value| value as f64),
    };
    Measured { unit: metric.unit().to_owned(), series }
}

fn series<T: Copy>(data: &MetricData<T>, float: impl Fn(T) -> f64) -> Vec<Series> {
    let labels = |label: &opentelemetry::KeyValue| (label.key.to_string(), label.value.to_string());
    match data {
        MetricData::Sum(sum) => {
            sum.data_points().map(|at| (at.attributes().map(labels).collect(), 1, float(at.value()))).collect()
        }
        MetricData::Histogram(histogram) => histogram
            .data_points()
            .map(|at| (at.attributes().map(labels).collect(), at.count(), float(at.sum())))
            .collect(),
        MetricData::Gauge(_) | MetricData::ExponentialHistogram(_) => panic!("there are no such metrics"),
    }
}

/// Makes turns with every outcome.
async fn everything(storage: &Storage, meters: &Meters) {
    let with = |options: HistoryOptions| options.telemetry(meters.telemetry());
    let answers = || Replies::rules(|_| Reply::text(long("answer")));
    for kind in BOTH_KINDS {
        let id = storage.conversation();
        let chat = Chat::with_options(
            storage,
            answers(),
            with(small().policies(Policies::new().on_conflict(OnConflict::Reject))),
        );
        for _ in 0..12 {
            assert!(ask(&chat, kind, &id, &long("question")).await);
        }
        assert!(!ask(&chat, kind, &id, &"word ".repeat(900)).await);
        storage.store.fail(Op::Load, 1, Fault::Unavailable);
        assert!(!ask(&chat, kind, &id, "u").await);
        storage.store.fail(Op::Append, 1, Fault::Backend);
        ask(&chat, kind, &id, "u").await;
        storage.store.fail(Op::Append, 1, Fault::Conflict);
        ask(&chat, kind, &id, "u").await;

        let options =
            HistoryOptions::new().policies(Policies::new().on_load_failure(OnLoadFailure::CallWithoutHistory));
        let replies =
            [Reply::text("a"), Reply::error(ApiFailure::new(500, "out of order")), Reply::text("a").end_after(1)];
        let chat = Chat::with_options(storage, replies, with(options));
        storage.store.fail(Op::Load, 1, Fault::Unavailable);
        assert!(ask(&chat, kind, &id, "u").await);
        assert!(!ask(&chat, kind, &id, "u").await);
        ask(&chat, CallKind::Stream, &id, "u").await;

        for reply in [Reply::text("What was said before."), Reply::error(ApiFailure::new(500, "out of order"))] {
            let model = MockLlm::rules(move |_| reply.clone());
            let summaries = Summaries::new(summarizer(model.unary(), "small")).max_tokens(60).chunk_tokens(400);
            let options = small().summaries(summaries.when(SummarizeWhen::BeforeCall));
            let (chat, id) = (Chat::with_options(storage, answers(), with(options)), storage.conversation());
            for _ in 0..12 {
                assert!(ask(&chat, kind, &id, &long("question")).await);
            }
        }

        let recall = CyclicRecall::new([Found::Shows("the dog"), Found::Nothing, Found::Fails]);
        let options = small().recall(RecallOptions::new(recall).percent(20));
        let (chat, id) = (Chat::with_options(storage, answers(), with(options)), storage.conversation());
        for _ in 0..16 {
            assert!(ask(&chat, kind, &id, &long("question")).await);
        }

        // A repeated call that is answered from the log is not an error.
        let repeated = || user_call(&id, "u").exchange(ExchangeId::new("repeated").unwrap());
        let chat = Chat::with_options(storage, answers(), with(HistoryOptions::new()));
        chat.call(kind, repeated()).await.unwrap();
        chat.engine().drain(Duration::from_secs(5)).await.unwrap();
        assert!(chat.call(kind, repeated()).await.is_err());

        // One call overtakes another.
        let (chat, id) = (Chat::with_options(storage, answers(), with(small())), storage.conversation());
        let held = chat.hold_reply();
        let second = async {
            chat.reached(1).await;
            chat.ask(kind, &id, "u1").await.unwrap();
            drop(held);
        };
        assert!(future::join(ask(&chat, kind, &id, "u0"), second).await.0);
    }
}

async fn every_metric_is_recorded_with_its_unit_and_few_labels(storage: Storage) {
    let meters = Meters::new();
    everything(&storage, &meters).await;
    let measured = meters.measured();
    let names: BTreeSet<&str> = measured.keys().map(String::as_str).collect();
    assert_eq!(names, metrics::ALL.iter().copied().collect());
    assert_eq!(UNITS.len(), metrics::ALL.len());
    let mut seen = BTreeSet::new();
    for (name, measured) in &measured {
        assert_eq!(UNITS.iter().find(|(of, _)| of == name).unwrap().1, measured.unit, "{name}");
        assert!(!measured.series.is_empty(), "{name}");
        for (labels, ..) in &measured.series {
            assert!(labels.len() <= 3, "{name}: {labels:?}");
            for (label, value) in labels {
                let known = LABELS.iter().find(|(of, _)| of == label);
                let values = known.unwrap_or_else(|| panic!("{name} has a label {label}")).1;
                assert!(values.contains(&&**value), "{name}: {label} is {value}");
                seen.insert(label.clone());
            }
        }
    }
    assert_eq!(seen.len(), LABELS.len(), "each of them is used: {seen:?}");
    for (labels, ..) in &measured[metrics::TURNS].series {
        let replayed = labels[attributes::OUTCOME] == "already_recorded";
        assert!(!(replayed && labels.contains_key(attributes::ERROR_TYPE)), "a repeated call is not an error");
    }
}

async fn metrics_of_a_turn_equal_its_report(storage: Storage) {
    let meters = Meters::new();
    let options = small().telemetry(meters.telemetry());
    let (chat, id) = (Chat::with_options(&storage, ["a0", "a1"].map(Reply::text), options), storage.conversation());
    let (mut before, mut error, mut share) = (0.0, 0.0, 0.0);
    for _ in 0..2 {
        let (call, report) = user_call(&id, "u").with_report();
        chat.call(CallKind::Unary, call).await.unwrap();
        let tokens = report.await.unwrap().tokens.unwrap();
        before += f64::from(u32::try_from(tokens.before()).unwrap());
        error += tokens.estimate_error().unwrap();
        share += tokens.cached_prefix_ratio().unwrap_or_default();
    }
    drain(&chat).await;
    let measured = meters.measured();
    let one = |name: &str| {
        let [(_, count, sum)] = measured[name].series[..] else { panic!("one series of {name}") };
        (count, sum)
    };
    assert_eq!(one(metrics::TURNS), (1, 2.0));
    assert_eq!(one(metrics::TOKENS_BEFORE), (2, before));
    assert_eq!(one(metrics::TOKENS_AFTER), (2, before));
    assert_eq!(one(metrics::ESTIMATE_ERROR).0, 2);
    assert!((one(metrics::ESTIMATE_ERROR).1 - error).abs() < 1e-9);
    assert_eq!(one(metrics::CACHED_PREFIX_RATIO), (1, share), "there is no prompt before the first one");
    assert_eq!((one(metrics::LOAD_DURATION).0, one(metrics::SAVE_DURATION).0), (2, 2));
}

async fn pending_saves_are_counted_up_and_down(storage: Storage) {
    let meters = Meters::new();
    let options = HistoryOptions::new().telemetry(meters.telemetry());
    let (chat, id) = (Chat::with_options(&storage, [Reply::text("a")], options), storage.conversation());
    let pending = || meters.measured()[metrics::SAVES_PENDING].series[0].2.to_string();
    let held = storage.store.hold(Op::Append);
    tokio::select! {
        biased;
        _ = chat.ask(CallKind::Unary, &id, "u") => panic!("the save is held"),
        () = held.reached(1) => {}
    }
    assert_eq!(pending(), "1");
    held.release();
    chat.engine().drain(Duration::from_secs(5)).await.unwrap();
    assert_eq!(pending(), "0");
}
