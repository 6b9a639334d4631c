//! Counting what is stored under a prefix.

use rusqlite::Connection;
use tower_chat_history_core::{Cursor, Removed};

use super::{keys::Step, tally};
use crate::{error::Failure, job::Request, stats::Counters};

/// Counts the conversations of one step.
pub(crate) struct CountStep(pub(crate) Step);

impl Request for CountStep {
    type Answer = (Removed, Option<Cursor>);

    fn run(&self, connection: &Connection, _: &Counters) -> Result<Self::Answer, Failure> {
        self.0.walk(connection, |number| tally::conversation(connection, number))
    }
}
