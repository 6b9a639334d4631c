//! What a turn costs with PostgreSQL and with Redis: a window of 60 messages is read, two messages are appended.
//!
//! Beside the layer, in the same run, stand the store alone (a load and an append) and what one would write by hand with the
//! driver (`raw`): two statements on messages of 250 bytes, which check nothing, know no conversation, and repeat nothing. `cached` is
//! the same with a `CachedStore`, where every conversation's calls come to one process; without it each turn transfers and
//! decodes its whole window. They take turns, and the medians are printed; statistics of one of them alone would say little, as
//! the servers share the machine.
//!
//! The servers are started for this from the installed programs; one that is not there is left out, and a line says so. Names
//! (`-- redis`) choose among them.
#![allow(clippy::unwrap_used)] // A bench that cannot be set up has nothing to measure.

use std::{hint::black_box, sync::Arc};

use benches::{
    Llm, WINDOW,
    contest::{Circle, Contest, crowd, paired, timed},
    conversation, fill_all, llm, question, text, turn,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use redis::{AsyncCommands as _, aio::ConnectionManager};
use tests::servers::{left_out, postgres, redis as redis_server};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, Statement};
use tower::{Layer as _, ServiceExt as _};
use tower_chat_history::{
    Append, CachedStore, ChatHistory, ChatHistoryLayer, Exchange, ExchangeId, Expect, HistoryOptions, HistoryStore,
    InConversation, Load, LoadLimit, Loaded,
};
use tower_chat_history_openai::OpenAi;
use tower_chat_history_postgres::PostgresStore;
use tower_chat_history_redis::RedisStore;

const CONVERSATIONS: usize = 1_000;
/// Connections that PostgreSQL's raw turns share, as many as a pool has that leaves some to others.
const CONNECTIONS: usize = 8;
const ROUNDS: usize = 1_000;
const CROWDS: usize = 15;

/// A turn by hand.
trait Raw: Send + Sync + 'static {
    fn turn(&self, session: usize) -> impl Future<Output = ()> + Send;
}

/// A table of messages, on connections that are shared by those who call at once.
struct Table {
    connections: Vec<(Client, Statement, Statement)>,
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
            let (read, write) = (client.prepare(read).await.unwrap(), client.prepare(write).await.unwrap());
            connections.push((client, read, write));
        }
        Self { connections, text: text() }
    }
}

impl Raw for Table {
    async fn turn(&self, session: usize) {
        let (client, read, write) = &self.connections[session % CONNECTIONS];
        let key = session as i64;
        let rows = client.query(read, &[&key, &(WINDOW as i64)]).await.unwrap();
        let window: Vec<(i64, i32, String)> = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
        assert_eq!(black_box(window).len(), WINDOW);
        client.execute(write, &[&key, &[&*self.text, &*self.text].as_slice()]).await.unwrap();
    }
}

/// A list of messages a session.
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
    async fn turn(&self, session: usize) {
        let (key, mut connection) = (format!("raw:{session}"), self.connection.clone());
        let window: Vec<String> = connection.lrange(&key, -(WINDOW as isize), -1).await.unwrap();
        assert_eq!(black_box(window).len(), WINDOW);
        let mut pipeline = redis::pipe();
        pipeline.rpush(&key, &[&self.text, &self.text]).ignore().expire(&key, 86_400).ignore();
        let () = pipeline.query_async(&mut connection).await.unwrap();
    }
}

/// At most so many messages, and no other bound.
fn limit(messages: usize) -> LoadLimit {
    LoadLimit::new(messages, 1 << 30).unwrap()
}

/// A load and an append, without the layer.
async fn store_turn(store: Arc<dyn HistoryStore>, number: usize) {
    let id = conversation(number);
    let Loaded::Window(window) = store.load(&id, Load::new().limit(limit(WINDOW))).await.unwrap() else {
        panic!("it was filled")
    };
    let exchange = Exchange::new(ExchangeId::generate(), turn(&text()));
    store.append(&id, Append::new(Expect::AnyIn(window.revision.incarnation()), exchange)).await.unwrap();
}

type Chat = ChatHistory<Llm, OpenAi>;

fn chat(store: &Arc<dyn HistoryStore>) -> Chat {
    // Conversations grow while they are measured: windows of 60 to 80 messages, as the limit lets them start at three quarters.
    let options = HistoryOptions::new().load_limit(limit(WINDOW * 4 / 3));
    ChatHistoryLayer::with_options(Arc::clone(store), OpenAi::new(), options).layer(llm())
}

async fn layer_turn(chat: Chat, number: usize) {
    let call = InConversation::new(conversation(number), question());
    black_box(chat.oneshot(call).await.unwrap());
}

fn compare(name: &str, runtime: &Runtime, by_hand: impl Raw, store: impl HistoryStore + Clone) {
    runtime.block_on(fill_all(&store, 0..4 * CONVERSATIONS, WINDOW / 2));
    let _guard = runtime.enter();
    let by_hand = Arc::new(by_hand);
    let plain: Arc<dyn HistoryStore> = Arc::new(store.clone());
    let cached: Arc<dyn HistoryStore> = Arc::new(CachedStore::with_limit(store, 1 << 30));
    let (chat, cached_chat) = (chat(&plain), chat(&cached));
    let [of_raw, of_store, of_cached_store, of_layer, of_cached_layer] =
        [0, 0, 1, 2, 3].map(|part| Circle::new(part * CONVERSATIONS, CONVERSATIONS));
    // Each conversation is known where it is to be known.
    runtime.block_on(async {
        for _ in 0..CONVERSATIONS {
            store_turn(Arc::clone(&cached), of_cached_store.next()).await;
            layer_turn(cached_chat.clone(), of_cached_layer.next()).await;
        }
    });
    let raw_turn = || {
        let (by_hand, session) = (Arc::clone(&by_hand), of_raw.next());
        async move { by_hand.turn(session).await }
    };
    for (title, rounds, at_once) in [("turn", ROUNDS, false), ("64 tasks", CROWDS, true)] {
        let run = |turn: &dyn Fn() -> BoxFuture<'static, ()>| {
            runtime.block_on(async { if at_once { timed(1, || crowd(turn)).await } else { timed(1, turn).await } })
        };
        let contest: &mut Contest<'_> = &mut [
            ("raw", &mut || run(&|| raw_turn().boxed())),
            ("store", &mut || run(&|| store_turn(Arc::clone(&plain), of_store.next()).boxed())),
            ("store, cached", &mut || run(&|| store_turn(Arc::clone(&cached), of_cached_store.next()).boxed())),
            ("layer", &mut || run(&|| layer_turn(chat.clone(), of_layer.next()).boxed())),
            ("layer, cached", &mut || run(&|| layer_turn(cached_chat.clone(), of_cached_layer.next()).boxed())),
        ];
        paired(&format!("{title}/{name}"), rounds, contest);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Not while the bench is only tried.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let named: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let is_asked_for = |name: &str| named.is_empty() || named.iter().any(|asked| asked.as_str() == name);
    let runtime = Runtime::new().unwrap();
    if is_asked_for("postgres") {
        if postgres::is_there() {
            bench_postgres(&runtime);
        } else {
            left_out(postgres::NAME);
        }
    }
    if is_asked_for("redis") {
        if redis_server::is_there() {
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
    compare("postgres", runtime, raw, store);
}

fn bench_redis(runtime: &Runtime) {
    let server = redis_server::Server::start();
    let url = server.url();
    let (raw, store) =
        runtime.block_on(async { (Lists::make(&url).await, RedisStore::connect(url.clone()).await.unwrap()) });
    compare("redis", runtime, raw, store);
}
