//! Removing conversations under a prefix.

use rusqlite::Connection;
use tower_chat_history_core::{Cursor, Removed};

use super::delete;
use crate::{error::Failure, job::Request, read::Step, stats::Counters};

/// Removes the conversations of one step.
pub(crate) struct EraseStep(pub(crate) Step);

impl Request for EraseStep {
    type Answer = (Removed, Option<Cursor>);

    fn run(&self, connection: &Connection, _: &Counters) -> Result<Self::Answer, Failure> {
        self.0.walk(connection, |number| delete::conversation(connection, number))
    }
}
