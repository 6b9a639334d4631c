//! Runtimes that are shut down at any moment, or are alive and not driven: what was complete is stored all the same.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex, mpsc},
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use async_trait::async_trait;
use tokio::runtime::{Builder, Runtime};
use tower_chat_history::{
    BoxError, ContextBudget, ConversationId, Engine, HistoryOptions, HistoryStore, HistoryStoreExt as _, MemoryStore,
    Message, Reply, StoreError, Summaries, TurnInput,
    store::{Append, Appended, Compact, CompactOutcome, Incarnation, Load, Loaded, Page, Seq},
    summary::{SummarizeWhen, Summarized, Summarizer, SummaryRequest},
};

use super::{
    Checked, Figures, Ingredient, Ingredients,
    outcome::{Violation, holds},
};
use crate::chance::Chance;

/// How long anything may take by a real clock. Nothing here takes long.
const PATIENCE: Duration = Duration::from_secs(8);

/// Runs one case.
pub(super) fn run(seed: u64, ingredients: &Ingredients) -> Checked<Figures> {
    let mut chance = Chance::new(seed);
    let mut figures = Figures::default();
    let idles = ingredients.has(Ingredient::IdleRuntimes) && chance.once_in(2);
    let first = runtime();
    // An engine that is made within a runtime has saves go on there.
    let entered = chance.once_in(2).then(|| first.enter());
    let case = Case::new(&mut chance);
    drop(entered);
    first.block_on(case.live(&mut chance));
    let idle = if idles {
        figures.count("runtimes left idle");
        Some(first)
    } else {
        figures.count("runtimes shut down");
        drop(first);
        None
    };
    figures.add("saves pending", case.engine.pending_saves() as u64);
    let engine = case.engine.clone();
    let without = ingredients.has(Ingredient::NoRuntime) && chance.once_in(2);
    let drained = if without {
        figures.count("drains without a runtime");
        in_time("drain ends without a runtime", move || block_on(engine.drain(Duration::from_secs(2))))?
    } else {
        in_time("drain ends in another runtime", move || runtime().block_on(engine.drain(Duration::from_secs(2))))?
    };
    drained.map_err(|error| Violation::new("what a drain says is pending is pending", error.to_string()))?;
    holds(case.engine.pending_saves() == 0, "no save is pending after a drain", String::new)?;
    case.check(&mut figures)?;
    case.goes_on(&mut figures)?;
    drop(idle);
    Ok(figures)
}

/// A store that lets others go first, some times, without a timer.
#[derive(Debug)]
struct Yielding {
    inner: MemoryStore,
    chance: Mutex<Chance>,
}

struct Yields(u64);

impl Future for Yields {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Yielding {
    async fn yields(&self) {
        let times = self.chance.lock().unwrap().below(8);
        Yields(times).await;
    }
}

#[async_trait]
impl HistoryStore for Yielding {
    fn system(&self) -> &'static str {
        "memory"
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        self.yields().await;
        self.inner.load(id, load).await
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        self.yields().await;
        let appended = self.inner.append(id, append).await;
        self.yields().await;
        appended
    }

    async fn compact(
        &self,
        id: &ConversationId,
        life: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        self.yields().await;
        self.inner.compact(id, life, compact).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        self.yields().await;
        self.inner.read(id, from, limit).await
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.inner.delete(id).await
    }
}

/// A summarizer that never fails, and takes a few polls.
#[derive(Debug)]
struct Patient(u64);

#[async_trait]
impl Summarizer for Patient {
    async fn summarize(&self, _: SummaryRequest) -> Result<Summarized, BoxError> {
        Yields(self.0).await;
        Ok(Summarized::new("s"))
    }
}

type Complete = Arc<Mutex<Vec<(ConversationId, String)>>>;

struct Case {
    engine: Engine,
    store: MemoryStore,
    ids: Vec<ConversationId>,
    /// The answers that were handed to the engine.
    complete: Complete,
    summarizes: bool,
}

impl Case {
    fn new(chance: &mut Chance) -> Self {
        let store = MemoryStore::new();
        let yielding = Yielding { inner: store.clone(), chance: Mutex::new(chance.fork()) };
        let summarizes = chance.once_in(2);
        let mut options = HistoryOptions::new();
        if chance.once_in(3) {
            options = options.store_timeout(None);
        }
        if summarizes {
            let when = SummarizeWhen::AfterReply { percent: 10 };
            let summaries = Summaries::new(Patient(chance.below(20))).max_tokens(20).least_room(1).when(when);
            options = options.context(ContextBudget::tokens(400).reply_reserve(10)).summaries(summaries);
        }
        let ids = (0..1 + chance.index(3)).map(|number| ConversationId::new([&format!("c{number}")]).unwrap());
        let engine = Engine::with_options(yielding, options);
        Self { engine, store, ids: ids.collect(), complete: Complete::default(), summarizes }
    }

