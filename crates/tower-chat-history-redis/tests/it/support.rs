//! Support that the tests of this store share.

use std::{ops::Range, sync::OnceLock, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, Cmd, Connection, FromRedisValue, Pipeline, RedisFuture, RedisResult, Value,
    aio::{ConnectionLike, MultiplexedConnection},
};
use test_servers::{cluster::Cluster, redis::Server};
use tower_chat_history_conformance::shorthand;
pub(crate) use tower_chat_history_conformance::shorthand::{append, conversation, exchange, say, window};
use tower_chat_history_core::{
    Append, Appended, Citation, Compact, CompactionVersion, ConversationId, Cut, Digest, Exchange, Expect,
    HistoryStore, Origin, Profile, PromptDigests, Provenance, Recalled, Seq,
};
use tower_chat_history_redis::{OpenError, RedisOptions, RedisStore};

/// A time that no call of a test takes, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Returns options with a time limit that no call reaches, also on a busy machine. A single response has less time: if
/// a connection that is cut loses one, the command is sent again.
pub(crate) fn patient() -> RedisOptions {
    RedisOptions::new().response_timeout(PATIENCE / 6).connection_timeout(PATIENCE).retry_for(PATIENCE)
}

/// Opens a store with time limits that are so short that a busy machine may exceed them.
pub(crate) async fn open(connect: impl AsyncFn() -> Result<RedisStore, OpenError>) -> RedisStore {
    loop {
        match connect().await {
            Ok(store) => return store,
            Err(error) => assert!(matches!(error, OpenError::Connect { .. }), "{error:?}"),
        }
    }
}

/// Opens a connection that has no time limits. By default, those of redis-rs are short.
pub(crate) async fn multiplexed(server: &Server) -> MultiplexedConnection {
    let unlimited = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    Client::open(server.url()).unwrap().get_multiplexed_async_connection_with_config(&unlimited).await.unwrap()
}

/// Handles each command that a store sends over a connection, for a test.
pub(crate) trait Intercept<C = MultiplexedConnection>: Clone + Send + Sync + 'static {
    fn send(&mut self, connection: &mut C, command: &Cmd) -> impl Future<Output = RedisResult<Value>> + Send;
}

/// A connection whose commands a test intercepts.
#[derive(Clone)]
pub(crate) struct Intercepted<I, C = MultiplexedConnection> {
    pub(crate) connection: C,
    pub(crate) intercept: I,
}

impl<I: Intercept<C>, C: ConnectionLike + Send> ConnectionLike for Intercepted<I, C> {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(self.intercept.send(&mut self.connection, command))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.connection.req_packed_commands(commands, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.connection.get_db()
    }
}

/// Opens a store over a connection to the server whose commands a test intercepts.
pub(crate) async fn intercepted(server: &Server, intercept: impl Intercept) -> RedisStore {
    let connection = multiplexed(server).await;
    patient().over(Intercepted { connection, intercept }).await.unwrap()
}

/// Returns the server that tests share if they do not change its settings.
pub(crate) fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(Server::start)
}

/// Returns the cluster that tests share.
pub(crate) fn cluster() -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(Cluster::start)
}

/// A server for one test, a store on it, and another connection.
pub(crate) struct TestServer {
    pub(crate) server: Server,
    pub(crate) store: RedisStore,
    admin: Connection,
}

impl TestServer {
    pub(crate) async fn new() -> Self {
        Self::on(Server::start()).await
    }

    pub(crate) async fn on(server: Server) -> Self {
        let store = patient().connect(server.url()).await.unwrap();
        let admin = connect(&server);
        Self { server, store, admin }
    }

    /// Runs a command, given as words, as another program would.
    pub(crate) fn run<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        command(words).query(&mut self.admin).unwrap()
    }

    /// Returns the number of keys of conversations, without the fences of deleted ones.
    pub(crate) fn conversation_keys(&mut self) -> usize {
        let keys: Vec<String> = self.run(&["KEYS", "*"]);
        keys.iter().filter(|key| !key.contains("{!") && !key.ends_with(":gone")).count()
    }

    /// Returns the names in the registry, in order.
    pub(crate) fn names(&mut self) -> Vec<String> {
        let slots = (0..16).map(|slot| format!("chat:{{!{slot}}}:names"));
        let mut names: Vec<String> =
            slots.flat_map(|names| self.run::<Vec<String>>(&["ZRANGE", &names, "0", "-1"])).collect();
        names.sort();
        names
    }

    /// Returns how often a command was executed since the statistics were reset.
    pub(crate) fn calls(&mut self, name: &str) -> u64 {
        let info: String = self.run(&["INFO", "commandstats"]);
        let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    }

    /// Returns the stored state of a conversation.
    pub(crate) fn state(&mut self, id: &ConversationId) -> Vec<u8> {
        self.run(&["HGET", &key(id, ""), "s"])
    }

    /// Replaces the state.
    pub(crate) fn set_state(&mut self, id: &ConversationId, state: &[u8]) {
        redis::cmd("HSET").arg(key(id, "")).arg("s").arg(state).query::<()>(&mut self.admin).unwrap();
    }

    /// Replaces an element of a list.
    pub(crate) fn set_element(&mut self, list: &str, at: usize, bytes: &[u8]) {
        redis::cmd("LSET").arg(list).arg(at).arg(bytes).query::<()>(&mut self.admin).unwrap();
    }

    /// Appends an element to a list.
    pub(crate) fn push(&mut self, list: &str, bytes: &[u8]) {
        redis::cmd("RPUSH").arg(list).arg(bytes).query::<()>(&mut self.admin).unwrap();
    }

    /// Returns the number of connections that the server has accepted.
    pub(crate) fn accepted(&mut self) -> u64 {
        let info: String = self.run(&["INFO", "stats"]);
        let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:")).unwrap();
        line.trim().parse().unwrap()
    }

    /// Changes numbers of the state, each given with its offset.
    pub(crate) fn change_state(&mut self, id: &ConversationId, numbers: &[(usize, u64)]) {
        let mut state = self.state(id);
        for (offset, number) in numbers {
            state[*offset..offset + 6].copy_from_slice(&number.to_be_bytes()[2..]);
        }
        self.set_state(id, &state);
    }

    pub(crate) fn crash_and_restart(&mut self) {
        self.server.crash();
        self.server.restart();
        self.admin = connect(&self.server);
    }
}

