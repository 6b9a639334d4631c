//! The wire of chat completions.

#[cfg(test)]
mod fold_tests;

use std::ops::Range;

use bytes::Bytes;
use http::Uri;
use serde_json::json;
use tower_chat_history_core::{
    Message,
    json::{Object, range, raw_entries},
};

use super::{
    error::{CallError, Refusal},
    splice::{Splice, gap},
    sse::Event,
    wire::{OpenedBody, Wire},
};
use crate::{
    adapt::{
        Flow, FoldReply, RequestMessages,
        completion::{self, ChunkFold},
    },
    call::Reply,
    dialect::{ChatCompletions, Dialect},
    engine::{InputMode, RequestInfo},
};

/// The wire of chat completions, for OpenAI, Azure, and all providers with an endpoint of the same format.
///
/// The messages are the list `messages`. The reply is read by the rules of
/// [`completion`](crate::adapt::completion). Streams end with the event `[DONE]`.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ChatWire;

impl ChatWire {
    /// Creates the wire.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Wire for ChatWire {
    fn dialect(&self) -> &'static dyn Dialect {
        &ChatCompletions
    }

    /// Returns `azure.ai.openai` for Azure's hosts, and for a deployment in the path, and `openai` for all others.
    fn provider(&self, uri: &Uri) -> &'static str {
        openai_provider(uri)
    }

    fn open(&self, body: Bytes, mode: InputMode, few_shot_messages: usize) -> Result<OpenedBody, CallError> {
        open(&body, mode, few_shot_messages)
    }

    fn reply(&self, body: &[u8]) -> Reply {
        completion::reply_of(body)
    }

    fn fold(&self, choices: usize) -> Box<dyn FoldReply<Event>> {
        Box::new(ChatFold::new(choices))
    }

    fn refusal(&self, refusal: &Refusal) -> String {
        openai_refusal(refusal)
    }
}

/// Returns the provider at an address: `azure.ai.openai` for Azure's hosts, and for a deployment in the path, and
/// `openai` for all others.
pub(super) fn openai_provider(uri: &Uri) -> &'static str {
    let by_host = uri.host().is_some_and(|host| host.ends_with(".openai.azure.com"));
    if by_host || uri.path().contains("/openai/deployments/") { "azure.ai.openai" } else { "openai" }
}

/// Returns the JSON of an error, in the form of OpenAI's APIs.
pub(super) fn openai_refusal(refusal: &Refusal) -> String {
    let kind = match refusal.status.as_u16() {
        429 => "rate_limit_error",
        400..500 => "invalid_request_error",
        _ => "server_error",
    };
    let Refusal { code, text, .. } = refusal;
    json!({"error": {"message": text, "type": kind, "param": null, "code": code}}).to_string()
}

/// Finds the messages, and the other fields that count for a budget or that spans report. If a field occurs twice, the
/// last value is used. Other values are not checked here; the provider checks them.
fn open(bytes: &Bytes, mode: InputMode, few_shot_messages: usize) -> Result<OpenedBody, CallError> {
    let body = CallError::text(bytes)?;
    let fields = Object::parse(body).map_err(CallError::body)?;
    let array = fields.written("messages").ok_or_else(|| CallError::no_list(body))?.get();
    let list = range(body, array);
    if fields.repeats("messages") {
        // It is unknown which of two lists is meant.
        return Err(CallError::body_at(body, list.start));
    }

    let elements = raw_entries(array).ok_or_else(|| CallError::body_at(body, list.start))?;
    let ranges: Vec<Range<usize>> = elements.iter().map(|element| range(body, element.get())).collect();
    let messages = elements.iter().enumerate().map(|(position, &element)| {
        let message = Message::in_dialect_raw(&ChatCompletions, element.to_owned());
        message.map_err(|source| CallError::Message { position, source })
    });
    let messages = messages.collect::<Result<Vec<_>, _>>()?;
    let messages = RequestMessages::split(messages, few_shot_messages, mode);

    // If both limits exist, that of the newer field counts.
    let limits = ["max_completion_tokens", "max_tokens"];
    let limit = limits.iter().find_map(|name| Some((range(body, fields.get(name)?), fields.number(name)?)));
    let mut info = RequestInfo::new();
    info.model = fields.string("model");
    info.tools = fields.get("tools").map(str::to_owned);
    info.response_format = fields.get("response_format").map(str::to_owned);
    info.max_output = limit.as_ref().map(|(_, tokens)| u32::try_from(*tokens).unwrap_or(u32::MAX));
    info.temperature = fields.finite("temperature");
    info.top_p = fields.finite("top_p");
    let choices = fields.get("n").and_then(|n| n.parse().ok()).unwrap_or(1);

    let gap = gap(&list, &ranges, &messages.transcript_range());
    let head = ranges.iter().take(messages.head.len()).cloned().collect();
    let tools = body.find('{').map(|at| at + 1).filter(|_| fields.written("tools").is_none());
    let splice = Splice::new(bytes.clone(), gap)?.reply_limit(limit.map(|(place, _)| place))?.head(head, tools)?;
    Ok(OpenedBody { choices, info, ..OpenedBody::new(splice, messages) })
}

