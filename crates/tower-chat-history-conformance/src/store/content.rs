//! Messages, and the other fields of exchanges, are returned as they were stored.

use super::support::*;

/// Asserts that messages with this JSON are returned byte for byte by each way to read them.
async fn assert_come_back(fixture: &dyn Fixture, texts: &[impl AsRef<str> + Sync]) {
    let chat = Chat::new(fixture).await;
    let messages: Vec<Message> = texts.iter().map(|json| message(json.as_ref())).collect();
    let log = [chat.add(exchange_of(messages)).await];
    for read in [chat.log().await, chat.window(limit(MANY, MANY)).await.exchanges] {
        let messages = &read[0].exchange.messages;
        assert_eq!(messages.len(), texts.len());
        for (message, text) in messages.iter().zip(texts) {
            assert_eq!(message.json(), text.as_ref());
        }
    }
    chat.assert_log_everywhere(fixture, &log).await;
}

/// Text is returned as it was spelled: in its Unicode form, with its escapes and white space. NUL is returned, although
/// some databases refuse it. So are lone surrogates, which are legal JSON but not Unicode.
pub async fn texts_come_back_as_spelled(fixture: &dyn Fixture) {
    let unicode = [
        r#"{"role":"user","content":"Grüße, 世界, مرحبا, 👩‍👩‍👧, 𝔘𝔫𝔦"}"#,
        "{\"role\":\"user\",\"content\":\"é and e\u{301}, ﬁ, Å and \u{212b}\"}",
        "{\"role\":\"user\",\"content\":\"\u{feff}\u{2028}\u{2029}\u{7f}\u{85}\u{a0}\u{fffd}\u{ffff}\u{10ffff}\"}",
    ];
    assert_come_back(fixture, &unicode).await;
    let nul = [
        r#"{"role":"user","content":"a\u0000b\u0000"}"#,
        r#"{"role":"user","content":"\u0000","x\u0000y":"\u0000"}"#,
        r#"{"role":"user","content":"\\u0000 is no NUL"}"#,
    ];
    assert_come_back(fixture, &nul).await;
    let surrogates = [
        r#"{"role":"user","content":"\ud83d"}"#,
        r#"{"role":"user","content":"\ude00\ud83d and \uD83D\uDE00"}"#,
        r#"{"role":"user","content":[{"type":"text","text":"\udfff"}],"x":"\ud800"}"#,
    ];
    assert_come_back(fixture, &surrogates).await;
    let escapes = [
        r#"{"role":"user","content":"\/ / \u00e9 \u00E9 é \" \\ \b\f\n\r\t \u0008 \u001f \u0041"}"#,
        r#"{"\u0072ole":"user","content":"a key may be spelled so, too"}"#,
        r#"{"role":"user","content":"'; DROP TABLE messages; -- $1 ? %s {0} \\x00 ${x}"}"#,
    ];
    assert_come_back(fixture, &escapes).await;
}

/// White space within a message, the order of its keys, and numbers are returned as they were written, also numbers
/// that no float can represent.
pub async fn white_space_comes_back(fixture: &dyn Fixture) {
    let texts = [
        "{ \"role\" :  \"user\" ,\n\t\"content\"\r\n:\"x\" }",
        "{\n  \"role\": \"user\",\n  \"content\": [\n    { \"type\": \"text\", \"text\": \" x \" }\n  ]\n}",
        r#"{"zzz":1,"content":"x","role":"user","aa":2,"b":3}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"arguments":"{\"b\":1,\"a\":2}","name":"f"},"id":"c"}]}"#,
        r#"{"role":"user","content":"x","n":[0,-0,1.0,1.50,1e3,1E+3,1e-7,0.1000000000000000055511151231257827]}"#,
        r#"{"role":"user","content":"x","n":[18446744073709551616,123456789012345678901234567890,1e400,-1e-400]}"#,
    ];
    assert_come_back(fixture, &texts).await;
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
    assert_come_back(fixture, &texts).await;
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
    assert_come_back(fixture, &texts).await;
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
    assert_come_back(fixture, &texts).await;
}

