//! Exchanges in other dialects than chat completions: elements of any JSON, of providers, and in logs that are
//! truncated, pruned, forked and compacted.

use tower_chat_history_core::{AnthropicMessages, OpenAiResponses};

use super::support::*;

/// A dialect that no store knows. Its elements are JSON of any kind, and all of them are the model's.
#[derive(Debug)]
struct AnyJson;

impl Dialect for AnyJson {
    fn name(&self) -> &'static str {
        "conformance/any~json"
    }

    fn index(&self, _: &str) -> Result<Index, MessageError> {
        Ok(Index::new(Role::Assistant))
    }

    fn parts<'m>(&self, message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
        visit(Part::Other { kind: "".into(), text: message.json().into() });
    }

    fn compose(&self, role: &Role, text: &str) -> String {
        serde_json::Value::from_iter([(role.as_str(), text)]).to_string()
    }

    fn abandoned(&self, call: &CallId) -> String {
        self.compose(&Role::Tool, call.as_str())
    }

    fn cleared(&self, _: &Message, _: &dyn Fn(&CallId) -> bool, _: &str) -> Option<String> {
        None
    }
}

/// Elements of [`AnyJson`].
const ELEMENTS: [&str; 7] = [
    r#"{ "type":"reasoning", "summary":[], "encrypted_content":"\u0000\ud83d" }"#,
    r#"{"type":"function_call","call_id":"x","arguments":"{"}"#,
    r#"{"type":"function_call","call_id":"x","arguments":"{"}"#,
    r#""a text""#,
    "[1.50,[],{}]",
    "-0",
    "null",
];

/// Messages of the Messages API: signed and redacted thinking, tools of the provider, calls, results, marks for the
/// cache, a compaction, and blocks of unknown types.
const MESSAGES: [&str; 7] = [
    r#"{"role":"user","content":[ {"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}} ]}"#,
    r#"{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"EqoB+/8="},{"type":"redacted_thinking","data":"EmwK"},{"type":"text","text":"\u0000\ud83d","citations":[{"type":"char_location","cited_text":"x"}]},{"type":"tool_use","id":"toolu_1","name":"f","input":{"n":1.50,"n":2}}]}"#,
    r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"image","source":{"type":"url","url":"u"}}],"is_error":true},{"type":"text","text":"so?"}]}"#,
    r#"{"role":"assistant","content":[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","encrypted_content":"AA=="}]}]}"#,
    r#"{"role":"assistant","content":[{"type":"compaction","content":null}]}"#,
    r#"{"content":[{"type":"next_year", "level":1.50,"level":[ ]}],"role":"assistant","new":{}}"#,
    r#"{"role":"assistant","content":"a text"}"#,
];

/// Items of the Responses API: sealed reasoning, phases, calls of several kinds and their outputs, a compaction, and an
/// item of an unknown type.
const ITEMS: [&str; 10] = [
    r#"{"role":"user","content":[ {"type":"input_text","text":"x"},{"type":"input_image","image_url":"u"} ]}"#,
    r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAAA\/=","status":null}"#,
    r#"{"id":"msg_1","type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"\u0000\ud83d","annotations":[],"logprobs":[]}]}"#,
    r#"{"id":"fc_1","type":"function_call","call_id":"call_1","name":"f","arguments":"{\"n\":1.50"}"#,
    r#"{"id":"ctc_1","type":"custom_tool_call","call_id":"call_1","name":"g","input":"not JSON"}"#,
    r#"{"type":"function_call_output","call_id":"call_1","output":[{"type":"input_text","text":"r"}]}"#,
    r#"{"type":"custom_tool_call_output","call_id":"call_1","output":"r"}"#,
    r#"{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search"}}"#,
    r#"{"id":"cmp_1","type":"compaction","encrypted_content":"gAAAB"}"#,
    r#"{ "type":"next_year", "level":1.50,"level":[ ] }"#,
];

/// Dialects, and elements of each.
const DIALECTS: [(&dyn Dialect, &[&str]); 3] =
    [(&AnyJson, &ELEMENTS), (&AnthropicMessages, &MESSAGES), (&OpenAiResponses, &ITEMS)];

/// Returns an exchange whose last elements are the reply.
fn exchange(dialect: &'static dyn Dialect, elements: &[&str], reply_len: usize) -> Exchange {
    let elements = elements.iter().map(|json| Message::in_dialect(dialect, *json).unwrap());
    exchange_of(elements).with_reply_len(reply_len)
}