/// The fold that all adapters share, with the data of events as its input.
#[derive(Debug)]
struct ChatFold {
    fold: ChunkFold,
    /// True if `[DONE]` has come.
    done: bool,
}

impl ChatFold {
    fn new(choices: usize) -> Self {
        Self { fold: ChunkFold::new(choices), done: false }
    }
}

impl FoldReply<Event> for ChatFold {
    fn push(&mut self, event: &Event) -> Flow {
        if self.done || event.name() == b"keepalive" {
            return Flow::Pass;
        }
        if event.data().trim_ascii() == b"[DONE]" {
            self.done = true;
            return Flow::Hold;
        }
        match std::str::from_utf8(event.data()) {
            Ok(chunk) if event.name() != b"error" => self.fold.push_json(chunk),
            Ok(_) | Err(_) => self.fold.fail(),
        }
        Flow::Pass
    }

    fn is_complete(&self) -> bool {
        self.fold.is_complete()
    }

    fn is_whole(&self) -> bool {
        self.fold.is_whole()
    }

    fn reply(&self) -> Reply {
        self.fold.reply()
    }

    fn partial(&self) -> Option<Reply> {
        self.fold.partial()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;
    use crate::adapt::Prompt;

    #[test]
    fn azure_is_recognized_by_its_addresses() {
        for (url, expected) in [
            ("https://api.openai.com/v1/chat/completions", "openai"),
            ("https://api.groq.com/openai/v1/chat/completions", "openai"),
            ("https://mine.openai.azure.com/openai/v1/chat/completions", "azure.ai.openai"),
            ("https://gateway.test/openai/deployments/d/chat/completions?api-version=1", "azure.ai.openai"),
            ("/v1/chat/completions", "openai"),
        ] {
            assert_eq!(ChatWire.provider(&url.parse().unwrap()), expected, "{url}");
        }
    }

    fn read(body: &str, mode: InputMode) -> OpenedBody {
        open(&Bytes::copy_from_slice(body.as_bytes()), mode, 0).unwrap()
    }

    fn with_window(splice: Splice, window: &[Message]) -> String {
        let bytes = splice.with(Prompt::new(window)).unwrap_or_else(|| splice.into_original());
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    fn spliced(body: &str, mode: InputMode, window: &[Message]) -> String {
        with_window(read(body, mode).splice, window)
    }

    #[test]
    fn few_shot_messages_are_part_of_the_head() {
        let body = r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":"x"},{"role":"assistant","content":"y"},{"role":"user","content":"u"}]}"#;
        let read = open(&Bytes::copy_from_slice(body.as_bytes()), InputMode::Transcript, 2).unwrap();
        assert_eq!((read.messages.transcript.len(), read.messages.input.len()), (0, 1));
        let window = [Message::user("u0"), Message::assistant("a0")];
        let sent = with_window(read.splice, &window);
        let expected = body.replace(
            r#",{"role":"user","content":"u"}"#,
            &format!(",{},{},{}", window[0].json(), window[1].json(), r#"{"role":"user","content":"u"}"#),
        );
        assert_eq!(sent, expected);
    }

    #[test]
    fn the_window_is_inserted_between_head_and_input() {
        let window = [Message::user("u0"), Message::assistant("a0")];
        let u = window[0].json();
        let a = window[1].json();
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
        let u = Message::user("u0");
        let a = Message::assistant("a0");
        let next = Message::user("u1");
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
        let head = Message::system("s");
        let window = [Message::user("u0"), Message::tool("x", "r")];
        let list: Vec<Message> = std::iter::once(&head).chain(&window).cloned().collect();
        let json = |messages: &[Message]| {
            let list: Vec<&str> = messages.iter().map(Message::json).collect();
            format!(r#"{{"messages":[{}]}}"#, list.join(","))
        };
        assert_eq!(spliced(&json(&[head]), InputMode::New, &window), json(&list));
        assert_eq!(spliced(&json(&[]), InputMode::New, &window), json(&window));
    }

    #[test]
    fn the_limit_of_the_reply_is_replaced_before_and_after_the_messages() {
        let window = [Message::user("u0")];
        let lowered = |body: &str, window| {
            let mut prompt = Prompt::new(window);
            prompt.reply_limit = Some(7);
            let changed = read(body, InputMode::New).splice.with(prompt);
            changed.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
        };
        let before = r#"{"max_tokens": 900 ,"messages":[]}"#;
        let sent = format!(r#"{{"max_tokens": 7 ,"messages":[{}]}}"#, window[0].json());
        assert_eq!(lowered(before, &window), Some(sent));
        let after = r#"{"messages":[],"max_tokens":1,"max_completion_tokens":900}"#;
        assert_eq!(lowered(after, &[]).as_deref(), Some(after.replace("900", "7").as_str()));
        assert_eq!(lowered(r#"{"messages":[],"max_tokens":"900"}"#, &[]), None, "no number");
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
            let error = open(&Bytes::copy_from_slice(wrong.as_bytes()), InputMode::New, 0).err().unwrap();
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
