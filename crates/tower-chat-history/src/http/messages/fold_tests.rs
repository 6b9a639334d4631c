//! Tests of the fold of events. The events are those of the provider's documentation, as of November 2026.

use bytes::Bytes;
use http_body::Frame;
use serde_json::{Value, json};
use tower_chat_history_core::json::Object;

use super::{fold::MessagesFold, reply::reply_of};
use crate::{
    adapt::{Flow, FoldReply as _},
    call::Reply,
    http::sse::SseFold,
    store::Usage,
};

fn fold() -> SseFold {
    SseFold::new(Box::new(MessagesFold::default()), 16 << 20)
}

fn push(fold: &mut SseFold, text: &str) -> Flow {
    fold.push(&Frame::data(Bytes::copy_from_slice(text.as_bytes())))
}

fn event(data: &str) -> String {
    let kind = Object::read(data).unwrap().text("type").unwrap();
    format!("event: {kind}\ndata: {data}\n\n")
}

fn start(index: usize, block: &str) -> String {
    event(&format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#))
}

fn delta(index: usize, delta: &str) -> String {
    event(&format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#))
}

fn stop(index: usize) -> String {
    event(&format!(r#"{{"type":"content_block_stop","index":{index}}}"#))
}

/// Returns the events of a block.
fn block(index: usize, begin: &str, deltas: &[&str]) -> String {
    let deltas: String = deltas.iter().map(|json| delta(index, json)).collect();
    start(index, begin) + &deltas + &stop(index)
}

fn begin() -> String {
    event(
        r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_read_input_tokens":300,"output_tokens":1}}}"#,
    ) + &event(r#"{"type": "ping"}"#)
}

fn end(reason: &str) -> String {
    event(&format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}","stop_sequence":null}},"usage":{{"output_tokens":15}}}}"#
    )) + &event(r#"{"type":"message_stop"}"#)
}

/// Returns the reply of a stream of these blocks.
fn folded(blocks: &str) -> Reply {
    let mut fold = fold();
    assert_eq!(push(&mut fold, &(begin() + blocks + &end("end_turn"))), Flow::Hold);
    assert!(fold.is_complete() && fold.is_whole(), "{blocks}");
    fold.reply()
}

fn json(reply: &Reply) -> &str {
    reply.message().unwrap().json()
}

/// Returns the content of a stream of these blocks.
fn content(blocks: &str) -> String {
    let reply = folded(blocks);
    let content = json(&reply).strip_prefix(r#"{"role":"assistant","content":["#).unwrap();
    content.strip_suffix("]}").unwrap().to_owned()
}

/// A stream of all kinds of blocks, and the content of the whole response.
fn every_kind() -> (String, String) {
    let search = r#"{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","title":"t","url":"u","encrypted_content":"e","page_age":null}]}"#;
    let redacted = r#"{"type":"redacted_thinking","data":"EmwKAhgB"}"#;
    let citation = |text: &str| {
        format!(
            r#"{{"type":"web_search_result_location","cited_text":"{text}","url":"u","title":"t","encrypted_index":"i"}}"#
        )
    };
    let cited = |text: &str| format!(r#"{{"type":"citations_delta","citation":{}}}"#, citation(text));
    let cited = [cited("a"), cited("b")];
    let parts = [
        (
            r#"{"type":"thinking","thinking":"","signature":""}"#,
            vec![
                r#"{"type":"thinking_delta","thinking":"Let me "}"#,
                r#"{"type":"thinking_delta","thinking":"see\n\u00e4."}"#,
                r#"{"type":"signature_delta","signature":"EqQB"}"#,
                r#"{"type":"signature_delta","signature":"CgIYAh=="}"#,
            ],
            r#"{"type":"thinking","thinking":"Let me see\n\u00e4.","signature":"EqQBCgIYAh=="}"#.to_owned(),
        ),
        (redacted, vec![], redacted.to_owned()),
        (
            r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}"#,
            vec![
                r#"{"type":"input_json_delta","partial_json":""}"#,
                r#"{"type":"input_json_delta","partial_json":"{\"query"}"#,
                r#"{"type":"input_json_delta","partial_json":"\": \"\\u00fc\"}"}"#,
            ],
            r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query": "\u00fc"}}"#.to_owned(),
        ),
        (search, vec![], search.to_owned()),
        (
            r#"{"type":"text","text":"","citations":[]}"#,
            vec![
                r#"{"type":"text_delta","text":"Gr\ud83d"}"#,
                &cited[0],
                r#"{"type":"text_delta","text":"\ude00üß"}"#,
                &cited[1],
            ],
            format!(
                r#"{{"type":"text","text":"Gr\ud83d\ude00üß","citations":[{},{}]}}"#,
                citation("a"),
                citation("b")
            ),
        ),
        (
            r#"{"type":"compaction","content":null}"#,
            vec![r#"{"type":"compaction_delta","content":"The user ","encrypted_content":"x"}"#, r#"{"type":"compaction_delta","content":"asks."}"#],
            r#"{"type":"compaction","content":"The user asks.","encrypted_content":"x"}"#.to_owned(),
        ),
        (
            r#"{"type":"new_kind","x":1.50,"y":{"z":[1]},"list":[1]}"#,
            vec![r#"{"type":"new_delta","x":2.50,"list":[2,3],"w":"a"}"#, r#"{"type":"new_delta","x":null,"w":"b"}"#],
            r#"{"type":"new_kind","x":2.50,"y":{"z":[1]},"list":[1,2,3],"w":"ab"}"#.to_owned(),
        ),
        (
            r#"{"type":"tool_use","id":"toolu_1","name":"weather","input":{},"caller":{"type":"direct"}}"#,
            vec![
                r#"{"type":"input_json_delta","partial_json":"{\"location\": \"San"}"#,
                r#"{"type":"input_json_delta","partial_json":" Francisco\", \"n\": 1.50}"}"#,
            ],
            r#"{"type":"tool_use","id":"toolu_1","name":"weather","input":{"location": "San Francisco", "n": 1.50},"caller":{"type":"direct"}}"#.to_owned(),
        ),
        (
            r#"{"type":"tool_use","id":"toolu_2","name":"time","input":{}}"#,
            vec![r#"{"type":"input_json_delta","partial_json":""}"#],
            r#"{"type":"tool_use","id":"toolu_2","name":"time","input":{}}"#.to_owned(),
        ),
    ];
    joined(&parts)
}

/// The beginning of a block, its deltas, and the block of the whole response.
type Streamed<'a> = (&'a str, Vec<&'a str>, String);

/// Returns the stream of blocks, and the content of the whole response.
fn joined(parts: &[Streamed<'_>]) -> (String, String) {
    let stream = parts.iter().enumerate().map(|(index, (begin, deltas, _))| block(index, begin, deltas));
    let stream: String = stream.collect();
    let whole: Vec<&str> = parts.iter().map(|(.., whole)| whole.as_str()).collect();
    (stream, whole.join(","))
}

/// Returns the whole response that has the same reply as the stream.
fn unary(content: &str) -> Reply {
    let body = format!(
        r#"{{"type":"message","role":"assistant","model":"claude","content":[{content}],"stop_reason":"end_turn","usage":{{"input_tokens":25,"cache_read_input_tokens":300,"output_tokens":15}}}}"#
    );
    reply_of(body.as_bytes())
}

#[test]
fn a_stream_of_every_kind_of_block_cut_at_every_byte_equals_the_whole_response() {
    let (stream, whole) = every_kind();
    assert_cut_anywhere(&stream, &whole);
}

/// Checks that a stream of these blocks has the reply of the whole response, however its bytes are cut.
fn assert_cut_anywhere(stream: &str, whole: &str) {
    let expected = unary(whole);
    assert_eq!(expected.usage.map(|usage| (usage.input_tokens, usage.output_tokens)), Some((325, 15)));
    let text = begin() + stream + &end("end_turn");
    for cut in 0..=text.len() {
        let mut fold = fold();
        let parts = text.as_bytes().split_at(cut);
        let flows = [parts.0, parts.1].map(|part| fold.push(&Frame::data(Bytes::copy_from_slice(part))));
        assert_eq!(flows.iter().filter(|flow| **flow == Flow::Hold).count(), 1, "cut at {cut}");
        assert!(fold.is_complete());
        assert_eq!(fold.reply(), expected, "cut at {cut}");
    }
    let mut fold = fold();
    text.as_bytes().iter().for_each(|byte| {
        fold.push(&Frame::data(Bytes::copy_from_slice(&[*byte])));
    });
    assert_eq!(fold.reply(), expected);
}

#[test]
fn a_stream_that_ends_at_any_byte_has_no_half_blocks() {
    let (stream, whole) = every_kind();
    let whole: Value = serde_json::from_str(&format!("[{whole}]")).unwrap();
    let text = begin() + &stream;
    let mut most = 0;
    for end in 0..=text.len() {
        let mut fold = fold();
        fold.push(&Frame::data(Bytes::copy_from_slice(&text.as_bytes()[..end])));
        assert!(!fold.is_complete() && !fold.is_whole(), "ends at {end}");
        let Some(partial) = fold.partial() else { continue };
        assert!(partial.incomplete);
        let message: Value = serde_json::from_str(json(&partial)).unwrap();
        let blocks = message["content"].as_array().unwrap();
        most = most.max(blocks.len());
        for (block, whole) in blocks.iter().zip(whole.as_array().unwrap()) {
            assert_ne!(block["type"], "tool_use", "ends at {end}");
            if block["type"] == "text" {
                let text = block["text"].as_str().unwrap();
                assert!(
                    whole["text"].as_str().unwrap().starts_with(text.trim_end_matches('\u{fffd}')),
                    "ends at {end}"
                );
            } else {
                assert_eq!(block, whole, "ends at {end}");
            }
        }
    }
    assert_eq!(most, 7, "all blocks before the calls");
}

#[test]
fn thinking_and_calls_that_are_not_finished_are_left_out() {
    let thinking = |index| block(index, r#"{"type":"thinking","thinking":"t","signature":"s"}"#, &[]);
    let text = |index| block(index, r#"{"type":"text","text":"a"}"#, &[]);
    let half = |index| {
        delta_of(
            index,
            r#"{"type":"thinking","thinking":"","signature":""}"#,
            r#"{"type":"thinking_delta","thinking":"t"}"#,
        )
    };
    let call = |index| block(index, r#"{"type":"tool_use","id":"x","name":"f","input":{}}"#, &[]);
    let search = |index| block(index, r#"{"type":"server_tool_use","id":"x","name":"f","input":{}}"#, &[]);
    let found = |index| block(index, r#"{"type":"web_search_tool_result","tool_use_id":"x","content":[]}"#, &[]);
    let empty = |index| start(index, r#"{"type":"text","text":""}"#);
    for (stream, expected) in [
        (thinking(0), &[][..]),
        (thinking(0) + &empty(1), &[]),
        (half(0), &[]),
        (call(0), &[]),
        (thinking(0) + &text(1), &["thinking", "text"]),
        (thinking(0) + &text(1) + &thinking(2), &["thinking", "text"]),
        (text(0) + &half(1), &["text"]),
        (half(0) + &text(1) + &thinking(2) + &text(3), &["text", "text"]),
        (text(0) + &call(1) + &thinking(2) + &text(3), &["text", "text"]),
        (text(0) + &search(1), &["text"]),
        (text(0) + &search(1) + &thinking(2) + &text(3), &["text", "text"]),
        (text(0) + &search(1) + &found(2), &["text", "server_tool_use", "web_search_tool_result"]),
    ] {
        let mut fold = fold();
        push(&mut fold, &(begin() + &stream));
        let partial = fold.partial();
        let message = partial.as_ref().map(|reply| serde_json::from_str::<Value>(json(reply)).unwrap());
        let kinds: Vec<&str> = message
            .iter()
            .flat_map(|message| message["content"].as_array().unwrap())
            .map(|block| block["type"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, expected, "{stream}");
    }
}

/// Returns the events of a block that has not ended.
fn delta_of(index: usize, begin: &str, piece: &str) -> String {
    start(index, begin) + &delta(index, piece)
}

#[test]
fn half_a_character_is_left_out() {
    for (pieces, expected) in [
        (&["a\\ud83d"][..], Some("a")),
        (&["\\uD83D"], None),
        (&["a\\\\ud83d"], Some("a\\\\ud83d")),
        (&["a\\ud83d", "\\ude00"], Some("a\\ud83d\\ude00")),
        (&["a\\ud83d", ""], Some("a")),
        (&["grüß"], Some("grüß")),
    ] {
        let mut fold = fold();
        let deltas = pieces.iter().map(|text| delta(0, &format!(r#"{{"type":"text_delta","text":"{text}"}}"#)));
        push(&mut fold, &(begin() + &start(0, r#"{"type":"text","text":""}"#) + &deltas.collect::<String>()));
        let expected =
            expected.map(|text| format!(r#"{{"role":"assistant","content":[{{"type":"text","text":"{text}"}}]}}"#));
        assert_eq!(fold.partial().as_ref().map(json), expected.as_deref(), "{pieces:?}");
    }
}

#[test]
fn an_error_event_or_an_unreadable_one_interrupts_the_reply() {
    let text = delta_of(0, r#"{"type":"text","text":""}"#, r#"{"type":"text_delta","text":"a"}"#);
    for wrong in [
        event(r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#),
        "event: error\ndata: {}\n\n".to_owned(),
        "data: {\"error\":\"x\"}\n\n".to_owned(),
        "data: {\n\n".to_owned(),
        "data: \"a\"\n\n".to_owned(),
        delta(7, r#"{"type":"text_delta","text":"a"}"#),
        event(r#"{"type":"content_block_delta","index":0}"#),
        start(1, "7"),
    ] {
        let mut fold = fold();
        let more = delta(0, r#"{"type":"text_delta","text":"b"}"#);
        let flow = push(&mut fold, &(begin() + &text + &wrong + &more + &end("end_turn")));
        assert_eq!(flow, Flow::Hold, "clients stop reading at the last event");
        assert!(!fold.is_complete() && !fold.is_whole(), "{wrong}");
        let partial = fold.partial().unwrap();
        assert_eq!(json(&partial), r#"{"role":"assistant","content":[{"type":"text","text":"a"}]}"#, "{wrong}");
    }
}

#[test]
fn an_error_after_the_stop_reason_is_ignored() {
    let text = begin() + &block(0, r#"{"type":"text","text":"a"}"#, &[]);
    let stop = event(r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":2}}"#);
    let mut fold = fold();
    push(&mut fold, &text);
    assert!(!fold.is_complete());
    push(&mut fold, &(stop + &event(r#"{"type":"error","error":{"type":"api_error","message":"late"}}"#)));
    assert!(fold.is_complete() && fold.is_whole());
    assert_eq!(fold.reply().finish_reason.as_deref(), Some("max_tokens"));
}

#[test]
fn a_stream_without_a_stop_reason_is_complete_after_finished_blocks_and_message_stop() {
    let finished = begin() + &block(0, r#"{"type":"text","text":"a"}"#, &[]);
    let half = finished.clone() + &start(1, r#"{"type":"tool_use","id":"x","name":"f","input":{}}"#);
    let half = half + &delta(1, r#"{"type":"input_json_delta","partial_json":"{\"a\":"}"#);
    let stop = event(r#"{"type":"message_stop"}"#);
    let done = "data: [DONE]\n\n".to_owned();
    let all = [(&finished, &stop, true), (&finished, &done, false), (&half, &stop, false), (&half, &done, false)];
    for (text, end, is_complete) in all {
        let mut fold = fold();
        assert_eq!(push(&mut fold, &(text.clone() + end)), Flow::Hold);
        assert_eq!((fold.is_complete(), fold.is_whole()), (is_complete, is_complete), "{text}{end}");
        assert_eq!(json(&fold.partial().unwrap()), r#"{"role":"assistant","content":[{"type":"text","text":"a"}]}"#);
    }
}

#[test]
fn an_empty_stop_reason_is_none() {
    let mut fold = fold();
    let begin = r#"{"type":"message_start","message":{"role":"assistant","content":[],"stop_reason":""}}"#;
    push(&mut fold, &event(begin));
    assert!(!fold.is_complete());
    push(&mut fold, &event(r#"{"type":"error","error":{"type":"api_error","message":"m"}}"#));
    push(&mut fold, &end("end_turn"));
    assert!(!fold.is_complete());
}

#[test]
fn an_event_with_the_name_error_is_an_error_for_any_data() {
    let mut fold = fold();
    push(&mut fold, &(begin() + &block(0, r#"{"type":"text","text":"a"}"#, &[])));
    push(&mut fold, "event: error\ndata: {\"type\":\"overloaded_error\",\"message\":\"x\"}\n\n");
    push(&mut fold, &end("end_turn"));
    assert!(!fold.is_complete());
}

#[test]
fn events_of_other_formats_are_no_reply() {
    for text in ["data: [DONE]\n\n", "data: {\"choices\":[]}\n\ndata: [DONE]\n\n", "event: message_stop\ndata: {}\n\n"]
    {
        let mut fold = fold();
        assert_eq!(push(&mut fold, text), Flow::Hold);
        assert!(!fold.is_complete() && fold.partial().is_none(), "{text}");
    }
}

#[test]
fn unknown_events_and_events_without_names_are_read() {
    let unknown = "event: new\ndata: {\"type\":\"new\",\"index\":9}\n\nevent: ping\ndata: x\n\n: comment\n\n";
    let text = block(0, r#"{"type":"text","text":""}"#, &[r#"{"type":"text_delta","text":"a"}"#]);
    assert_eq!(content(&(unknown.to_owned() + &text)), r#"{"type":"text","text":"a"}"#);
    let unnamed = text.replace("event: content_block_start\n", "");
    assert_eq!(content(&unnamed), r#"{"type":"text","text":"a"}"#);
    let untyped = text.replace(r#""type":"content_block_stop","#, "");
    assert_eq!(content(&untyped), r#"{"type":"text","text":"a"}"#);
}

#[test]
fn usage_is_that_of_the_last_event_that_states_it() {
    let more = event(
        r#"{"type":"message_delta","delta":{"stop_reason":null},"usage":{"input_tokens":30,"cache_creation_input_tokens":4,"output_tokens":9}}"#,
    );
    let usage = folded(&more).usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cached_input_tokens), (334, 15, Some(300)));
    let mut fold = fold();
    push(&mut fold, &event(r#"{"type":"message_start","message":{"usage":{"input_tokens":3}}}"#));
    assert_eq!(fold.reply().usage, Some(Usage::new(3, 0)));
}

#[test]
fn an_input_that_is_no_object_is_kept_in_the_form_of_the_documentation() {
    let call = r#"{"type":"tool_use","id":"x","name":"f","input":{}}"#;
    for (input, expected) in [
        ("{\"a\": ", r#"{"INVALID_JSON":"{\"a\": "}"#),
        ("7", r#"{"INVALID_JSON":"7"}"#),
        (" {\"a\":1} ", r#"{"a":1}"#),
        (" ", "{}"),
    ] {
        let piece = json!({"type": "input_json_delta", "partial_json": input}).to_string();
        let found = content(&block(0, call, &[&piece]));
        assert_eq!(found, call.replace("{}", expected), "{input}");
    }
}

#[test]
fn blocks_of_a_repeated_index_are_told_apart_by_their_begin() {
    let text = |said: &str| {
        block(0, r#"{"type":"text","text":""}"#, &[&json!({"type": "text_delta", "text": said}).to_string()])
    };
    assert_eq!(content(&(text("a") + &text("b"))), r#"{"type":"text","text":"a"},{"type":"text","text":"b"}"#);
}

#[test]
fn blocks_in_the_first_event_are_finished() {
    let mut fold = fold();
    push(
        &mut fold,
        &event(
            r#"{"type":"message_start","message":{"role":"user","content":[{"type":"text","text":"a"}],"stop_reason":"refusal"}}"#,
        ),
    );
    assert!(fold.is_complete());
    let reply = fold.reply();
    assert_eq!(json(&reply), r#"{"role":"assistant","content":[{"type":"text","text":"a"}]}"#);
    assert_eq!(reply.finish_reason.as_deref(), Some("refusal"));
}

#[test]
fn a_reply_without_blocks_is_empty() {
    assert_eq!(json(&folded("")), r#"{"role":"assistant","content":[]}"#);
}

#[test]
fn a_reply_that_is_too_large_is_not_kept() {
    let mut fold = fold();
    push(&mut fold, &(begin() + &start(0, r#"{"type":"text","text":""}"#)));
    let piece = delta(0, &json!({"type": "text_delta", "text": "x".repeat(8 << 20)}).to_string());
    for _ in 0..8 {
        push(&mut fold, &piece);
    }
    push(&mut fold, &end("end_turn"));
    assert!(!fold.is_complete() && fold.partial().is_none());
}

#[test]
fn a_reply_of_many_small_pieces_is_kept() {
    let mut fold = fold();
    push(&mut fold, &(begin() + &start(0, r#"{"type":"text","text":""}"#)));
    let piece = delta(0, r#"{"type":"text_delta","text":"token"}"#).repeat(1_000);
    for _ in 0..300 {
        push(&mut fold, &piece);
    }
    push(&mut fold, &(stop(0) + &end("end_turn")));
    assert!(fold.is_complete());
    assert!(json(&fold.reply()).len() > 5 * 300 * 1_000);
}

#[test]
fn deep_values_take_no_recursion() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let citation = format!(r#"{{"type":"citations_delta","citation":{deep}}}"#);
    let found = content(&block(0, &format!(r#"{{"type":"text","text":"a","x":{deep}}}"#), &[&citation]));
    assert_eq!(found, format!(r#"{{"type":"text","text":"a","x":{deep},"citations":[{deep}]}}"#));
}

// Streams of the tools that the provider executes, as its documentation shows them as of November 2026.

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
