//! Running scripts, and repeating them after transient failures.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::{Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::time::Instant;
use tower_chat_history_core::{ConversationId, Incarnation, StoreError};

use crate::{
    connection::Connection,
    error::Failure,
    keys,
    large::{AnswerLimit, LargeCalls, MAX_SMALL_BYTES, within},
    options::RedisOptions,
    reply::Reply,
    scripts::Script,
};

/// The first and the longest pause before a repetition.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_millis(500);
/// The time to use in place of one that the clock cannot represent: a year.
const ONE_YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);

/// A connection and the options of its store.
pub(crate) struct Shared {
    pub(crate) connection: Connection,
    pub(crate) options: RedisOptions,
    /// `true` if no script can use the keys of a conversation and those of the registry, or of another conversation.
    divides_keys: AtomicBool,
    large: LargeCalls,
}

/// A script with its keys and arguments.
pub(crate) struct Call<'a> {
    script: &'a Script,
    /// The conversation that errors name.
    id: Option<&'a ConversationId>,
    keys: Vec<String>,
    arguments: Vec<Argument<'a>>,
    pub(crate) answer_limit: AnswerLimit,
}

/// An argument that is not copied before it is sent.
pub(crate) enum Argument<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
    Number(u64),
    Owned(String),
}

/// The largest integer that scripts represent exactly. No position comes near it.
const MAX_SCRIPT_INTEGER: u64 = 1 << 53;

impl Shared {
    pub(crate) fn new(connection: Connection, options: RedisOptions) -> Self {
        let divides_keys = AtomicBool::new(connection.divides_keys);
        Self { connection, options, divides_keys, large: LargeCalls::new() }
    }

    /// Returns `true` if one script can register a conversation and create it. If conversations expire, a registration
    /// also looks for expired ones, whose keys no script can name in advance.
    pub(crate) fn creates_in_one_step(&self) -> bool {
        self.options.expire_after.is_none() && !self.divides_keys()
    }

    /// Returns `true` if no script can use the keys of two conversations.
    pub(crate) fn divides_keys(&self) -> bool {
        self.divides_keys.load(Ordering::Relaxed)
    }

    /// Notes that the server divides the keys, as a node of a Cluster does, and a proxy in front of several servers.
    pub(crate) fn note_divided_keys(&self) {
        self.divides_keys.store(true, Ordering::Relaxed);
    }

    /// Creates a call of a script for one conversation.
    pub(crate) fn call<'a>(&self, script: &'a Script, id: &'a ConversationId) -> Call<'a> {
        Call { id: Some(id), ..Call::new(script, keys::of(&self.options.prefix, id)) }
    }

    pub(crate) async fn run(&self, call: &Call<'_>) -> Result<Reply, StoreError> {
        let command = Arc::new(call.command("EVALSHA", &call.script.hash));
        let mut retry = Retry::new(self, call.is_large());
        loop {
            let failure = match retry.send(&command).await {
                Ok(answer) => return Reply::new(answer),
                // The server does not have the script, or lost it. `EVAL` also stores the script on the server.
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    match retry.send(&Arc::new(call.command("EVAL", call.script.code))).await {
                        Ok(answer) => return Reply::new(answer),
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            retry.again(failure).await.map_err(|failure| failure.into_store_error(call.id))?;
        }
    }
}

/// The repetitions of one call.
///
/// Every command may be sent twice, even if it is unknown whether the first one was executed. Reading changes nothing.
/// An append is recognized by its exchange id. Every other write of a conversation names its incarnation and carries a
/// call name, by which the script recognizes that it has run before, or it carries a stamp of the registry. A second
/// registration or erasure only has a later stamp.
///
/// The first command may also be executed last, after the call has returned: a network can deliver it after its
/// connection was closed. If the conversation was deleted in between, the command has no effect: its incarnation has
/// ended, or its stamp is from before the deletion.
struct Retry<'a> {
    shared: &'a Shared,
    /// The time after which no attempt begins.
    until: Instant,
    /// The time by which the last attempt has ended.
    limit: Instant,
    is_large: bool,
    pause: Duration,
}

impl<'a> Retry<'a> {
    fn new(shared: &'a Shared, is_large: bool) -> Self {
        let now = Instant::now();
        let until = now.checked_add(shared.options.retry_for).unwrap_or(now + ONE_YEAR);
        // The last attempt may take slightly longer than the response timeout, so that the connection's own timeout
        // expires first and the connection is replaced. If the last attempt began later, after `NOSCRIPT`, this limit
        // expires first, and the next call finds the broken connection.
        let last = shared.options.response_timeout.saturating_add(FIRST_PAUSE);
        let limit = until.checked_add(last).unwrap_or(until + ONE_YEAR);
        Self { shared, until, limit, is_large, pause: FIRST_PAUSE }
    }

