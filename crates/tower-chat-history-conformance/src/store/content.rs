//! Messages are returned byte for byte.

use tower_chat_history_core::{Exchange, ExchangeId, Load, LoadLimit, Loaded, Message};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::VERBATIM;

/// Appends messages with this JSON, and compares them with the result of each way to read them.
async fn comes_back<T: AsRef<str> + Sync>(fixture: &dyn Fixture, texts: &[T]) {
    let chat = Chat::new(fixture).await;
    let messages = texts.iter().map(|json| message(json.as_ref()));
    let id = chat.add(Exchange::new(ExchangeId::generate(), messages)).await.exchange.id.clone();
    let everything = LoadLimit::new(usize::MAX, usize::MAX).unwrap_or_default();
    let loaded = chat.window(Load::new().limit(everything)).await.exchanges;
    assert_same(texts, &loaded[0].exchange.messages, "load");
    assert_same(texts, &chat.log().await[0].exchange.messages, "read");
    let Loaded::AlreadyRecorded(recorded) = chat.load(Load::new().exchange(id)).await else {
        panic!("the exchange is recorded")
    };
    assert_same(texts, &recorded.exchange.messages, "load by exchange id");
}

fn assert_same<T: AsRef<str>>(texts: &[T], messages: &[Message], way: &str) {
    assert_eq!(messages.len(), texts.len(), "{way} brought another number of messages");
    for (message, text) in messages.iter().zip(texts) {
        let (came, went) = (message.json(), text.as_ref());
        assert!(came == went, "{way}: {}", first_difference(came, went));
    }
}

/// Returns the position of the first difference of two texts, and what follows in each. A message may have megabytes.
fn first_difference(came: &str, went: &str) -> String {
    let same = came.bytes().zip(went.bytes()).take_while(|(a, b)| a == b).count();
    let from =
        |json: &str| String::from_utf8_lossy(&json.as_bytes()[same.min(json.len())..]).chars().take(40).collect();
    let (came_from, went_from): (String, String) = (from(came), from(went));
    format!("from byte {same} on it is {came_from:?} and should be {went_from:?}")
}

/// Text of many scripts is returned in its original Unicode form.
pub async fn unicode_comes_back(fixture: &dyn Fixture) {
    let texts = [
        r#"{"role":"user","content":"Grüße, 世界, مرحبا, 👩‍👩‍👧, 𝔘𝔫𝔦"}"#,
        "{\"role\":\"user\",\"content\":\"é and e\u{301}, ﬁ, Å and \u{212b}\"}",
        "{\"role\":\"user\",\"content\":\"\u{feff}\u{2028}\u{2029}\u{7f}\u{85}\u{a0}\u{fffd}\u{ffff}\u{10ffff}\"}",
    ];
    comes_back(fixture, &texts).await;
}

/// NUL in contents and keys is returned, although some databases refuse it.
pub async fn nul_comes_back(fixture: &dyn Fixture) {
    let texts = [
        r#"{"role":"user","content":"a\u0000b\u0000"}"#,
        r#"{"role":"user","content":"\u0000","x\u0000y":"\u0000"}"#,
        r#"{"role":"user","content":"\\u0000 is no NUL"}"#,
    ];
    comes_back(fixture, &texts).await;
}

/// Lone surrogates are returned: they are legal JSON but not Unicode.
pub async fn lone_surrogates_come_back(fixture: &dyn Fixture) {
    let texts = [
        r#"{"role":"user","content":"\ud83d"}"#,
        r#"{"role":"user","content":"\ude00\ud83d and \uD83D\uDE00"}"#,
        r#"{"role":"user","content":[{"type":"text","text":"\udfff"}],"x":"\ud800"}"#,
    ];
    comes_back(fixture, &texts).await;
}

/// Escapes are returned as they were written, necessary or not.
pub async fn escapes_come_back_as_spelled(fixture: &dyn Fixture) {
    let texts = [
        r#"{"role":"user","content":"\/ / \u00e9 \u00E9 é \" \\ \b\f\n\r\t \u0008 \u001f \u0041"}"#,
        r#"{"\u0072ole":"user","content":"a key may be spelled so, too"}"#,
        r#"{"role":"user","content":"'; DROP TABLE messages; -- $1 ? %s {0} \\x00 ${x}"}"#,
    ];
    comes_back(fixture, &texts).await;
}

/// Fields, parts and roles that this crate does not know are returned.
pub async fn unknown_fields_come_back(fixture: &dyn Fixture) {
    let texts = [
        r#"{"role":"assistant","content":"x","reasoning_content":"because","annotations":[],"refusal":null}"#,
        r#"{"role":"user","content":[{"type":"hologram","data":{"a":[1,{"b":null}]}},{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}"#,
        r#"{"role":"critic","content":{"verdict":true},"x":1,"x":2}"#,
        r#"{"role":"user"}"#,
        r#"{"role":"user","content":null}"#,
        r#"{"role":"user","content":17}"#,
        r#"{"role":"user","content":"","":""}"#,
        r#"{"role":"function","name":"f","content":"old"}"#,
    ];
    comes_back(fixture, &texts).await;
}