/// Deeply nested JSON is returned, and so are messages of several megabytes, and exchanges of many messages.
pub async fn large_messages_come_back(fixture: &dyn Fixture) {
    let nested = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    assert_come_back(fixture, &[format!(r#"{{"role":"user","content":"x","deep":{nested}}}"#)]).await;

    let large = |size: usize| format!(r#"{{"role":"user","content":"{}"}}"#, "0123456789abcdeü".repeat(size / 17));
    assert_come_back(fixture, &[large(1 << 20)]).await;
    assert_come_back(fixture, &[large(5 << 20), large(1 << 10)]).await;

    let many: Vec<String> = (0..2_000).map(|n| format!(r#"{{"role":"user","content":"{n}"}}"#)).collect();
    assert_come_back(fixture, &many).await;
}

/// Every field of an exchange is returned unchanged. An absent value is returned as absent, and an empty one as empty.
pub async fn every_field_comes_back(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let full = with!(
        result_for(Seq::FIRST),
        at: Timestamp::from_unix_millis(1_700_000_000_123),
        tokens: Some(TokenCounts { counter: "o200k_base".into(), counts: vec![0, u32::MAX] }),
        model: Some("gpt-4o \"ä\" \u{0}".into()),
        finish_reason: Some("length".into()),
        usage: Some(with!(Usage::new(u64::MAX, 0), cached_input_tokens: Some(7))),
        incomplete: true,
    );
    let empty = with!(
        turn_of("empty"),
        tokens: Some(TokenCounts { counter: String::new(), counts: vec![] }),
        model: Some(String::new()),
        finish_reason: Some(String::new()),
        usage: Some(Usage::default()),
    );
    let log = chat.add_all([call_of("what is it?"), full, turn_of("absent"), empty]).await;
    chat.assert_log_everywhere(fixture, &log).await;
}

/// The metadata of an exchange is returned byte for byte.
pub async fn metadata_comes_back(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let largest = format!(r#"{{"a":"{}"}}"#, "x".repeat(Metadata::MAX_BYTES - 8));
    let odd = "{ \"b\" : 1.0e5,\n\t\"a\":[\"\\u0000\\ud800\", {}], \"b\":\"ä😀\" }";
    let turn_with = |json: &str| with!(turn_of("u"), metadata: Some(Metadata::new(json).unwrap()));
    let log = chat.add_all([turn_with(odd), turn_of("none"), turn_with(&largest)]).await;
    chat.assert_log_everywhere(fixture, &log).await;
}

/// The time that the caller set is returned to the millisecond. It does not determine the order.
pub async fn time_is_kept_and_orders_nothing(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = Vec::new();
    for millis in [1_700_000_000_999, 0, u64::MAX, 1, i64::MAX as u64, 1_700_000_000_998] {
        let exchange = with!(turn_of("x"), at: Timestamp::from_unix_millis(millis));
        log.push(chat.add(exchange).await);
    }
    assert_eq!(log[5].seq, Seq::new(5));
    chat.assert_log(&log).await;
}

/// Returns an exchange whose content is this encrypted text, which is longer than the messages.
fn sealed(exchange: &Exchange, text: &str) -> Exchange {
    exchange.sealed_as(text.repeat(64)).unwrap()
}

/// Encrypted content is returned unchanged.
pub async fn encrypted_content_comes_back(fixture: &dyn Fixture) {
    let chat = Chat::sealed(fixture).await;
    let first = sealed(&turn_of("first"), "AQID/+=-_.");
    let third = sealed(&turn_of("third"), "ä \u{0} \"\\");
    let log = chat.add_all([first, turn_of("not encrypted"), third]).await;
    chat.assert_log_everywhere(fixture, &log).await;
}

/// A limit counts the messages that are encrypted and their bytes, not those of the encrypted text. An exchange whose
/// encrypted content has no messages counts as one message.
pub async fn a_limit_counts_encrypted_messages(fixture: &dyn Fixture) {
    let chat = Chat::sealed(fixture).await;
    let log = chat.add_all(["a", "b", "c"].map(|question| sealed(&turn_of(question), "encrypted"))).await;
    let bytes = bytes_of(&log[1..]) as usize;
    for load in [limit(4, MANY), limit(5, MANY), limit(MANY, bytes)] {
        assert_eq!(chat.window(load).await.exchanges, log[1..]);
    }
    assert_eq!(chat.window(limit(MANY, bytes - 1)).await.exchanges, log[2..]);

    let chat = chat.other();
    let log = chat.add_all((0..3).map(|_| sealed(&exchange_of([]), "encrypted"))).await;
    assert_eq!(chat.window(limit(2, 1)).await.exchanges, log[1..]);
}

/// A listing shows the size of the messages that are encrypted.
pub async fn a_listing_counts_encrypted_messages(fixture: &dyn Fixture) {
    Chat::sealed(fixture).await;
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    let log = chat.add_all([sealed(&turn_of("first"), "encrypted"), turn_of("not encrypted")]).await;
    assert_eq!(owned.entry(&chat).await.bytes, bytes_of(&log));
}
