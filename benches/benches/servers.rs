//! The cost of a turn with PostgreSQL and with Redis. A turn reads a window of 60 messages and appends two messages.
//!
//! Each run compares:
//!
//! - `raw`: the driver's two statements on messages of 250 bytes, without checks and retries;
//! - `by hand`: the same, plus the work of a service without this library: it builds a request and calls the model;
//! - `store`: the store alone, a load and an append;
//! - `layer`: the whole layer;
//! - `store, cached` and `layer, cached`: the same with a `CachedStore`, if all calls of a conversation reach one
//!   process. Without the cache, each turn transfers and decodes its whole window.
//! - `store, replicas` and `layer, replicas`: the same with two caches that take turns, as two processes would have
//!   them. Each has not seen the conversation's last turn. They share the connections.
//!
//! The contestants alternate in one run, and the median time of each is printed. Separate measurements could not be
//! compared, because the servers run on the same machine and influence the times.
//!
//! Run it with `cargo bench -p benches --bench servers`. It starts the servers from the installed programs. A server
//! that is not installed is left out, and a line reports that. To measure only one server, name it: `-- postgres` or
//! `-- redis`.
#![allow(clippy::unwrap_used)] // Benches may panic.

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use async_openai::types::chat::{
    ChatCompletionRequestAssistantMessage, ChatCompletionRequestMessage, ChatCompletionRequestUserMessage,
};
use benches::{
    Llm, WINDOW,
    contest::{Circle, Contestant, crowd, paired, timed},
    conversation, fill_all, llm, question, text, turn,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use redis::{AsyncCommands as _, aio::ConnectionManager};
use test_servers::{left_out, postgres, redis as redis_server};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, Statement};
use tower::{Layer as _, Service as _, ServiceExt as _};
use tower_chat_history::{
    CachedStore, ChatHistory, ChatHistoryLayer, ContextOptions, Exchange, ExchangeId, HistoryOptions, HistoryStore,
    InConversation,
    store::{Append, Expect, Load, LoadLimit, Loaded},
};
use tower_chat_history_openai::OpenAi;
use tower_chat_history_postgres::PostgresStore;
use tower_chat_history_redis::RedisStore;

const CONVERSATIONS: usize = 1_000;
/// The number of connections of PostgreSQL's raw turns: as many as the store's pool has.
const CONNECTIONS: usize = 10;
const ROUNDS: usize = 1_000;
const CROWDS: usize = 15;

/// The two statements of a turn, without this library.
trait Raw: Send + Sync + 'static {
    fn read(&self, session: usize) -> impl Future<Output = Vec<String>> + Send;
    fn write(&self, session: usize) -> impl Future<Output = ()> + Send;
}

/// A table of messages, with connections that concurrent callers share.
struct Table {
    connections: Vec<(Client, Statement, Statement)>,
    next: AtomicUsize,
    text: String,
}

impl Table {
    async fn make(url: &str) -> Self {
        let mut connections = Vec::new();
        for number in 0..CONNECTIONS {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
            tokio::spawn(connection);
            if number == 0 {
                let fill = format!(
                    "create table message (session bigint, seq bigint, role int, body text, primary key (session, seq)); \
                     insert into message select s, q, q % 2, repeat('x', 250) \
                     from generate_series(0, {CONVERSATIONS} - 1) s, generate_series(0, {WINDOW} - 1) q; analyze message"
                );
                client.batch_execute(&fill).await.unwrap();
            }

            let read = "select seq, role, body from message where session = $1 order by seq desc limit $2";
            let write = "insert into message select $1, (select max(seq) from message where session = $1) + o, o % 2, b \
                         from unnest($2::text[]) with ordinality as t(b, o)";
            let read = client.prepare(read).await.unwrap();
            let write = client.prepare(write).await.unwrap();

            connections.push((client, read, write));
        }
        Self { connections, next: AtomicUsize::new(0), text: text() }
    }

    fn connection(&self) -> &(Client, Statement, Statement) {
        &self.connections[self.next.fetch_add(1, Relaxed) % CONNECTIONS]
    }
}

impl Raw for Table {
    async fn read(&self, session: usize) -> Vec<String> {
        let (client, read, _) = self.connection();
        let rows = client.query(read, &[&(session as i64), &(WINDOW as i64)]).await.unwrap();
        let window = rows.iter().map(|row| (row.get::<_, i64>(0), row.get::<_, i32>(1), row.get(2)));
        window.map(|row| black_box(row).2).collect()
    }

