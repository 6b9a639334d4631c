//! Dumps of LangChain's `RedisChatMessageHistory`.

use std::io::BufRead;

use serde_json::Value;

use super::read;
use crate::transfer::{
    foreign::{
        conversation::ForeignConversation,
        records::{Records, are_objects},
    },
    problem::{ForeignError, Problem},
};

/// Reads dumps of the lists that LangChain's `RedisChatMessageHistory` keeps: one object in each line, with the `key`
/// of a list and its `values`, in the order of Redis (newest first).
///
/// This shell command writes such a dump:
///
/// ```sh
/// redis-cli --scan --pattern 'message_store:*' | while read -r key; do
///   printf '{"key":"%s","values":%s}\n' "$key" "$(redis-cli --json LRANGE "$key" 0 -1)"
/// done
/// ```
///
/// The name of a conversation is the key without `message_store:`. A message without a counterpart of a part is kept
/// without this part.
#[derive(Debug)]
pub struct LangChainRedis<R>(Records<R>);

/// The default beginning of LangChain's keys.
const KEYS: &str = "message_store:";

impl<R: BufRead> LangChainRedis<R> {
    /// Creates a reader.
    pub fn new(input: R) -> Self {
        Self(Records::new(input))
    }
}

impl<R: BufRead> Iterator for LangChainRedis<R> {
    type Item = Result<ForeignConversation, ForeignError>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.0.next(are_objects)?;
        Some(record.and_then(|(number, value)| conversation(number, &value)))
    }
}

fn conversation(number: u64, value: &Value) -> Result<ForeignConversation, ForeignError> {
    let form = Problem::Form("expected a text `key` and a list `values`");
    let failed = |problem| ForeignError::conversation(number, None, problem);
    let key = value.get("key").and_then(Value::as_str).ok_or_else(|| failed(form))?;
    let values = value.get("values").and_then(Value::as_array).ok_or_else(|| failed(form))?;
    let mut conversation = ForeignConversation::new(key.strip_prefix(KEYS).unwrap_or(key).to_owned(), number);
    for (index, value) in values.iter().rev().enumerate() {
        let failed = |_| ForeignError::conversation(number, Some(key.to_owned()), Problem::Message(index));
        let parsed = match value {
            Value::String(json) => serde_json::from_str(json).map_err(drop).map_err(failed)?,
            value => value.clone(),
        };
        conversation.messages.extend(read(&parsed, &mut conversation.left_out).map_err(failed)?);
    }
    Ok(conversation)
}