    /// Turns in a runtime, until it is stopped in the middle of them.
    async fn live(&self, chance: &mut Chance) {
        for _ in 0..chance.between(1, 4) {
            for id in &self.ids {
                turn(&self.engine, id, &self.complete, "before").await;
            }
        }
        for number in 0..chance.between(2, 8) {
            let (engine, id, complete) =
                (self.engine.clone(), chance.of(&self.ids).clone(), Arc::clone(&self.complete));
            let stays = chance.once_in(2);
            tokio::spawn(async move {
                if stays {
                    turn(&engine, &id, &complete, &format!("during{number}")).await;
                } else if let Ok(turn) = engine.begin(asked(&id)).await {
                    let text = format!("left{number}");
                    let commit = turn.commit(Reply::new(Message::assistant(&text)));
                    complete.lock().unwrap().push((id, text));
                    drop(commit);
                }
            });
        }
        let long = if chance.once_in(3) { 60 } else { 12 };
        for _ in 0..chance.below(long) {
            tokio::task::yield_now().await;
        }
    }

    /// Every complete answer is stored once.
    fn check(&self, figures: &mut Figures) -> Checked {
        let mut logs: BTreeMap<&ConversationId, Vec<String>> = BTreeMap::new();
        for id in &self.ids {
            let messages = block_on(self.store.conversation(id).messages()).unwrap();
            logs.insert(id, messages.iter().map(|message| message.text().into_owned()).collect());
        }
        let complete = self.complete.lock().unwrap();
        figures.add("complete answers", complete.len() as u64);
        for (id, text) in &*complete {
            let expected = complete.iter().filter(|one| one.0 == *id && one.1 == *text).count();
            let times = logs[id].iter().filter(|one| *one == text).count();
            holds(times == expected, "every complete answer is stored once", || {
                format!("{text}: {times} of {expected}")
            })?;
        }
        Ok(())
    }

    /// Another runtime goes on: turns are stored, and summaries are made.
    fn goes_on(&self, figures: &mut Figures) -> Checked {
        let before = self.covered();
        let (engine, ids, complete) = (self.engine.clone(), self.ids.clone(), Arc::clone(&self.complete));
        in_time("calls go on in another runtime", move || {
            runtime().block_on(async {
                for _ in 0..12 {
                    for id in &ids {
                        turn(&engine, id, &complete, "after").await;
                    }
                }
                // What is not done by then is told by the check below.
                let _ = engine.drain(Duration::from_secs(2)).await;
            });
        })?;
        self.check(figures)?;
        if self.summarizes {
            for (id, (before, now)) in self.ids.iter().zip(before.iter().zip(self.covered())) {
                figures.count("conversations summarized on");
                holds(now.0 > before.0, "summaries go on in another runtime", || {
                    format!("{id}: they cover what is before {}, the window starts at {}", now.0, now.1)
                })?;
            }
        }
        Ok(())
    }

    /// Of each conversation what summaries cover, and where the window starts.
    fn covered(&self) -> Vec<(u64, u64)> {
        let positions = self.ids.iter().map(|id| match block_on(self.store.load(id, Load::new())) {
            Ok(Loaded::Window(window)) => window
                .compaction
                .map_or((0, 0), |compaction| (compaction.cut.covers_to().get(), compaction.cut.window_start.get())),
            _ => (0, 0),
        });
        positions.collect()
    }
}

fn asked(id: &ConversationId) -> TurnInput {
    TurnInput::new(id.clone(), [Message::user("word ".repeat(30))])
}

async fn turn(engine: &Engine, id: &ConversationId, complete: &Complete, text: &str) {
    let Ok(turn) = engine.begin(asked(id)).await else { return };
    let commit = turn.commit(Reply::new(Message::assistant(text)));
    complete.lock().unwrap().push((id.clone(), text.to_owned()));
    // A failure shows in the log.
    let _ = commit.await;
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Does something on a thread of its own, which has to end in time.
fn in_time<T: Send + 'static>(rule: &'static str, work: impl FnOnce() -> T + Send + 'static) -> Checked<T> {
    let (sender, done) = mpsc::channel();
    thread::spawn(move || sender.send(work()));
    done.recv_timeout(PATIENCE).map_err(|error| Violation::new(rule, format!("{error} within {PATIENCE:?}")))
}

/// Runs a future where no runtime is.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(told) => return told,
            Poll::Pending => thread::park(),
        }
    }
}