    /// Sends a command. The time limit of the last attempt applies, even if there is no connection.
    async fn send(&self, command: &Arc<Cmd>) -> RedisResult<Value> {
        let Shared { connection, large, .. } = self.shared;
        if self.is_large {
            large.send(connection, command, self.until, self.limit).await
        } else {
            within(self.limit, connection.send(command)).await
        }
    }

    /// Waits until it is time for another attempt. Returns the failure if there is to be none.
    async fn again(&mut self, error: RedisError) -> Result<(), Failure> {
        let failure = Failure(error);
        if !failure.is_transient() || Instant::now() + self.pause > self.until {
            return Err(failure);
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(MAX_PAUSE);
        Ok(())
    }
}

impl<'a> Call<'a> {
    /// Creates a call of a script with keys that belong to no conversation.
    pub(crate) const fn new(script: &'a Script, keys: Vec<String>) -> Self {
        Self { script, id: None, keys, arguments: Vec::new(), answer_limit: AnswerLimit::NotTaken }
    }

    /// Uses these keys in place of those of the conversation, which errors still name.
    pub(crate) fn in_place_of_keys(self, keys: Vec<String>) -> Self {
        Self { keys, ..self }
    }

    pub(crate) fn with_keys(mut self, keys: Vec<String>) -> Self {
        self.keys.extend(keys);
        self
    }

    pub(crate) fn text(mut self, text: &'a str) -> Self {
        self.arguments.push(Argument::Text(text));
        self
    }

    pub(crate) fn bytes(mut self, bytes: &'a [u8]) -> Self {
        self.arguments.push(Argument::Bytes(bytes));
        self
    }

    pub(crate) fn owned(mut self, text: String) -> Self {
        self.arguments.push(Argument::Owned(text));
        self
    }

    /// Adds a number to count or compare with. Numbers too large for scripts are replaced by the largest possible one.
    pub(crate) fn number(mut self, number: u64) -> Self {
        self.arguments.push(Argument::Number(number.min(MAX_SCRIPT_INTEGER)));
        self
    }

    fn is_large(&self) -> bool {
        self.answer_limit == AnswerLimit::Unlimited || self.arguments_len() as u64 > MAX_SMALL_BYTES
    }

    fn arguments_len(&self) -> usize {
        self.arguments.iter().map(Argument::len).sum()
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let keys = &self.keys;
        let keys_len: usize = keys.iter().map(String::len).sum();
        let mut command = Cmd::with_capacity(
            4 + keys.len() + self.arguments.len(),
            script.len() + keys_len + self.arguments_len() + 16,
        );
        command.arg(name).arg(script).arg(keys.len()).arg(keys);
        for argument in &self.arguments {
            argument.add_to(&mut command);
        }
        match self.answer_limit {
            AnswerLimit::NotTaken => {}
            AnswerLimit::Small => _ = command.arg(MAX_SMALL_BYTES),
            AnswerLimit::Unlimited => _ = command.arg(""),
        }
        command
    }
}

impl Argument<'_> {
    const fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Number(_) => 20,
            Self::Owned(text) => text.len(),
        }
    }

    fn add_to(&self, command: &mut Cmd) {
        match self {
            Self::Text(text) => command.arg(*text),
            Self::Bytes(bytes) => command.arg(*bytes),
            Self::Number(number) => command.arg(*number),
            Self::Owned(text) => command.arg(text.as_str()),
        };
    }
}

/// Returns a random name, by which a script recognizes that the same call has run before.
pub(crate) fn call_name() -> String {
    let mut name = Incarnation::random().to_string();
    name.truncate(16);
    name
}