/// Returns what history needs to know of the elements: their ids, their bounds, and what is left without them.
fn known(recorded: &[Recorded]) -> Vec<String> {
    let messages = recorded.iter().flat_map(|recorded| &recorded.exchange.messages);
    let known = messages.map(|message| {
        let left = [message.unbound(), message.unbound_from_prompt()].map(|left| left.map(Message::json));
        format!("{:?} {:?} {left:?} {:?}", message.index(), message.bound(), message.digest())
    });
    known.collect()
}

/// Elements are returned byte for byte, with the dialect's name and the length of the reply, also those of a dialect
/// that the store does not know, which need not be objects. Elements of providers that were read again have the same
/// ids of calls, are bound to the same, and have the same digests.
pub async fn elements_come_back(fixture: &dyn Fixture) {
    for (dialect, elements) in DIALECTS {
        let chat = Chat::new(fixture).await;
        let log = chat.add_all((0..=elements.len()).map(|reply_len| exchange(dialect, elements, reply_len))).await;
        chat.assert_log_everywhere(fixture, &log).await;

        for chat in [&chat, &chat.reopened(fixture).await] {
            let read = chat.log().await;
            for (recorded, reply_len) in read.iter().zip(0..) {
                let exchange = &recorded.exchange;
                assert_eq!((exchange.dialect.as_str(), exchange.reply().len()), (dialect.name(), reply_len));
                let texts: Vec<&str> = exchange.messages.iter().map(Message::json).collect();
                assert_eq!(texts, elements);
                exchange.read_in(dialect).unwrap();
            }
            if dialect.name() != AnyJson.name() {
                assert_eq!(known(&read), known(&log), "{}", dialect.name());
                assert_eq!(known(&chat.now().await.exchanges), known(&log), "{}", dialect.name());
            }
        }
    }
}

/// A conversation may have exchanges of several dialects.
pub async fn dialects_can_alternate(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(1).await;
    for reply_len in [0, 1, 2] {
        for (dialect, elements) in DIALECTS {
            log.push(chat.add(exchange(dialect, elements, reply_len)).await);
        }
        log.push(chat.add(call_of("and now?")).await);
    }
    chat.assert_log_everywhere(fixture, &log).await;
}

/// A dialect whose replies have several elements: signed reasoning, and calls in two spaces of ids. The first letter
/// after the bracket and the quotation mark is the kind of an element.
#[derive(Debug)]
struct Signed;

impl Dialect for Signed {
    fn name(&self) -> &'static str {
        "conformance/signed"
    }

    fn index(&self, json: &str) -> Result<Index, MessageError> {
        let first = CallId::new(Space(0), "x");
        let second = CallId::new(Space(1), "x");
        let mut index = Index::new(if json.starts_with("[\"u") { Role::User } else { Role::Assistant });
        index.closes = Closes::AfterResult;
        match json.get(..3) {
            Some("[\"r") => {
                index.role = Role::Tool;
                index.closes = Closes::Never;
                index.answers = [first, second].into();
            }
            Some("[\"c") => index.opens = [first, second].map(|call| ToolCall::new(call, "look", "?")).into(),
            Some("[\"s") => index.bound = Bound::TO_PREFIX.and_next(),
            _ => {}
        }
        Ok(index)
    }

    fn parts<'m>(&self, message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
        visit(Part::Text(message.json().into()));
    }

    fn compose(&self, role: &Role, text: &str) -> String {
        serde_json::Value::from_iter([role.as_str(), text]).to_string()
    }

    fn abandoned(&self, call: &CallId) -> String {
        self.compose(&Role::Tool, call.as_str())
    }

    fn cleared(&self, _: &Message, _: &dyn Fn(&CallId) -> bool, _: &str) -> Option<String> {
        None
    }
}

fn element(json: &str) -> Message {
    Message::in_dialect(&Signed, json).unwrap()
}

