//! The cost of a turn with an SQLite file. A turn reads a window of 60 messages and appends two messages.
//!
//! Each run compares:
//!
//! - `layer`: the whole layer;
//! - `layer, cached`: the layer over a `CachedStore`, if all calls of a conversation reach one process;
//! - `rusqlite`: a table of messages, called directly, which blocks the thread;
//! - `spawn_blocking`: the same table, called with `spawn_blocking` once to read and once to write, with one
//!   connection for writes and four for reads;
//! - `fdatasync`: the disk alone: appends 8 KiB to a file and flushes them, as a commit does.
//!
//! The table is tuned for speed: it does no encoding, no checks and no retries.
//!
//! Run it with `cargo bench -p benches --bench sqlite`. The databases are on the disk of the target directory. With
//! `PAIRED=1` in the environment, the contestants alternate in one run, and only the median time of each is printed.
//! Use this on a busy machine, or with a disk of varying speed, where separate measurements cannot be compared.
#![allow(clippy::unwrap_used)] // Benches may panic.

use std::{
    fs::File,
    hint::black_box,
    io::Write as _,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use benches::{
    Llm, WINDOW,
    contest::{Circle, Contest, TASKS, TURNS, crowd, paired, timed},
    conversation, fill_all, llm, question, text,
};
use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use rusqlite::{Connection, TransactionBehavior};
use tokio::{runtime::Runtime, task::spawn_blocking};
use tower::{Layer as _, ServiceExt as _};
use tower_chat_history::{CachedStore, ChatHistory, ChatHistoryLayer, InConversation};
use tower_chat_history_openai::OpenAi;
use tower_chat_history_sqlite::{SqliteOptions, Synchronous};

const CONVERSATIONS: usize = 10_000;
const READERS: usize = 4;
/// The size of the cache in bytes, enough for the windows of all conversations.
const CACHE_BYTES: usize = 1 << 30;

/// A table of messages, without this library.
struct Table {
    writer: Mutex<Connection>,
    readers: Vec<Mutex<Connection>>,
    text: String,
}

impl Table {
    fn open(path: &Path, synchronous: &str) -> Self {
        let open = || {
            let connection = Connection::open(path).unwrap();
            let pragmas = format!(
                "PRAGMA journal_mode = wal; PRAGMA synchronous = {synchronous}; PRAGMA busy_timeout = 5000; \
                 PRAGMA cache_size = -65536; PRAGMA mmap_size = 1073741824;"
            );
            connection.execute_batch(&pragmas).unwrap();
            Mutex::new(connection)
        };
        Self { writer: open(), readers: (0..READERS).map(|_| open()).collect(), text: text() }
    }

    fn fill(&self) {
        let mut writer = self.writer.lock().unwrap();
        let create = "CREATE TABLE message (session INTEGER, seq INTEGER, role INTEGER, body TEXT, \
                      PRIMARY KEY (session, seq)) WITHOUT ROWID";
        writer.execute_batch(create).unwrap();
        let transaction = writer.transaction().unwrap();
        let mut insert = transaction.prepare("INSERT INTO message VALUES (?1, ?2, ?3, ?4)").unwrap();
        for session in 0..CONVERSATIONS as i64 {
            for seq in 0..WINDOW as i64 {
                insert.execute((session, seq, seq % 2, &self.text)).unwrap();
            }
        }
        drop(insert);
        transaction.commit().unwrap();
    }

    fn read(&self, session: usize) {
        let reader = self.readers[session % READERS].lock().unwrap();
        let sql = "SELECT seq, role, body FROM message WHERE session = ?1 ORDER BY seq DESC LIMIT ?2";
        let mut statement = reader.prepare_cached(sql).unwrap();
        let rows = statement
            .query_map((session as i64, WINDOW as i64), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .unwrap();
        let window: Vec<(i64, i64, String)> = rows.map(Result::unwrap).collect();
        assert_eq!(black_box(window).len(), WINDOW);
    }

    fn write(&self, session: usize) {
        let mut writer = self.writer.lock().unwrap();
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let sql = "INSERT INTO message SELECT ?1, max(seq) + 1, ?2, ?3 FROM message WHERE session = ?1";
        let mut insert = transaction.prepare_cached(sql).unwrap();
        for role in 0..2 {
            insert.execute((session as i64, role, &self.text)).unwrap();
        }
        drop(insert);
        transaction.commit().unwrap();
    }
}

async fn blocking_turn(table: Arc<Table>, circle: Arc<Circle>) {
    let (session, reading) = (circle.next(), Arc::clone(&table));
    spawn_blocking(move || reading.read(session)).await.unwrap();
    spawn_blocking(move || table.write(session)).await.unwrap();
}

type Chat = ChatHistory<Llm, OpenAi>;

async fn layer_turn(chat: Chat, circle: Arc<Circle>) {
    let call = InConversation::new(conversation(circle.next()), question());
    black_box(chat.oneshot(call).await.unwrap());
}

fn turns(criterion: &mut Criterion) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (history, by_hand) = (directory.path().join("history.db"), directory.path().join("by_hand.db"));
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let store = SqliteOptions::new().synchronous(Synchronous::Normal).open(&history).await.unwrap();
        fill_all(&store, 0..CONVERSATIONS, WINDOW / 2).await;
        store.close().await.unwrap();
    });
    Table::open(&by_hand, "OFF").fill();
    // Each of the two contestants with the layer uses its own half of the store's conversations. The two contestants
    // with the table share one half of the table's conversations.
    let circle = |half: usize| Arc::new(Circle::new(half * CONVERSATIONS / 2, CONVERSATIONS / 2));
    let (of_table, of_layer, of_cached_layer) = (circle(0), circle(0), circle(1));

    for (name, synchronous) in [("FULL", Synchronous::Full), ("NORMAL", Synchronous::Normal)] {
        let table = Arc::new(Table::open(&by_hand, name));
        let store = runtime.block_on(SqliteOptions::new().synchronous(synchronous).open(&history)).unwrap();
        let _guard = runtime.enter();
        let chat = ChatHistoryLayer::new(store.clone(), OpenAi::new()).layer(llm());
        let cached =
            ChatHistoryLayer::new(CachedStore::with_limit(store.clone(), CACHE_BYTES), OpenAi::new()).layer(llm());

        // Warm up: use each conversation once, because the first use costs more and fills the caches.
        runtime.block_on(async {
            for _ in 0..CONVERSATIONS / 2 {
                blocking_turn(Arc::clone(&table), Arc::clone(&of_table)).await;
                layer_turn(chat.clone(), Arc::clone(&of_layer)).await;
                layer_turn(cached.clone(), Arc::clone(&of_cached_layer)).await;
            }
        });

        if std::env::var_os("PAIRED").is_some() {
            let mut file = File::create(directory.path().join("flushed")).unwrap();
            let alone = |turn: &mut dyn FnMut()| {
                let start = Instant::now();
                turn();
                start.elapsed()
            };
            let mut flush = || {
                alone(&mut || {
                    file.write_all(&[1; 8_192]).unwrap();
                    file.sync_data().unwrap();
                })
            };
            let mut direct = || {
                let session = of_table.next();
                alone(&mut || {
                    table.read(session);
                    table.write(session);
                })
            };
            let mut blocking =
                || runtime.block_on(timed(1, || blocking_turn(Arc::clone(&table), Arc::clone(&of_table))));
            let mut layer = || runtime.block_on(timed(1, || layer_turn(chat.clone(), Arc::clone(&of_layer))));
            let mut cached_layer =
                || runtime.block_on(timed(1, || layer_turn(cached.clone(), Arc::clone(&of_cached_layer))));
            let contest: &mut Contest<'_> = &mut [
                ("spawn_blocking", &mut blocking),
                ("layer", &mut layer),
                ("layer, cached", &mut cached_layer),
                ("rusqlite", &mut direct),
                ("fdatasync", &mut flush),
            ];
            paired(&format!("turn/{name}"), 2_000, contest);
            let mut blocking =
                || runtime.block_on(timed(1, || crowd(|| blocking_turn(Arc::clone(&table), Arc::clone(&of_table)))));
            let mut layer = || runtime.block_on(timed(1, || crowd(|| layer_turn(chat.clone(), Arc::clone(&of_layer)))));
            let mut cached_layer =
                || runtime.block_on(timed(1, || crowd(|| layer_turn(cached.clone(), Arc::clone(&of_cached_layer)))));
            let contest: &mut Contest<'_> =
                &mut [("spawn_blocking", &mut blocking), ("layer", &mut layer), ("layer, cached", &mut cached_layer)];
            paired(&format!("64 tasks/{name}"), 20, contest);
            runtime.block_on(store.close()).unwrap();
            continue;
        }

        let mut group = criterion.benchmark_group(format!("turn/{name}"));
        if synchronous == Synchronous::Full {
            let mut file = File::create(directory.path().join("flushed")).unwrap();
            group.bench_function("fdatasync", |b| {
                b.iter(|| {
                    file.write_all(&[1; 8_192]).unwrap();
                    file.sync_data().unwrap();
                });
            });
        }
        group.bench_function("rusqlite", |b| {
            b.iter(|| {
                let session = of_table.next();
                table.read(session);
                table.write(session);
            });
        });
        group.bench_function("spawn_blocking", |b| {
            b.to_async(&runtime)
                .iter_custom(|times| timed(times, || blocking_turn(Arc::clone(&table), Arc::clone(&of_table))));
        });
        for (name, chat, circle) in [("layer", &chat, &of_layer), ("layer, cached", &cached, &of_cached_layer)] {
            group.bench_function(name, |b| {
                b.to_async(&runtime).iter_custom(|times| timed(times, || layer_turn(chat.clone(), Arc::clone(circle))));
            });
        }
        group.finish();

        let mut group = criterion.benchmark_group(format!("64 tasks/{name}"));
        group
            .sample_size(10)
            .sampling_mode(SamplingMode::Flat)
            .throughput(Throughput::Elements((TASKS * TURNS) as u64));
        group.bench_function("spawn_blocking", |b| {
            b.to_async(&runtime).iter_custom(|times| {
                timed(times, || crowd(|| blocking_turn(Arc::clone(&table), Arc::clone(&of_table))))
            });
        });
        for (name, chat, circle) in [("layer", &chat, &of_layer), ("layer, cached", &cached, &of_cached_layer)] {
            group.bench_function(name, |b| {
                b.to_async(&runtime)
                    .iter_custom(|times| timed(times, || crowd(|| layer_turn(chat.clone(), Arc::clone(circle)))));
            });
        }
        group.finish();
        runtime.block_on(store.close()).unwrap();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1_500));
    targets = turns
}
criterion_main!(benches);
