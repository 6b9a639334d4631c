//! Replies of whole responses.

use tower_chat_history_core::Message;

use super::super::ResponsesWire;
use crate::{call::Reply, http::wire::Wire as _, report::ResponseShape, store::Usage};

const REASONING: &str = r#"{ "id":"rs_1", "type":"reasoning","summary":[ ],"encrypted_content":"\u0073" }"#;
const REFUSAL: &str =
    r#"{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"refusal","refusal":"No."}]}"#;
const UNKNOWN: &str = r#"{"id":"new_1","type":"new_thing","level":1.50,"level":2}"#;

fn read(body: &str) -> Reply {
    ResponsesWire::new().reply(body.as_bytes())
}

fn json(reply: &Reply) -> Vec<&str> {
    reply.messages.iter().map(Message::json).collect()
}

#[test]
fn every_item_is_kept_byte_for_byte() {
    let body = format!(
        r#"{{"object":"response","status":"completed","error":null,"output":[{REASONING},
        {REFUSAL} , {UNKNOWN}],"model":"m","usage":{{"input_tokens":7,"output_tokens":2,"input_tokens_details":{{"cached_tokens":3}}}}}}"#
    );
    for body in [body.clone(), format!("\u{feff}{body}\n"), body.replace("output\"", "\\u006futput\"")] {
        let reply = read(&body);
        assert_eq!(json(&reply), [REASONING, REFUSAL, UNKNOWN]);
        let mut usage = Usage::new(7, 2);
        usage.cached_input_tokens = Some(3);
        assert_eq!((reply.model.as_deref(), reply.usage), (Some("m"), Some(usage)));
        assert_eq!(
            (reply.finish_reason.as_deref(), reply.unreadable, reply.incomplete),
            (Some("completed"), None, false)
        );
    }
}

#[test]
fn an_incomplete_response_is_kept_with_its_reason() {
    let body = format!(
        r#"{{"status":"incomplete","incomplete_details":{{"reason":"max_output_tokens"}},"output":[{REASONING}],"usage":null}}"#
    );
    let reply = read(&body);
    assert_eq!((json(&reply), reply.finish_reason.as_deref()), (vec![REASONING], Some("max_output_tokens")));
    assert_eq!((reply.usage, reply.incomplete, reply.unreadable), (None, false, None));
    let reply = read(r#"{"status":"incomplete","incomplete_details":null,"output":[]}"#);
    assert_eq!((json(&reply).len(), reply.finish_reason.as_deref()), (0, Some("incomplete")));
}

#[test]
fn a_response_without_a_reply_is_not_kept() {
    for (status, shape) in [
        ("failed", Some(ResponseShape::Error)),
        ("cancelled", Some(ResponseShape::Error)),
        ("queued", None),
        ("in_progress", None),
    ] {
        let reply = read(&format!(r#"{{"object":"response","status":"{status}","output":[{REFUSAL}]}}"#));
        assert_eq!((json(&reply).len(), reply.unreadable), (0, shape), "{status}");
        assert_eq!(reply.finish_reason.as_deref(), Some(status));
    }
}

#[test]
fn the_shape_of_an_unreadable_response_is_reported() {
    for (body, expected) in [
        ("", ResponseShape::NotJson),
        ("<html>", ResponseShape::NotJson),
        ("{\"output\":[", ResponseShape::NotJson),
        ("[]", ResponseShape::NoChoices),
        ("{}", ResponseShape::NoChoices),
        (r#"{"object":"response","output":7}"#, ResponseShape::OpenAiResponse),
        (r#"{"object":"response"}"#, ResponseShape::OpenAiResponse),
        (r#"{"error":{"message":"secret"}}"#, ResponseShape::Error),
        (r#"{"choices":[{"message":{"role":"assistant","content":"a"}}]}"#, ResponseShape::NoMessage),
        (r#"{"output":["a"]}"#, ResponseShape::NoMessage),
        (r#"{"output":[{"type":"reasoning"},{}]}"#, ResponseShape::NoMessage),
        (r#"{"type":"message","role":"assistant","content":[]}"#, ResponseShape::AnthropicMessage),
    ] {
        let reply = read(body);
        assert_eq!((json(&reply).len(), reply.unreadable), (0, Some(expected)), "{body}");
    }
    assert_eq!(ResponsesWire::new().reply(b"{\"output\":[],\"x\":\"\xff\"}").unreadable, Some(ResponseShape::NotJson));
}
