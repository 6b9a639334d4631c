//! The checkpoints of LangGraph in SQLite.

use std::path::Path;

use rmpv::{Value as Packed, decode::read_value_with_max_depth};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::{Map, Number, Value};
use tower_chat_history_core::Timestamp;

use super::{conversation::ForeignConversation, langchain, sqlite::open};
use crate::transfer::problem::{ForeignError, Problem};

/// The largest number of levels of a checkpoint. The levels within an extension are counted anew.
const MAX_DEPTH: usize = 64;

/// The largest number of extensions within each other.
const MAX_EXTENSIONS: usize = 4;

/// The extensions of LangGraph that have a class, its fields and a method. The fields are the third value.
const OBJECTS: [i8; 2] = [2, 5];

/// Reads the newest checkpoint of each thread of LangGraph's `SqliteSaver`, and the messages in its channel `messages`.
///
/// The name of a conversation is its thread id. The time of all messages is that of the checkpoint.
#[derive(Debug)]
pub struct LangGraphSqlite {
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
    /// Opens the file, which is not changed.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not a database with these checkpoints.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ForeignError> {
        let connection = open(path.as_ref())?;
        connection.prepare(NEWEST)?;
        Ok(Self { connection, thread: String::new(), record: 0, has_ended: false })
    }

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
        let record = self.record;
        let failed = |problem| ForeignError::conversation(record, Some(thread.clone()), problem);
        let state = match kind.as_deref() {
            Some("msgpack") => unpacked(&bytes).ok_or_else(|| failed(Problem::Form("the checkpoint is damaged")))?,
            Some("json") => {
                serde_json::from_slice(&bytes).map_err(|error| failed(Problem::Json { column: error.column() }))?
            }
            _ => return Err(failed(Problem::Form("the checkpoint has an unknown serialization"))),
        };
        let values = state.get("channel_values");
        let Some(messages) = values.and_then(|values| values.get("messages")).and_then(Value::as_array) else {
            return Err(failed(Problem::Form("the newest checkpoint has no list of messages")));
        };
        let at = self.time(state.get("ts"))?;
        let mut conversation = ForeignConversation::new(thread.clone(), record);
        for (index, message) in messages.iter().enumerate() {
            // The JSON form has the fields of an object in `kwargs`.
            let fields = message.get("kwargs").unwrap_or(message);
            let read = langchain::read(fields, &mut conversation.left_out);
            let read = read.map_err(|()| failed(Problem::Message(index)))?;
            conversation.messages.extend(read.map(|message| message.at(at)));
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

const NEWEST: &str = "SELECT thread_id, type, checkpoint FROM checkpoints \
                      WHERE thread_id > ?1 AND checkpoint_ns = '' ORDER BY thread_id, checkpoint_id DESC LIMIT 1";

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
fn unpacked(bytes: &[u8]) -> Option<Value> {
    let packed = read_value_with_max_depth(&mut &*bytes, MAX_DEPTH).ok()?;
    json(packed, MAX_EXTENSIONS)
}

/// Its depth is bounded by that of the packed value.
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
            let packed = read_value_with_max_depth(&mut &*bytes, MAX_DEPTH);
            let left = extensions.checked_sub(1)?;
            match packed {
                Ok(Packed::Array(parts)) if OBJECTS.contains(&kind) => json(parts.into_iter().nth(2)?, left)?,
                // The value of a channel that keeps differences.
                Ok(value) if kind == 7 => json(value, left)?,
                // Times, enums and the like have no place in messages.
                _ => Value::Null,
            }
        }
    })
}