    async fn write(&self, session: usize) {
        let (client, _, write) = self.connection();
        let texts = [&*self.text, &*self.text];
        client.execute(write, &[&(session as i64), &texts.as_slice()]).await.unwrap();
    }
}

/// One list of messages per session.
struct Lists {
    connection: ConnectionManager,
    text: String,
}

impl Lists {
    async fn make(url: &str) -> Self {
        let mut connection = redis::Client::open(url).unwrap().get_connection_manager().await.unwrap();
        let text = text();
        for session in 0..CONVERSATIONS {
            let _: usize = connection.rpush(format!("raw:{session}"), vec![&text; WINDOW]).await.unwrap();
        }
        Self { connection, text }
    }
}

impl Raw for Lists {
    async fn read(&self, session: usize) -> Vec<String> {
        self.connection.clone().lrange(format!("raw:{session}"), -(WINDOW as isize), -1).await.unwrap()
    }

    async fn write(&self, session: usize) {
        let texts = [&self.text, &self.text];
        let _: usize = self.connection.clone().rpush(format!("raw:{session}"), &texts).await.unwrap();
    }
}

/// Returns a load limit of this many messages, and practically no limit of bytes.
fn limit(messages: usize) -> LoadLimit {
    LoadLimit::new(messages, 1 << 30).unwrap()
}

/// Makes a turn with the driver alone.
async fn raw_turn(raw: Arc<impl Raw>, circle: Arc<Circle>) {
    let session = circle.next();
    assert_eq!(black_box(raw.read(session).await).len(), WINDOW);
    raw.write(session).await;
}

/// Makes a turn with the driver and a model call, as in a service that stores only texts.
async fn turn_by_hand(raw: Arc<impl Raw>, mut llm: Llm, circle: Arc<Circle>) {
    let session = circle.next();
    let mut request = question();
    let window = raw.read(session).await.into_iter().enumerate().map(|(at, text)| -> ChatCompletionRequestMessage {
        match at % 2 {
            0 => ChatCompletionRequestUserMessage::from(text).into(),
            _ => ChatCompletionRequestAssistantMessage::from(text).into(),
        }
    });
    request.messages.splice(0..0, window);
    black_box(llm.ready().await.unwrap().call(request).await.unwrap());
    raw.write(session).await;
}

/// Makes a load and an append, without the layer. The replicas take turns.
async fn store_turn(replicas: Arc<[Arc<dyn HistoryStore>]>, circle: Arc<Circle>) {
    let (number, lap) = circle.next_in_lap();
    let id = conversation(number);
    let store = &replicas[lap % replicas.len()];
    let Loaded::Window(window) = store.load(&id, Load::new().limit(limit(WINDOW))).await.unwrap() else {
        panic!("the conversation was filled")
    };
    let exchange = Exchange::new(ExchangeId::generate(), turn(&text()));
    store.append(&id, Append::new(Expect::AnyIn(window.revision.incarnation()), exchange)).await.unwrap();
}

type Chat = ChatHistory<Llm, OpenAi>;

fn chat(store: &Arc<dyn HistoryStore>) -> Chat {
    // Conversations grow during the bench. With this limit, windows have 60 to 80 messages, because a compaction goes
    // down to three quarters of the limit.
    let options = HistoryOptions::new().context(ContextOptions::new().load_limit(limit(WINDOW * 4 / 3)));
    ChatHistoryLayer::with_options(Arc::clone(store), OpenAi::new(), options).layer(llm())
}

/// Makes a turn with the layer. The replicas take turns.
async fn layer_turn(replicas: Arc<[Chat]>, circle: Arc<Circle>) {
    let (number, lap) = circle.next_in_lap();
    let chat = replicas[lap % replicas.len()].clone();
    black_box(chat.oneshot(InConversation::new(conversation(number), question())).await.unwrap());
}

/// Returns this number of replicas, each with a cache of its own.
fn cached(store: &(impl HistoryStore + Clone), replicas: usize) -> Arc<[Arc<dyn HistoryStore>]> {
    let mut stores: Vec<Arc<dyn HistoryStore>> = Vec::new();
    for _ in 0..replicas {
        stores.push(Arc::new(CachedStore::with_limit(store.clone(), 1 << 30)));
    }
    stores.into()
}

