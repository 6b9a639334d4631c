//! The cost of a turn's spans: without a subscriber, and exported in batches.
//!
//! A turn uses the engine with the memory store, a window of about 60 messages of 250 bytes, and a budget. The main
//! result is the printed differences. They are measured in pairs: turns of both kinds alternate in one run, so that
//! other load on the machine affects both. `noise` is the difference between two equal kinds of turns.
//!
//! Run it with `cargo bench -p benches --bench telemetry`.
#![allow(clippy::unwrap_used)] // Benches may panic.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use benches::{WINDOW, conversation, fill, text, turn};
use criterion::{Criterion, criterion_group};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{SdkTracerProvider, SpanData, SpanExporter},
};
use tokio::runtime::{Builder, Runtime};
use tower_chat_history::{
    ContextBudget, Engine, HistoryOptions, HistoryStore as _, MemoryStore, Message, Reply, TurnInput,
    telemetry::Telemetry,
};
use tracing::{Dispatch, Instrument as _};
use tracing_subscriber::layer::SubscriberExt as _;

/// The number of turns in one measurement, and the number of pairs of measurements.
const TURNS: u32 = 20;
const PAIRS: usize = 400;

/// An exporter that drops all spans.
#[derive(Debug)]
struct DroppingExporter;

impl SpanExporter for DroppingExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        black_box(batch);
        Ok(())
    }
}

/// Returns a subscriber that exports spans to OpenTelemetry, configured as its documentation recommends.
fn exporting() -> Dispatch {
    let provider = SdkTracerProvider::builder().with_batch_exporter(DroppingExporter).build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("bench"))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false);
    Dispatch::new(tracing_subscriber::registry().with(layer))
}

/// A conversation that is recreated for each measurement.
struct Talk {
    runtime: Runtime,
    store: MemoryStore,
    engine: Engine,
}

impl Talk {
    fn new(telemetry: Telemetry) -> Self {
        let options = HistoryOptions::new().telemetry(telemetry).context(ContextBudget::tokens(1 << 20));
        let store = MemoryStore::new();
        // By default every store call has a timeout, which needs the timer.
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        Self { runtime, engine: Engine::with_options(store.clone(), options), store }
    }

    /// Returns the time of one turn.
    fn turn(&self) -> Duration {
        let id = conversation(0);
        let answer = Message::assistant(text());
        self.runtime.block_on(async {
            self.store.delete(&id).await.unwrap();
            fill(&self.store, &id, &turn(&text()), (WINDOW - TURNS as usize) / 2).await;
            let start = Instant::now();
            for _ in 0..TURNS {
                let mut turn = self.engine.begin(TurnInput::new(id.clone(), [Message::user(text())])).await.unwrap();
                let span = turn.call_span();
                async { black_box(turn.context()).len() }.instrument(span).await;
                black_box(turn.commit(Reply::new(answer.clone())).await.unwrap());
            }
            start.elapsed() / TURNS
        })
    }

    /// Returns the time of this many turns.
    fn turns(&self, calls: u64) -> Duration {
        (0..calls).map(|_| self.turn()).sum()
    }
}

/// Returns the additional time of the second kind of turn, in microseconds: the median of the differences of all pairs.
fn median_difference(mut one: impl FnMut() -> Duration, mut other: impl FnMut() -> Duration) -> f64 {
    let mut differences = Vec::new();
    for _ in 0..PAIRS {
        let one = one().as_secs_f64();
        let other = other().as_secs_f64();
        differences.push((other - one) * 1e6);
    }
    differences.sort_by(f64::total_cmp);
    differences[PAIRS / 2]
}

/// Prints the cost of spans without a subscriber. Runs before any subscriber is set, because `tracing` is faster then.
fn without_subscriber() {
    let without = Talk::new(Telemetry::new().spans(false));
    let with = Talk::new(Telemetry::new());
    let twice = Talk::new(Telemetry::new().spans(false));
    println!("noise: {:+.3} us", median_difference(|| without.turn(), || twice.turn()));
    println!("spans without a subscriber: {:+.3} us", median_difference(|| without.turn(), || with.turn()));
}

/// Prints the cost of exported spans.
fn exported() {
    let without = Talk::new(Telemetry::new().spans(false));
    let with = Talk::new(Telemetry::new());
    let exporting = exporting();
    let difference =
        median_difference(|| without.turn(), || tracing::dispatcher::with_default(&exporting, || with.turn()));
    println!("spans exported: {difference:+.3} us");
}

fn telemetry(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("telemetry");
    for (name, telemetry) in [("no_spans", Telemetry::new().spans(false)), ("no_subscriber", Telemetry::new())] {
        let talk = Talk::new(telemetry);
        group.bench_function(name, |b| b.iter_custom(|calls| talk.turns(calls)));
    }

    let talk = Talk::new(Telemetry::new());
    let exporting = exporting();
    group.bench_function("exported", |b| {
        b.iter_custom(|calls| tracing::dispatcher::with_default(&exporting, || talk.turns(calls)));
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30);
    targets = telemetry
}

fn main() {
    // `cargo test` runs benches without `--bench`: then nothing is measured.
    let measures = std::env::args().any(|argument| argument == "--bench");
    if measures {
        without_subscriber();
    }
    benches();
    if measures {
        exported();
    }
    Criterion::default().configure_from_args().final_summary();
}
