//! Streams of the tools that the provider executes, as its documentation shows them as of November 2026.

use super::fold_tests::{Streamed, assert_cut_anywhere, event, joined};

/// The blocks of results, which come whole.
const RESULTS: [&str; 9] = [
    r#"{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":{"type":"web_search_tool_result_error","error_code":"max_uses_exceeded"}}"#,
    r#"{"type":"web_fetch_tool_result","tool_use_id":"srvtoolu_2","content":{"type":"web_fetch_result","url":"u","content":{"type":"document","source":{"type":"text","media_type":"text/plain","data":"\u00e4"},"citations":{"enabled":true}},"retrieved_at":"2026-11-01T10:00:00Z"}}"#,
    r#"{"type":"code_execution_tool_result","tool_use_id":"srvtoolu_3","content":{"type":"code_execution_result","stdout":"4\n","stderr":"","return_code":0,"content":[]}}"#,
    r#"{"type":"bash_code_execution_tool_result","tool_use_id":"srvtoolu_4","content":{"type":"bash_code_execution_result","stdout":"","stderr":"","return_code":1,"content":[{"type":"bash_code_execution_output","file_id":"file_1"}]}}"#,
    r#"{"type":"text_editor_code_execution_tool_result","tool_use_id":"srvtoolu_5","content":{"type":"text_editor_code_execution_view_result","file_type":"text","content":"x","num_lines":1}}"#,
    r#"{"type":"tool_search_tool_result","tool_use_id":"srvtoolu_6","content":{"type":"tool_search_tool_search_result","tool_references":[{"type":"tool_reference","tool_name":"f"}]}}"#,
    r#"{"type":"mcp_tool_result","tool_use_id":"mcptoolu_1","is_error":false,"content":[{"type":"text","text":"1.50"}]}"#,
    r#"{"type":"container_upload","file_id":"file_1"}"#,
    r#"{"type":"redacted_thinking","data":"EmwKAhgB"}"#,
];

/// The kinds of citations in texts.
const CITATIONS: [&str; 5] = [
    r#"{"type":"char_location","cited_text":"a","document_index":0,"document_title":null,"start_char_index":0,"end_char_index":1}"#,
    r#"{"type":"page_location","cited_text":"b","document_index":0,"document_title":"t","start_page_number":1,"end_page_number":2}"#,
    r#"{"type":"content_block_location","cited_text":"c","document_index":0,"document_title":"t","start_block_index":0,"end_block_index":1}"#,
    r#"{"type":"web_search_result_location","cited_text":"d","url":"u","title":"t","encrypted_index":"i"}"#,
    r#"{"type":"search_result_location","cited_text":"e","source":"s","title":null,"search_result_index":0,"start_block_index":0,"end_block_index":1}"#,
];

/// Returns a call of a tool with these members, and with an input that comes in pieces.
fn call(members: &str) -> [String; 2] {
    [r#"{}"#, r#"{"code": "print(\"\u00e4\")", "n": 1.50}"#].map(|input| format!(r#"{{{members},"input":{input}}}"#))
}

#[test]
fn tools_of_the_provider_cut_at_every_byte_equal_the_whole_response() {
    let calls = [
        r#""type":"server_tool_use","id":"srvtoolu_3","name":"code_execution""#,
        r#""type":"mcp_tool_use","id":"mcptoolu_1","name":"echo","server_name":"example""#,
    ]
    .map(call);
    let pieces = [
        r#"{"type":"input_json_delta","partial_json":""}"#,
        r#"{"type":"input_json_delta","partial_json":"{\"code\": \"print("}"#,
        r#"{"type":"input_json_delta","partial_json":"\\\"\\u00e4\\\")\", \"n\": 1.50}"}"#,
    ];
    let mut parts: Vec<Streamed<'_>> =
        calls.iter().map(|[begin, whole]| (begin.as_str(), pieces.to_vec(), whole.clone())).collect();
    parts.extend(RESULTS.iter().map(|result| (*result, Vec::new(), (*result).to_owned())));
    let (stream, whole) = joined(&parts);
    assert_cut_anywhere(&stream, &whole);
}

#[test]
fn citations_of_every_kind_cut_at_every_byte_equal_the_whole_response() {
    let deltas = CITATIONS.map(|citation| format!(r#"{{"type":"citations_delta","citation":{citation}}}"#));
    let mut pieces: Vec<&str> = deltas.iter().map(String::as_str).collect();
    pieces.insert(2, r#"{"type":"text_delta","text":"as it says"}"#);
    let whole = format!(r#"{{"type":"text","text":"as it says","citations":[{}]}}"#, CITATIONS.join(","));
    let (stream, whole) = joined(&[(r#"{"type":"text","text":"","citations":[]}"#, pieces, whole)]);
    assert_cut_anywhere(&stream, &whole);
}

#[test]
fn events_between_blocks_cut_at_every_byte_change_nothing() {
    let text = r#"{"type":"text","text":"a"}"#;
    let (stream, whole) = joined(&[(text, Vec::new(), text.to_owned())]);
    for between in
        [r#"{"type":"ping"}"#, r#"{"type":"next_year","index":0,"delta":{"text":"b"}}"#, r#"{"type":"ping","x":{}}"#]
    {
        assert_cut_anywhere(&(event(between) + &stream + &event(between)), &whole);
    }
}
