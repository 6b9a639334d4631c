//! Strategies for unusual but valid logs, requests and responses.

use proptest::{prelude::*, sample::Index};
use tower_chat_history::Message;

/// A message as it is stored, and as a client resends it that knows only the fields of the format.
#[derive(Clone, Debug)]
pub(super) struct Logged {
    pub(super) json: String,
    /// The message as it is sent in later prompts. It is the same, unless the arguments of a call are no object.
    pub(super) sent: String,
    pub(super) resent: String,
}

/// The body of a request, without the messages that the caller resends.
#[derive(Clone, Debug)]
pub(super) struct Body {
    /// The text before the array of messages.
    front: String,
    pub(super) instructions: Vec<String>,
    pub(super) shots: Vec<String>,
    pub(super) input: Vec<String>,
    /// The text after the array.
    back: String,
    /// The white space after `[`, before each comma, after each comma, and before `]`.
    gaps: Vec<String>,
}

impl Body {
    fn comma(&self) -> String {
        format!("{},{}", self.gaps[1], self.gaps[2])
    }

    fn head(&self) -> Vec<String> {
        [&self.instructions[..], &self.shots].concat()
    }

    /// Returns the body that the caller sends.
    pub(super) fn with(&self, resent: &[String]) -> String {
        let messages = [&self.head()[..], resent, &self.input].concat().join(&self.comma());
        format!("{}[{}{messages}{}]{}", self.front, self.gaps[0], self.gaps[3], self.back)
    }

    /// Returns the body that should reach the server with this window.
    pub(super) fn sent(&self, resent: &[String], window: &[&str]) -> String {
        if resent.is_empty() && window.is_empty() {
            return self.with(&[]);
        }
        let (head, input) = (self.head(), self.input.join(&self.comma()));
        let begin =
            if head.is_empty() { String::new() } else { format!("{}{},", self.gaps[0], head.join(&self.comma())) };
        let window: String = window.iter().map(|json| format!("{json},")).collect();
        format!("{}[{begin}{window}{input}{}]{}", self.front, self.gaps[3], self.back)
    }
}

/// The response of the server.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// The content type.
    pub(super) kind: String,
    pub(super) pieces: Vec<Vec<u8>>,
    /// The reply that should be stored, if any.
    pub(super) reply: Option<Logged>,
}

fn gap() -> impl Strategy<Value = String> {
    "[ \t\r\n]{0,2}"
}

/// The inside of a JSON string.
fn text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "ä",
        "\u{1f600}",
        "\u{2028}",
        " ",
        r"\n",
        r#"\""#,
        r"\\",
        r"\/",
        r"\u0000",
        r"\u00e4",
        r"\ud83d",
        r"\ude00",
        "],[",
        r#"],\"messages\":["#,
        "data: [DONE]",
    ]);
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

fn member(name: &'static str, value: String) -> impl Strategy<Value = String> {
    (gap(), gap()).prop_map(move |(before, behind)| format!("\"{name}\"{before}:{behind}{value}"))
}

