//! The bytes of translations, in all six directions.

use super::*;
use crate::{
    exchange::ExchangeId,
    message::{AnthropicMessages, ChatCompletions, OpenAiResponses},
    recalled::Citation,
};

const LONG: &str = "toolu_0123456789abcdef-4-1-0";

fn exchange(from: &'static dyn Dialect, messages: &[&str], reply_len: usize) -> Exchange {
    let read = |json: &&str| Message::in_dialect(from, *json).unwrap();
    let messages: Vec<Message> = messages.iter().map(read).collect();
    Exchange::new(ExchangeId::new("e").unwrap(), messages).with_reply_len(reply_len)
}

fn translated_by(recorded: &Recorded, to: &'static dyn Dialect, reader: &Origin) -> (Vec<String>, LeftOut) {
    let Translated { exchange, left_out, .. } = recorded.translated(to, reader).unwrap();
    assert_eq!((exchange.dialect.as_str(), &exchange.id), (to.name(), &recorded.exchange.id));
    assert_eq!(exchange.continues, recorded.exchange.continues);
    (exchange.messages.iter().map(|message| message.json().to_owned()).collect(), left_out)
}

fn translated(exchange: Exchange, to: &'static dyn Dialect) -> (Vec<String>, LeftOut) {
    translated_by(&Recorded::new(Seq::new(4), exchange), to, &Origin::UNKNOWN)
}

#[track_caller]
fn check(from: &'static dyn Dialect, messages: &[&str], to: &'static dyn Dialect, expected: &[&str]) -> LeftOut {
    let reply_len = crate::exchange::default_reply_len(&exchange(from, messages, 0).messages);
    let (found, left_out) = translated(exchange(from, messages, reply_len), to);
    assert_eq!(found, expected);
    left_out
}

const CHAT: [&str; 5] = [
    r#"{"role":"user","content":[{"type":"text","text":"Who?"},{"type":"image_url","image_url":{"url":"https://example.com/a.png","detail":"low"}}]}"#,
    r#"{"role":"assistant","content":"I look.","reasoning_content":"Hm.","tool_calls":[{"id":"toolu_0123456789abcdef","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},{"id":"x","type":"custom","custom":{"name":"g.h","input":"a"}}]}"#,
    r#"{"role":"tool","tool_call_id":"toolu_0123456789abcdef","content":"1"}"#,
    r#"{"role":"tool","tool_call_id":"x","content":[{"type":"text","text":"2"},{"type":"text","text":"3"}]}"#,
    r#"{"role":"assistant","content":null,"refusal":"No."}"#,
];

#[test]
fn chat_completions_to_messages() {
    let short = "x-4-1-0";
    let call = format!(
        r#"{{"role":"assistant","content":[{{"type":"text","text":"I look."}},{{"type":"tool_use","id":"{LONG}","name":"f","input":{{"a": 1}}}},{{"type":"tool_use","id":"{short}","name":"g_h","input":{{"input":"a"}}}}]}}"#
    );
    let results = format!(
        r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{LONG}","content":"1"}},{{"type":"tool_result","tool_use_id":"{short}","content":[{{"type":"text","text":"2"}},{{"type":"text","text":"3"}}]}}]}}"#
    );
    let left_out = check(
        &ChatCompletions,
        &CHAT,
        &AnthropicMessages,
        &[
            r#"{"role":"user","content":[{"type":"text","text":"Who?"},{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}]}"#,
            &call,
            &results,
            r#"{"role":"assistant","content":[{"type":"text","text":"No."}]}"#,
        ],
    );
    assert_eq!(left_out, LeftOut { reasoning: 1, ..LeftOut::default() });
}

#[test]
fn chat_completions_to_responses() {
    let left_out = check(
        &ChatCompletions,
        &CHAT,
        &OpenAiResponses,
        &[
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"Who?"},{"type":"input_image","image_url":"https://example.com/a.png","detail":"low"}]}"#,
            r#"{"type":"message","role":"assistant","content":"I look."}"#,
            r#"{"type":"function_call","call_id":"toolu_0123456789abcdef","name":"f","arguments":"{\"a\": 1}"}"#,
            r#"{"type":"function_call","call_id":"x","name":"g_h","arguments":"{\"input\":\"a\"}"}"#,
            r#"{"type":"function_call_output","call_id":"toolu_0123456789abcdef","output":"1"}"#,
            r#"{"type":"function_call_output","call_id":"x","output":[{"type":"input_text","text":"2"},{"type":"input_text","text":"3"}]}"#,
            r#"{"type":"message","role":"assistant","content":"No."}"#,
        ],
    );
    assert_eq!(left_out, LeftOut { reasoning: 1, ..LeftOut::default() });
}