fn chats(stores: &[Arc<dyn HistoryStore>]) -> Arc<[Chat]> {
    stores.iter().map(chat).collect()
}

/// A kind of turn: each call begins one.
type Turn = Box<dyn Fn() -> BoxFuture<'static, ()>>;

/// Returns all kinds of turns. Each has its own conversations.
fn turns(raw: impl Raw, store: &(impl HistoryStore + Clone)) -> [(&'static str, Turn); 8] {
    let raw = Arc::new(raw);
    let by_hand = Arc::clone(&raw);
    let plain: Arc<[Arc<dyn HistoryStore>]> = Arc::new([Arc::new(store.clone())]);
    let one_cache = cached(store, 1);
    let two_caches = cached(store, 2);
    let chat = chats(&plain);
    let cached_chat = chats(&one_cache);
    let replica_chats = chats(&two_caches);

    let circles = [0, 0, 0, 1, 2, 3, 4, 5].map(|part| Arc::new(Circle::new(part * CONVERSATIONS, CONVERSATIONS)));
    let [c0, c1, c2, c3, c4, c5, c6, c7] = circles;
    [
        ("raw", Box::new(move || raw_turn(Arc::clone(&raw), Arc::clone(&c0)).boxed())),
        ("by hand", Box::new(move || turn_by_hand(Arc::clone(&by_hand), llm(), Arc::clone(&c1)).boxed())),
        ("store", Box::new(move || store_turn(Arc::clone(&plain), Arc::clone(&c2)).boxed())),
        ("store, cached", Box::new(move || store_turn(Arc::clone(&one_cache), Arc::clone(&c3)).boxed())),
        ("store, replicas", Box::new(move || store_turn(Arc::clone(&two_caches), Arc::clone(&c6)).boxed())),
        ("layer", Box::new(move || layer_turn(Arc::clone(&chat), Arc::clone(&c4)).boxed())),
        ("layer, cached", Box::new(move || layer_turn(Arc::clone(&cached_chat), Arc::clone(&c5)).boxed())),
        ("layer, replicas", Box::new(move || layer_turn(Arc::clone(&replica_chats), Arc::clone(&c7)).boxed())),
    ]
}

fn compare(name: &str, runtime: &Runtime, raw: impl Raw, store: &(impl HistoryStore + Clone)) {
    runtime.block_on(fill_all(store, 0..6 * CONVERSATIONS, WINDOW / 2));
    let _guard = runtime.enter();
    let turns = turns(raw, store);

    // Warm up: each replica uses each conversation once, because the first use costs more and fills its cache.
    for (_, turn) in &turns {
        runtime.block_on(timed(2 * CONVERSATIONS as u64, turn));
    }

    let alone = turns.iter().map(|(name, turn)| Contestant::of(*name, runtime, turn));
    paired(&format!("turn/{name}"), ROUNDS, alone.collect());
    let at_once = turns.iter().map(|(name, turn)| Contestant::of(*name, runtime, move || crowd(turn)));
    paired(&format!("64 tasks/{name}"), CROWDS, at_once.collect());
}

fn main() {
    let Some(is_selected) = benches::selected() else { return };
    let runtime = Runtime::new().unwrap();
    if is_selected("postgres") {
        if postgres::is_available() {
            bench_postgres(&runtime);
        } else {
            left_out(postgres::NAME);
        }
    }

    if is_selected("redis") {
        if redis_server::is_available() {
            bench_redis(&runtime);
        } else {
            left_out(redis_server::NAME);
        }
    }
}

fn bench_postgres(runtime: &Runtime) {
    let server = postgres::Server::start(postgres::Durability::Full);
    let (raw, store) = runtime.block_on(async {
        let url = server.database().await;
        (Table::make(&url).await, PostgresStore::connect(&url).await.unwrap())
    });
    compare("postgres", runtime, raw, &store);
}

fn bench_redis(runtime: &Runtime) {
    let server = redis_server::Server::start();
    let url = server.url();
    let (raw, store) =
        runtime.block_on(async { (Lists::make(&url).await, RedisStore::connect(url.clone()).await.unwrap()) });
    compare("redis", runtime, raw, &store);
}
