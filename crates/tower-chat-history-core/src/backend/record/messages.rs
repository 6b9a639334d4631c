//! Reads the usual record of an exchange: one of chat completions, whose messages only say something.
//!
//! Most of a record is the text of its messages. They are read without a JSON parser, and the parser reads the rest. A
//! load of a window reads some 30 records.

use super::exchange::Read;
use crate::message::Message;

/// The beginning of the list of messages.
const LIST: &str = r#","messages":["#;

/// Reads a record without its messages, and the messages. Returns `None` for a record of another form.
pub(super) fn read(record: &str) -> Option<(Read, Vec<Message>)> {
    let (head, list) = record.split_at(memchr::memchr(b'[', record.as_bytes())? + 1);
    // Otherwise, the list may be a field of an object within the record.
    if !head.ends_with(LIST) || head.strip_prefix('{')?.contains('{') {
        return None;
    }
    let (messages, tail) = messages(list)?;
    let read: Read = serde_json::from_str(&[head, tail].concat()).ok()?;
    read.is_of_chat_completions().then_some((read, messages))
}

/// Reads the messages of a list, from its first message on. Returns the text from the end of the list on.
fn messages(list: &str) -> Option<(Vec<Message>, &str)> {
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
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::{
        super::{Version, exchange::exchange_of_any_form},
        *,
    };
    use crate::{
        exchange::{Exchange, TokenCounts, Usage},
        exchange_id::ExchangeId,
        message::OpenAiResponses,
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
        r#","x":[{"messages":[]}]"#,
    ];

    fn exchange(messages: impl IntoIterator<Item = Message>) -> Exchange {
        Exchange::new(ExchangeId::new("e1").unwrap(), messages)
    }

    /// Returns the exchange of a record of the usual form.
    fn usual(record: &str) -> Option<Exchange> {
        read(record).map(|(read, messages)| read.with_messages(messages).1)
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
            // The list is a field of another object.
            format!(r#"{{"x":{{"y":1,"messages":[{}]}},"v":1,"id":"e1","at":1}}"#, Message::user("a").json()),
        ];
        for record in records {
            assert_eq!(usual(&record), None, "{record}");
        }
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

        /// Texts that are records, or nearly, of the usual form or nearly.
        #[test]
        fn whatever_is_read_is_what_the_parser_reads(
            head in select(&[r#"{"v":1"#, r#"{"v":2"#, r#" {"v":1"#, r#"{"x":{},"v":1"#, r#"{"x":{"v":1"#, r#"["#]),
            before in vec(select(FIELDS), 0..3),
            list in vec(select(&[
                r#"{"role":"user","content":"a"}"#,
                r#"{"role":"user","content":"\\\"]"}"#,
                r#"{"role":"system","content":"\u0061"}"#,
                r#"{"role":"assistant","content":""}"#,
                r#"{"content":"b","role":"assistant"}"#,
                r#"{"role":"tool","tool_call_id":"c","content":""}"#,
                r#"{"role":"user","content":"a"} "#,
            ]), 0..3),
            after in vec(select(FIELDS), 0..3),
            end in select(&["}", "", "}}", "} ", "],}", "]"]),
        ) {
            let list = list.join(",");
            let record = [head, r#","id":"e","at":1"#, &before.concat(), LIST, &list, "]", &after.concat(), end].concat();
            if let Some((read, messages)) = read(&record) {
                let (Version(version), exchange) = exchange_of_any_form(&record).unwrap();
                let (Version(read_version), read) = read.with_messages(messages);
                prop_assert_eq!((read_version, read), (version, exchange));
            }
        }
    }
}
