//! Everything of an exchange is returned as it was stored, also after the storage is opened again.

use super::{
    deletion::{assert_later, assert_refused},
    load::assert_media_are_counted,
    support::*,
};

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

/// Returns the JSON of a message of about this many bytes.
fn message_of(bytes: usize) -> String {
    format!(r#"{{"role":"user","content":"{}"}}"#, "0123456789abcdeü".repeat(bytes / 17))
}

/// Deeply nested JSON is returned, and so are messages of several megabytes, and exchanges of many messages.
pub async fn large_messages_come_back(fixture: &dyn Fixture) {
    let nested = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    assert_come_back(fixture, &[format!(r#"{{"role":"user","content":"x","deep":{nested}}}"#)]).await;

    assert_come_back(fixture, &[message_of(1 << 20)]).await;
    assert_come_back(fixture, &[message_of(5 << 20), message_of(1 << 10)]).await;

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
        tokens: Some(TokenCounts { counter: "".into(), counts: vec![] }),
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
    let odd = with!(turn_of("odd"), metadata: Some(Metadata::new(odd).unwrap()));
    let largest = with!(turn_of("largest"), metadata: Some(Metadata::new(largest).unwrap()));
    let log = chat.add_all([odd, turn_of("none"), largest]).await;
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

/// A limit of media counts those that are encrypted.
pub async fn a_limit_counts_encrypted_media(fixture: &dyn Fixture) {
    let chat = Chat::sealed(fixture).await;
    let log = chat.add_all([2_000, 3_000, 4_000].map(|bytes| sealed(&photo_of(bytes), &"encrypted ".repeat(10)))).await;
    assert_media_are_counted(&chat, &log).await;
}

/// A listing shows the size of the messages that are encrypted.
pub async fn a_listing_counts_encrypted_messages(fixture: &dyn Fixture) {
    Chat::sealed(fixture).await;
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    let log = chat.add_all([sealed(&turn_of("first"), "encrypted"), turn_of("not encrypted")]).await;
    assert_eq!(owned.entry(&chat).await.bytes, bytes_of(&log));
}

// Messages that were shown again.

/// Returns an exchange whose recalled messages cite these positions.
pub(super) fn recalling(text: &str, cited: &[u64]) -> Exchange {
    let citations = cited.iter().zip(1..).map(|(seq, end)| Citation::new(Seq::new(*seq), 0..end));
    let text_of = format!("<recalled> for {text}: \u{0} \"ä\" \\ 👩‍👩‍👧\r\n");
    with!(turn_of(text), recalled: Some(Recalled::new(text_of, citations.collect())))
}

/// Returns an exchange whose recalled messages cite a position of another conversation, and then these of the same log.
pub(super) fn recalling_other(text: &str, cited: &[u64]) -> Exchange {
    let other = ConversationId::new(["other/1", text]).unwrap();
    let mut exchange = recalling(text, cited);
    if let Some(recalled) = &mut exchange.recalled {
        recalled.citations.insert(0, Citation::new(Seq::new(7), 2..3).of(other));
    }
    exchange
}

fn forget_recalled(recorded: &mut Recorded) {
    *recorded = changed(recorded, |exchange| exchange.recalled = None);
}

/// Recalled messages are returned byte for byte. So are their citations and their size.
pub async fn recalled_messages_come_back(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut exchange = recalling("asks", &[0, 1]);
    if let Some(recalled) = &mut exchange.recalled {
        recalled.tokens = Some(u32::MAX);
        recalled.citations.push(Citation::new(Seq::new(1), 7..u32::MAX));
    }
    // The first one creates the conversation.
    let large = recalling(&"long ".repeat(100_000), &[]);
    let others = [recalling_other("cites another", &[0]), turn_of("recalls nothing"), recalling("cites one", &[0])];
    let log = chat.add_all([large, turn_of("x"), exchange, recalling("cites nothing", &[])]).await;
    let log = [log, chat.add_all(others).await].concat();
    chat.assert_log_everywhere(fixture, &log).await;
}

/// Recalled messages do not count against a load limit.
pub async fn recalled_messages_do_not_count(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_all((0..3).map(|_| recalling("the same", &[]))).await;
    let bytes = log[0].exchange.bytes();
    assert_eq!(chat.window(limit(4, 2 * bytes)).await.exchanges, log[1..]);
}

/// A prune that erases derived data removes recalled messages that cite a removed exchange. The exchange stays.
pub async fn an_erasure_removes_recalled_messages_that_cite_removed_exchanges(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let mut log = chat.add_turns(1).await;
    let cited: [&[u64]; 5] = [&[2], &[0, 2], &[2, 1], &[], &[3]];
    log.extend(chat.add_all(cited.map(|cited| recalling("cites", cited))).await);
    chat.forget(PruneTo::From(Seq::new(2))).await;
    forget_recalled(&mut log[2]);
    forget_recalled(&mut log[3]);
    chat.assert_log_everywhere(fixture, &log).await;
}

/// A prune that erases derived data removes recalled messages that cite another conversation, also if the log was never
/// pruned and no exchange is removed. Then it begins a new incarnation, and what cites the remaining log stays.
pub async fn an_erasure_removes_recalled_messages_that_cite_other_conversations(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(2).await;
    log.push(chat.add(recalling("cites its own log", &[0, 1])).await);
    let before = chat.revision().await;
    chat.forget(PruneTo::From(Seq::FIRST)).await;
    assert_eq!(chat.revision().await, before, "nothing is to be erased");
    assert_eq!(chat.log().await, log);

    let citing = ["cites another", "cites another, too"].map(|text| recalling_other(text, &[0]));
    log.extend(chat.add_all(citing).await);
    log.push(chat.add(turn_of("recalls nothing")).await);
    chat.prune(PruneTo::From(Seq::FIRST)).await;
    assert_eq!(chat.log().await, log);

    chat.forget(PruneTo::From(Seq::FIRST)).await;
    log[3..5].iter_mut().for_each(forget_recalled);
    chat.assert_log_everywhere(fixture, &log).await;
    let after = chat.revision().await;
    assert_ne!(after.incarnation(), before.incarnation());
    chat.forget(PruneTo::From(Seq::FIRST)).await;
    assert_eq!(chat.revision().await, after, "nothing is left to be erased");

    chat.add(recalling_other("again", &[0])).await;
    chat.forget(PruneTo::From(Seq::new(1))).await;
    let kept: Vec<bool> = chat.log().await.iter().map(|recorded| recorded.exchange.recalled.is_some()).collect();
    assert_eq!(kept, [false; 6], "position 0 is cited, or another conversation");
}

/// A prune that keeps derived data keeps all recalled messages of the remaining exchanges. A later one that erases
/// derived data removes those that cite exchanges of the first prune.
pub async fn a_prune_keeps_recalled_messages_until_derived_data_is_erased(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(3).await;
    let mut log = [chat.add(recalling("cites a pruned one", &[1])).await];
    chat.prune(PruneTo::LastTurns(1)).await;
    assert_eq!(chat.log().await, log);
    chat.forget(PruneTo::LastTurns(1)).await;
    forget_recalled(&mut log[0]);
    assert_eq!(chat.log().await, log);
}

// The provenance of replies.

/// Returns an exchange with a provenance that depends on the text.
pub(super) fn made_after(text: &str) -> Exchange {
    let last = Seq::new(u64::from(u32::MAX));
    let cut = with!(Positions::window_from(Seq::new(3)), reasoning_from: last, encrypted_from: Seq::new(4));
    let origin = Origin::unknown().provider("ä \u{0} \"\\").route("").account(text).model("m");
    let digests = PromptDigests::new(Digest::of(text.as_bytes()), Digest::of(b"prompt"));
    let provenance = with!(
        Provenance::new(u32::MAX, cut, digests, origin),
        made_at: Some(last),
        reader: Some(Digest::of(b"reader")),
        tokens: Some(u64::from(u32::MAX)),
    );
    with!(turn_of(text), provenance: Some(provenance))
}

/// A provenance is returned unchanged.
pub async fn a_provenance_comes_back(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_all([made_after("first"), turn_of("has none"), made_after("third")]).await;
    chat.assert_log_everywhere(fixture, &log).await;
}

/// A prune that erases derived data removes all provenances, because they are made from the removed text. One that
/// keeps derived data keeps them.
pub async fn an_erasure_removes_provenances(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let mut log = chat.add_all(["first", "second"].map(made_after)).await;
    chat.prune(PruneTo::From(Seq::new(1))).await;
    assert_eq!(chat.log().await[1..], log);

    chat.forget(PruneTo::From(Seq::new(2))).await;
    for recorded in &mut log {
        *recorded = changed(recorded, |exchange| exchange.provenance = None);
    }
    chat.assert_log_everywhere(fixture, &log).await;
}

// Durable stores: all handles are dropped and the storage is opened again.

/// The log, the revision and the compactions of all profiles are the same, and recorded exchange ids are recognized.
/// Messages that are difficult to store are there, too.
pub async fn all_data_is_still_there(fixture: &dyn Fixture) {
    let chat = Chat::durable(fixture).await;
    let odd = "{ \"z\":1.50, \"role\" : \"user\",\"content\":\"\\u0000 \\ud83d \u{2028} é e\u{301}\",\n\"x\":1e400 }";
    let mut log = chat.add_turns(4).await;
    log.push(chat.add(exchange_of([message(odd)])).await);
    let first = chat.cut(NONE, summary_to(1, "first")).await;
    chat.cut(first.version, summary_to(2, "second")).await;
    let small = profile("small");
    chat.compact_as(&small, NONE, summary_to(3, "small")).await.unwrap();
    let before = chat.now().await;
    let before_small = chat.compaction_of(&small).await;

    let chat = chat.after_restart(fixture).await;
    chat.assert_unchanged(&before).await;
    assert_eq!(chat.now().await, before);
    assert_eq!(chat.compaction_of(&small).await, before_small);
    for recorded in &log {
        chat.assert_repeat(Expect::Absent, recorded).await;
        chat.assert_recorded(recorded).await;
    }
    assert_eq!(chat.log().await, log);
    assert_eq!(chat.log().await[4].exchange.messages[0].json(), odd);
}

/// Appends, compactions and conditions continue from the same state.
pub async fn writing_continues(fixture: &dyn Fixture) {
    let mut chat = Chat::durable(fixture).await;
    let mut log = chat.add_turns(1).await;
    let mut replaces = NONE;
    for n in 1..4 {
        let stale = chat.revision().await;
        log.push(chat.add(turn_of("x")).await);
        let revision = chat.revision().await;

        chat = chat.after_restart(fixture).await;
        assert_conflict(chat.append(Expect::Exactly(stale), turn_of("stale")).await, revision);
        let exchange = turn_of("after");
        let appended = chat.append(Expect::Exactly(revision), exchange.clone()).await.unwrap();
        assert_eq!(appended.seq, Seq::new(2 * n));
        log.push(Recorded::new(appended.seq, exchange));
        replaces = chat.cut(replaces, summary_to(n, "more")).await.version;
    }
    assert_eq!(chat.log().await, log);
}

/// A deleted conversation stays deleted, its incarnation stays ended, and first turns from before stay refused.
pub async fn deletions_persist(fixture: &dyn Fixture) {
    let chat = Chat::durable(fixture).await;
    let epoch = chat.epoch().await;
    chat.add_turns(2).await;
    let ended = chat.incarnation().await;
    chat.delete().await;
    let chat = chat.after_restart(fixture).await;
    chat.assert_absent().await;
    assert_gone(chat.append(Expect::AnyIn(ended), turn_of("late")).await);
    assert_refused(&chat, epoch).await;
    assert_later(&chat, epoch).await;
    assert_ne!(chat.incarnation().await, ended);
}
