//! The cost of recall in a conversation of which 2,000 messages are searched, and of a turn that recalls nothing.
//!
//! For each store, three contests:
//!
//! - `search`: a load of the newest 60 messages, and the same load followed by a search in the messages before them,
//!   with all terms in memory and with none (`cold`). The questions have rare, mixed and common words. The difference
//!   is what recall adds to a turn.
//! - `beside`: a search in one conversation of 60 exchanges, whose window has the newest 30, and the same search that
//!   also covers 20 other conversations of that size.
//! - `turn`: a turn of a conversation that is in its window, through engines without and with recall.
//!
//! The contestants alternate in one run, and the median time of each is printed.
//!
//! Run it with `cargo bench -p benches --bench recall`. It starts the servers from the installed programs. A server
//! that is not installed is left out, and a line reports that. To measure only some stores, name them: `-- memory
//! sqlite postgres redis`.
#![allow(clippy::unwrap_used)] // Benches may panic.

use std::{
    hint::black_box,
    num::NonZeroUsize,
    sync::Arc,
    time::{Duration, Instant},
};

use benches::{
    contest::{Circle, Contestant, paired},
    conversation, fill_all, text, turn,
};
use test_servers::{left_out, postgres, redis as redis_server};
use tokio::runtime::Runtime;
use tower_chat_history::{
    ConversationId, Engine, Exchange, ExchangeId, HistoryOptions, HistoryStore, MemoryStore, Message, Reply, TurnInput,
    recall::{Analyzer, Ask, LogRecall, LogSearch, RecallOptions, SearchAnswer, SearchScope},
    store::{Append, Expect, List, Load, LoadLimit, Loaded, Seq, Window},
};
use tower_chat_history_postgres::PostgresStore;
use tower_chat_history_redis::RedisStore;
use tower_chat_history_sqlite::SqliteStore;

/// The number of exchanges of the long conversation. Each has two messages.
const EXCHANGES: u64 = 1_100;
/// The exchanges of its window.
const WINDOW: u64 = 30;
/// The allowance of a search, in tokens.
const ALLOWANCE: u64 = 1_000;
/// The other conversations of the same person.
const OTHERS: usize = 20;
const ROUNDS: usize = 300;
const TURN_ROUNDS: usize = 2_000;
/// The short conversations of each contestant of the turns.
const CONVERSATIONS: usize = 200;

/// A generator of words whose frequencies follow Zipf's law, as those of natural texts do.
struct Words(u64);

impl Words {
    fn next(&mut self) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let random = (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64;
        // Ranks from 1 to 50,000, the logarithm of which is uniform.
        50_000_f64.powf(random) as u64
    }

    fn text(&mut self, words: usize) -> String {
        let words: Vec<String> = (0..words).map(|_| format!("word{}", self.next())).collect();
        words.join(" ")
    }
}