const MESSAGES: [&str; 4] = [
    r#"{"role":"user","content":[{"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"D"}},{"type":"text","text":"Who?","cache_control":{"type":"ephemeral"}}]}"#,
    r#"{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]},{"type":"text","text":"I "},{"type":"text","text":"look.","citations":[]},{"type":"tool_use","id":"x","name":"f","input":{"a":1.50}},{"type":"tool_use","id":"y","name":"f","input":{}}]}"#,
    r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":"1"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]},{"type":"tool_result","tool_use_id":"y","is_error":true,"content":"2"},{"type":"text","text":"And?"}]}"#,
    r#"{"role":"assistant","content":[{"type":"compaction","content":"So far."},{"type":"text","text":"Me."}]}"#,
];

const OF_MESSAGES: LeftOut = LeftOut { reasoning: 1, provider_calls: 2, compactions: 1, media: 0, other: 0 };

#[test]
fn messages_to_chat_completions() {
    let left_out = check(
        &AnthropicMessages,
        &MESSAGES,
        &ChatCompletions,
        &[
            r#"{"role":"user","content":[{"type":"text","text":"T"},{"type":"text","text":"D"},{"type":"text","text":"Who?"}]}"#,
            r#"{"role":"assistant","content":"I look.","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{\"a\":1.50}"}},{"id":"y","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
            r#"{"role":"tool","tool_call_id":"x","content":"1"}"#,
            r#"{"role":"tool","tool_call_id":"y","content":"2"}"#,
            r#"{"role":"user","content":[{"type":"text","text":"[shown by the results of the calls before this message]"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}"#,
            r#"{"role":"user","content":"And?"}"#,
            r#"{"role":"assistant","content":"Me."}"#,
        ],
    );
    assert_eq!(left_out, OF_MESSAGES);
}

#[test]
fn messages_to_responses() {
    let left_out = check(
        &AnthropicMessages,
        &MESSAGES,
        &OpenAiResponses,
        &[
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"T"},{"type":"input_text","text":"D"},{"type":"input_text","text":"Who?"}]}"#,
            r#"{"type":"message","role":"assistant","content":"I look."}"#,
            r#"{"type":"function_call","call_id":"x","name":"f","arguments":"{\"a\":1.50}"}"#,
            r#"{"type":"function_call","call_id":"y","name":"f","arguments":"{}"}"#,
            r#"{"type":"function_call_output","call_id":"x","output":[{"type":"input_text","text":"1"},{"type":"input_image","image_url":"data:image/png;base64,AA==","detail":"auto"}]}"#,
            r#"{"type":"function_call_output","call_id":"y","output":"2"}"#,
            r#"{"type":"message","role":"user","content":"And?"}"#,
            r#"{"type":"message","role":"assistant","content":"Me."}"#,
        ],
    );
    assert_eq!(left_out, OF_MESSAGES);
}

const RESPONSES: [&str; 8] = [
    r#"{"role":"user","content":[{"type":"input_text","text":"Who?"},{"type":"input_file","file_id":"file-1","filename":"a.pdf"}]}"#,
    r#"{"type":"message","role":"developer","content":"Be brief."}"#,
    r#"{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"e"}"#,
    r#"{"type":"message","id":"m1","role":"assistant","content":[{"type":"output_text","text":"I look."}],"phase":"commentary"}"#,
    r#"{"type":"function_call","id":"fc","call_id":"call_0123456789abcdef","name":"f","arguments":"{"}"#,
    r#"{"type":"web_search_call","id":"ws","status":"completed"}"#,
    r#"{"type":"message","id":"m2","role":"assistant","content":[{"type":"output_text","text":"Wait."}],"phase":"final_answer"}"#,
    r#"{"type":"compaction","id":"cmp","encrypted_content":"e"}"#,
];

const OF_RESPONSES: LeftOut = LeftOut { reasoning: 1, provider_calls: 1, compactions: 1, media: 1, other: 0 };

