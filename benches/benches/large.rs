//! Short turns of one conversation beside large loads of others. The time of a short turn should not grow with the
//! number of large loads.
//!
//! A large load reads a window of 3.6 MB. As many callers as the column says repeat such loads one after the other.
//! Meanwhile, a short turn loads a window of up to 60 messages of 250 bytes and appends two. The times are the median
//! and the longest one of the short turns, and the longest one of the large loads.
//!
//! Run it with `cargo bench -p benches --bench large`. To measure only some stores, name them: `-- redis`. A server
//! that is not installed is left out, and a line reports that.
#![allow(clippy::unwrap_used)] // Benches may panic.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use benches::{
    WINDOW, conversation, fill,
    growth::{Base, STORES},
    text, turn,
};
use futures_util::future::try_join_all;
use tokio::runtime::Runtime;
use tower_chat_history::{
    Exchange, ExchangeId, HistoryStore,
    store::{Append, Expect, Load, LoadLimit},
};

const CALLERS: [usize; 4] = [0, 8, 32, 150];
/// The number of conversations with a large window, and the number of the one with short turns.
const LARGE: usize = 10;
const LARGE_TEXT: usize = 60_000;
const MEASURED: Duration = Duration::from_secs(6);

/// The times of calls, and the number of those that failed.
#[derive(Default)]
struct Calls {
    times: Vec<Duration>,
    failed: usize,
}

impl Calls {
    async fn add(&mut self, call: impl Future<Output = bool>) {
        let start = Instant::now();
        self.failed += usize::from(!call.await);
        self.times.push(start.elapsed());
    }
}

async fn load(store: &dyn HistoryStore, number: usize, messages: usize) -> bool {
    let limit = LoadLimit::new(messages, 1 << 30).unwrap();
    store.load(&conversation(number), Load::new().limit(limit)).await.is_ok()
}

async fn short_turn(store: &dyn HistoryStore) -> bool {
    let exchange = Exchange::new(ExchangeId::generate(), turn(&text()));
    let append = Append::new(Expect::AnyOrCreate, exchange);
    load(store, LARGE, WINDOW).await && store.append(&conversation(LARGE), append).await.is_ok()
}

async fn measure(name: &str, store: &Arc<dyn HistoryStore>, callers: usize) {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut large = Vec::new();
    for caller in 0..callers {
        let store = Arc::clone(store);
        let is_over = Arc::clone(&is_over);
        large.push(tokio::spawn(async move {
            let mut calls = Calls::default();
            while !is_over.load(Relaxed) {
                calls.add(load(&*store, caller % LARGE, 1_000)).await;
            }
            calls
        }));
    }

    let mut short = Calls::default();
    let start = Instant::now();
    while start.elapsed() < MEASURED {
        short.add(short_turn(&**store)).await;
    }
    is_over.store(true, Relaxed);

    let large = try_join_all(large).await.unwrap();
    short.times.sort_unstable();
    println!(
        "{name:14} {callers:4} {:10} {:8} {:10.1} {:10.1} {:10} {:8} {:10.1}",
        short.times.len(),
        short.failed,
        millis(short.times[short.times.len() / 2]),
        millis(*short.times.last().unwrap()),
        large.iter().map(|calls| calls.times.len()).sum::<usize>(),
        large.iter().map(|calls| calls.failed).sum::<usize>(),
        millis(large.iter().flat_map(|calls| &calls.times).max().copied().unwrap_or_default()),
    );
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn main() {
    let Some(is_selected) = benches::selected() else { return };
    let runtime = Runtime::new().unwrap();
    println!("store, callers, short turns, failed, median (ms), longest (ms), large loads, failed, longest (ms)");
    for name in STORES.into_iter().filter(|name| is_selected(name)) {
        let Some(mut base) = Base::of(name, env!("CARGO_TARGET_TMPDIR")) else { continue };
        let large = turn(&"x".repeat(LARGE_TEXT));
        runtime.block_on(async {
            let filled = base.filled(async |store| {
                for number in 0..LARGE {
                    fill(store, &conversation(number), &large, WINDOW / 2).await;
                }
            });
            let store = filled.await;

            for callers in CALLERS {
                measure(name, &store, callers).await;
            }
        });
    }
}
