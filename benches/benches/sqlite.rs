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
    contest::{Circle, Contestant, TASKS, TURNS, crowd, paired, timed},
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
        let readers = (0..READERS).map(|_| Mutex::new(connect(path, synchronous))).collect();
        Self { writer: Mutex::new(connect(path, synchronous)), readers, text: text() }
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

fn connect(path: &Path, synchronous: &str) -> Connection {
    let connection = Connection::open(path).unwrap();
    let pragmas = format!(
        "PRAGMA journal_mode = wal; PRAGMA synchronous = {synchronous}; PRAGMA busy_timeout = 5000; \
         PRAGMA cache_size = -65536; PRAGMA mmap_size = 1073741824;"
    );
    connection.execute_batch(&pragmas).unwrap();
    connection
}

type Chat = ChatHistory<Llm, OpenAi>;

/// The contestants over the same databases.
struct Contest {
    table: Arc<Table>,
    chat: Chat,
    cached: Chat,
    circles: Circles,
    flushed: Mutex<File>,
}

/// The conversations of the contestants. Each of the two contestants with the layer uses its own half of the store's
/// conversations. The two contestants with the table share one half of the table's conversations.
#[derive(Clone)]
struct Circles {
    of_table: Arc<Circle>,
    of_layer: Arc<Circle>,
    of_cached_layer: Arc<Circle>,
}

impl Contest {
    fn direct_turn(&self) {
        let session = self.circles.of_table.next();
        self.table.read(session);
        self.table.write(session);
    }

    fn blocking_turn(&self) -> impl Future<Output = ()> + Send + use<> {
        let circle = Arc::clone(&self.circles.of_table);
        let table = Arc::clone(&self.table);
        async move {
            let session = circle.next();
            let reading = Arc::clone(&table);
            spawn_blocking(move || reading.read(session)).await.unwrap();
            spawn_blocking(move || table.write(session)).await.unwrap();
        }
    }

    fn layer_turn(&self) -> impl Future<Output = ()> + Send + use<> {
        layer_turn(self.chat.clone(), Arc::clone(&self.circles.of_layer))
    }

    fn cached_layer_turn(&self) -> impl Future<Output = ()> + Send + use<> {
        layer_turn(self.cached.clone(), Arc::clone(&self.circles.of_cached_layer))
    }

    /// Appends to a file, and flushes it.
    fn flush(&self) {
        let mut file = self.flushed.lock().unwrap();
        file.write_all(&[1; 8_192]).unwrap();
        file.sync_data().unwrap();
    }

    /// Uses each conversation once, because the first use costs more and fills the caches.
    async fn warm_up(&self) {
        for _ in 0..CONVERSATIONS / 2 {
            self.blocking_turn().await;
            self.layer_turn().await;
            self.cached_layer_turn().await;
        }
    }
}

async fn layer_turn(chat: Chat, circle: Arc<Circle>) {
    let call = InConversation::new(conversation(circle.next()), question());
    black_box(chat.oneshot(call).await.unwrap());
}

/// Returns the time of a call that blocks the thread.
fn time_of(call: impl FnOnce()) -> Duration {
    let start = Instant::now();
    call();
    start.elapsed()
}

fn turns(criterion: &mut Criterion) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let history = directory.path().join("history.db");
    let by_hand = directory.path().join("by_hand.db");
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let store = SqliteOptions::new().synchronous(Synchronous::Normal).open(&history).await.unwrap();
        fill_all(&store, 0..CONVERSATIONS, WINDOW / 2).await;
        store.close().await.unwrap();
    });
    Table::open(&by_hand, "OFF").fill();
    let circles = Circles {
        of_table: Arc::new(Circle::new(0, CONVERSATIONS / 2)),
        of_layer: Arc::new(Circle::new(0, CONVERSATIONS / 2)),
        of_cached_layer: Arc::new(Circle::new(CONVERSATIONS / 2, CONVERSATIONS / 2)),
    };

    for (name, synchronous) in [("FULL", Synchronous::Full), ("NORMAL", Synchronous::Normal)] {
        let store = runtime.block_on(SqliteOptions::new().synchronous(synchronous).open(&history)).unwrap();
        let _guard = runtime.enter();
        let cached = CachedStore::with_limit(store.clone(), CACHE_BYTES);
        let contest = Contest {
            table: Arc::new(Table::open(&by_hand, name)),
            chat: ChatHistoryLayer::new(store.clone(), OpenAi::new()).layer(llm()),
            cached: ChatHistoryLayer::new(cached, OpenAi::new()).layer(llm()),
            circles: circles.clone(),
            flushed: Mutex::new(File::create(directory.path().join("flushed")).unwrap()),
        };
        runtime.block_on(contest.warm_up());

        if std::env::var_os("PAIRED").is_some() {
            compare(name, &runtime, &contest);
        } else {
            turns_of_one(criterion, name, &runtime, &contest);
            turns_of_many(criterion, name, &runtime, &contest);
        }
        runtime.block_on(store.close()).unwrap();
    }
}

/// Measures the contestants alternately.
fn compare(name: &str, runtime: &Runtime, contest: &Contest) {
    let alone = vec![
        Contestant::of("spawn_blocking", runtime, || contest.blocking_turn()),
        Contestant::of("layer", runtime, || contest.layer_turn()),
        Contestant::of("layer, cached", runtime, || contest.cached_layer_turn()),
        Contestant::new("rusqlite", || time_of(|| contest.direct_turn())),
        Contestant::new("fdatasync", || time_of(|| contest.flush())),
    ];
    paired(&format!("turn/{name}"), 2_000, alone);

    let at_once = vec![
        Contestant::of("spawn_blocking", runtime, || crowd(|| contest.blocking_turn())),
        Contestant::of("layer", runtime, || crowd(|| contest.layer_turn())),
        Contestant::of("layer, cached", runtime, || crowd(|| contest.cached_layer_turn())),
    ];
    paired(&format!("64 tasks/{name}"), 20, at_once);
}

fn turns_of_one(criterion: &mut Criterion, name: &str, runtime: &Runtime, contest: &Contest) {
    let mut group = criterion.benchmark_group(format!("turn/{name}"));
    if name == "FULL" {
        group.bench_function("fdatasync", |b| b.iter(|| contest.flush()));
    }
    group.bench_function("rusqlite", |b| b.iter(|| contest.direct_turn()));
    group.bench_function("spawn_blocking", |b| {
        b.to_async(runtime).iter_custom(|times| timed(times, || contest.blocking_turn()));
    });
    group.bench_function("layer", |b| {
        b.to_async(runtime).iter_custom(|times| timed(times, || contest.layer_turn()));
    });
    group.bench_function("layer, cached", |b| {
        b.to_async(runtime).iter_custom(|times| timed(times, || contest.cached_layer_turn()));
    });
    group.finish();
}

/// Measures 64 tasks that make turns concurrently.
fn turns_of_many(criterion: &mut Criterion, name: &str, runtime: &Runtime, contest: &Contest) {
    let mut group = criterion.benchmark_group(format!("64 tasks/{name}"));
    group.sample_size(10).sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements((TASKS * TURNS) as u64));
    group.bench_function("spawn_blocking", |b| {
        b.to_async(runtime).iter_custom(|times| timed(times, || crowd(|| contest.blocking_turn())));
    });
    group.bench_function("layer", |b| {
        b.to_async(runtime).iter_custom(|times| timed(times, || crowd(|| contest.layer_turn())));
    });
    group.bench_function("layer, cached", |b| {
        b.to_async(runtime).iter_custom(|times| timed(times, || crowd(|| contest.cached_layer_turn())));
    });
    group.finish();
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
