//! Streams of Anthropic's Messages API.

use serde_json::{Value, json};

use super::{Documented, begins};
use crate::messages::streamed::events;

const ASK: (&str, &str) =
    ("/v1/messages", r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"u"}]}"#);

/// The blocks of the documentation and of the SDKs, in replies that can occur.
const REPLIES: [&str; 4] = [
    // Thinking, and the two calls of the program.
    r#"[{"type":"thinking","thinking":"Gr\u00fc\u00dfe \ud83d\ude00","signature":"EqQBCgIYAh=="},{"type":"redacted_thinking","data":"EmwKAhgB"},{"type":"text","text":"I \"look\".\n"},{"type":"tool_use","id":"toolu_1","name":"look","input":{"city":"K\u00f6ln","n":1.5}},{"type":"tool_use","id":"toolu_2","name":"time","input":{},"caller":{"type":"direct"}}]"#,
    // Texts with citations, a compaction, another model that answers, and files.
    r#"[{"type":"compaction","content":"The user asks.","encrypted_content":"x"},{"type":"fallback","from":{"model":"a"},"to":{"model":"b"}},{"type":"text","text":"as it says","citations":[{"type":"char_location","cited_text":"a","document_index":0,"document_title":null,"start_char_index":0,"end_char_index":1},{"type":"search_result_location","cited_text":"e","source":"s","title":null,"search_result_index":0,"start_block_index":0,"end_block_index":1}]},{"type":"container_upload","file_id":"file_1"},{"type":"text","text":""}]"#,
    // Searches and pages.
    r#"[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"\u00fc"}},{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","title":"t","url":"u","encrypted_content":"e","page_age":null}]},{"type":"server_tool_use","id":"srvtoolu_2","name":"web_fetch","input":{"url":"u"}},{"type":"web_fetch_tool_result","tool_use_id":"srvtoolu_2","content":{"type":"web_fetch_tool_error","error_code":"url_not_accessible"}},{"type":"server_tool_use","id":"srvtoolu_3","name":"advisor","input":{}},{"type":"advisor_tool_result","tool_use_id":"srvtoolu_3","content":{"type":"advisor_result","text":"ok"}},{"type":"text","text":"So."}]"#,
    // Code, tools that are found, and tools of another server.
    r#"[{"type":"server_tool_use","id":"srvtoolu_1","name":"bash_code_execution","input":{"command":"ls"}},{"type":"bash_code_execution_tool_result","tool_use_id":"srvtoolu_1","content":{"type":"bash_code_execution_result","stdout":"","stderr":"","return_code":0,"content":[]}},{"type":"server_tool_use","id":"srvtoolu_2","name":"tool_search_tool_regex","input":{"query":"f"}},{"type":"tool_search_tool_result","tool_use_id":"srvtoolu_2","content":{"type":"tool_search_tool_search_result","tool_references":[{"type":"tool_reference","tool_name":"f"}]}},{"type":"mcp_tool_use","id":"mcptoolu_1","name":"echo","server_name":"s","input":{"x":[1,2]}},{"type":"mcp_tool_result","tool_use_id":"mcptoolu_1","is_error":false,"content":[{"type":"text","text":"1"}]},{"type":"text","text":"So."}]"#,
];

/// Returns a stream of these blocks. It is complete at its `message_delta`, which has the stop reason.
fn documented(content: &Value, reason: &str) -> Documented {
    let whole = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": content,
        "stop_reason": reason, "stop_sequence": null, "usage": {"input_tokens": 5, "output_tokens": 1},
    })
    .to_string();
    let stream = events(&whole);
    let complete_after = stream.find("event: message_stop").unwrap();
    Documented { complete_after, ..Documented::new(ASK, stream, whole) }
}

fn all() -> Vec<Documented> {
    let reasons = ["tool_use", "end_turn", "max_tokens", "pause_turn"];
    let of = |(content, reason): (&str, _)| documented(&serde_json::from_str(content).unwrap(), reason);
    REPLIES.into_iter().zip(reasons).map(of).collect()
}

#[tokio::test]
async fn streams_cut_at_every_byte_are_stored_like_whole_responses() {
    for documented in all() {
        documented.assert_cut_anywhere().await;
    }
}

#[tokio::test]
async fn a_stream_that_ends_anywhere_keeps_finished_blocks_and_texts() {
    let mut kept = 0;
    for documented in all() {
        kept += documented.assert_ends_anywhere(check_partial).await;
    }
    assert!(kept > 0);
}

/// Checks that an interrupted reply has the first blocks of the whole reply, and texts. The last text may break off.
fn check_partial(stored: &[Value], whole: &[Value]) {
    let (blocks, whole) = (stored[0]["content"].as_array().unwrap(), whole[0]["content"].as_array().unwrap());
    assert!(stored.len() == 1 && blocks.iter().any(|block| block["type"] == "text"), "{blocks:?}");
    let mut from = 0;
    for block in blocks {
        assert_ne!(block["type"], "tool_use");
        let is_part = |whole: &Value| {
            let is_text = block["type"] == "text" && whole["type"] == "text";
            block == whole || is_text && begins(&block["text"], &whole["text"])
        };
        from += 1 + whole[from..].iter().position(is_part).unwrap_or_else(|| panic!("{block} is none of the reply"));
    }
}

#[tokio::test]
async fn an_error_within_a_stream_cut_at_every_byte_interrupts_it() {
    let content = json!([{"type": "text", "text": "a"}]);
    let stream = documented(&content, "end_turn").stream;
    let (begun, end) = stream.split_at(stream.find("event: message_delta").unwrap());
    let error =
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}\n\n";
    Documented::new(ASK, [begun, error, end].concat(), String::new()).assert_interrupted_anywhere().await;
}
