//! The cost of planning a prompt within a budget.
//!
//! A turn begins and is dropped: it loads from memory, plans, and stores nothing. `unlimited` has no budget: the cost
//! of planning is the time of another measurement minus the time of `unlimited`. `fits` is the common case. `compacts`
//! is a call whose window is too large. `flat` is a whole turn on logs of 100 to 1,000,000 messages, with a budget for
//! up to 60 messages.
//!
//! Run it with `cargo bench -p benches --bench plan`. With `PAIRED=1` in the environment, the contestants alternate in
//! one run, and only the median time of each is printed: `begin` are the turns described above, and `turn` are whole
//! turns, with a window of 60 messages, whose prompts fit. Use this on a busy machine, where separate measurements
//! cannot be compared.
#![allow(clippy::unwrap_used)] // Benches may panic.

use std::{
    cell::RefCell,
    hint::black_box,
    time::{Duration, Instant},
};

use benches::{
    FixedWindow, WINDOW,
    contest::{Contestant, paired},
    conversation, fill, text, turn,
};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tokio::runtime::{Builder, Runtime};
use tower_chat_history::{
    ContextBudget, ContextOptions, ConversationId, Engine, HistoryOptions, HistoryStore, MemoryStore, Message, Reply,
    TurnInput,
    store::{Cut, Cuts, Load, LoadLimit, Loaded, Profile, Seq},
    tokens::{ByteEstimate, TokenCounter as _},
};

/// Returns the tokens of one message of the bench.
fn tokens() -> usize {
    ByteEstimate::new().count_message(&Message::user(text())) as usize
}

/// Returns a budget for this many messages and the input.
fn budget(messages: usize) -> ContextBudget {
    ContextBudget::tokens(u32::try_from((messages + 1) * tokens() + 100).unwrap()).reply_reserve(90)
}

fn engine(store: &MemoryStore, budget: ContextBudget) -> Engine {
    let limit = LoadLimit::new(1 << 20, 1 << 30).unwrap();
    Engine::with_options(
        store.clone(),
        HistoryOptions::new().context(ContextOptions::new().budget(budget).load_limit(limit)),
    )
}

fn runtime() -> Runtime {
    // By default every store call has a timeout, which needs the timer.
    Builder::new_current_thread().enable_time().build().unwrap()
}

fn ask(id: &ConversationId) -> TurnInput {
    TurnInput::new(id.clone(), [Message::user(text())])
}

/// Measures turns that begin and are dropped.
async fn begin_turns(calls: u64, engine: &Engine, id: &ConversationId) -> Duration {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(engine.begin(ask(id)).await.unwrap());
    }
    start.elapsed()
}

fn plan(criterion: &mut Criterion) {
    let runtime = runtime();
    if std::env::var_os("PAIRED").is_some() {
        return paired_turns(&runtime);
    }

    let mut group = criterion.benchmark_group("plan");
    for messages in [60, 600, 10_000] {
        let store = MemoryStore::new();
        let id = conversation(0);
        runtime.block_on(fill(&store, &id, &turn(&text()), messages / 2));
        for (name, budget) in
            [("unlimited", ContextBudget::unlimited()), ("fits", budget(messages)), ("compacts", budget(messages - 2))]
        {
            let engine = engine(&store, budget);
            group.bench_function(BenchmarkId::new(name, messages), |b| {
                b.to_async(&runtime).iter_custom(|calls| begin_turns(calls, &engine, &id));
            });
        }
    }
    group.finish();
}

/// Measures turns that begin and are dropped, and then whole turns, with and without a budget.
fn paired_turns(runtime: &Runtime) {
    for messages in [60, 600, 10_000] {
        let store = MemoryStore::new();
        let id = conversation(0);
        runtime.block_on(fill(&store, &id, &turn(&text()), messages / 2));

        let budgets =
            [("unlimited", ContextBudget::unlimited()), ("fits", budget(messages)), ("compacts", budget(messages - 2))];
        let contest = budgets.into_iter().map(|(name, budget)| {
            let engine = engine(&store, budget);
            let id = &id;
            Contestant::new(name, move || runtime.block_on(begin_turns(1, &engine, id)))
        });
        paired(&format!("begin/{messages}"), 200_000 / messages, contest.collect());
    }

    let budgets = [("unlimited", ContextBudget::unlimited()), ("fits", budget(2 * WINDOW))];
    let contest = budgets.into_iter().map(|(name, budget)| {
        let mut kept = runtime.block_on(FixedWindow::of_turn(WINDOW / 2, turn(&text())));
        let engine = engine(&kept.store, budget);
        Contestant::new(name, move || runtime.block_on(whole_turn(&engine, &mut kept)))
    });
    paired("turn/60", 5_000, contest.collect());
}

/// Measures a turn that is stored.
async fn whole_turn(engine: &Engine, kept: &mut FixedWindow) -> Duration {
    let [question, answer] = kept.turn();
    let start = Instant::now();
    let turn = engine.begin(TurnInput::new(kept.id.clone(), [question])).await.unwrap();
    black_box(turn.context());
    black_box(turn.commit(Reply::new(answer)).await.unwrap());
    let taken = start.elapsed();

    kept.restore().await;
    taken
}

/// A conversation of `turns` turns. It is recreated after it has grown by more than a tenth and by more than 40 turns.
struct Talk {
    engine: Engine,
    store: MemoryStore,
    turns: usize,
    more: usize,
}

/// The size of the window in turns: after a compaction, and before the next one.
const MIN_WINDOW: usize = 22;
const MAX_WINDOW: usize = 30;

impl Talk {
    async fn new(turns: usize) -> Self {
        let store = MemoryStore::with_limit(usize::MAX);
        let mut talk = Self { engine: engine(&store, budget(2 * MAX_WINDOW)), store, turns, more: 0 };
        talk.begin().await;
        talk
    }

    async fn begin(&mut self) {
        let id = conversation(0);
        self.more = 0;
        self.store.delete(&id).await.unwrap();
        fill(&self.store, &id, &turn(&text()), self.turns).await;

        let load = Load::new().limit(LoadLimit::new(2, 1 << 20).unwrap());
        let Loaded::Window(window) = self.store.load(&id, load).await.unwrap() else { return };

        let cut = Cut::window_from(Seq::new((self.turns - MIN_WINDOW) as u64));
        let compact = Cuts::new(cut).compact(Profile::default(), window.compaction_version()).unwrap();
        self.store.compact(&id, window.revision.incarnation(), compact).await.unwrap();
    }

    async fn turns(&mut self, calls: u64) -> Duration {
        let id = conversation(0);
        let answer = Message::assistant(text());
        let mut taken = Duration::ZERO;
        for _ in 0..calls {
            let start = Instant::now();
            let turn = self.engine.begin(ask(&id)).await.unwrap();
            black_box(turn.context());
            black_box(turn.commit(Reply::new(answer.clone())).await.unwrap());
            taken += start.elapsed();

            self.more += 1;
            if self.more > (self.turns / 10).max(40) {
                self.begin().await;
            }
        }
        taken
    }
}

fn flat(criterion: &mut Criterion) {
    if std::env::var_os("PAIRED").is_some() {
        return;
    }
    let runtime = runtime();
    let mut group = criterion.benchmark_group("budget");
    for messages in [100, 10_000, 1_000_000] {
        let talk = RefCell::new(runtime.block_on(Talk::new(messages / 2)));
        group.bench_function(BenchmarkId::new("flat", messages), |b| {
            b.iter_custom(|calls| runtime.block_on(talk.borrow_mut().turns(calls)));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_millis(1_500));
    targets = plan, flat
}
criterion_main!(benches);
