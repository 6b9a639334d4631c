//! Writing the files of the servers again, without what was erased.

use std::time::Duration;

use redis::Value;
use tokio::time::{Instant, sleep};
use tower_chat_history_core::{Scrubbed, StoreError};

use crate::{
    call::Shared,
    error::{Failure, FilesNotWritten, StillWriting},
    reply::text,
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
    let mut done = Vec::new();
    let mut left = Vec::new();
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
    let began = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let Some(answer) = ask(shared, &["INFO", "persistence"]).await? else {
            return Err(StoreError::backend(FilesNotWritten));
        };
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
    let failure = match shared.connection.send_to_masters(&command).await {
        Ok(answer) => return Ok(Some(answer)),
        Err(error) => Failure(error),
    };

    if failure.is_transient() || failure.credentials().is_some() {
        return Err(failure.into_store_error(None));
    }
    // Managed servers do not have these commands, or refuse them.
    Ok(None)
}

/// The state of the files of all servers, as they report it. There is one report for each master.
struct Persistence {
    reports: Vec<String>,
}

impl Persistence {
    /// Reads the answer to `INFO persistence`. The answer of a Cluster is a map.
    fn new(answer: &Value) -> Self {
        let reports = match answer {
            Value::Map(pairs) => pairs.iter().filter_map(|(_, value)| text(value)).collect(),
            answer => text(answer).into_iter().collect(),
        };
        Self { reports }
    }

    /// Returns the number of servers.
    const fn servers(&self) -> usize {
        self.reports.len()
    }

    /// Returns the number of servers that report this value.
    fn count(&self, name: &str, value: &str) -> usize {
        let expected = format!("{name}:{value}");
        self.reports.iter().filter(|report| report.lines().any(|line| line.trim_end() == expected)).count()
    }

    /// Returns `true` if a server is writing a file, or is about to.
    fn is_writing(&self) -> bool {
        let names = ["aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress"];
        names.iter().any(|name| self.count(name, "1") > 0)
    }
}

/// Returns the number of servers that make snapshots by themselves: those with a value of the setting `save`.
fn with_snapshots(answer: &Value) -> usize {
    match answer {
        // The setting of a single server is a map as well, in RESP3.
        Value::Map(pairs) if pairs.iter().any(|(_, value)| matches!(value, Value::Array(_) | Value::Map(_))) => {
            pairs.iter().filter(|(_, value)| makes_snapshots(value)).count()
        }
        answer => usize::from(makes_snapshots(answer)),
    }
}

/// Returns `true` if the setting of one server has a value.
fn makes_snapshots(setting: &Value) -> bool {
    let value = match setting {
        Value::Array(items) => items.get(1),
        Value::Map(pairs) => pairs.first().map(|(_, value)| value),
        _ => None,
    };
    value.and_then(text).is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn reports_of_all_servers_are_read() {
        let [on, off] =
            ["# Persistence\r\naof_enabled:1\r\nrdb_bgsave_in_progress:1\r\n", "aof_enabled:0\r\n"].map(bulk);
        let single = Persistence::new(&on);
        assert_eq!((single.servers(), single.count("aof_enabled", "1"), single.is_writing()), (1, 1, true));
        let cluster = Persistence::new(&Value::Map(vec![(bulk("a:1"), on), (bulk("b:2"), off)]));
        assert_eq!((cluster.servers(), cluster.count("aof_enabled", "1")), (2, 1));
    }

    #[test]
    fn settings_of_all_servers_are_read() {
        let [set, unset] = ["3600 1", ""].map(|value| Value::Array(vec![bulk("save"), bulk(value)]));
        assert_eq!((with_snapshots(&set), with_snapshots(&unset)), (1, 0));
        assert_eq!(with_snapshots(&Value::Map(vec![(bulk("save"), bulk("3600 1"))])), 1);
        assert_eq!(with_snapshots(&Value::Map(vec![(bulk("a:1"), set), (bulk("b:2"), unset)])), 1);
    }
}
