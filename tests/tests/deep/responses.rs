//! Items of OpenAI's Responses API.

use tower_chat_history::{
    Exchange, ExchangeId, Message,
    dialect::{AnthropicMessages, ChatCompletions, Dialect, OpenAiResponses},
    store::{Origin, Recorded, Seq},
    tokens::{ByteEstimate, TokenCounter as _},
};

use super::{
    Case,
    texts::{LEVELS, both, lists},
};

pub(crate) const CASES: &[Case] =
    cases![items_of_the_responses_api_are_read_and_changed, items_with_further_members_are_read_and_changed];

fn items_of_the_responses_api_are_read_and_changed() {
    let deep = lists(LEVELS);
    check(&deep, items(&deep));
}

fn items_with_further_members_are_read_and_changed() {
    let deep = both();
    let more = format!("{{\"more\":{deep},");
    check(&deep, items(&deep).iter().map(|item| item.replacen('{', &more, 1)).collect());
}

/// Returns items with this value in all places.
fn items(deep: &str) -> Vec<String> {
    let mut items = vec![
        format!(r#"{{"role":"user","content":{deep}}}"#),
        format!(r#"{{"role":"user","content":[{{"type":"input_text","text":{deep}}},{deep},{{"type":{deep}}}]}}"#),
        format!(r#"{{"role":"user","content":[{{"type":"input_image","image_url":{deep},"detail":{deep}}}]}}"#),
        format!(r#"{{"role":"user","content":[{{"type":"input_audio","input_audio":{deep}}}]}}"#),
        format!(r#"{{"type":"message","id":{deep},"role":"assistant","content":{deep},"phase":{deep}}}"#),
        format!(r#"{{"type":"reasoning","id":"1","summary":{deep},"content":[{deep}],"encrypted_content":{deep}}}"#),
        format!(r#"{{"type":"compaction","encrypted_content":{deep}}}"#),
        format!(r#"{{"type":"new_thing","of":{deep}}}"#),
    ];
    for kind in [
        "function_call",
        "custom_tool_call",
        "tool_search_call",
        "local_shell_call",
        "shell_call",
        "computer_call",
        "apply_patch_call",
        "mcp_approval_request",
        "web_search_call",
        "image_generation_call",
    ] {
        let rest = ["arguments", "input", "action", "actions", "operation", "execution", "result"];
        let rest: String = rest.iter().map(|name| format!(r#","{name}":{deep}"#)).collect();
        items.push(format!(r#"{{"type":"{kind}","id":"1","call_id":"x","name":{deep}{rest}}}"#));
        items.push(format!(r#"{{"type":"{kind}","id":{deep},"call_id":{deep}}}"#));
    }
    for kind in [
        "function_call_output",
        "custom_tool_call_output",
        "tool_search_output",
        "local_shell_call_output",
        "shell_call_output",
        "computer_call_output",
        "apply_patch_call_output",
        "mcp_approval_response",
    ] {
        let ids = r#""call_id":"x","approval_request_id":"x""#;
        items.push(format!(r#"{{"type":"{kind}",{ids},"output":{deep},"tools":{deep},"approve":{deep}}}"#));
        items.push(format!(r#"{{"type":"{kind}",{ids},"output":[{{"type":"input_text","stdout":{deep}}},{deep}]}}"#));
    }
    items
}

fn check(deep: &str, items: Vec<String>) {
    let mut read = Vec::new();
    for json in items {
        let message = Message::in_dialect(&OpenAiResponses, json.as_str()).unwrap();
        assert_eq!(message.json(), json);
        let _ = (message.text(), format!("{message:?}"), message.sendable(), message.digest(), message.unbound());
        let _ = (message.cleared(&|_| true, "-"), message.answering(&[]), ByteEstimate::new().count_message(&message));
        for call in message.tool_calls() {
            let _ = OpenAiResponses.abandoned(call.call_id());
        }
        read.push(message);
    }
    for json in [format!(r#"{{"type":{deep}}}"#), format!(r#"{{"role":{deep}}}"#), deep.to_owned()] {
        assert!(Message::in_dialect(&OpenAiResponses, json).is_err());
    }
    let exchange = Exchange::new(ExchangeId::generate(), read);
    let record = exchange.encode().unwrap();
    let decoded = Exchange::decode(&record).unwrap();
    assert_eq!(decoded, exchange);
    assert!(decoded.messages.iter().all(|message| message.dialect().is_some()), "they are indexed");
    let recorded = Recorded::new(Seq::FIRST, exchange);
    for to in [&ChatCompletions as &'static dyn Dialect, &AnthropicMessages, &OpenAiResponses] {
        let translated = recorded.translated(to, &Origin::UNKNOWN).unwrap();
        assert!(!translated.exchange.messages.is_empty(), "{}", to.name());
    }
}
