//! Exchanges in the dialects of providers.

use tower_chat_history_core::{
    AnthropicMessages, Dialect, Exchange, ExchangeId, Load, Loaded, Message, OpenAiResponses, Recorded, Seq,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::VERBATIM;

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

const DIALECTS: [(&dyn Dialect, &[&str]); 2] = [(&AnthropicMessages, &MESSAGES), (&OpenAiResponses, &ITEMS)];

fn exchange(dialect: &'static dyn Dialect, elements: &[&str], reply_len: usize) -> Exchange {
    let element = |json: &&str| {
        Message::in_dialect(dialect, *json).must("the JSON is an element of its dialect", &clause::DIALECT)
    };
    Exchange::new(ExchangeId::generate(), elements.iter().map(element)).with_reply_len(reply_len)
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

/// Elements of the dialects of providers are returned byte for byte by each way to read them, also bound elements, and
/// elements and blocks of unknown types.
pub async fn elements_of_providers_come_back(fixture: &dyn Fixture) {
    for (dialect, elements) in DIALECTS {
        let chat = Chat::new(fixture).await;
        let mut log = Vec::new();
        for reply_len in 0..=elements.len() {
            log.push(chat.add(exchange(dialect, elements, reply_len)).await);
        }
        for chat in [&chat, &chat.reopened(fixture).await] {
            let read = chat.log().await;
            assert_eq!(read, log, "{}", dialect.name());
            assert_eq!(chat.window(Load::new()).await.exchanges, log, "{}", dialect.name());
            let asked = Load::new().exchange(log[3].exchange.id.clone());
            assert_eq!(chat.load(asked).await, Loaded::AlreadyRecorded(log[3].clone()), "{}", dialect.name());
            for recorded in &read {
                assert_eq!(recorded.exchange.dialect.as_str(), dialect.name());
                let texts: Vec<&str> = recorded.exchange.messages.iter().map(Message::json).collect();
                assert_eq!(texts, elements, "{}", dialect.name());
            }
        }
    }
}

/// Elements that were read again have the same ids of calls, are bound to the same, and have the same digests.
pub async fn bound_elements_stay_bound(fixture: &dyn Fixture) {
    for (dialect, elements) in DIALECTS {
        let chat = Chat::new(fixture).await;
        let log = [chat.add(exchange(dialect, elements, elements.len() - 1)).await];
        assert!(log[0].exchange.messages.iter().any(|message| message.bound().can_be_removed()));
        for chat in [&chat, &chat.reopened(fixture).await] {
            assert_eq!(known(&chat.log().await), known(&log), "{}", dialect.name());
            assert_eq!(known(&chat.window(Load::new()).await.exchanges), known(&log), "{}", dialect.name());
        }
    }
}

/// A conversation may have exchanges of several providers.
pub async fn providers_can_alternate(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(1).await;
    for reply_len in [1, 2] {
        for (dialect, elements) in DIALECTS {
            log.push(chat.add(exchange(dialect, elements, reply_len)).await);
        }
    }
    for chat in [&chat, &chat.reopened(fixture).await] {
        assert_eq!(chat.log().await, log);
        assert_eq!(chat.window(Load::new()).await.exchanges, log);
        assert_eq!(known(&chat.log().await), known(&log));
        assert_eq!(log[1].seq, Seq::new(1));
    }
}
