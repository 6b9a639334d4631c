//! A worker: a process that runs many conversations at once, reports its progress, and may be killed at any
//! moment.

mod attempt;
mod model;
mod people;
mod signed;
mod watch;

use std::{
    io::{self, BufRead as _, Write as _},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use futures_util::future;
use tower_chat_history::{BoxError, CachedStore};
use tower_chat_history_test::Replies;

pub(crate) use self::watch::positions;
use self::{
    attempt::{Attempt, Layers},
    watch::Watch,
};
use crate::{
    PATIENCE,
    exchange::{Conversation, Kind, Name, Task, is_signed},
    protocol::WorkerMessage,
    rng::SeededRng,
    store::{self, Limits, Store},
};

/// One turn in this many uses tools, in each dialect.
const TOOL_TURN_ONCE_IN: u64 = 5;
const SIGNED_TOOL_TURN_ONCE_IN: u64 = 2;
/// A turn with tools has fewer results than this that are followed by further calls.
const MAX_STEPS: usize = 3;
/// The longest pause before an exchange is tried again.
const PAUSE: Duration = Duration::from_millis(50);

/// The settings of a worker. Its standard input has the exchanges to repeat, one in each line, then `go`, and
/// later `stop`.
#[derive(Debug, clap::Args)]
pub(crate) struct Settings {
    /// The store.
    #[arg(long)]
    store: String,
    /// The number of the worker, with which its exchange ids begin.
    #[arg(long)]
    number: u32,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    conversations: Conversation,
    /// The number of concurrent turns.
    #[arg(long)]
    lanes: usize,
}

/// The state that the lanes share.
struct Worker {
    /// The store itself.
    store: Store,
    /// The same store, in every second worker behind a cache.
    used: Store,
    layers: Layers,
    replies: Replies,
    watch: Watch,
    output: Output,
    args: Settings,
    next: AtomicU32,
    stop: Arc<AtomicBool>,
}

/// The output of the worker. Clones write to the same parent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output {
    /// Held while a line is written, since lines of several lanes must not mix.
    lock: Arc<Mutex<()>>,
}

impl Output {
    /// Writes a message and flushes it. If the process is killed after that, the parent still reads the
    /// message.
    pub(crate) fn write(&self, said: &WorkerMessage) -> io::Result<()> {
        let _lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{said}")?;
        stdout.flush()
    }

    pub(crate) fn violation(&self, what: impl Into<String>) -> io::Result<()> {
        self.write(&WorkerMessage::Violation(what.into()))
    }
}

/// Works until the parent sends `stop` or ends.
pub(crate) async fn run(args: Settings) -> Result<(), BoxError> {
    let repeats = read_repeats()?;
    let stop = Arc::new(AtomicBool::new(false));
    let stop_flag = Arc::clone(&stop);
    // The next line is the order to stop. The end of the input also stops the worker.
    std::thread::spawn(move || {
        drop(io::stdin().lock().read_line(&mut String::new()));
        stop_flag.store(true, Relaxed);
    });

    let output = Output::default();
    let store = store::open(&args.store, Limits::Default).await?;
    let mut rng = SeededRng::new(args.seed);
    // Every second worker caches windows. The checks of `watch` read from the store itself.
    let used: Store =
        if args.number % 2 == 1 { Arc::new(CachedStore::new(Arc::clone(&store))) } else { Arc::clone(&store) };
    let worker = Worker {
        layers: Layers::new(&used)?,
        used,
        replies: model::replies(output.clone()),
        watch: Watch::new(output.clone()),
        next: AtomicU32::new(0),
        store,
        output,
        stop,
        args,
    };
    let mut shares = vec![Vec::new(); worker.args.lanes];
    for (number, task) in repeats.into_iter().enumerate() {
        shares[number % worker.args.lanes].push(task);
    }
    let people = worker.keep_people(rng.fork());
    let lanes = shares.into_iter().enumerate().map(|(lane, share)| worker.lane(lane, share, rng.fork()));
    future::try_join(future::try_join_all(lanes), people).await?;
    worker.layers.drain(PATIENCE).await
}

/// Reads the exchanges to repeat, up to the line `go`.
fn read_repeats() -> Result<Vec<Task>, BoxError> {
    let mut repeats = Vec::new();
    for line in io::stdin().lines() {
        match line?.as_str() {
            "go" => return Ok(repeats),
            line => repeats.push(line.parse().map_err(|()| "unknown order of the parent")?),
        }
    }
    Err("the parent has ended".into())
}

impl Worker {
    fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    async fn lane(&self, lane: usize, repeats: Vec<Task>, mut rng: SeededRng) -> Result<(), BoxError> {
        for task in repeats {
            self.settle(lane, task, true, &mut rng).await?;
        }
        while !self.is_stopped() {
            let conversation = Conversation::try_from(rng.below(self.args.conversations.into()))?;
            let task = |number, kind| {
                let name = Name { worker: self.args.number, number };
                Task { name, conversation, kind }
            };
            let once_in = if is_signed(conversation) { SIGNED_TOOL_TURN_ONCE_IN } else { TOOL_TURN_ONCE_IN };
            let kinds = if rng.once_in(once_in) {
                let steps = rng.index(MAX_STEPS);
                [vec![Kind::Call], vec![Kind::Step; steps], vec![Kind::Result]].concat()
            } else {
                vec![Kind::Plain]
            };
            let number = self.next.fetch_add(u32::try_from(kinds.len())?, Relaxed);
            for (number, kind) in (number..).zip(kinds) {
                if !self.settle(lane, task(number, kind), false, &mut rng).await? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Tries until the exchange is stored or refused. Returns true if it is stored.
    async fn settle(&self, lane: usize, task: Task, repeated: bool, rng: &mut SeededRng) -> Result<bool, BoxError> {
        let began = Instant::now();
        let mut may_be_stored = repeated;
        self.output.write(&WorkerMessage::Try(task))?;
        loop {
            match self.attempt(lane, task, may_be_stored, rng).await? {
                Attempt::Stored { seq, source } => {
                    self.output.write(&WorkerMessage::Ack { task, seq, source })?;
                    self.watch.own_write(&*self.store, task, seq, rng).await?;
                    return Ok(true);
                }
                Attempt::Refused(what) => {
                    self.output.write(&WorkerMessage::Refused { task, what })?;
                    return Ok(false);
                }
                Attempt::Failed(what) => {
                    self.output.write(&WorkerMessage::Fail { task, what })?;
                    may_be_stored = true;
                }
            }
            if began.elapsed() > PATIENCE {
                self.output.violation(format!("{} was neither stored nor refused within {PATIENCE:?}", task.name))?;
                return Ok(false);
            }
            tokio::time::sleep(rng.duration(PAUSE)).await;
        }
    }
}