/// Returns an exchange in which every field is set, with a reply of four elements. It continues the exchange at this
/// position, if there is one.
fn whole(text: &str, continues: Option<Seq>) -> Exchange {
    let input = if continues.is_some() { r#"["results", {"x" : "0"}, {"x":"1"}]"# } else { r#"["u","?"]"# };
    let signed = format!(r#"["signed","{text}","\u0000\ud83d", 1.50]"#);
    let elements = [input, &signed, r#"["says"]"#, r#"["calls","x","x"]"#, "\"unknown\""].map(element);
    let recalled = Recalled::new("", vec![Citation::new(Seq::FIRST, 0..2)]);
    let positions = with!(
        Positions::window_from(Seq::new(2)),
        covers_to: Seq::new(1),
        rounds_start: Seq::new(3),
        cleared_before: Seq::new(4),
        recalled_from: Seq::new(5),
        reasoning_from: Seq::new(6),
        encrypted_from: Seq::new(7),
        thoughts_from: Seq::new(3),
    );
    let origin = Origin::unknown().provider("p").route("r").account("a").model("m");
    let digests = PromptDigests::new(Digest::of(text.as_bytes()), Digest::of(b"prompt"));
    with!(
        exchange_of(elements).with_reply_len(4),
        continues: continues,
        at: Timestamp::from_unix_millis(1_700_000_000_123),
        tokens: Some(TokenCounts { counter: "bytes".into(), counts: vec![1, 0, u32::MAX, 3, 4] }),
        model: Some("ä \u{0}".into()),
        finish_reason: Some("calls".into()),
        usage: Some(with!(Usage::new(2, 3), cached_input_tokens: Some(1))),
        incomplete: true,
        recalled: Some(with!(recalled, message: element(r#"["u", "<recalled>"]"#), tokens: Some(9))),
        provenance: Some(Provenance::new(7, positions, digests, origin)),
    )
}

/// Appends an exchange that opens a turn, one that continues it, and another one that opens a turn.
async fn add_three(chat: &Chat) -> Vec<Recorded> {
    chat.add_all([whole("first", None), whole("second", Some(Seq::FIRST)), whole("third", None)]).await
}

/// Asserts that the log is this one, however it is read.
async fn assert_log(fixture: &dyn Fixture, chat: &Chat, log: &[Recorded]) {
    chat.assert_log_everywhere(fixture, log).await;
    for recorded in chat.reopened(fixture).await.log().await {
        recorded.exchange.read_in(&Signed).unwrap();
        let reply = recorded.exchange.reply();
        assert_eq!(reply.len(), 4);
        assert_eq!((reply[0].bound(), reply[2].tool_calls().len()), (Bound::TO_PREFIX.and_next(), 2));
    }
}

/// All fields of an exchange in an unknown dialect are returned together, also those that are stored next to its
/// record.
pub async fn every_field_of_an_exchange_comes_back(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = add_three(&chat).await;
    assert_log(fixture, &chat, &log).await;
}

/// A truncation removes the exchanges at the end, and does not change the others. The log continues in its dialect. Of
/// the removed exchanges, no recalled messages and no provenance return.
pub async fn a_truncation_leaves_the_others_unchanged(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = add_three(&chat).await;
    chat.shorten_to(1).await;
    log.truncate(1);
    assert_log(fixture, &chat, &log).await;
    log.push(chat.add(whole("another second", Some(Seq::FIRST))).await);
    assert_log(fixture, &chat, &log).await;

    log.push(chat.add(turn_of("instead of the third")).await);
    chat.assert_log_everywhere(fixture, &log).await;
}

/// A prune removes the exchanges at the beginning, and does not change the others. If it erases derived data, the
/// others lose their provenance, and messages that were shown again from a removed exchange. Their elements, their
/// dialect and the length of the reply stay.
pub async fn a_prune_leaves_elements_unchanged(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let exchanges = [whole("zeroth", None), whole("first", None), whole("second", Some(Seq::new(1)))];
    let mut log = chat.add_all(exchanges).await;
    chat.prune(PruneTo::From(Seq::new(1))).await;
    log.remove(0);
    assert_log(fixture, &chat, &log).await;

    chat.forget(PruneTo::From(Seq::new(1))).await;
    for recorded in &mut log {
        *recorded = changed(recorded, |exchange| {
            exchange.provenance = None;
            exchange.recalled = None;
        });
    }
    assert_log(fixture, &chat, &log).await;
}

/// A fork has the same elements, with the name of the dialect, the length of the reply, and the provenance.
pub async fn a_fork_has_the_same_elements(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = add_three(&chat).await;
    let copy = chat.fork(2).await;
    assert_log(fixture, &copy, &log[..2]).await;
}

/// A deleted conversation leaves nothing to one in another dialect that has its id, also no recalled messages and no
/// provenance.
pub async fn a_deleted_conversation_can_return_in_another_dialect(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    for _ in 0..2 {
        let log = add_three(&chat).await;
        assert_log(fixture, &chat, &log).await;
        chat.delete().await;

        let in_chat_completions = chat.add_turns(2).await;
        chat.assert_log(&in_chat_completions).await;
        chat.delete().await;
    }
    let log = add_three(&chat).await;
    assert_log(fixture, &chat, &log).await;
}
