//! SQLite files: those of LangChain and openai-agents with one row for each message, and checkpoints of LangGraph.

use std::path::Path;

use rmpv::{Value as Packed, decode::read_value_with_max_depth};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params, types::ValueRef};
use serde_json::{Map, Number, Value};
use tower_chat_history_core::{Message, OpenAiResponses, Timestamp};

use super::{
    conversation::{ForeignConversation, ForeignMessage},
    langchain,
};
use crate::transfer::import::{ForeignError, Problem};

/// The largest number of levels of a checkpoint of LangGraph. The levels within an extension are counted anew.
const MAX_DEPTH: usize = 64;

/// The largest number of extensions within each other.
const MAX_EXTENSIONS: usize = 4;

/// The extensions of LangGraph that have a class, its fields and a method. The fields are the third value.
const OBJECTS: [i8; 2] = [2, 5];

/// The newest checkpoint of the thread after one.
const NEWEST: &str = "SELECT thread_id, type, checkpoint FROM checkpoints \
                      WHERE thread_id > ?1 AND checkpoint_ns = '' ORDER BY thread_id, checkpoint_id DESC LIMIT 1";

/// Opens a file to read it. A file that does not exist is not created.
fn open(path: &Path) -> Result<Connection, ForeignError> {
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    // Several queries see one state of the file.
    connection.execute_batch("PRAGMA temp_store = FILE; BEGIN")?;
    Ok(connection)
}

