//! The record of an exchange.
//!
//! Its list of messages is written and mostly read without a JSON parser. Messages are JSON already, and most of a
//! record is their text. A load of a window reads some 30 records.

use serde::{Deserialize, Serialize, de::Error as _};
use serde_json::value::RawValue;

use super::{EXCHANGES, RECALLED, RecordError, VERSION, Version, encoded, message, read};
use crate::{
    exchange::{Exchange, ExchangeId, Sealed, Timestamp, TokenCounts, Usage, default_reply_len},
    message::{DialectName, Message},
    metadata::Metadata,
    provenance::Provenance,
    seq::Seq,
};

#[derive(Serialize)]
struct Written<'a> {
    v: u64,
    id: &'a ExchangeId,
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    continues: Option<Seq>,
    /// Absent for chat completions.
    #[serde(skip_serializing_if = "Option::is_none")]
    dialect: Option<&'a DialectName>,
    /// Empty, because serde would parse the messages to write them. They are [put](put_messages) into the record.
    messages: [(); 0],
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed: &'a Option<Sealed>,
    /// Absent for chat completions if it is 1 for an exchange that ends with a reply, and 0 for any other.
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_len: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: &'a Option<TokenCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: &'a Option<Usage>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    incomplete: bool,
    /// It comes after the messages, because `put_messages` expects only numbers and texts before them.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: &'a Option<Metadata>,
}

#[derive(Deserialize)]
struct ReadExchange {
    v: Version,
    id: ExchangeId,
    at: Timestamp,
    continues: Option<Seq>,
    #[serde(default)]
    dialect: DialectName,
    messages: Vec<Box<RawValue>>,
    sealed: Option<Sealed>,
    reply_len: Option<usize>,
    tokens: Option<TokenCounts>,
    model: Option<String>,
    finish_reason: Option<String>,
    usage: Option<Usage>,
    #[serde(default)]
    incomplete: bool,
    metadata: Option<Metadata>,
}

impl Exchange {
    /// Returns the text to store, which contains the messages and the [metadata](Self::metadata) byte for byte. The
    /// [recalled](Self::recalled) messages and the [provenance](Self::provenance) are not in it: store them in places of
    /// their own, as [`Recalled::encode`](crate::Recalled::encode) and [`Provenance::encode`] return them.
    ///
    /// # Errors
    ///
    /// Never fails for an exchange of this crate's own types. It returns a `Result` because serialization is
    /// fallible.
    pub fn encode(&self) -> Result<String, RecordError> {
        let without_messages = encoded(&Written {
            v: VERSION,
            id: &self.id,
            at: self.at,
            continues: self.continues,
            dialect: Some(&self.dialect).filter(|dialect| !dialect.is_chat_completions()),
            messages: [],
            sealed: &self.sealed,
            reply_len: self.written_reply_len(),
            tokens: &self.tokens,
            model: &self.model,
            finish_reason: &self.finish_reason,
            usage: &self.usage,
            incomplete: self.incomplete,
            metadata: &self.metadata,
        })?;
        put_messages(&without_messages, &self.messages)
    }

    /// Returns the length of the reply, unless a reader finds it in the messages. A reader may not know other
    /// dialects than chat completions.
    fn written_reply_len(&self) -> Option<usize> {
        let is_usual = self.dialect.is_chat_completions() && self.reply_len == default_reply_len(&self.messages);
        (!is_usual).then_some(self.reply_len)
    }

    /// Reads the exchange that [`encode`](Self::encode) wrote. It has no recalled messages and no provenance.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not such a record, or if a newer version of this library wrote it.
    pub fn decode(record: &str) -> Result<Self, RecordError> {
        ExchangeRecords { exchange: record, recalled: None, provenance: None }.decode()
    }
}

/// The texts that a store has of one exchange.
#[derive(Clone, Copy)]
pub struct ExchangeRecords<'a> {
    /// The record, as [`Exchange::encode`] wrote it.
    pub exchange: &'a str,
    /// The recalled messages, as [`Recalled::encode`](crate::Recalled::encode) wrote them.
    pub recalled: Option<&'a str>,
    /// The provenance, as [`Provenance::encode`] wrote it.
    pub provenance: Option<&'a str>,
}

impl ExchangeRecords<'_> {
    /// Reads the exchange. Messages of a dialect that this crate does not have are read without an
    /// [index](Message::index), which [`Exchange::read_in`] adds.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the texts is not such a record, or if a newer version of this library wrote it.
    pub fn decode(self) -> Result<Exchange, RecordError> {
        let mut exchange = read(self.exchange, EXCHANGES)?;
        let recalled = self.recalled.map(|recalled| read(recalled, RECALLED)).transpose()?;
        exchange.recalled = recalled.map(|recalled| recalled.in_dialect(&exchange.dialect)).transpose()?;
        exchange.provenance = self.provenance.map(Provenance::decode).transpose()?;
        exchange.share_counts();
        Ok(exchange)
    }
}