fn unknown_value() -> impl Strategy<Value = String> {
    let odd =
        ["null", "true", "1.50", "-0e+1", "123456789012345678901234567890", "[ ]", "{\t}", r#"[{"messages":[ 1 ]}]"#];
    prop_oneof![
        prop::sample::select(odd.to_vec()).prop_map(str::to_owned),
        text().prop_map(|text| format!("\"{text}\""))
    ]
}

/// Members that the format does not define.
fn unknown() -> impl Strategy<Value = Vec<String>> {
    let name = prop::sample::select(vec!["reasoning_content", "cache_control", "x", "\\u0078", "z.9", ""]);
    let unknown = (name, unknown_value()).prop_flat_map(|(name, value)| member(name, value));
    prop::collection::vec(unknown, 0..3)
}

/// An object of these members in any order.
fn object(members: Vec<String>) -> impl Strategy<Value = String> {
    (Just(members).prop_shuffle(), gap(), gap(), gap()).prop_map(|(members, open, comma, close)| {
        let separator = format!("{comma},{open}");
        format!("{{{open}{}{close}}}", members.join(&separator))
    })
}

/// A message with known members and unknown ones.
fn message(known: Vec<String>, content: Option<(String, String)>) -> impl Strategy<Value = Logged> {
    unknown().prop_flat_map(move |unknown| {
        let with = |content: Option<&String>| {
            [known.clone(), content.map(|content| format!("\"content\":{content}")).into_iter().collect()].concat()
        };
        let resent = format!("{{{}}}", with(content.as_ref().map(|(_, kept)| kept)).join(","));
        let all = [with(content.as_ref().map(|(content, _)| content)), unknown].concat();
        object(all).prop_map(move |json| Logged { sent: sent(&json), json, resent: resent.clone() })
    })
}

/// Returns a message as later prompts have it: without lone surrogates.
pub(super) fn sent(json: &str) -> String {
    Message::from_json(json).unwrap().sendable().json().to_owned()
}

/// A content, and the part of it that a client keeps.
fn content() -> impl Strategy<Value = (String, String)> {
    let part = prop::sample::select(vec![
        r#"{"type":"video_url","video_url":{"url":"v","fps":1.50}}"#,
        r#"{ "thinking":[{"type":"text","text":"\u00e4"}], "type":"thinking","signature":"s" }"#,
        "{}",
    ]);
    prop_oneof![
        text().prop_map(|text| (format!("\"a{text}\""), format!("\"a{text}\""))),
        (text(), part, gap()).prop_map(|(text, part, gap)| {
            let known = format!(r#"{{"type":"text","text":"{text}"}}"#);
            let cached = known.replacen('{', r#"{"cache_control":{"type":"ephemeral"},"#, 1);
            (format!("[{gap}{cached},{part}{gap}]"), format!("[{known}]"))
        }),
    ]
}

fn said(role: &'static str) -> impl Strategy<Value = Logged> {
    content().prop_flat_map(move |content| message(vec![format!("\"role\":\"{role}\"")], Some(content)))
}

/// Arguments that are sent as they are.
const OBJECT: &str = r#"{ \"a\" :1.50}"#;

fn calls(arguments: &[String]) -> impl Strategy<Value = Logged> + use<> {
    let are_objects = arguments.iter().all(|arguments| arguments == OBJECT);
    let calls = arguments.iter().enumerate().map(|(at, arguments)| {
        format!(r#"{{"id":"c{at}","type":"function","function":{{"name":"f","arguments":"{arguments}"}}}}"#)
    });
    let calls = format!("\"tool_calls\":[{}]", calls.collect::<Vec<_>>().join(","));
    message(vec![r#""role":"assistant""#.to_owned(), calls], None).prop_map(move |logged| {
        if are_objects {
            return logged;
        }
        let message = Message::from_json(logged.json.as_str()).unwrap();
        Logged { sent: message.sendable().json().to_owned(), ..logged }
    })
}

fn result(of: usize) -> impl Strategy<Value = Logged> {
    let known = vec![r#""role":"tool""#.to_owned(), format!(r#""tool_call_id":"c{of}""#)];
    content().prop_flat_map(move |content| message(known.clone(), Some(content)))
}

/// A question and its reply, perhaps with a round of tools in between.
fn turn() -> impl Strategy<Value = Vec<Logged>> {
    let arguments = prop_oneof![text(), Just(OBJECT.to_owned())];
    prop::collection::vec(arguments, 0..3).prop_flat_map(|arguments| {
        let mut messages = vec![said("user").boxed()];
        if !arguments.is_empty() {
            messages.push(calls(&arguments).boxed());
            messages.extend((0..arguments.len()).map(|of| result(of).boxed()));
        }
        messages.push(said("assistant").boxed());
        messages
    })
}

/// A log in which every turn is complete.
pub(super) fn any_log() -> impl Strategy<Value = Vec<Logged>> {
    prop::collection::vec(turn(), 0..4).prop_map(|turns| turns.concat())
}

fn texts(messages: Vec<Logged>) -> Vec<String> {
    messages.into_iter().map(|message| message.json).collect()
}

/// The body of a request: instructions, few-shot messages and questions, and various other members.
pub(super) fn any_body() -> impl Strategy<Value = Body> {
    let others = prop::sample::subsequence(
        vec![
            r#""model":"m""#,
            r#""n" : 1"#,
            r#""temperature":1.50e0"#,
            r#""metadata":{"messages":[{"role":"user","content":"no"}],"n":9}"#,
            r#""tools":[ {"function":{"parameters":{"messages":[1 , 2]}}} ]"#,
            r#""user":"\"messages\":[] \ud83d""#,
        ],
        0..=6,
    );
    let shots = prop::collection::vec((said("user"), said("assistant")), 0..2);
    let shots =
        shots.prop_map(|shots| shots.into_iter().flat_map(|(user, assistant)| [user, assistant]).collect::<Vec<_>>());
    (
        (others, unknown(), any::<Index>(), prop::sample::select(vec!["messages", r"mess\u0061ges"])),
        (prop::collection::vec(said("system"), 0..3), shots, prop::collection::vec(said("user"), 1..3)),
        prop::collection::vec(gap(), 8),
    )
        .prop_flat_map(|((others, unknown, at, name), (instructions, shots, input), gaps)| {
            let others: Vec<String> = others.into_iter().map(str::to_owned).chain(unknown).collect();
            Just(others).prop_shuffle().prop_map(move |others| {
                let (before, after) = others.split_at(at.index(others.len() + 1));
                let comma = format!("{},{}", gaps[4], gaps[5]);
                let before: String = before.iter().map(|member| format!("{member}{comma}")).collect();
                let after: String = after.iter().map(|member| format!("{comma}{member}")).collect();
                Body {
                    front: format!("{}{{{}{before}\"{name}\"{}:{}", gaps[6], gaps[7], gaps[4], gaps[5]),
                    instructions: texts(instructions.clone()),
                    shots: texts(shots.clone()),
                    input: texts(input.clone()),
                    back: format!("{}{after}{}}}{}", gaps[7], gaps[5], gaps[6]),
                    gaps: gaps[..4].to_vec(),
                }
            })
        })
}

fn completion() -> impl Strategy<Value = (String, Option<Logged>)> {
    (said("assistant"), unknown(), unknown(), gap()).prop_flat_map(|(reply, inner, outer, gap)| {
        let message = reply.json.clone();
        let choice = [vec![format!("\"message\":{message}"), r#""finish_reason":"stop""#.to_owned()], inner].concat();
        object(choice)
            .prop_flat_map(move |choice| object([vec![format!("\"choices\":[{gap}{choice}]")], outer.clone()].concat()))
            .prop_map(move |body| (body, Some(reply.clone())))
    })
}

/// A stream of deltas, with comments and other events between them.
fn events() -> impl Strategy<Value = (String, Option<Logged>)> {
    let noise = prop::sample::select(vec!["", ": ping\n\n", "event: keepalive\ndata: {}\n\n", "id: 7\nretry: 5\n\n"]);
    let event = (text(), unknown(), noise).prop_flat_map(|(text, outer, noise)| {
        // The data of an event is one line.
        let chunk = move |delta: String| {
            let choice = format!(r#""choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]"#);
            object([vec![choice], outer.clone()].concat())
        };
        let member = Just(vec![format!("\"content\":\"{text}\"")]);
        let line = member.prop_flat_map(object).prop_flat_map(chunk).prop_map(|json| json.replace(['\r', '\n'], " "));
        line.prop_map(move |line| (text.clone(), format!("{noise}data: {line}\n\n")))
    });
    let end = prop::sample::select(vec!["\n", "\r\n", "\r"]);
    let tail = prop::sample::select(vec!["", ": bye\n\n", "\n", "data: more\n\n"]);
    (prop::collection::vec(event, 0..5), end, tail).prop_map(|(events, end, tail)| {
        let (texts, events): (Vec<String>, Vec<String>) = events.into_iter().unzip();
        let first = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"a"}}]}"#;
        let last = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
        let body = format!("data: {first}\n\n{}data: {last}\n\ndata: [DONE]\n\n{tail}", events.concat());
        let json = format!(r#"{{"role":"assistant","content":"a{}"}}"#, texts.concat());
        (body.replace('\n', end), Some(Logged { sent: sent(&json), resent: json.clone(), json }))
    })
}

/// A completion, a stream, or arbitrary bytes, in pieces.
pub(super) fn any_answer() -> impl Strategy<Value = Answer> {
    let kind = |kinds: &[&'static str]| prop::sample::select(kinds.to_vec());
    let whole = (kind(&["application/json", "application/json; charset=utf-8", "text/plain"]), completion());
    let stream = (kind(&["text/event-stream", "Text/Event-Stream; x", "text/plain"]), events());
    let neither =
        (kind(&["application/json", "text/event-stream", "text/plain"]), prop::collection::vec(any::<u8>(), 0..40));
    let answer = prop_oneof![
        3 => whole.prop_map(|(kind, (body, reply))| (kind, body.into_bytes(), reply)),
        3 => stream.prop_map(|(kind, (body, reply))| (kind, body.into_bytes(), reply)),
        1 => neither.prop_map(|(kind, body)| (kind, body, None)),
    ];
    (answer, prop::collection::vec(any::<Index>(), 0..12)).prop_map(|((kind, body, reply), cuts)| {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        cuts.extend([0, body.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|pair| body[pair[0]..pair[1]].to_vec()).collect();
        Answer { kind: kind.to_owned(), pieces, reply }
    })
}