/// Reads the JSON of a message. The number is that of the parts that were left out.
type Read = fn(&str, &mut u64) -> Result<Option<ForeignMessage>, ()>;

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
fn session_name(id: ValueRef<'_>) -> String {
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
            let session = session_name(row.get_ref(2)?);
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

        let mut next = Some(first);
        let mut failed = None;
        let mut index = 0;
        while let Some(row) = next.filter(|row| row.session == conversation.name) {
            self.place = row.place;
            let at = row.at.and_then(|seconds| u64::try_from(seconds).ok());
            let at = at.map(|seconds| Timestamp::from_unix_millis(seconds.saturating_mul(1_000)));
            match row.json.as_deref().ok_or(()).and_then(|json| read(json, &mut conversation.left_out)) {
                Ok(message) => conversation.messages.extend(message.map(|message| message.at(at))),
                Err(()) if failed.is_none() => {
                    let record = u64::try_from(row.id).unwrap_or_default();
                    failed = Some(ForeignError::conversation(record, Some(row.session), Problem::Message(index)));
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

/// Reads the file of LangChain's `SQLChatMessageHistory`: the table `message_store`.
///
/// The name of a conversation is its session id. The table has no times.
///
/// The file is not changed.
///
/// # Errors
///
/// Returns an error if it is not a database with this table.
pub fn langchain_sqlite(
    path: &Path,
) -> Result<impl Iterator<Item = Result<ForeignConversation, ForeignError>> + use<>, ForeignError> {
    let order = "CREATE TEMP TABLE importing AS SELECT id FROM message_store ORDER BY session_id, id";
    let query = "SELECT i.rowid, m.id, coalesce(m.session_id, ''), m.message, NULL \
                 FROM importing i JOIN message_store m ON m.id = i.id WHERE i.rowid > ?1 ORDER BY i.rowid LIMIT 1";
    Sessions::open(path, order, query).map(LangChainSqlite)
}

#[derive(Debug)]
struct LangChainSqlite(Sessions);

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
///
/// The file is not changed.
///
/// # Errors
///
/// Returns an error if it is not a database with this table.
pub fn agents_sqlite(
    path: &Path,
) -> Result<impl Iterator<Item = Result<ForeignConversation, ForeignError>> + use<>, ForeignError> {
    let order = "CREATE TEMP TABLE importing AS SELECT id FROM agent_messages ORDER BY session_id, id";
    let query = "SELECT i.rowid, m.id, m.session_id, m.message_data, unixepoch(m.created_at) \
                 FROM importing i JOIN agent_messages m ON m.id = i.id WHERE i.rowid > ?1 ORDER BY i.rowid LIMIT 1";
    Sessions::open(path, order, query).map(AgentsSqlite)
}

#[derive(Debug)]
struct AgentsSqlite(Sessions);

impl Iterator for AgentsSqlite {
    type Item = Result<ForeignConversation, ForeignError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next(|json, _| {
            let item = Message::in_dialect(&OpenAiResponses, json).map_err(drop)?;
            Ok(Some(ForeignMessage::new(item)))
        })
    }
}

/// Reads the newest checkpoint of each thread of LangGraph's `SqliteSaver`, and the messages in its channel `messages`.
///
/// The name of a conversation is its thread id. The time of all messages is that of the checkpoint.
///
/// The file is not changed.
///
/// # Errors
///
/// Returns an error if it is not a database with these checkpoints.
pub fn langgraph_sqlite(
    path: &Path,
) -> Result<impl Iterator<Item = Result<ForeignConversation, ForeignError>> + use<>, ForeignError> {
    let connection = open(path)?;
    connection.prepare(NEWEST)?;
    Ok(LangGraphSqlite { connection, thread: String::new(), record: 0, has_ended: false })
}

#[derive(Debug)]
struct LangGraphSqlite {
    connection: Connection,
    /// The last thread.
    thread: String,
    record: u64,
    has_ended: bool,
}

/// The newest checkpoint of a thread.
struct Checkpoint {
    thread: String,
    kind: Option<String>,
    bytes: Vec<u8>,
}

impl LangGraphSqlite {
    fn checkpoint(&self) -> Result<Option<Checkpoint>, ForeignError> {
        let mut statement = self.connection.prepare_cached(NEWEST)?;
        let checkpoint = statement.query_row(params![self.thread], |row| {
            let kind = row.get_ref(1)?.as_str().ok().map(str::to_owned);
            let bytes = row.get_ref(2)?.as_bytes().unwrap_or_default().to_vec();
            Ok(Checkpoint { thread: row.get(0)?, kind, bytes })
        });
        Ok(checkpoint.optional()?)
    }

    fn thread(&mut self) -> Result<Option<ForeignConversation>, ForeignError> {
        let Some(Checkpoint { thread, kind, bytes }) = self.checkpoint()? else { return Ok(None) };
        self.thread.clone_from(&thread);
        self.record += 1;
        let mut conversation = ForeignConversation::new(thread, self.record);

        let state = match state(kind.as_deref(), &bytes) {
            Ok(state) => state,
            Err(problem) => return Err(ForeignError::conversation(self.record, Some(conversation.name), problem)),
        };
        let at = self.time(state.get("ts"))?;
        match messages(&state, &mut conversation.left_out) {
            Ok(messages) => conversation.messages = messages.into_iter().map(|message| message.at(at)).collect(),
            Err(problem) => return Err(ForeignError::conversation(self.record, Some(conversation.name), problem)),
        }
        Ok(Some(conversation))
    }

    fn time(&self, text: Option<&Value>) -> Result<Option<Timestamp>, ForeignError> {
        let Some(text) = text.and_then(Value::as_str) else { return Ok(None) };
        let seconds: Option<i64> =
            self.connection.query_row("SELECT unixepoch(?1)", params![text], |row| row.get(0))?;
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Ok(seconds.map(|seconds| Timestamp::from_unix_millis(seconds.saturating_mul(1_000))))
    }
}

impl Iterator for LangGraphSqlite {
    type Item = Result<ForeignConversation, ForeignError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let thread = self.thread();
        self.has_ended = matches!(thread, Ok(None) | Err(ForeignError::Database(_)));
        thread.transpose()
    }
}

/// Returns the checkpoint as JSON. Objects are their fields.
fn state(kind: Option<&str>, bytes: &[u8]) -> Result<Value, Problem> {
    match kind {
        Some("msgpack") => {
            let packed = read_value_with_max_depth(&mut &*bytes, MAX_DEPTH).ok();
            packed.and_then(|packed| json(packed, MAX_EXTENSIONS)).ok_or(Problem::Form("the checkpoint is damaged"))
        }
        Some("json") => serde_json::from_slice(bytes).map_err(|error| Problem::Json { column: error.column() }),
        _ => Err(Problem::Form("the checkpoint has an unknown serialization")),
    }
}

/// Returns the messages of a checkpoint.
fn messages(state: &Value, left_out: &mut u64) -> Result<Vec<ForeignMessage>, Problem> {
    let values = state.get("channel_values");
    let Some(list) = values.and_then(|values| values.get("messages")).and_then(Value::as_array) else {
        return Err(Problem::Form("the newest checkpoint has no list of messages"));
    };

    let mut messages = Vec::with_capacity(list.len());
    for (index, message) in list.iter().enumerate() {
        // The JSON form has the fields of an object in `kwargs`.
        let fields = message.get("kwargs").unwrap_or(message);
        let message = langchain::read(fields, left_out).map_err(|()| Problem::Message(index))?;
        messages.extend(message);
    }
    Ok(messages)
}

/// Returns the value as JSON. Its depth is bounded by that of the packed value.
fn json(packed: Packed, extensions: usize) -> Option<Value> {
    Some(match packed {
        // Bytes have no place in messages.
        Packed::Nil | Packed::Binary(_) => Value::Null,
        Packed::Boolean(value) => Value::Bool(value),
        Packed::Integer(value) => match (value.as_u64(), value.as_i64()) {
            (Some(value), _) => value.into(),
            (None, value) => value?.into(),
        },
        Packed::F32(value) => Number::from_f64(value.into()).map_or(Value::Null, Value::Number),
        Packed::F64(value) => Number::from_f64(value).map_or(Value::Null, Value::Number),
        Packed::String(text) => Value::String(text.into_str()?),
        Packed::Array(values) => {
            Value::Array(values.into_iter().map(|value| json(value, extensions)).collect::<Option<_>>()?)
        }
        Packed::Map(fields) => {
            let mut object = Map::new();
            for (key, value) in fields {
                let key = match key {
                    Packed::String(key) => key.into_str()?,
                    key => key.to_string(),
                };
                object.insert(key, json(value, extensions)?);
            }
            Value::Object(object)
        }
        Packed::Ext(kind, bytes) => {
            let left = extensions.checked_sub(1)?;
            match read_value_with_max_depth(&mut &*bytes, MAX_DEPTH) {
                Ok(Packed::Array(parts)) if OBJECTS.contains(&kind) => json(parts.into_iter().nth(2)?, left)?,
                // The value of a channel that keeps differences.
                Ok(value) if kind == 7 => json(value, left)?,
                // Times, enums and the like have no place in messages.
                _ => Value::Null,
            }
        }
    })
}
