//! Running a script, and trying again while that may help.

use std::time::Duration;

use redis::{Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::time::{Instant, timeout_at};
use tower_chat_history_core::{ConversationId, StoreError};

use crate::{
    RedisOptions,
    connection::Connection,
    error::{Failure, Misunderstood},
    keys::Keys,
    reply::Reply,
    scripts::Script,
};

/// The first and the longest pause before a call is tried again.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// What stands for a time that the clock cannot tell: a year.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3_600);

/// A connection and how it is used.
pub(crate) struct Shared {
    pub(crate) connection: Connection,
    pub(crate) options: RedisOptions,
}

/// A script with its arguments, for one conversation.
pub(crate) struct Call<'a> {
    script: &'a Script,
    id: &'a ConversationId,
    keys: Keys,
    arguments: Vec<Argument<'a>>,
}

/// An argument, not copied before it is sent.
pub(crate) enum Argument<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
    Number(u64),
    Owned(String),
}

/// The largest number that the scripts can tell from the one after it. No position comes near it.
const LARGEST: u64 = 1 << 53;

impl Shared {
    pub(crate) fn call<'a>(&self, script: &'a Script, id: &'a ConversationId) -> Call<'a> {
        Call { script, id, keys: Keys::new(&self.options.prefix, id), arguments: Vec::new() }
    }

    pub(crate) async fn run(&self, call: &Call<'_>) -> Result<Reply, StoreError> {
        let command = call.command("EVALSHA", &call.script.hash);
        let mut tries = Tries::new(self);
        loop {
            let failure = match tries.send(&command).await {
                Ok(answer) => return Reply::new(answer),
                // The server does not have the script yet, or not any more. It keeps what it is sent here.
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    match tries.send(&call.command("EVAL", call.script.code)).await {
                        Ok(answer) => return Reply::new(answer),
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            tries.again(failure).await.map_err(|failure| failure.into_store_error(call.id))?;
        }
    }

    /// A conversation's state as it is stored; empty if there is none, or something else in its place.
    pub(crate) async fn state(&self, id: &ConversationId) -> Result<Vec<u8>, StoreError> {
        let Keys([meta, ..]) = Keys::new(&self.options.prefix, id);
        let mut command = redis::cmd("HGET");
        command.arg(meta).arg("s");
        let mut tries = Tries::new(self);
        loop {
            match tries.send(&command).await {
                Ok(Value::BulkString(state)) => return Ok(state),
                Ok(Value::Nil) => return Ok(Vec::new()),
                Ok(_) => return Err(Misunderstood::error()),
                Err(error) if error.code() == Some("WRONGTYPE") => return Ok(Vec::new()),
                Err(error) => tries.again(error).await.map_err(|failure| failure.into_store_error(id))?,
            }
        }
    }
}

/// The tries of one call.
///
/// Every command may be sent twice, also when it is unknown whether the first one was carried out: reading changes nothing, an
/// append is known by its exchange id, and what else writes names the incarnation that it is for, and carries a name by which a
/// script finds that it has run already.
///
/// The first one may also be carried out last, when this call has ended: a network delivers what it holds after its connection was
/// given up. Then the incarnation is another one. Only an append that expects none, or nothing, may begin a conversation so.
struct Tries<'a> {
    shared: &'a Shared,
    /// Until when a try may begin.
    until: Instant,
    /// When the last one must have ended.
    limit: Instant,
    pause: Duration,
}

impl<'a> Tries<'a> {
    fn new(shared: &'a Shared) -> Self {
        let now = Instant::now();
        let until = now.checked_add(shared.options.retry_for).unwrap_or(now + FOREVER);
        // A little later than the connection itself gives up on a try that begins last: it is to find out that it does not work.
        // (One that begins later than that, behind a script that was unknown, leaves it to the next call to find out.)
        let last = shared.options.response_timeout.saturating_add(PAUSE);
        let limit = until.checked_add(last).unwrap_or(until + FOREVER);
        Self { shared, until, limit, pause: PAUSE }
    }

    /// Sends a command. It takes no longer than the last try may, also where there is no connection to be had.
    async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        match timeout_at(self.limit, self.shared.connection.send(command)).await {
            Ok(answer) => answer,
            Err(elapsed) => Err(std::io::Error::from(elapsed).into()),
        }
    }

    /// Waits before the next try, or says that there is none.
    async fn again(&mut self, error: RedisError) -> Result<(), Failure> {
        let failure = Failure(error);
        if !failure.may_pass() || Instant::now() + self.pause > self.until {
            return Err(failure);
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

impl<'a> Call<'a> {
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

    /// A number to count or compare with; one that no script can hold is as good as the largest that it can.
    pub(crate) fn number(mut self, number: u64) -> Self {
        self.arguments.push(Argument::Number(number.min(LARGEST)));
        self
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let Keys(keys) = &self.keys;
        let keys_len: usize = keys.iter().map(String::len).sum();
        let arguments_len: usize = self.arguments.iter().map(Argument::len).sum();
        let mut command =
            Cmd::with_capacity(3 + keys.len() + self.arguments.len(), script.len() + keys_len + arguments_len + 16);
        command.arg(name).arg(script).arg(keys.len()).arg(keys);
        for argument in &self.arguments {
            argument.add_to(&mut command);
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
