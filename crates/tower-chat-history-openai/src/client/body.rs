//! The body of a request: the ranges of its messages, and the replacement of messages without changing other bytes.

use std::ops::Range;

use bytes::Bytes;
use serde_json::value::RawValue;
use tower_chat_history::{
    Message,
    adapt::RequestMessages,
    engine::{InputMode, RequestInfo},
};

use super::{CallError, fields::Fields};

/// The body of a chat request, whose messages can be replaced.
pub(super) struct ChatBody {
    bytes: Bytes,
    /// The index after the head's last byte: after its last message, or after the `[`.
    head_end: usize,
    /// True if there is a head.
    has_head: bool,
    /// The index of the input's first byte: that of its first message, or of the `]`.
    input_start: usize,
    /// True if there is an input. There is none if all results were stored before.
    has_input: bool,
    /// True if there are messages between head and input, which the window replaces.
    has_transcript: bool,
    /// The range of the reply's limit, if it is a number.
    reply_limit: Option<Range<usize>>,
}

/// A body that was read, and the parts of it that history needs.
pub(super) struct ReadBody {
    pub(super) body: ChatBody,
    pub(super) messages: RequestMessages,
    pub(super) choices: usize,
    pub(super) info: RequestInfo,
}

impl ChatBody {
    /// Finds the messages, and the other fields that count for a budget or that spans report.
    pub(super) fn read(bytes: Bytes, mode: InputMode, few_shot_messages: usize) -> Result<ReadBody, CallError> {
        let text = std::str::from_utf8(&bytes).map_err(|_| CallError::Body { line: 0, column: 0 })?;
        let fields: Fields<'_> = serde_json::from_str(text).map_err(CallError::body)?;
        let array = fields.messages.map_or("[]", RawValue::get);
        let elements: Vec<&RawValue> = serde_json::from_str(array).map_err(CallError::body)?;
        let array = range(text, array);
        let ranges: Vec<Range<usize>> = elements.iter().map(|element| range(text, element.get())).collect();
        let messages = elements.iter().enumerate().map(|(position, element)| {
            Message::from_json(element.get()).map_err(|source| CallError::Message { position, source })
        });
        let messages = messages.collect::<Result<Vec<_>, _>>()?;
        let choices = fields.n.and_then(|n| n.get().parse().ok()).unwrap_or(1);

        let limit = fields.reply_limit();
        let json =
            |field: Option<&RawValue>| field.map(RawValue::get).filter(|json| *json != "null").map(str::to_owned);
        let mut info = RequestInfo::new();
        info.model = fields.model.and_then(|model| serde_json::from_str(model.get()).ok());
        info.tools = json(fields.tools);
        info.response_format = json(fields.response_format);
        info.max_output = limit.map(|(_, tokens)| tokens);
        info.temperature = number(fields.temperature);
        info.top_p = number(fields.top_p);

        let messages = RequestMessages::split(messages, few_shot_messages, mode);
        let resent = messages.transcript_range();
        let body = Self {
            head_end: ranges[..resent.start].last().map_or(array.start + 1, |last| last.end),
            has_head: resent.start > 0,
            input_start: ranges.get(resent.end).map_or(array.end - 1, |first| first.start),
            has_input: resent.end < ranges.len(),
            has_transcript: !resent.is_empty(),
            reply_limit: limit.map(|(json, _)| range(text, json)),
            bytes,
        };
        Ok(ReadBody { body, messages, choices, info })
    }

    /// Returns the body with the window between head and input. If `reply_limit` is given and the body has a limit
    /// of the reply, the limit is replaced too. All other bytes stay the same.
    pub(super) fn with_window(self, window: &[Message], reply_limit: Option<u32>) -> Bytes {
        let limited = self.reply_limit.clone().zip(reply_limit);
        if window.is_empty() && !self.has_transcript && limited.is_none() {
            return self.bytes;
        }
        let messages = (self.head_end..self.input_start, self.between(window));
        let limit = limited.map(|(range, tokens)| (range, tokens.to_string().into_bytes()));
        let mut changes: Vec<_> = [messages].into_iter().chain(limit).collect();
        changes.sort_by_key(|(range, _)| range.start);
        let added = changes.iter().map(|(_, new)| new.len()).sum::<usize>();
        let mut body = Vec::with_capacity(self.bytes.len() + added);
        let mut at = 0;
        for (range, new) in changes {
            body.extend_from_slice(&self.bytes[at..range.start]);
            body.extend_from_slice(&new);
            at = range.end;
        }
        body.extend_from_slice(&self.bytes[at..]);
        body.into()
    }