// The texts are private.
impl std::fmt::Debug for ExchangeRecords<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExchangeRecords")
            .field("exchange_bytes", &self.exchange.len())
            .field("recalled_bytes", &self.recalled.map(str::len))
            .field("provenance_bytes", &self.provenance.map(str::len))
            .finish()
    }
}

/// Reads version 1.
pub(super) fn exchange_1(record: &str) -> Result<(Version, Exchange), serde_json::Error> {
    if let Some((read, messages)) = take_plain(record) {
        return Ok(read.with_messages(messages));
    }
    exchange_of_any_form(record)
}

/// Reads version 1 with the JSON parser alone.
fn exchange_of_any_form(record: &str) -> Result<(Version, Exchange), serde_json::Error> {
    let mut read: ReadExchange = serde_json::from_str(record)?;
    let messages = std::mem::take(&mut read.messages);
    if read.sealed.is_some() && !messages.is_empty() {
        return Err(serde_json::Error::custom("an encrypted exchange has messages"));
    }
    let messages = messages.into_iter().map(|json| message(&read.dialect, json));
    let messages = messages.collect::<Result<_, _>>()?;
    Ok(read.with_messages(messages))
}

impl ReadExchange {
    /// Returns `true` if the record is of chat completions and not encrypted.
    fn may_have_chat_messages(&self) -> bool {
        self.dialect.is_chat_completions() && self.sealed.is_none()
    }

    /// Returns the exchange of this record with these messages, which were read from it.
    fn with_messages(self, messages: Vec<Message>) -> (Version, Exchange) {
        let Self { v, id, at, continues, dialect, sealed, reply_len, tokens, .. } = self;
        let Self { model, finish_reason, usage, incomplete, metadata, .. } = self;
        // The reply of an unknown dialect is known only from the record.
        let reply_len = reply_len.unwrap_or_else(|| default_reply_len(&messages)).min(messages.len());

        let exchange = Exchange {
            id,
            at,
            continues,
            dialect,
            messages,
            sealed,
            reply_len,
            tokens,
            model,
            finish_reason,
            usage,
            incomplete,
            metadata,
            recalled: None,
            provenance: None,
        };
        (v, exchange)
    }
}

/// The beginning of the list.
const LIST: &str = r#","messages":["#;

/// Puts the messages into a record whose list is empty.
fn put_messages(record: &str, messages: &[Message]) -> Result<String, RecordError> {
    // Before the list, all values are numbers or texts, and `"` is escaped in texts. So `,"m` only begins the name of a
    // field.
    let start = record.find(LIST).ok_or(RecordError::Malformed { line: 1, column: 1 })? + LIST.len();
    let (head, tail) = record.split_at(start);
    let bytes: usize = messages.iter().map(|message| message.bytes() + 1).sum();
    let mut whole = String::with_capacity(record.len() + bytes);
    whole.push_str(head);
    for (at, message) in messages.iter().enumerate() {
        whole.push_str(if at == 0 { "" } else { "," });
        whole.push_str(message.json());
    }
    whole.push_str(tail);
    Ok(whole)
}

/// Reads the usual record: one of chat completions, whose messages only say something. Returns the record without its
/// messages, and the messages. Returns `None` for a record of another form.
fn take_plain(record: &str) -> Option<(ReadExchange, Vec<Message>)> {
    let (head, list) = record.split_at(memchr::memchr(b'[', record.as_bytes())? + 1);
    // In JSON, `"messages":` is the name of a field and never a part of a text. No other list and no object has begun
    // before it, so it is a field of the record itself.
    if !head.ends_with(LIST) || head.strip_prefix('{')?.contains('{') {
        return None;
    }
    // A record of another dialect names it before its messages, which need not be read then.
    if head.contains(r#""dialect":"#) {
        return None;
    }
    let (messages, tail) = plain(list)?;
    // The parser checks the rest of the record, with an empty list in place of this one.
    let read: ReadExchange = serde_json::from_str(&[head, tail].concat()).ok()?;
    read.may_have_chat_messages().then_some((read, messages))
}

/// Reads the messages of a list, from its first message on. Returns the text from the end of the list on.
fn plain(list: &str) -> Option<(Vec<Message>, &str)> {
    let (first, mut rest) = Message::plain_at_start(list)?;
    // Most exchanges are an input and a reply.
    let mut messages = Vec::with_capacity(2);
    messages.push(first);
    while let Some(next) = rest.strip_prefix(',') {
        let (message, after) = Message::plain_at_start(next)?;
        messages.push(message);
        rest = after;
    }
    rest.starts_with(']').then_some((messages, rest))
}

