//! Running scripts: one or several at a time, with repetitions after transient failures, and few large ones at a time.
//!
//! # Decisions
//!
//! - **Four large calls run at a time.** A server answers in order, so many large windows would delay every short turn.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use redis::{Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::{
    sync::{Semaphore, oneshot},
    time::{Instant, sleep, timeout_at},
};
use tower_chat_history_core::{ConversationId, Incarnation, StoreError};

use crate::{
    connection::Connection,
    error::{Contended, Failure},
    options::RedisOptions,
    reply::Reply,
    scripts::{Script, keys_of},
};

/// The first and the longest pause before a repetition.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// The time to use in place of one that the clock cannot represent: a year.
const ONE_YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);

/// The largest number of attempts of a call of several steps.
const MAX_ATTEMPTS: u32 = 16;

/// The longest pause before the third attempt. It doubles for each further attempt, up to the maximum.
const FIRST_CONTENTION_PAUSE: Duration = Duration::from_millis(1);
const MAX_CONTENTION_PAUSE: Duration = Duration::from_millis(64);

/// The number of calls for several conversations that run at a time. They share one connection, so they take few round
/// trips.
const CALLS_AT_A_TIME: usize = 64;

/// The number of large calls of a store that run at a time. More do not load more windows per second: the server runs
/// one script at a time.
const LARGE_CALLS_AT_A_TIME: usize = 4;

/// The largest size of a call that is not large, in bytes: that of its arguments, or that of the texts that its script
/// counts. A server sends an answer of this size in less than a millisecond.
const MAX_SMALL_BYTES: u64 = 256 << 10;

/// The largest integer that scripts represent exactly. No position comes near it.
const MAX_SCRIPT_INTEGER: u64 = 1 << 53;

/// A connection and the options of its store.
pub(crate) struct Shared {
    pub(crate) connection: Connection,
    pub(crate) options: RedisOptions,
    /// `true` if no script can use the keys of a conversation and those of the registry, or of another conversation.
    divides_keys: AtomicBool,
    large: LargeCalls,
}

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
        Call { id: Some(id), ..Call::new(script, keys_of(&self.options.prefix, id)) }
    }

    /// Runs a script, and repeats it after transient failures.
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

    /// Runs a script that takes a limit for its answer. If the answer is larger, the script runs again as a large call.
    pub(crate) async fn run_limited(&self, mut call: Call<'_>) -> Result<Reply, StoreError> {
        call.answer_limit = AnswerLimit::Small;
        let reply = self.run(&call).await?;
        if reply.word != "large" {
            return Ok(reply);
        }

        call.answer_limit = AnswerLimit::Unlimited;
        self.run(&call).await
    }
}

/// Runs calls for several conversations. Returns their results in the same order.
pub(crate) async fn all<F: Future>(calls: Vec<F>) -> Vec<F::Output> {
    stream::iter(calls).buffered(CALLS_AT_A_TIME).collect().await
}

/// A script with its keys and arguments.
pub(crate) struct Call<'a> {
    script: &'a Script,
    /// The conversation that errors name.
    id: Option<&'a ConversationId>,
    keys: Vec<String>,
    arguments: Vec<Argument<'a>>,
    answer_limit: AnswerLimit,
}

/// An argument that is not copied before it is sent.
enum Argument<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
    Number(u64),
    Owned(String),
}

/// The limit that a script has for its answer, in bytes. It is the last argument of scripts that read exchanges.
#[derive(Clone, Copy, PartialEq)]
enum AnswerLimit {
    /// The script takes no limit.
    NotTaken,
    /// [`MAX_SMALL_BYTES`].
    Small,
    /// The answer may have any size.
    Unlimited,
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

        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(MAX_PAUSE);
        Ok(())
    }
}

/// The permits of large calls: those that transfer much. Calls get them about in the order of their requests.
///
/// All calls share the connection to a server, on which it answers in order. Without a limit, many large answers would
/// delay the small calls of all other conversations.
struct LargeCalls(Arc<Semaphore>);

impl LargeCalls {
    fn new() -> Self {
        Self(Arc::new(Semaphore::new(LARGE_CALLS_AT_A_TIME)))
    }

    /// Sends a command when it has a permit, for which it waits until `until`. The answer must be there at `limit`.
    ///
    /// A task of its own does this, and ends at `limit`. So a caller that no longer polls its call keeps no permit, and
    /// the answer to a caller that has left still counts as long as the server sends it.
    async fn send(
        &self,
        connection: &Connection,
        command: &Arc<Cmd>,
        until: Instant,
        limit: Instant,
    ) -> RedisResult<Value> {
        let (mut sender, receiver) = oneshot::channel();
        let permits = Arc::clone(&self.0);
        let connection = connection.clone();
        let command = Arc::clone(command);

        tokio::spawn(async move {
            let permit = tokio::select! {
                biased;
                () = sender.closed() => return,
                permit = timeout_at(until, permits.acquire()) => permit,
            };
            let answer = match permit {
                Ok(_permit) => within(limit, connection.send(&command)).await,
                Err(elapsed) => Err(io::Error::from(elapsed).into()),
            };
            // The caller may have left.
            sender.send(answer).ok();
        });

        // If the runtime shuts down, the task does not answer.
        receiver.await.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::Interrupted).into()))
    }
}

/// Returns the answer, or an error if there is none at `limit`.
async fn within(limit: Instant, answer: impl Future<Output = RedisResult<Value>>) -> RedisResult<Value> {
    timeout_at(limit, answer).await.unwrap_or_else(|elapsed| Err(io::Error::from(elapsed).into()))
}

/// The attempts of one call of several steps. The call starts again if another call changed the conversation between
/// its steps.
#[derive(Debug)]
pub(crate) struct ContentionRetry {
    made: u32,
    pause: Duration,
}

impl ContentionRetry {
    pub(crate) const fn new() -> Self {
        Self { made: 1, pause: FIRST_CONTENTION_PAUSE }
    }

    /// Waits until it is time for another attempt. Fails with `Unavailable` if all attempts have been made.
    ///
    /// The second attempt does not wait. Further attempts wait for a random time, so that conflicting calls do not stay
    /// in step, and a conversation that changes often is not queried without a pause.
    pub(crate) async fn again(&mut self) -> Result<(), StoreError> {
        if self.made >= MAX_ATTEMPTS {
            return Err(StoreError::unavailable(Contended));
        }

        if self.made > 1 {
            let [random, ..] = *Incarnation::random().as_bytes();
            sleep(self.pause * u32::from(random) / u32::from(u8::MAX)).await;
            self.pause = (self.pause * 2).min(MAX_CONTENTION_PAUSE);
        }

        self.made += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_attempts_end() {
        let mut rounds = ContentionRetry::new();
        let began = Instant::now();
        rounds.again().await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO, "the second round begins at once");
        for _ in 2..MAX_ATTEMPTS {
            rounds.again().await.unwrap();
        }
        let most = FIRST_CONTENTION_PAUSE * 64 + MAX_CONTENTION_PAUSE * MAX_ATTEMPTS;
        assert!(began.elapsed() > MAX_CONTENTION_PAUSE / 4 && began.elapsed() < most, "{:?}", began.elapsed());
        assert!(rounds.again().await.unwrap_err().is_retryable());
    }
}