#[test]
fn responses_to_chat_completions() {
    let left_out = check(
        &OpenAiResponses,
        &RESPONSES,
        &ChatCompletions,
        &[
            r#"{"role":"user","content":[{"type":"text","text":"Who?"},{"type":"text","text":"[file that cannot be shown: a.pdf]"}]}"#,
            r#"{"role":"system","content":"Be brief."}"#,
            r#"{"role":"assistant","content":"I look.\n\nWait.","tool_calls":[{"id":"call_0123456789abcdef","type":"function","function":{"name":"f","arguments":"{\"input\":\"{\"}"}}]}"#,
        ],
    );
    assert_eq!(left_out, OF_RESPONSES);
}

#[test]
fn responses_to_messages() {
    let left_out = check(
        &OpenAiResponses,
        &RESPONSES,
        &AnthropicMessages,
        &[
            r#"{"role":"user","content":[{"type":"text","text":"Who?"},{"type":"text","text":"[file that cannot be shown: a.pdf]"}]}"#,
            r#"{"role":"user","content":"Be brief."}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"text","text":"Wait."},{"type":"tool_use","id":"call_0123456789abcdef-4-0-0","name":"f","input":{"input":"{"}}]}"#,
        ],
    );
    assert_eq!(left_out, OF_RESPONSES);
}