#[cfg(test)]
mod tests {
    use proptest::{
        collection::vec,
        prelude::*,
        sample::{select, subsequence},
    };

    use super::*;
    use crate::{
        backend::record::Version,
        exchange::{Exchange, ExchangeId, TokenCounts, Usage},
        message::{ChatCompletions, DialectName, OpenAiResponses},
        metadata::Metadata,
        seq::Seq,
    };

    /// Fields of a record, and some that a record cannot have there.
    const FIELDS: &[&str] = &[
        r#","continues":1"#,
        r#","dialect":"chat_completions""#,
        r#","dialect":"anthropic_messages""#,
        r#","sealed":null"#,
        r#","sealed":{"text":"abc","messages":1,"bytes":1}"#,
        r#","reply_len":1"#,
        r#","reply_len":9"#,
        r#","model":"a\","messages":[""#,
        r#","model":"[]""#,
        r#","id":"f""#,
        r#","messages":[]"#,
        r#","tokens":{"counter":"c","counts":[1]}"#,
        r#","finish_reason":null"#,
        r#","incomplete":true"#,
        r#","metadata":{"messages":["a"]}"#,
        r#","metadata":[]"#,
        r#","x":[{"messages":[]}]"#,
    ];

    /// Messages that are not plain.
    const OTHER_MESSAGES: &[&str] = &[
        r#"{"role":"user","content":"\u0061"}"#,
        r#"{"role":"tool","tool_call_id":"c","content":""}"#,
        r#"{"role":"user","content":"a"} "#,
        r#"{"role":"user","content":"a","messages":[]}"#,
    ];

    /// Returns the first text in four of five cases, and one of the others otherwise.
    fn mostly(usual: &'static str, others: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
        prop_oneof![4 => Just(usual), 1 => select(others)]
    }

