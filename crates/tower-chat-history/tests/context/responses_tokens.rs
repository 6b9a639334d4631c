//! The tokens of the items of OpenAI's Responses API.

use tower_chat_history::tokens::{
    AUDIO, ByteEstimate, Estimate, FILE, IMAGE_HIGH_DETAIL, IMAGE_LOW_DETAIL, TokenCounter,
};
use tower_chat_history_core::{Message, OpenAiResponses};

/// The tokens of each item itself.
const FRAME: u32 = 4;

fn item(json: &str) -> Message {
    Message::in_dialect(&OpenAiResponses, json).unwrap()
}

/// Returns the tokens of an item besides its frame. Four characters are one token.
fn tokens(json: &str) -> u32 {
    ByteEstimate::new().count_message(&item(json)) - FRAME
}

#[test]
fn texts_calls_and_outputs_cost_what_the_model_reads() {
    let id = "x".repeat(400);
    for (json, expected) in [
        (r#"{"role":"user","content":"12345678"}"#.to_owned(), 2),
        (r#"{"role":"user","content":[{"type":"input_text","text":"12345678"}]}"#.to_owned(), 2),
        (
            format!(
                r#"{{"id":"{id}","type":"message","role":"assistant","phase":"commentary","status":"completed","content":[{{"type":"output_text","text":"12345678","annotations":[],"logprobs":[]}}]}}"#
            ),
            2,
        ),
        (r#"{"role":"assistant","content":[{"type":"refusal","refusal":"1234"}]}"#.to_owned(), 1),
        (format!(r#"{{"id":"{id}","type":"function_call","call_id":"{id}","name":"1234","arguments":"12345678"}}"#), 6),
        (format!(r#"{{"id":"{id}","type":"custom_tool_call","call_id":"{id}","name":"1234","input":"12345678"}}"#), 6),
        (format!(r#"{{"type":"function_call_output","call_id":"{id}","output":"12345678"}}"#), 2),
        (
            format!(
                r#"{{"type":"shell_call_output","call_id":"{id}","output":[{{"stdout":"1234","stderr":"1234"}}]}}"#
            ),
            2,
        ),
        (format!(r#"{{"type":"mcp_approval_response","approval_request_id":"{id}","approve":true}}"#), 1),
        (format!(r#"{{"type":"tool_search_output","call_id":"{id}","tools":[12345,7]}}"#), 3),
    ] {
        assert_eq!(tokens(&json), expected, "{json}");
    }
}

#[test]
fn images_and_files_have_a_cost_that_does_not_depend_on_their_bytes() {
    for length in [4, 100_000] {
        let data = "A".repeat(length);
        for (json, expected) in [
            (
                format!(
                    r#"{{"type":"computer_call_output","call_id":"x","output":{{"type":"computer_screenshot","image_url":"data:image/png;base64,{data}"}}}}"#
                ),
                IMAGE_HIGH_DETAIL,
            ),
            (format!(r#"{{"id":"1","type":"image_generation_call","result":"{data}"}}"#), IMAGE_HIGH_DETAIL),
            (
                format!(
                    r#"{{"type":"function_call_output","call_id":"x","output":[{{"type":"input_image","detail":"low","image_url":"data:,{data}"}}]}}"#
                ),
                IMAGE_LOW_DETAIL,
            ),
            (format!(r#"{{"role":"user","content":[{{"type":"input_file","file_data":"{data}"}}]}}"#), FILE),
            (
                format!(r#"{{"role":"user","content":[{{"type":"input_audio","input_audio":{{"data":"{data}"}}}}]}}"#),
                AUDIO,
            ),
        ] {
            assert_eq!(tokens(&json), expected);
        }
    }
}

#[test]
fn encrypted_content_costs_a_sixth_of_its_bytes() {
    let data = "A".repeat(6_000);
    for json in [
        format!(r#"{{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"{data}"}}"#),
        format!(r#"{{"id":"cmp_1","type":"compaction","encrypted_content":"{data}"}}"#),
    ] {
        assert_eq!(tokens(&json), 1_000);
    }
    let with_summary = format!(
        r#"{{"type":"reasoning","summary":[{{"type":"summary_text","text":"12345678"}}],"encrypted_content":"{data}"}}"#
    );
    assert_eq!(tokens(&with_summary), 1_002);
}

#[test]
fn presets_count_calls_and_results_once_for_each_item() {
    let call = item(r#"{"id":"1","type":"function_call","call_id":"x","name":"look","arguments":"{}"}"#);
    let output = item(
        r#"{"type":"function_call_output","call_id":"x","output":[{"type":"input_text","text":""},{"type":"input_text","text":""}]}"#,
    );
    for (preset, of_call, of_result) in
        [(Estimate::openai(), 3, 0), (Estimate::anthropic(), 12, 10), (Estimate::qwen(), 13, 6)]
    {
        let texts = preset.count_text("look") + preset.count_text("{}");
        let frame = preset.count_message(&item(r#"{"role":"user","content":""}"#));
        assert_eq!(preset.count_message(&call), frame + of_call + texts, "{preset:?}");
        assert_eq!(preset.count_message(&output), frame + of_result, "{preset:?}");
    }
}