#[test]
fn calls_of_other_kinds_become_functions_with_ids_of_their_own() {
    let calls = [
        r#"{"type":"function_call","call_id":"x","name":"f","arguments":""}"#,
        r#"{"type":"custom_tool_call","call_id":"x","name":"g","input":"a"}"#,
        r#"{"type":"shell_call","call_id":"x","action":{"commands":["ls"]}}"#,
    ];
    let results = [
        r#"{"type":"function_call_output","call_id":"x","output":"1"}"#,
        r#"{"type":"custom_tool_call_output","call_id":"x","output":"2"}"#,
        r#"{"type":"shell_call_output","call_id":"x","output":[{"stdout":"3","stderr":"4","outcome":{"type":"exit","exit_code":0}}]}"#,
    ];
    let asked = Recorded::new(Seq::new(3), exchange(&OpenAiResponses, &calls, 3));
    let answer = exchange(&OpenAiResponses, &results, 0).continuing(Seq::new(3));
    let answer = Recorded::new(Seq::new(5), answer);
    for (to, count) in [(&ChatCompletions as &'static dyn Dialect, 3), (&AnthropicMessages, 1)] {
        let of = |recorded: &Recorded| recorded.translated(to, &Origin::UNKNOWN).unwrap().exchange;
        let (asked, answer) = (of(&asked), of(&answer));
        assert_eq!((asked.reply_len, asked.messages.len(), answer.messages.len()), (1, 1, count));
        let calls: Vec<CallId> = asked.messages[0].tool_calls().iter().map(|call| call.call_id().clone()).collect();
        let answers: Vec<CallId> = answer.messages.iter().flat_map(Message::answers).cloned().collect();
        assert_eq!(calls, answers);
        assert!(calls[0] != calls[1] && calls[1] != calls[2] && calls[0] != calls[2], "{calls:?}");
        let names: Vec<&str> = asked.messages[0].tool_calls().iter().map(crate::message::ToolCall::name).collect();
        assert_eq!(names, ["f", "g", "shell"]);
        let said: String = answer.messages.iter().map(|message| message.text().into_owned()).collect();
        assert!(["1", "2", "3", "4"].iter().all(|text| said.contains(text)), "{said}");
    }
}

#[test]
fn a_reused_id_is_unique_in_the_format_of_anthropic() {
    let call = |seq: u64| {
        let call = r#"{"role":"assistant","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}},{"id":"x","function":{"name":"f","arguments":"{}"}}]}"#;
        let (json, _) = translated_by(
            &Recorded::new(Seq::new(seq), exchange(&ChatCompletions, &[call], 1)),
            &AnthropicMessages,
            &Origin::UNKNOWN,
        );
        Message::in_dialect(&AnthropicMessages, json[0].as_str()).unwrap()
    };
    let mut ids: Vec<String> =
        [call(1), call(2)].iter().flat_map(Message::tool_calls).map(|call| call.id().to_owned()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[test]
fn images_of_results_are_a_note_as_long_as_other_results_can_be_missing() {
    let result = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]}]}"#;
    let (alone, left_out) = translated(exchange(&AnthropicMessages, &[result], 0), &ChatCompletions);
    assert_eq!(alone, [r#"{"role":"tool","tool_call_id":"x","content":"[image that cannot be shown]"}"#]);
    assert_eq!(left_out.media, 1);
}

#[test]
fn deepseek_and_moonshot_get_empty_reasoning_with_calls() {
    let call = r#"{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]}"#;
    let text = r#"{"role":"assistant","content":"So."}"#;
    let recorded = Recorded::new(Seq::FIRST, exchange(&AnthropicMessages, &[call, text], 1));
    for provider in ["deepseek", "DeepSeek", "moonshotai"] {
        let reader = Origin::unknown().provider(provider);
        let (found, _) = translated_by(&recorded, &ChatCompletions, &reader);
        assert!(found[0].contains(r#""content":null,"reasoning_content":"","tool_calls":"#), "{}", found[0]);
    }
    let text = Recorded::new(Seq::FIRST, exchange(&AnthropicMessages, &[text], 1));
    let (found, _) = translated_by(&text, &ChatCompletions, &Origin::unknown().provider("deepseek"));
    assert_eq!(found, [r#"{"role":"assistant","content":"So."}"#]);
    let (found, _) = translated_by(&recorded, &ChatCompletions, &Origin::unknown().provider("openai"));
    assert!(!found[0].contains("reasoning_content"), "{}", found[0]);
}

#[test]
fn recalled_messages_are_translated_with_their_exchange() {
    let mut exchange = exchange(&ChatCompletions, &[r#"{"role":"user","content":"u"}"#], 0);
    exchange.recalled = Some(Recalled::new("earlier", vec![Citation::new(Seq::FIRST, 0..1)]));
    let recorded = Recorded::new(Seq::new(4), exchange);
    let found = recorded.translated(&OpenAiResponses, &Origin::UNKNOWN).unwrap().exchange.recalled.clone().unwrap();
    assert_eq!(found.message.json(), r#"{"type":"message","role":"user","content":"earlier"}"#);
    assert_eq!(found.citations, [Citation::new(Seq::FIRST, 0..1)]);
}

#[test]
fn hostile_numbers_of_calls_and_results_take_linear_time() {
    const MANY: usize = 20_000;
    let call = r#"{"id":"x","function":{"name":"f","arguments":""}}"#;
    let calls = format!(r#"{{"role":"assistant","tool_calls":[{}]}}"#, vec![call; MANY].join(","));
    let recorded = Recorded::new(Seq::FIRST, exchange(&ChatCompletions, &[&calls], 1));
    let began = std::time::Instant::now();
    let found = recorded.translated(&AnthropicMessages, &Origin::UNKNOWN).unwrap().exchange;
    assert_eq!(found.messages[0].tool_calls().len(), MANY);
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}

#[test]
fn parts_of_a_reply_that_no_other_provider_takes_are_counted() {
    let left_out = |json: &str| translated(exchange(&ChatCompletions, &[json], 1), &AnthropicMessages).1;
    let image = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}"#;
    let made = left_out(&format!(r#"{{"role":"assistant","content":"a","images":[{image},{image}]}}"#));
    assert_eq!(made, LeftOut { media: 2, ..LeftOut::default() });
    let audio = left_out(r#"{"role":"assistant","audio":{"id":"x","data":"AA==","transcript":"a"}}"#);
    assert_eq!(audio, LeftOut { media: 1, ..LeftOut::default() }, "the words are sent");
    let calls = r#"[{"id":"","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]"#;
    let call = left_out(&format!(r#"{{"role":"assistant","content":"a","tool_calls":{calls}}}"#));
    assert_eq!(call, LeftOut { other: 1, ..LeftOut::default() });
    assert!(left_out(r#"{"role":"assistant","content":"a","images":[],"audio":null}"#).is_empty());
}

#[test]
fn a_file_under_an_id_becomes_a_note() {
    let upload = r#"{"role":"user","content":[{"type":"container_upload","file_id":"f"},{"type":"text","text":"u"}]}"#;
    let noted = r#"{"role":"user","content":[{"type":"text","text":"[file that cannot be shown]"},{"type":"text","text":"u"}]}"#;
    let left_out = check(&AnthropicMessages, &[upload], &ChatCompletions, &[noted]);
    assert_eq!(left_out, LeftOut { media: 1, ..LeftOut::default() });
}
