//! Streams of the Responses API.

use super::Documented;
use crate::responses_api::STREAM;

const ASK: (&str, &str) = ("/v1/responses", r#"{"model":"m","input":"u"}"#);

/// The items of the documentation and of the SDKs that the stream of all events lacks.
const OTHERS: [&str; 16] = [
    r#"{"type":"function_call_output","id":"fco","call_id":"x","output":"r"}"#,
    r#"{"type":"computer_call","id":"cu","call_id":"x","status":"completed","pending_safety_checks":[],"actions":[{"type":"click","x":1.50,"y":2}]}"#,
    r#"{"type":"computer_call_output","id":"cuo","call_id":"x","output":{"type":"computer_screenshot","file_id":"f"}}"#,
    r#"{"type":"local_shell_call","id":"ls","call_id":"x","status":"completed","action":{"type":"exec","command":["ls"],"env":{}}}"#,
    r#"{"type":"local_shell_call_output","id":"ls","output":"\u00e4"}"#,
    r#"{"type":"shell_call_output","id":"sco","call_id":"x","output":[{"stdout":"","stderr":"","outcome":{"type":"exit","exit_code":0}}]}"#,
    r#"{"type":"apply_patch_call","id":"ap","call_id":"x","status":"completed","operation":{"type":"delete_file","path":"p"}}"#,
    r#"{"type":"apply_patch_call_output","id":"apo","call_id":"x","status":"completed","output":null}"#,
    r#"{"type":"tool_search_call","id":"ts","call_id":"x","execution":"client","status":"completed","arguments":{"q":"f"}}"#,
    r#"{"type":"tool_search_output","id":"tso","call_id":"x","execution":"server","status":"completed","tools":[]}"#,
    r#"{"type":"additional_tools","id":"at","role":"developer","tools":[]}"#,
    r#"{"type":"program","id":"p","call_id":"x","code":"f()","fingerprint":"f"}"#,
    r#"{"type":"program_output","id":"po","call_id":"x","result":"1","status":"completed"}"#,
    r#"{"type":"mcp_approval_request","id":"mcpr","name":"f","arguments":"{}","server_label":"s"}"#,
    r#"{"type":"mcp_approval_response","id":"mcpa","approval_request_id":"mcpr","approve":true}"#,
    r#"{"type":"custom_tool_call_output","id":"cto","call_id":"x","output":"r"}"#,
];

/// Returns a stream of these events, and of the last one for these items.
fn documented(begun: &str, items: &str, last: &str) -> Documented {
    let (kind, status) = (format!("response.{last}"), format!(r#""status":"{last}""#));
    let whole = format!(
        r#"{{"id":"resp_1","object":"response","model":"m",{status},"incomplete_details":{{"reason":"max_output_tokens"}},"output":[{items}],"usage":{{"input_tokens":5,"output_tokens":2}}}}"#
    );
    let created = r#"{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","output":[]}}"#;
    let stream = format!(
        "event: response.created\ndata: {created}\n\n{begun}event: {kind}\ndata: {{\"type\":\"{kind}\",\"response\":{whole}}}\n\n"
    );
    Documented::new(ASK, stream, whole)
}

/// Returns the stream of all events in parts, each up to the end of an item.
fn parts() -> Vec<String> {
    let mut parts = vec![String::new()];
    for event in STREAM.split_inclusive("\n\n") {
        if event.starts_with("event: response.completed") {
            break;
        }
        parts.last_mut().unwrap().push_str(event);
        if event.starts_with("event: response.output_item.done") {
            parts.push(String::new());
        }
    }
    parts
}

/// Returns the item of the last event of a part, as it is written.
fn item(part: &str) -> &str {
    let done = part.rfind("event: response.output_item.done").unwrap();
    let at = done + part[done..].find("\"item\":").unwrap() + "\"item\":".len();
    part[at..].trim_end().strip_suffix('}').unwrap()
}

/// Returns a stream for each item of the stream of all events, with the events of the item.
fn of_items() -> Vec<Documented> {
    let first = |part: &String| {
        let index = part.find("\"output_index\":").map_or("", |at| part[at..].split(',').next().unwrap());
        part.replace(index, "\"output_index\":0")
    };
    let parts: Vec<String> = parts().iter().filter(|part| part.contains("output_item.done")).map(first).collect();
    assert_eq!(parts.len(), 13);
    let lasts = ["completed", "incomplete"].into_iter().cycle();
    parts.iter().zip(lasts).map(|(part, last)| documented(part, item(part), last)).collect()
}

/// Returns a stream for each of the other items.
fn of_others() -> impl Iterator<Item = Documented> {
    OTHERS.into_iter().map(|item| {
        let event =
            |kind: &str| format!("event: {kind}\ndata: {{\"type\":\"{kind}\",\"output_index\":0,\"item\":{item}}}\n\n");
        let begun = event("response.output_item.added") + &event("response.output_item.done");
        documented(&begun, item, "completed")
    })
}

#[tokio::test]
async fn streams_cut_at_every_byte_are_stored_like_whole_responses() {
    for documented in of_items().into_iter().chain(of_others()) {
        documented.assert_cut_anywhere().await;
    }
}

#[tokio::test]
async fn a_stream_that_ends_anywhere_keeps_finished_items() {
    let mut kept = 0;
    for documented in of_items() {
        kept += documented.assert_ends_anywhere(|stored, whole| assert_eq!(stored, whole)).await;
    }
    assert!(kept > 0);
}

#[tokio::test]
async fn an_error_or_a_failed_response_cut_at_every_byte_interrupts_the_stream() {
    let parts = parts();
    let part = parts.iter().find(|part| part.contains("output_text.delta")).unwrap();
    let error = r#"{"type":"error","code":"server_error","message":"x","param":null,"sequence_number":1}"#;
    let begun = format!("{part}event: error\ndata: {error}\n\n");
    documented(&begun, item(part), "completed").assert_interrupted_anywhere().await;
    documented(part, item(part), "failed").assert_interrupted_anywhere().await;
}