    /// Returns the bytes between head and input.
    fn between(&self, window: &[Message]) -> Vec<u8> {
        if window.is_empty() && !self.has_transcript {
            return self.bytes[self.head_end..self.input_start].to_vec();
        }
        let mut between = Vec::with_capacity(window.iter().map(|message| message.bytes() + 1).sum::<usize>() + 1);
        let mut separated = !self.has_head;
        for message in window {
            if !std::mem::replace(&mut separated, false) {
                between.push(b',');
            }
            between.extend_from_slice(message.json().as_bytes());
        }
        if self.has_input && !separated {
            between.push(b',');
        }
        between
    }
}

/// Returns a field's value if it is a finite number. A string is never parsed as one, because its JSON has quotes.
fn number(json: Option<&RawValue>) -> Option<f64> {
    json?.get().parse().ok().filter(|number: &f64| number.is_finite())
}

/// Returns the range of a part that was borrowed from the text.
fn range(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - text.as_ptr().addr();
    start..start + part.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(body: &str, mode: InputMode) -> ReadBody {
        ChatBody::read(Bytes::copy_from_slice(body.as_bytes()), mode, 0).unwrap()
    }

    fn spliced(body: &str, mode: InputMode, window: &[Message]) -> String {
        String::from_utf8(read(body, mode).body.with_window(window, None).to_vec()).unwrap()
    }

    #[test]
    fn few_shot_messages_are_part_of_the_head() {
        let body = r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":"x"},{"role":"assistant","content":"y"},{"role":"user","content":"u"}]}"#;
        let read = ChatBody::read(Bytes::copy_from_slice(body.as_bytes()), InputMode::Transcript, 2).unwrap();
        assert_eq!((read.messages.transcript.len(), read.messages.input.len()), (0, 1));
        let window = [Message::user("u0"), Message::assistant("a0")];
        let sent = String::from_utf8(read.body.with_window(&window, None).to_vec()).unwrap();
        let expected = body.replace(
            r#",{"role":"user","content":"u"}"#,
            &format!(",{},{},{}", window[0].json(), window[1].json(), r#"{"role":"user","content":"u"}"#),
        );
        assert_eq!(sent, expected);
    }

    #[test]
    fn the_window_is_inserted_between_head_and_input() {
        let window = [Message::user("u0"), Message::assistant("a0")];
        let (u, a) = (window[0].json(), window[1].json());
        let body = r#"{"model": "m", "messages" : [ {"role":"system","content":"S"} , {"role":"user","content":"u1"} ] ,"n":2}"#;
        let sent = spliced(body, InputMode::Transcript, &window);
        let expected = format!(
            r#"{{"model": "m", "messages" : [ {{"role":"system","content":"S"}},{u},{a},{{"role":"user","content":"u1"}} ] ,"n":2}}"#
        );
        assert_eq!(sent, expected);
        assert_eq!(read(body, InputMode::Transcript).choices, 2);
        assert_eq!(spliced(body, InputMode::Transcript, &[]), body, "an empty window changes nothing");
    }

    #[test]
    fn the_window_replaces_the_transcript() {
        let (u, a, next) = (Message::user("u0"), Message::assistant("a0"), Message::user("u1"));
        let body = format!(r#"{{"messages":[{},{},{}]}}"#, u.json(), a.json(), next.json());
        let read = read(&body, InputMode::Transcript);
        assert_eq!((read.messages.transcript, read.messages.input), (vec![u.clone(), a.clone()], vec![next.clone()]));
        let stored = Message::from_json(r#"{"role":"assistant","content":"a0","reasoning_content":"r"}"#).unwrap();
        let sent = spliced(&body, InputMode::Transcript, &[u.clone(), stored.clone()]);
        assert_eq!(sent, format!(r#"{{"messages":[{},{},{}]}}"#, u.json(), stored.json(), next.json()));
        assert_eq!(spliced(&body, InputMode::Transcript, &[]), format!(r#"{{"messages":[{}]}}"#, next.json()));
        assert_eq!(self::read(&body, InputMode::New).messages.input.len(), 3);
    }

    #[test]
    fn no_comma_follows_the_window_if_there_is_no_input() {
        let (head, window) = (Message::system("s"), [Message::user("u0"), Message::tool("x", "r")]);
        let list: Vec<Message> = std::iter::once(&head).chain(&window).cloned().collect();
        let json = |messages: &[Message]| {
            let list: Vec<&str> = messages.iter().map(Message::json).collect();
            format!(r#"{{"messages":[{}]}}"#, list.join(","))
        };
        assert_eq!(spliced(&json(&[head]), InputMode::New, &window), json(&list));
        assert_eq!(spliced(&json(&[]), InputMode::New, &window), json(&window));
    }

    #[test]
    fn model_and_sampling_are_read_from_the_body() {
        let info = |more: &str| read(&format!(r#"{{"messages":[],{more}}}"#), InputMode::New).info;
        let read = info(r#""model":"m","temperature": 0.7 ,"top_p":1e-1"#);
        assert_eq!((read.model.as_deref(), read.temperature, read.top_p), (Some("m"), Some(0.7), Some(0.1)));
        for none in
            [r#""temperature":null,"top_p":"1""#, r#""temperature":"inf","top_p":1e999"#, r#""temperature":[1]"#]
        {
            let read = info(none);
            assert_eq!((read.temperature, read.top_p), (None, None), "{none}");
        }
    }

    #[test]
    fn the_error_of_an_unreadable_body_does_not_quote_it() {
        for wrong in [
            "secret",
            "[]",
            "{}",
            r#"{"messages":"secret"}"#,
            r#"{"messages":["secret"]}"#,
            r#"{"messages":[],"messages":["secret"]}"#,
        ] {
            let error = ChatBody::read(Bytes::copy_from_slice(wrong.as_bytes()), InputMode::New, 0).err().unwrap();
            let text = format!("{error} {error:?}");
            assert!(!text.contains("secret"), "{text}");
        }
    }

    fn space() -> impl Strategy<Value = String> {
        "[ \t\r\n]{0,3}"
    }

    /// A member of the body that is unrelated to history. Some contain text that looks like the list of messages.
    fn other() -> impl Strategy<Value = String> {
        prop_oneof![
            Just(r#""n":3"#.to_owned()),
            Just(r#""temperature" : 1.50e0"#.to_owned()),
            Just(r#""metadata":{"messages":[{"role":"user","content":"no"}], "n":9}"#.to_owned()),
            Just(r#""tools":[{"function":{"parameters":{"messages":[1 , 2]}}}]"#.to_owned()),
            Just(r#""user":"\"messages\":[] \ud83d""#.to_owned()),
            Just(r#""x":"],\"messages\":[""#.to_owned()),
        ]
    }

    fn message(role: &'static str) -> impl Strategy<Value = String> {
        (space(), "[a-z\\[\\]{},:]{0,6}")
            .prop_map(move |(space, text)| format!(r#"{{{space}"content":"{text}",{space}"role" :"{role}"}}"#))
    }

    proptest! {
        #[test]
        fn only_bytes_of_the_messages_change(
            before in prop::collection::btree_set(other(), 0..3),
            after in prop::collection::btree_set(other(), 0..3),
            head in prop::collection::vec(message("system"), 0..3),
            resent in prop::collection::vec((message("user"), message("assistant")), 0..3),
            input in prop::collection::vec(message("user"), 0..3),
            window in prop::collection::vec(message("user"), 0..4),
            gaps in prop::collection::vec(space(), 4),
        ) {
            let after: Vec<String> = after.difference(&before).cloned().collect();
            let comma = format!("{},{}", gaps[0], gaps[1]);
            let join = |parts: &[String]| parts.join(&comma);
            let resent: Vec<String> = resent.into_iter().flat_map(|(user, assistant)| [user, assistant]).collect();
            let all: Vec<String> = [&head[..], &resent[..], &input[..]].concat();
            let mut front = format!("{}{{{}", gaps[2], join(&[before.into_iter().collect(), vec![String::new()]].concat()));
            front.push_str(&format!("\"messages\"{}:{}", gaps[3], gaps[0]));
            let mut back = gaps[1].clone();
            for member in &after {
                back.push_str(&comma);
                back.push_str(member);
            }
            back.push_str(&format!("}}{}", gaps[2]));
            let body = format!("{front}[{}{}{}]{back}", gaps[2], join(&all), gaps[3]);

            let messages: Vec<Message> = window.iter().map(|json| Message::from_json(json.as_str()).unwrap()).collect();
            let sent = spliced(&body, InputMode::Transcript, &messages);
            prop_assert!(sent.starts_with(&format!("{front}[")), "{sent}");
            // Without an input, the window replaces the space before the end of the list.
            let end = if input.is_empty() { String::new() } else { format!("{}{}", join(&input), gaps[3]) };
            prop_assert!(sent.ends_with(&format!("{end}]{back}")), "{sent}");
            let array = &sent[front.len()..sent.len() - back.len()];
            let sent: Vec<&RawValue> = serde_json::from_str(array).unwrap();
            let expected: Vec<&String> = head.iter().chain(&window).chain(&input).collect();
            prop_assert_eq!(sent.iter().map(|raw| raw.get()).collect::<Vec<_>>(), expected);
        }
    }
}
