//! Recording an erasure.

use rusqlite::{Connection, params};
use tower_chat_history_core::Prefix;

use crate::{
    error::{Failure, NotWritten},
    job::Request,
    read::erasures::{REMEMBERED, current, key, stored},
    stats::Counters,
};

/// Records an erasure without removing anything.
pub(crate) struct RecordErasure {
    pub(crate) under: Prefix,
}

impl Request for RecordErasure {
    type Answer = ();

    fn run(&self, connection: &Connection, _: &Counters) -> Result<(), Failure> {
        record(connection, &self.under)
    }
}

/// Begins an epoch with an erasure of this prefix, and forgets the oldest one.
pub(super) fn record(connection: &Connection, under: &Prefix) -> Result<(), Failure> {
    let epoch = stored(current(connection)?.next());
    let sql = "INSERT INTO erasure (epoch, prefix) VALUES (?1, ?2) \
               ON CONFLICT (prefix) DO UPDATE SET epoch = excluded.epoch";
    NotWritten::check(connection.prepare_cached(sql)?.execute(params![epoch, key(under.as_str())])?)?;
    connection.prepare_cached("DELETE FROM erasure WHERE epoch <= ?1 - ?2")?.execute([epoch, REMEMBERED as i64])?;
    Ok(())
}
