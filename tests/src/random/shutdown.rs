//! Runtimes that are shut down after the engine was drained, while callers are in the middle of their calls. Complete
//! replies are stored nevertheless.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex, mpsc},
    task::{Context, Poll},
    thread,
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinSet,
};
use tower_chat_history::{
    BoxError, ContextBudget, ConversationId, Engine, HistoryOptions, HistoryStore, HistoryStoreExt as _, MemoryStore,
    Message, Reply, StoreError, Summaries, TurnInput,
    store::{Append, Appended, Cuts, Load, Loaded},
    summary::{SummarizeWhen, Summarizer, SummaryRequest, SummaryResponse},
};

use super::{
    Checked, Figures, Ingredients,
    disturbed::{Disturb, Disturbed},
    outcome::{Violation, holds},
};
use crate::rng::SeededRng;

/// The longest time of a drain by a real clock. Normally, no drain takes long, but a busy machine can stall a thread.
const DRAIN: Duration = Duration::from_secs(30);
/// The longest time of any step, which has at most one drain.
const PATIENCE: Duration = Duration::from_secs(40);
/// The time limit of the store. It does not end within `PATIENCE`, so that it does not end what hangs.
const STORE_LIMIT: Duration = Duration::from_secs(600);

/// Runs one case.
pub(super) fn run(seed: u64, _: &Ingredients) -> Checked<Figures> {
    let mut rng = SeededRng::new(seed);
    let mut figures = Figures::default();
    let case = Arc::new(Case::new(&mut rng));
    let (first, mut of_first) = (Arc::clone(&case), rng.fork());
    let (pending, drained) = in_time("drain ends", move || {
        runtime().block_on(async {
            first.live(&mut of_first).await;
            let pending = first.engine.pending_saves();
            (pending, first.engine.drain(DRAIN).await)
        })
    })?;
    figures.add("saves pending", pending as u64);
    drained.map_err(|error| Violation::new("a drain ends when no save is pending", error.to_string()))?;
    holds(case.engine.pending_saves() == 0, "no save is pending after a drain", String::new)?;
    case.check(&mut figures)?;
    case.goes_on(&mut figures)?;
    Ok(figures)
}

/// Makes a store yield to other tasks sometimes, without a timer.
#[derive(Debug)]
struct SometimesYields(Mutex<SeededRng>);

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

#[async_trait]
impl Disturb for SometimesYields {
    async fn before(&self) {
        let times = self.0.lock().unwrap().below(8);
        Yields(times).await;
    }

    async fn append(&self, inner: &MemoryStore, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        let appended = inner.append(id, append).await;
        self.before().await;
        appended
    }
}

/// A summarizer that never fails and takes a few polls.
#[derive(Debug)]
struct SlowSummarizer(u64);

#[async_trait]
impl Summarizer for SlowSummarizer {
    async fn summarize(&self, _: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        Yields(self.0).await;
        Ok(SummaryResponse::new("s"))
    }
}

type Complete = Arc<Mutex<Vec<(ConversationId, String)>>>;

struct Case {
    engine: Engine,
    store: MemoryStore,
    ids: Vec<ConversationId>,
    /// The replies that were handed to the engine.
    complete: Complete,
    summarizes: bool,
}

impl Case {
    fn new(rng: &mut SeededRng) -> Self {
        let store = MemoryStore::new();
        let yielding = Disturbed { inner: store.clone(), disturb: SometimesYields(Mutex::new(rng.fork())) };
        let summarizes = rng.once_in(2);
        let mut options = HistoryOptions::new().store_timeout(STORE_LIMIT);
        if rng.once_in(3) {
            options = options.store_timeout(None);
        }
        if summarizes {
            let when = SummarizeWhen::AfterReply { percent: 10 };
            let summaries = Summaries::new(SlowSummarizer(rng.below(20))).max_tokens(20).least_room(1).when(when);
            options = options.context(ContextBudget::tokens(400).reply_reserve(10)).summaries(summaries);
        }
        let ids = (0..1 + rng.index(3)).map(|number| ConversationId::new([&format!("c{number}")]).unwrap());
        let engine = Engine::with_options(yielding, options);
        Self { engine, store, ids: ids.collect(), complete: Complete::default(), summarizes }
    }

    /// Runs turns, and ends their callers in the middle of them.
    async fn live(&self, rng: &mut SeededRng) {
        for _ in 0..rng.between(1, 4) {
            for id in &self.ids {
                turn(&self.engine, id, &self.complete, "before").await;
            }
        }
        let mut callers = JoinSet::new();
        for number in 0..rng.between(2, 8) {
            let (engine, id, complete) = (self.engine.clone(), rng.pick(&self.ids).clone(), Arc::clone(&self.complete));
            let stays = rng.once_in(2);
            callers.spawn(async move {
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
        let long = if rng.once_in(3) { 60 } else { 12 };
        for _ in 0..rng.below(long) {
            tokio::task::yield_now().await;
        }
        callers.shutdown().await;
    }

    /// Checks that every complete reply is stored once.
    fn check(&self, figures: &mut Figures) -> Checked {
        let mut logs: BTreeMap<&ConversationId, Vec<String>> = BTreeMap::new();
        for id in &self.ids {
            let messages = runtime().block_on(self.store.conversation(id).messages()).unwrap();
            logs.insert(id, messages.iter().map(|message| message.text().into_owned()).collect());
        }
        let complete = self.complete.lock().unwrap();
        figures.add("complete replies", complete.len() as u64);
        for (id, text) in &*complete {
            let expected = complete.iter().filter(|one| one.0 == *id && one.1 == *text).count();
            let times = logs[id].iter().filter(|one| *one == text).count();
            holds(times == expected, "every complete reply is stored once", || {
                format!("{text}: {times} of {expected}")
            })?;
        }
        Ok(())
    }

    /// Checks that turns are stored and summaries are made in another runtime.
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
                // The check below finds summaries that are not done by then.
                let _ = engine.drain(DRAIN).await;
            });
        })?;
        self.check(figures)?;
        if self.summarizes {
            for (id, (before, now)) in self.ids.iter().zip(before.iter().zip(self.covered())) {
                figures.count("conversations summarized again");
                holds(now.0 > before.0, "summaries go on in another runtime", || {
                    format!("{id}: summaries cover up to {}, the window starts at {}", now.0, now.1)
                })?;
            }
        }
        Ok(())
    }

    /// Returns, for each conversation, the end of what summaries cover and the start of the window.
    fn covered(&self) -> Vec<(u64, u64)> {
        let load = |id| runtime().block_on(self.store.load(id, Load::new()));
        let positions = self.ids.iter().map(|id| match load(id) {
            Ok(Loaded::Window(window)) => window.compaction.map_or((0, 0), |compaction| {
                let cut = Cuts::read(&compaction).unwrap().cut;
                (cut.covers_to.get(), cut.window_start.get())
            }),
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
    // The check of the log finds a failure.
    let _ = commit.await;
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Does some work on a new thread. It must end in time.
fn in_time<T: Send + 'static>(rule: &'static str, work: impl FnOnce() -> T + Send + 'static) -> Checked<T> {
    let (sender, done) = mpsc::channel();
    thread::spawn(move || sender.send(work()));
    done.recv_timeout(PATIENCE).map_err(|error| Violation::new(rule, format!("{error} within {PATIENCE:?}")))
}
