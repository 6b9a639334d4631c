//! Running a script, and trying again while that may help.

use std::time::Duration;

use redis::{Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::time::{Instant, timeout_at};
use tower_chat_history_core::{ConversationId, StoreError};

use crate::{RedisOptions, connection::Connection, error::Failure, keys::Keys, reply::Reply, scripts::Script};

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
                Ok(answer) => return Reply::new(answer, tries.repeated),
                // The server does not have the script yet, or not any more. It keeps what it is sent here.
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    match tries.send(&call.command("EVAL", call.script.code)).await {
                        Ok(answer) => return Reply::new(answer, tries.repeated),
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            tries.again(failure).await.map_err(|failure| failure.into_store_error(call.id))?;
        }
    }

    /// Removes a conversation's keys. The server takes them apart in the background.
    pub(crate) async fn unlink(&self, id: &ConversationId) -> Result<(), StoreError> {
        let mut command = redis::cmd("UNLINK");
        command.arg(&Keys::new(&self.options.prefix, id).0);
        let mut tries = Tries::new(self);
        while let Err(error) = tries.send(&command).await {
            tries.again(error).await.map_err(|failure| failure.into_store_error(id))?;
        }
        Ok(())
    }
}

/// The tries of one call.
///
/// Every command may be sent twice, also when it is unknown whether the first one was carried out: reading and removing change
/// nothing the second time, an append is known by its exchange id, and what else writes carries a name by which a script finds
/// that it has run already.
struct Tries<'a> {
    shared: &'a Shared,
    /// Until when a try may begin.
    until: Instant,
    pause: Duration,
    /// Whether this is not the first one.
    repeated: bool,
}

impl<'a> Tries<'a> {
    fn new(shared: &'a Shared) -> Self {
        let now = Instant::now();
        let until = now.checked_add(shared.options.retry_for).unwrap_or(now + FOREVER);
        Self { shared, until, pause: PAUSE, repeated: false }
    }

    /// Sends a command. It takes no longer than the last try may, also where there is no connection to be had.
    async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        let last = self.until.max(Instant::now());
        // A little later than the connection itself gives up: it is to find out that it does not work.
        let Some(limit) = last.checked_add(self.shared.options.response_timeout.saturating_add(PAUSE)) else {
            return self.shared.connection.send(command).await;
        };
        match timeout_at(limit, self.shared.connection.send(command)).await {
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
        self.repeated = true;
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