pub(crate) fn connect(server: &Server) -> Connection {
    Client::open(server.url()).unwrap().get_connection().unwrap()
}

pub(crate) fn command(words: &[&str]) -> Cmd {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command
}

/// Returns one of a conversation's keys.
pub(crate) fn key(id: &ConversationId, part: &str) -> String {
    format!("chat:{{{id}}}{part}")
}

/// Returns the keys of a conversation's slot of the registry.
pub(crate) fn slot_keys(id: &ConversationId) -> [String; 4] {
    let slot = xxhash_rust::xxh3::xxh3_64(id.as_str().as_bytes()) % 16;
    [":names", ":registered", ":erasures", ":epochs"].map(|part| format!("chat:{{!{slot}}}{part}"))
}

/// The offset of the stamp of the registration in a state, which has eight bytes.
pub(crate) const REGISTERED: usize = 18;
/// The offsets of the numbers of a state, which have six bytes: the end and the beginning of the log, and the number of
/// elements after the end.
pub(crate) const END: usize = 26;
pub(crate) const BEGINNING: usize = 32;
pub(crate) const BEHIND: usize = 44;
/// The places of the sums of everything before the end. An index entry has the sums of everything before it,
/// in the same form, from offset 1 on.
pub(crate) const SUMS: Range<usize> = 50..76;

/// The offsets of the numbers of recalled messages and of their erasure: the number of fields; the position before
/// which a cited position is erased; and the positions from which on and before which it is not swept yet. They are in
/// the second part of the state, which a conversation without recalled messages and provenances does not have.
pub(crate) const RECALLED: usize = 92;
pub(crate) const ERASED: usize = 98;
pub(crate) const UNSWEPT: usize = 104;
pub(crate) const UNSWEPT_END: usize = 110;

/// The keys that every conversation has.
pub(crate) const PARTS: [&str; 4] = ["", ":log", ":index", ":ids"];
/// The keys that only conversations with recalled messages and provenances have.
pub(crate) const OPTIONAL_PARTS: [&str; 2] = [":recalled", ":provenances"];

/// Appends an exchange with recalled messages, which have this text and cite these positions.
pub(crate) async fn recall(store: &RedisStore, id: &ConversationId, text: &str, cited: &[u64]) -> Appended {
    let mut exchange = exchange("asks");
    let citations = cited.iter().map(|seq| Citation::new(Seq::new(*seq), 0..1)).collect();
    exchange.recalled = Some(Recalled::new(text, citations));
    store.append(id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap()
}

/// Returns the texts of the recalled messages of a log, which are empty for exchanges without some.
pub(crate) async fn recalled_texts(store: &RedisStore, id: &ConversationId) -> Vec<String> {
    let page = store.read(id, Seq::FIRST, 1_000).await.unwrap();
    let recalled = page.exchanges.iter().map(|one| one.exchange.recalled.as_ref());
    recalled.map(|recalled| recalled.map_or_else(String::new, |recalled| recalled.message.text().to_string())).collect()
}

/// Returns an exchange whose reply was made by this provider.
pub(crate) fn made_by(provider: &str) -> Exchange {
    let mut exchange = exchange("asks");
    let [head, prompt] = ["head", "prompt"].map(|text| Digest::of(text.as_bytes()));
    let origin = Origin::unknown().provider(provider);
    let cut = Cut::window_from(Seq::new(1)).positions;
    let digests = PromptDigests::new(head, prompt);
    exchange.provenance = Some(Provenance::new(1, cut, digests, origin));
    exchange
}

/// Appends an exchange with a provenance of this provider.
pub(crate) async fn make(store: &RedisStore, id: &ConversationId, provider: &str) -> Appended {
    store.append(id, Append::new(Expect::AnyOrCreate, made_by(provider))).await.unwrap()
}

/// Returns the providers of the replies of a log, which are empty for exchanges without provenance.
pub(crate) async fn providers(store: &RedisStore, id: &ConversationId) -> Vec<String> {
    let page = store.read(id, Seq::FIRST, 1_000).await.unwrap();
    let provenances = page.exchanges.iter().map(|one| one.exchange.provenance.as_ref());
    provenances.map(|made| made.map_or_else(String::new, |made| made.origin.provider.clone().unwrap())).collect()
}

/// Returns the texts of a window, in order.
pub(crate) async fn texts(store: &RedisStore, id: &ConversationId) -> Vec<String> {
    shorthand::texts(&window(store, id).await)
}

/// A compaction of the default profile, with this text in place of the exchanges before the window.
pub(crate) fn compact(replaces: CompactionVersion, window_start: u64, derived: Option<&str>) -> Compact {
    let derived = derived.map(|text| text.as_bytes().into());
    Compact::new(Profile::default(), replaces, Seq::new(window_start), b"state"[..].into(), derived)
}
