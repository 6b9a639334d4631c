//! SQLite files with one row for each message.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params, types::ValueRef};
use serde_json::Value;
use tower_chat_history_core::{Message, OpenAiResponses, Timestamp};

use super::{
    conversation::{ForeignConversation, ForeignMessage},
    langchain,
};
use crate::transfer::problem::{ForeignError, Problem};

/// Opens a file to read it. A file that does not exist is not created.
pub(super) fn open(path: &Path) -> Result<Connection, ForeignError> {
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    // Several queries see one state of the file.
    connection.execute_batch("PRAGMA temp_store = FILE; BEGIN")?;
    Ok(connection)
}

/// A row of a table of messages.
struct Row {
    /// The place in the order of the sessions.
    place: i64,
    id: i64,
    session: String,
    /// `None` if it is no text.
    json: Option<String>,
    at: Option<i64>,
}

/// Returns the id of a session as text. Different ids have different texts.
fn name(id: ValueRef<'_>) -> String {
    match id {
        ValueRef::Text(text) => match str::from_utf8(text) {
            Ok(text) => text.to_owned(),
            Err(_) => format!("text {text:02x?}"),
        },
        ValueRef::Blob(bytes) => format!("bytes {bytes:02x?}"),
        ValueRef::Null => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
    }
}

/// The messages of all sessions, session by session. The tables have no index for that, so the order is kept in a
/// temporary table.
#[derive(Debug)]
struct Sessions {
    connection: Connection,
    query: &'static str,
    place: i64,
    has_ended: bool,
}

impl Sessions {
    fn open(path: &Path, order: &str, query: &'static str) -> Result<Self, ForeignError> {
        let connection = open(path)?;
        connection.execute_batch(order)?;
        Ok(Self { connection, query, place: 0, has_ended: false })
    }

    fn row(&self) -> Result<Option<Row>, ForeignError> {
        let mut statement = self.connection.prepare_cached(self.query)?;
        let row = statement.query_row(params![self.place], |row| {
            let session = name(row.get_ref(2)?);
            let json = row.get_ref(3)?.as_str().ok().map(str::to_owned);
            Ok(Row { place: row.get(0)?, id: row.get(1)?, session, json, at: row.get(4)? })
        });
        Ok(row.optional()?)
    }

    /// Reads the next session. If a message cannot be read, the other messages of the session are skipped.
    fn session(&mut self, read: Read) -> Result<Option<ForeignConversation>, ForeignError> {
        let Some(first) = self.row()? else { return Ok(None) };
        let record = u64::try_from(first.id).unwrap_or_default();
        let mut conversation = ForeignConversation::new(first.session.clone(), record);
        let (mut next, mut failed) = (Some(first), None);
        let mut index = 0;
        while let Some(row) = next.filter(|row| row.session == conversation.name) {
            self.place = row.place;
            let at = row.at.and_then(|seconds| u64::try_from(seconds).ok());
            let at = at.map(|seconds| Timestamp::from_unix_millis(seconds.saturating_mul(1_000)));
            match row.json.as_deref().ok_or(()).and_then(|json| read(json, &mut conversation.left_out)) {
                Ok(message) => conversation.messages.extend(message.map(|message| message.at(at))),
                Err(()) if failed.is_none() => {
                    let (record, name) = (u64::try_from(row.id).unwrap_or_default(), Some(row.session));
                    failed = Some(ForeignError::conversation(record, name, Problem::Message(index)));
                }
                Err(()) => {}
            }
            index += 1;
            next = self.row()?;
        }
        failed.map_or(Ok(Some(conversation)), Err)
    }

    fn next(&mut self, read: Read) -> Option<Result<ForeignConversation, ForeignError>> {
        if self.has_ended {
            return None;
        }
        let session = self.session(read);
        self.has_ended = matches!(session, Ok(None) | Err(ForeignError::Database(_)));
        session.transpose()
    }
}

/// Reads the JSON of a message. The number is that of the parts that were left out.
type Read = fn(&str, &mut u64) -> Result<Option<ForeignMessage>, ()>;

/// Reads the file of LangChain's `SQLChatMessageHistory`: the table `message_store`.
///
/// The name of a conversation is its session id. The table has no times.
#[derive(Debug)]
pub struct LangChainSqlite(Sessions);

impl LangChainSqlite {
    /// Opens the file, which is not changed.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not a database with this table.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ForeignError> {
        let order = "CREATE TEMP TABLE importing AS SELECT id FROM message_store ORDER BY session_id, id";
        let query = "SELECT i.rowid, m.id, coalesce(m.session_id, ''), m.message, NULL \
                     FROM importing i JOIN message_store m ON m.id = i.id WHERE i.rowid > ?1 ORDER BY i.rowid LIMIT 1";
        Sessions::open(path.as_ref(), order, query).map(Self)
    }
}

impl Iterator for LangChainSqlite {
    type Item = Result<ForeignConversation, ForeignError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next(|json, left_out| {
            let value: Value = serde_json::from_str(json).map_err(drop)?;
            langchain::read(&value, left_out)
        })
    }
}

/// Reads the file of the `SQLiteSession` of openai-agents: the table `agent_messages`.
///
/// The name of a conversation is its session id. Its items are those of the Responses API and are kept byte for byte.
#[derive(Debug)]
pub struct AgentsSqlite(Sessions);

impl AgentsSqlite {
    /// Opens the file, which is not changed.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not a database with this table.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ForeignError> {
        let order = "CREATE TEMP TABLE importing AS SELECT id FROM agent_messages ORDER BY session_id, id";
        let query = "SELECT i.rowid, m.id, m.session_id, m.message_data, unixepoch(m.created_at) \
                     FROM importing i JOIN agent_messages m ON m.id = i.id WHERE i.rowid > ?1 ORDER BY i.rowid LIMIT 1";
        Sessions::open(path.as_ref(), order, query).map(Self)
    }
}

impl Iterator for AgentsSqlite {
    type Item = Result<ForeignConversation, ForeignError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next(|json, _| {
            let item = Message::in_dialect(&OpenAiResponses, json).map_err(drop)?;
            Ok(Some(ForeignMessage::new(item)))
        })
    }
}
