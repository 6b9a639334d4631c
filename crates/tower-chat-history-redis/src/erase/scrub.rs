//! Writing the files of the servers again, without what was erased.

use std::time::Duration;

use redis::Value;
use tokio::time::{Instant, sleep};
use tower_chat_history_core::{Scrubbed, StoreError};

use super::persistence::{Persistence, with_snapshots};
use crate::{
    call::Shared,
    error::{Failure, FilesNotWritten, StillWriting},
};

/// The longest time to wait until a server has written its files.
const PATIENCE: Duration = Duration::from_secs(600);

/// The first and the longest pause between two looks.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_millis(500);

const AOF: &str = "the append-only file: run BGREWRITEAOF on each server that has one";
const SNAPSHOTS: &str = "snapshots (RDB): run BGSAVE on each server that has one, or delete its file";
const COPIES: &str = "backups, and the files of replicas";
const IDS: &str = "the ids of conversations that were erased in the last hour, in keys: scrub again after an hour";
const SLOW_LOG: &str = "the slow log of each server, in memory: run SLOWLOG RESET";

/// Writes the append-only file again if it is on, and a snapshot if the servers make some. Steps that
/// the user may not do, or that only some of the servers need, are left to the operator.
pub(crate) async fn scrub(shared: &Shared) -> Result<Scrubbed, StoreError> {
    let (mut done, mut left) = (Vec::new(), Vec::new());
    match reachable(shared).await? {
        Some(before) => {
            // A file that is being written may still contain what was erased meanwhile.
            wait(shared).await?;
            let has_aof = before.count("aof_enabled", "1");
            step(shared, "BGREWRITEAOF", has_aof, before.servers(), AOF, &mut done, &mut left).await?;
            match snapshots(shared).await? {
                Some(number) => {
                    step(shared, "BGSAVE", number, before.servers(), SNAPSHOTS, &mut done, &mut left).await?;
                }
                None => left.push(SNAPSHOTS),
            }
        }
        None => left.extend([AOF, SNAPSHOTS]),
    }
    if !done.is_empty() {
        left.push(IDS);
    }
    left.extend([COPIES, SLOW_LOG]);
    Ok(Scrubbed::new(done, left))
}

/// Returns the state of all servers, or `None` if this connection does not reach each of them, or the user may not ask.
async fn reachable(shared: &Shared) -> Result<Option<Persistence>, StoreError> {
    let Some(answer) = ask(shared, &["INFO", "persistence"]).await? else { return Ok(None) };
    let is_cluster = matches!(answer, Value::Map(_));
    Ok((shared.connection.reaches_masters || !is_cluster).then(|| Persistence::new(&answer)))
}

/// Returns the number of servers that make snapshots by themselves, or `None` if the user may not ask.
async fn snapshots(shared: &Shared) -> Result<Option<usize>, StoreError> {
    Ok(ask(shared, &["CONFIG", "GET", "save"]).await?.as_ref().map(with_snapshots))
}

/// Lets the servers write a file, if all of them have one, and waits until it is written.
async fn step(
    shared: &Shared,
    command: &'static str,
    having: usize,
    servers: usize,
    otherwise: &'static str,
    done: &mut Vec<&'static str>,
    left: &mut Vec<&'static str>,
) -> Result<(), StoreError> {
    if having == 0 {
        return Ok(());
    }
    if having < servers || ask(shared, &[command]).await?.is_none() {
        left.push(otherwise);
        return Ok(());
    }
    let after = wait(shared).await?;
    let written = if command == "BGSAVE" { "rdb_last_bgsave_status" } else { "aof_last_bgrewrite_status" };
    if after.count(written, "ok") < servers {
        return Err(StoreError::backend(FilesNotWritten));
    }
    done.push(command);
    Ok(())
}

/// Waits until no server writes a file.
async fn wait(shared: &Shared) -> Result<Persistence, StoreError> {
    let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        let answer =
            ask(shared, &["INFO", "persistence"]).await?.ok_or_else(|| StoreError::backend(FilesNotWritten))?;
        let now = Persistence::new(&answer);
        if !now.is_writing() {
            return Ok(now);
        }
        if began.elapsed() > PATIENCE {
            return Err(StoreError::unavailable(StillWriting));
        }
        sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Sends a command to all masters. Returns `None` if a server does not allow it.
async fn ask(shared: &Shared, words: &[&str]) -> Result<Option<Value>, StoreError> {
    let mut command = redis::Cmd::new();
    command.arg(words);
    match shared.connection.send_to_masters(&command).await {
        Ok(answer) => Ok(Some(answer)),
        Err(error) => match Failure(error) {
            failure if failure.is_transient() || failure.credentials().is_some() => Err(failure.into_store_error(None)),
            // Managed servers do not have these commands, or refuse them.
            _ => Ok(None),
        },
    }
}
