//! Streams of chat completions.

use serde_json::Value;

use super::{Documented, begins};

const ASK: (&str, &str) = ("/v1/chat/completions", r#"{"model":"m","messages":[{"role":"user","content":"u"}]}"#);
const ASK_TWO: (&str, &str) =
    ("/v1/chat/completions", r#"{"model":"m","n":2,"messages":[{"role":"user","content":"u"}]}"#);

/// Returns an event with these members beside those that each chunk has.
fn chunk(members: &str) -> String {
    format!("data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",{members}}}\n\n")
}

/// Returns an event with a delta of choice 0.
fn delta(delta: &str) -> String {
    chunk(&format!(r#""choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]"#))
}

fn finish(reason: &str) -> String {
    chunk(&format!(r#""choices":[{{"index":0,"delta":{{}},"logprobs":null,"finish_reason":"{reason}"}}]"#))
}

/// Returns a stream of these events, and the whole response with this message and finish reason. The stream is complete
/// at its finish reason.
fn documented(events: &[String], reason: &str, message: &str) -> Documented {
    let begun = events.concat() + &finish(reason);
    let usage = r#"{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":1},"completion_tokens_details":{"reasoning_tokens":0}}"#;
    let end = chunk(&format!(r#""choices":[],"usage":{usage}"#)) + "data: [DONE]\n\n";
    let whole = format!(
        r#"{{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"message":{message},"logprobs":null,"finish_reason":"{reason}"}}],"usage":{usage}}}"#
    );
    Documented { complete_after: begun.len(), ..Documented::new(ASK, begun + &end, whole) }
}

/// A text with log probabilities, annotations, padding, and the chunk of a moderation.
fn text() -> Documented {
    let logprob = |token: &str| {
        format!(
            r#"{{"content":[{{"token":"{token}","logprob":-0.50,"bytes":[195,188],"top_logprobs":[]}}],"refusal":null}}"#
        )
    };
    let piece = |token: &str| {
        chunk(&format!(
            r#""service_tier":"default","system_fingerprint":"fp","choices":[{{"index":0,"delta":{{"content":"{token}"}},"logprobs":{},"finish_reason":null}}],"usage":null,"obfuscation":"x9""#,
            logprob(token)
        ))
    };
    let annotation = r#"{"type":"url_citation","url_citation":{"start_index":0,"end_index":2,"url":"u","title":"t"}}"#;
    let events = [
        ": OPENROUTER PROCESSING\n\n".to_owned(),
        delta(r#"{"role":"assistant","content":"","refusal":null}"#),
        piece("Gr"),
        piece("\u{fc}\\u00df\u{1f600}"),
        delta(&format!(r#"{{"annotations":[{annotation}]}}"#)),
        chunk(
            r#""choices":[],"moderation":{"input":{"type":"moderation_results","model":"o","results":[]},"output":{"type":"error","code":"x","message":"y"}}"#,
        ),
    ];
    let message = format!(
        r#"{{"role":"assistant","content":"Gr{}\u00df{}","refusal":null,"annotations":[{annotation}]}}"#,
        '\u{fc}', '\u{1f600}'
    );
    documented(&events, "stop", &message)
}

fn refusal() -> Documented {
    let logprobs =
        r#""logprobs":{"content":null,"refusal":[{"token":"I'm","logprob":-1e-5,"bytes":null,"top_logprobs":[]}]}"#;
    let events = [
        delta(r#"{"role":"assistant","content":null,"refusal":""}"#),
        chunk(&format!(r#""choices":[{{"index":0,"delta":{{"refusal":"I'm"}},{logprobs},"finish_reason":null}}]"#)),
        delta(r#"{"refusal":" sorry, \"n\u00f6\"."}"#),
    ];
    documented(&events, "stop", r#"{"role":"assistant","content":null,"refusal":"I'm sorry, \"n\u00f6\"."}"#)
}

fn audio() -> Documented {
    let events = [
        delta(r#"{"role":"assistant","content":null,"refusal":null,"audio":{"id":"audio_1","transcript":"Gr"}}"#),
        delta(r#"{"audio":{"id":"audio_1","transcript":"\u00fc\u00dfe"}}"#),
        delta(r#"{"audio":{"id":"audio_1","data":"UklG"}}"#),
        delta(r#"{"audio":{"data":"Rg=="}}"#),
        delta(r#"{"audio":{"expires_at":1790000000}}"#),
    ];
    let audio = r#"{"id":"audio_1","transcript":"Gr\u00fc\u00dfe","data":"UklGRg==","expires_at":1790000000}"#;
    documented(&events, "stop", &format!(r#"{{"role":"assistant","content":null,"refusal":null,"audio":{audio}}}"#))
}

/// A text, and calls of functions and custom tools whose pieces alternate.
fn calls() -> Documented {
    let call = |call: &str| delta(&format!(r#"{{"tool_calls":[{call}]}}"#));
    let events = [
        delta(r#"{"role":"assistant","content":"I look.","refusal":null}"#),
        call(r#"{"index":0,"id":"call_1","type":"function","function":{"name":"look","arguments":""}}"#),
        call(r#"{"index":0,"function":{"arguments":"{\"n\":"}}"#),
        call(r#"{"index":1,"id":"call_2","type":"custom","custom":{"name":"run","input":""}}"#),
        call(r#"{"index":1,"custom":{"input":"print(\"\u00e4"}}"#),
        call(r#"{"index":0,"function":{"arguments":" 1.50}"}}"#),
        call(r#"{"index":1,"custom":{"input":"\")\n"}}"#),
        call(r#"{"index":2,"id":"call_3","type":"function","function":{"name":"look","arguments":"{}"}}"#),
    ];
    let list = [
        r#"{"id":"call_1","type":"function","function":{"name":"look","arguments":"{\"n\": 1.50}"}}"#,
        r#"{"id":"call_2","type":"custom","custom":{"name":"run","input":"print(\"\u00e4\")\n"}}"#,
        r#"{"id":"call_3","type":"function","function":{"name":"look","arguments":"{}"}}"#,
    ];
    let message =
        format!(r#"{{"role":"assistant","content":"I look.","refusal":null,"tool_calls":[{}]}}"#, list.join(","));
    documented(&events, "tool_calls", &message)
}

/// The form of calls before there were tools.
fn function_call() -> Documented {
    let events = [
        delta(r#"{"role":"assistant","content":null,"function_call":{"name":"look","arguments":""}}"#),
        delta(r#"{"function_call":{"arguments":"{\"city\":"}}"#),
        delta(r#"{"function_call":{"arguments":"\"K\u00f6ln\"}"}}"#),
    ];
    let call = r#"{"name":"look","arguments":"{\"city\":\"K\u00f6ln\"}"}"#;
    let message = format!(r#"{{"role":"assistant","content":null,"function_call":{call}}}"#);
    documented(&events, "function_call", &message)
}

/// Two choices whose pieces alternate, and of which the second one ends first.
fn choices() -> Documented {
    let piece = |index: u8, text: &str| {
        chunk(&format!(r#""choices":[{{"index":{index},"delta":{{"content":"{text}"}},"finish_reason":null}}]"#))
    };
    let ends = |index: u8, reason: &str| {
        chunk(&format!(r#""choices":[{{"index":{index},"delta":{{}},"finish_reason":"{reason}"}}]"#))
    };
    let begun = [piece(1, "b"), piece(0, "a"), piece(1, "b"), ends(1, "length"), piece(0, "\u{e4}"), ends(0, "stop")];
    let begun = begun.concat();
    let choice = |index: u8, text: &str, reason: &str| {
        format!(r#"{{"index":{index},"message":{{"role":"assistant","content":"{text}"}},"finish_reason":"{reason}"}}"#)
    };
    let usage = r#"{"prompt_tokens":5,"completion_tokens":4,"total_tokens":9}"#;
    let whole = format!(
        r#"{{"model":"m","choices":[{},{}],"usage":{usage}}}"#,
        choice(1, "bb", "length"),
        choice(0, "a\u{e4}", "stop")
    );
    let end = chunk(&format!(r#""choices":[],"usage":{usage}"#)) + "data: [DONE]\n\n";
    let complete_after = begun.len();
    Documented { complete_after, ..Documented::new(ASK_TWO, begun + &end, whole) }
}

/// The fields that other providers of the format add: DeepSeek, OpenRouter, LiteLLM and Gemini.
fn reasoning() -> Documented {
    let events = [
        delta(r#"{"role":"assistant","content":null,"reasoning_content":"Let "}"#),
        delta(r#"{"reasoning_content":"me.","reasoning_details":[{"type":"reasoning.text","index":0,"text":"Let "}]}"#),
        delta(r#"{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"me."}]}"#),
        delta(r#"{"reasoning_details":[{"type":"reasoning.encrypted","index":1,"data":"e=="}]}"#),
        delta(r#"{"thinking_blocks":[{"type":"thinking","thinking":"Let me."}]}"#),
        delta(r#"{"thinking_blocks":[{"type":"thinking","signature":"s=="}]}"#),
        delta(r#"{"content":"So.","extra_content":{"google":{"thought_signature":"t=="}}}"#),
    ];
    let message = r#"{"role":"assistant","content":"So.","reasoning_content":"Let me.","reasoning_details":[{"type":"reasoning.text","index":0,"text":"Let me."},{"type":"reasoning.encrypted","index":1,"data":"e=="}],"thinking_blocks":[{"type":"thinking","thinking":"Let me.","signature":"s=="}],"extra_content":{"google":{"thought_signature":"t=="}}}"#;
    documented(&events, "stop", message)
}

/// Returns the streams of one choice.
fn all() -> [Documented; 6] {
    [text(), refusal(), audio(), calls(), function_call(), reasoning()]
}

#[tokio::test]
async fn streams_cut_at_every_byte_are_stored_like_whole_responses() {
    for documented in all().into_iter().chain([choices()]) {
        documented.assert_cut_anywhere().await;
    }
}

#[tokio::test]
async fn a_stream_that_ends_anywhere_keeps_only_its_text() {
    let mut kept = 0;
    for documented in all() {
        kept += documented.assert_ends_anywhere(check_partial).await;
    }
    assert!(kept > 0);
}

#[tokio::test]
async fn a_stream_of_two_choices_that_ends_anywhere_keeps_a_text_of_the_first_one_so_far() {
    let check = |stored: &[Value], whole: &[Value]| {
        let is_second = begins(&stored[0]["content"], &"bb".into());
        assert!(is_second || begins(&stored[0]["content"], &whole[0]["content"]), "{}", stored[0]);
    };
    assert!(choices().assert_ends_anywhere(check).await > 0);
}

/// Checks that an interrupted reply has only texts, which are the beginnings of those of the whole reply.
fn check_partial(stored: &[Value], whole: &[Value]) {
    assert_eq!(stored.len(), 1);
    for (name, value) in stored[0].as_object().unwrap() {
        assert!(begins(value, &whole[0][name]) || name == "content" && value.is_null(), "{name} of {}", stored[0]);
    }
    let says = |name: &str| stored[0][name].as_str().is_some_and(|text| !text.is_empty());
    assert!(says("content") || says("refusal"), "{}", stored[0]);
}

#[tokio::test]
async fn an_error_within_a_stream_cut_at_every_byte_interrupts_it() {
    let begun = delta(r#"{"role":"assistant","content":"a"}"#);
    let last = chunk(r#""choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}]"#);
    for error in [
        "data: {\"error\":{\"message\":\"x\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n",
        "event: error\ndata: {\"message\":\"x\"}\n\n",
        "data: {\"id\":\"c\",\"error\":{\"code\":502,\"message\":\"x\"},\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"error\"}]}\n\n",
    ] {
        let stream = [&begun, error, &last, "data: [DONE]\n\n"].concat();
        Documented::new(ASK, stream, String::new()).assert_interrupted_anywhere().await;
    }
}