async fn fill_long(store: &dyn HistoryStore, id: &ConversationId) {
    let mut words = Words(42);
    for _ in 0..EXCHANGES {
        let messages = [Message::user(words.text(15)), Message::assistant(words.text(45))];
        let exchange = Exchange::new(ExchangeId::generate(), messages);
        store.append(id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    }
}

/// Returns questions of eight words: rare, mixed and common ones.
fn questions() -> Vec<Message> {
    let words = [
        [40_001, 31_017, 22_003, 15_551, 48_813, 27_491, 35_353, 19_019],
        [3, 41_002, 120, 9_001, 77, 30_303, 1_500, 12],
        [1, 2, 3, 4, 5, 6, 7, 8],
    ];
    words.map(|words| Message::user(words.map(|word| format!("word{word}")).join(" ") + "?")).to_vec()
}

async fn load(store: &dyn HistoryStore, id: &ConversationId) -> Window {
    let limit = LoadLimit::new(2 * WINDOW as usize, 1 << 30).unwrap();
    let Loaded::Window(window) = store.load(id, Load::new().limit(limit)).await.unwrap() else {
        panic!("the conversation was filled")
    };
    window
}

async fn search(log: &LogSearch, id: &ConversationId, window: &Window, before: Seq, question: &Message) {
    let ask = Ask {
        conversation: id,
        revision: Some(window.revision),
        before,
        input: std::slice::from_ref(question),
        already: &[],
        allowance: ALLOWANCE,
        cost: &|message| message.bytes() as u64 / 4,
    };
    let SearchAnswer::Found(found) = log.search(ask).await.unwrap() else { panic!("the log is searched") };
    black_box(found);
}

/// Returns the id of a conversation of one person.
fn of_person(number: usize) -> ConversationId {
    ConversationId::new(["bench", "person", &number.to_string()]).unwrap()
}

/// Compares a search in one conversation with the same search in 20 others, too.
fn beside<S: List>(name: &str, runtime: &Runtime, store: &Arc<S>) {
    let mut words = Words(7);
    runtime.block_on(async {
        for number in 0..=OTHERS {
            for _ in 0..2 * WINDOW {
                let messages = [Message::user(words.text(15)), Message::assistant(words.text(45))];
                let exchange = Exchange::new(ExchangeId::generate(), messages);
                store.append(&of_person(number), Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
            }
        }
    });

    let one = LogSearch::new(Arc::clone(store) as Arc<dyn HistoryStore>, Analyzer::default());
    let scope = SearchScope::parts(NonZeroUsize::new(2).unwrap());
    let all = LogSearch::under(Arc::clone(store), Analyzer::default(), scope);
    let id = of_person(0);
    let question = &questions()[1];
    let window = runtime.block_on(load(&**store, &id));
    let before = Seq::new(WINDOW);
    let contest = vec![
        Contestant::of("one conversation", runtime, || search(&one, &id, &window, before, question)),
        Contestant::of("beside 20 others", runtime, || search(&all, &id, &window, before, question)),
    ];
    paired(&format!("beside/{name}"), ROUNDS, contest);
}

fn compare<S: List>(name: &str, runtime: &Runtime, store: Arc<S>) {
    beside(name, runtime, &store);

    let store: Arc<dyn HistoryStore> = store;
    let id = conversation(usize::MAX);
    let warm = LogSearch::new(Arc::clone(&store), Analyzer::default());
    runtime.block_on(fill_long(&*store, &id));
    for (kind, question) in ["rare", "mixed", "common"].into_iter().zip(questions()) {
        let contest = vec![
            Contestant::of("load", runtime, || async { drop(black_box(load(&*store, &id).await)) }),
            Contestant::of("load and search", runtime, || load_and_search(&*store, &warm, &id, &question)),
            Contestant::of("cold", runtime, || async {
                let cold = LogSearch::new(Arc::clone(&store), Analyzer::default());
                load_and_search(&*store, &cold, &id, &question).await;
            }),
        ];
        paired(&format!("{kind}/{name}"), ROUNDS, contest);
    }
    turns(name, runtime, store);
}

async fn load_and_search(store: &dyn HistoryStore, log: &LogSearch, id: &ConversationId, question: &Message) {
    let window = load(store, id).await;
    search(log, id, &window, Seq::new(EXCHANGES - WINDOW), question).await;
}

/// Compares the saves of turns without and with recall, in conversations that are in their window.
fn turns(name: &str, runtime: &Runtime, store: Arc<dyn HistoryStore>) {
    runtime.block_on(fill_all(&*store, 0..2 * CONVERSATIONS, 30));
    let recall = RecallOptions::new(LogRecall::new(Arc::clone(&store)));
    let plain = Engine::new(Arc::clone(&store));
    let recalling = Engine::with_options(store, HistoryOptions::new().recall(recall));
    let of_plain = Circle::new(0, CONVERSATIONS);
    let of_recalling = Circle::new(CONVERSATIONS, CONVERSATIONS);
    let contest = vec![
        Contestant::new("save", || runtime.block_on(save(&plain, &of_plain))),
        Contestant::new("save with recall", || runtime.block_on(save(&recalling, &of_recalling))),
    ];
    paired(&format!("turn/{name}"), TURN_ROUNDS, contest);
}

/// Makes a turn, and returns the time of its save.
async fn save(engine: &Engine, circle: &Circle) -> Duration {
    let [question, answer] = turn(&text());
    let input = TurnInput::new(conversation(circle.next()), [question]);
    let turn = engine.begin(input).await.unwrap();

    let start = Instant::now();
    turn.commit(Reply::new(answer)).await.unwrap();
    start.elapsed()
}

fn main() {
    let Some(is_selected) = benches::selected() else { return };
    let runtime = Runtime::new().unwrap();
    if is_selected("memory") {
        compare("memory", &runtime, Arc::new(MemoryStore::with_limit(1 << 30)));
    }

    if is_selected("sqlite") {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let store = runtime.block_on(SqliteStore::open(directory.path().join("recall.db"))).unwrap();
        compare("sqlite", &runtime, Arc::new(store));
    }

    if is_selected("postgres") {
        if postgres::is_available() {
            let server = postgres::Server::start(postgres::Durability::Full);
            let store = runtime.block_on(async { PostgresStore::connect(&server.database().await).await.unwrap() });
            compare("postgres", &runtime, Arc::new(store));
        } else {
            left_out(postgres::NAME);
        }
    }

    if is_selected("redis") {
        if redis_server::is_available() {
            let server = redis_server::Server::start();
            let store = runtime.block_on(RedisStore::connect(server.url())).unwrap();
            compare("redis", &runtime, Arc::new(store));
        } else {
            left_out(redis_server::NAME);
        }
    }
}