    /// Texts of visible ASCII that contain parts of records.
    fn hostile() -> impl Strategy<Value = String> {
        vec(select(&[r#","messages":["#, r#"""#, r#"\"#, ",", "[", "]", "{", "}", ":", "a"]), 0..5)
            .prop_map(|parts| parts.concat())
    }

    fn plain_message() -> impl Strategy<Value = String> {
        let text = r#"([ab äß😀]|\\n|\\\\|\\"|\},\{|\]|\[){0,8}"#;
        (0..4, text).prop_map(|(form, text)| match form {
            0 => format!(r#"{{"role":"user","content":"{text}"}}"#),
            1 => format!(r#"{{"role":"assistant","content":"{text}"}}"#),
            2 => format!(r#"{{"role":"system","content":"{text}"}}"#),
            _ => format!(r#"{{"content":"{text}","role":"assistant"}}"#),
        })
    }

    fn exchange(messages: impl IntoIterator<Item = Message>) -> Exchange {
        Exchange::new(ExchangeId::new("e1").unwrap(), messages)
    }

    /// Returns the exchange of a record of the usual form.
    fn usual(record: &str) -> Option<Exchange> {
        take_plain(record).map(|(read, messages)| read.with_messages(messages).1)
    }

    #[test]
    fn records_of_plain_messages_have_the_usual_form() {
        let reply = r#"{"content":"b","role":"assistant"}"#;
        let mut full = exchange([Message::user("a"), Message::from_json(reply).unwrap()]);
        full.continues = Some(Seq::new(3));
        full.tokens = Some(TokenCounts { counter: "o200k_base".into(), counts: vec![5, 6] });
        full.model = Some("gpt-4o".into());
        full.finish_reason = Some("stop".into());
        full.usage = Some(Usage::new(10, 2));
        full.incomplete = true;
        full.metadata = Some(Metadata::new(r#"{"x":1,"messages":[{}]}"#).unwrap());
        let plain = exchange([Message::system("a"), Message::user("b"), Message::user("\n"), Message::assistant("c")]);
        for exchange in [full, plain, exchange([Message::user("a")])] {
            assert_eq!(usual(&exchange.encode().unwrap()), Some(exchange));
        }
    }

    #[test]
    fn records_of_another_form_are_left_to_the_parser() {
        let record = exchange([Message::user("a"), Message::assistant("b")]).encode().unwrap();
        let item = Message::in_dialect(&OpenAiResponses, r#"{"role":"user","content":"a"}"#).unwrap();
        let records = [
            exchange([]).encode().unwrap(),
            exchange([Message::user("a"), Message::tool("c", "d")]).encode().unwrap(),
            exchange([item]).encode().unwrap(),
            record.replace(r#""messages":["#, r#""messages": ["#),
            record.replace(r#"},{"#, r#"}, {"#),
            record.replace("e1", "[1]"),
            record.replace(r#""v":1"#, r#""x":{},"v":1"#),
            format!("{record}x"),
            record.replace('}', ""),
            record.replace(r#""v":1"#, r#""v":1,"dialect":"anthropic_messages""#),
            record.replace("]}", r#"],"dialect":"anthropic_messages"}"#),
        ];
        for record in records {
            assert_eq!(usual(&record), None, "{record}");
        }
    }

    #[test]
    fn the_messages_of_another_object_are_not_those_of_the_record() {
        let plain = Message::user("a");
        let record = format!(r#"{{"x":{{"y":1,"messages":[{}]}},"v":1,"id":"e1","at":1,"messages":[]}}"#, plain.json());
        assert_eq!(usual(&record), None);
        assert!(Exchange::decode(&record).unwrap().messages.is_empty());
    }

    #[test]
    fn an_encrypted_record_has_no_plain_messages() {
        let record = exchange([Message::user("a")]).encode().unwrap();
        let sealed = record.replace("]}", r#"],"sealed":{"text":"abc","messages":1,"bytes":1}}"#);
        assert_ne!(record, sealed);
        assert_eq!(usual(&sealed), None);
        assert!(Exchange::decode(&sealed).is_err());
    }

    #[test]
    fn messages_are_written_byte_for_byte() {
        let odd = r#"{ "role":"user", "content":"\u0000[", "x": 1.0 }"#;
        for messages in
            [vec![], vec![Message::from_json(odd).unwrap()], vec![Message::user("a"), Message::assistant("b")]]
        {
            let json: Vec<&str> = messages.iter().map(Message::json).collect();
            let expected = format!(r#"{{"id":"\"","messages":[{}],"model":"m"}}"#, json.join(","));
            assert_eq!(put_messages(r#"{"id":"\"","messages":[],"model":"m"}"#, &messages).unwrap(), expected);
        }
        assert!(put_messages("{}", &[]).is_err());
    }

    #[test]
    fn a_record_with_two_lists_of_messages_is_malformed() {
        let record = exchange([Message::user("a")]).encode().unwrap();
        let doubled = record.replace("]}", r#"],"messages":[]}"#);
        assert_ne!(record, doubled);
        assert!(Exchange::decode(&doubled).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn messages_are_put_into_their_list_whatever_the_other_fields_are(
            id in hostile(),
            dialect in hostile(),
            model in hostile(),
            count in 0..3_usize,
        ) {
            let mut exchange = exchange(vec![Message::user(&model); count]);
            exchange.id = ExchangeId::new(format!("e{id}")).unwrap();
            exchange.dialect = DialectName::try_from(format!("d{dialect}")).unwrap();
            exchange.model = Some(model);
            let record = exchange.encode().unwrap();
            let read: serde_json::Value = serde_json::from_str(&record).unwrap();
            prop_assert_eq!(read["messages"].as_array().map(Vec::len), Some(count));
            prop_assert_eq!(Exchange::decode(&record).unwrap(), exchange);
        }

        /// Texts that are records, or nearly, of the usual form or nearly.
        #[test]
        fn whatever_is_read_is_what_the_parser_reads(
            head in mostly(r#"{"v":1"#, &[r#"{"v":2"#, r#" {"v":1"#, r#"{"x":{},"v":1"#, r#"{"x":{"v":1"#, "["]),
            before in prop_oneof![2 => Just(vec![]), 1 => subsequence(FIELDS, 0..3)],
            list in vec(prop_oneof![9 => plain_message(), 1 => select(OTHER_MESSAGES).prop_map(str::to_owned)], 1..4),
            after in subsequence(FIELDS, 0..4),
            end in mostly("}", &["", "}}", "} ", "],}", "]"]),
        ) {
            let list = list.join(",");
            let record = [head, r#","id":"e","at":1"#, &before.concat(), LIST, &list, "]", &after.concat(), end].concat();
            if let Some((read, messages)) = take_plain(&record) {
                let (Version(version), expected) = exchange_of_any_form(&record).unwrap();
                let (Version(read_version), read) = read.with_messages(messages);
                for (message, expected) in read.messages.iter().zip(&expected.messages) {
                    prop_assert_eq!(message.index(), expected.index());
                    prop_assert_eq!(message.text(), expected.text());
                    prop_assert!(message.dialect().unwrap().name() == ChatCompletions::NAME);
                }
                prop_assert_eq!((read_version, read), (version, expected));
            }
        }
    }
}