/// The fields with which providers extend chat completions are returned: reasoning, also if it is empty, signatures,
/// and marks for caches.
pub async fn fields_of_providers_come_back(fixture: &dyn Fixture) {
    let texts = [
        // DeepSeek: a turn with calls has reasoning, even if it is empty.
        r#"{"role":"assistant","content":"","reasoning_content":"","tool_calls":[{"index":0,"id":"call_00_x","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
        r#"{"role":"assistant","content":"x","reasoning_content":"Hm.\n\u0000 \ud83d","prefix":true}"#,
        // Gemini: each call may have a signature, and so may a text.
        r#"{"role":"assistant","tool_calls":[{"extra_content":{"google":{"thought_signature":"CiQB+/8=="}},"function":{"arguments":"{\"a\": 1}","name":"f"},"id":"function-call-1","type":"function"},{"function":{"arguments":"{}","name":"f"},"id":"function-call-2","type":"function"}]}"#,
        r#"{"content":"x","extra_content":{"google":{"thought_signature":"AA==","thought":false}},"role":"assistant"}"#,
        // OpenRouter: a list of typed details. The signature may stand alone.
        r#"{"role":"assistant","content":null,"reasoning":"Hm","reasoning_details":[{"type":"reasoning.text","text":"Hm","index":0,"format":"anthropic-claude-v1"},{"type":"reasoning.text","signature":"c2ln","index":0},{"type":"reasoning.encrypted","data":"\/w==","id":null},{"type":"reasoning.summary","summary":""}]}"#,
        // LiteLLM: the blocks of Claude.
        r#"{"role":"assistant","content":"x","reasoning_content":"Hm","thinking_blocks":[{"type":"thinking","thinking":"Hm","signature":"EqoB"},{"type":"redacted_thinking","data":"EmwK"}],"provider_specific_fields":{"signature":null}}"#,
        r#"{"role":"assistant","thinking_blocks":[],"content":""}"#,
        // Marks for caches, in parts and in messages.
        r#"{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}},{"type":"text","text":"","cache_control":null}]}"#,
        r#"{"role":"tool","tool_call_id":"function-call-1","content":"x","cache_control":{"type":"ephemeral"}}"#,
    ];
    comes_back(fixture, &texts).await;
}

/// Keys are returned in their original order.
pub async fn key_order_comes_back(fixture: &dyn Fixture) {
    let texts = [
        r#"{"zzz":1,"content":"x","role":"user","aa":2,"b":3}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"arguments":"{\"b\":1,\"a\":2}","name":"f"},"id":"c"}]}"#,
    ];
    comes_back(fixture, &texts).await;
}

/// Numbers are returned as they were written, including those that no float can represent.
pub async fn numbers_come_back_as_spelled(fixture: &dyn Fixture) {
    let texts = [
        r#"{"role":"user","content":"x","n":[0,-0,1.0,1.50,1e3,1E+3,1e-7,0.1000000000000000055511151231257827]}"#,
        r#"{"role":"user","content":"x","n":[18446744073709551616,123456789012345678901234567890,1e400,-1e-400]}"#,
    ];
    comes_back(fixture, &texts).await;
}

/// White space within a message is returned.
pub async fn white_space_comes_back(fixture: &dyn Fixture) {
    let texts = [
        "{ \"role\" :  \"user\" ,\n\t\"content\"\r\n:\"x\" }",
        "{\n  \"role\": \"user\",\n  \"content\": [\n    { \"type\": \"text\", \"text\": \" x \" }\n  ]\n}",
    ];
    comes_back(fixture, &texts).await;
}

/// Arguments of tool calls are returned even if they are not JSON, and so are results with any id.
pub async fn tool_calls_come_back(fixture: &dyn Fixture) {
    let texts = [
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{not json"}},{"id":"a","type":"function","function":{"name":"g","arguments":""}},{"id":"b","type":"function","function":{"name":"h","arguments":{"x": 1}}}]}"#,
        r#"{"role":"tool","tool_call_id":"a","content":"{\"half\":"}"#,
        r#"{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":""}]}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"custom","custom":{"name":"sql","input":"select 1"}}]}"#,
        r#"{"role":"tool","tool_call_id":"nobody asked","content":""}"#,
        r#"{"role":"assistant","content":"x","tool_calls":[]}"#,
    ];
    comes_back(fixture, &texts).await;
}

/// Deeply nested JSON is returned unchanged.
pub async fn deep_nesting_comes_back(fixture: &dyn Fixture) {
    let nested = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    comes_back(fixture, &[format!(r#"{{"role":"user","content":"x","deep":{nested}}}"#)]).await;
}

/// A message of one megabyte is returned unchanged, and one of several megabytes.
pub async fn large_messages_come_back(fixture: &dyn Fixture) {
    let large = |size: usize| format!(r#"{{"role":"user","content":"{}"}}"#, "0123456789abcdeü".repeat(size / 17));
    comes_back(fixture, &[large(1 << 20)]).await;
    comes_back(fixture, &[large(5 << 20), large(1 << 10)]).await;
}

/// All messages of an exchange with many messages are returned.
pub async fn many_messages_come_back(fixture: &dyn Fixture) {
    let texts: Vec<String> = (0..2_000).map(|n| format!(r#"{{"role":"user","content":"{n}"}}"#)).collect();
    comes_back(fixture, &texts).await;
}
