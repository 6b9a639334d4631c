//! Samples from the documentation of the formats.

use tower_chat_history::transfer::foreign::{
    ForeignError, ForeignOptions, assistants_threads, chat_ml, chat_ml_text, import_foreign, langchain_redis, share_gpt,
};

use super::{import, import_twice, stored};
use crate::support::{TestStore, prefix};

/// The samples of OpenAI's guide to fine-tuning, with a call and with weights.
const CHAT_ML: &str = r#"{"messages": [{"role": "system", "content": "Marv is a factual chatbot."}, {"role": "user", "content": "What's the capital of France?"}, {"role": "assistant", "content": "Paris", "weight": 0}, {"role": "user", "content": "Can you be more sarcastic?"}, {"role": "assistant", "content": "Paris, as if everyone doesn't know that already.", "weight": 1}]}
{"id": "weather", "messages": [{"role": "user", "content": "What is the weather in San Francisco?"}, {"role": "assistant", "tool_calls": [{"id": "call_id", "type": "function", "function": {"name": "get_current_weather", "arguments": "{\"location\": \"San Francisco, USA\"}"}}]}, {"role": "tool", "tool_call_id": "call_id", "content": "21"}, {"role": "assistant", "content": "21 degrees."}]}
"#;

#[tokio::test]
async fn lines_of_chat_messages() {
    let (store, report) = import_twice(|| chat_ml(CHAT_ML.as_bytes())).await;
    assert_eq!((report.conversations, report.stored, report.instructions, report.skipped), (2, 4, 1, 0));
    let stored = stored(&store).await;
    assert_eq!(stored[0].0, "in/1");
    assert_eq!(
        stored[0].1,
        [
            r#"{"content":"What's the capital of France?","role":"user"} {"content":"Paris","role":"assistant"}"#,
            r#"{"content":"Can you be more sarcastic?","role":"user"} {"content":"Paris, as if everyone doesn't know that already.","role":"assistant"}"#,
        ]
    );
    assert_eq!((stored[1].0.as_str(), stored[1].1.len()), ("in/weather", 2));
    assert!(stored[1].1[1].starts_with("continues "), "{stored:?}");
}

#[tokio::test]
async fn a_longer_file_adds_what_is_new() {
    let line = |messages: &str| format!("{{\"id\":\"a\",\"messages\":[{messages}]}}");
    let first = r#"{"role":"user","content":"x"},{"role":"assistant","content":"y"}"#;
    let more = format!("{first},{first}");
    let store = TestStore::default();
    import(&store, chat_ml(line(first).as_bytes())).await;
    let report = import(&store, chat_ml(line(&more).as_bytes())).await;
    assert_eq!((report.present, report.stored), (1, 1));
    let ids: Vec<_> = store.logs()["in/a"].exchanges.iter().map(|one| one.exchange.id.clone()).collect();
    assert_ne!(ids[0], ids[1], "equal messages are different exchanges");
    let other = line(r#"{"role":"user","content":"z"}"#);
    let report = import(&store, chat_ml(other.as_bytes())).await;
    assert!(report.named[0].to_string().contains("another exchange at position 0"), "{report:?}");
}

#[tokio::test]
async fn the_text_form_of_chat_ml() {
    let text = "<|im_start|>system\nYou are helpful.<|im_end|>\n<|im_start|>user\nHi!\nWho are you?<|im_end|>\n\
                <|im_start|>assistant\nA model.\n<|im_end|>\n<|im_start|>system\nNext.<|im_end|>\n\
                <|im_start|>user name=nemo\nHi<|im_end|>\n";
    let (store, report) = import_twice(|| chat_ml_text(text.as_bytes())).await;
    assert_eq!((report.conversations, report.stored, report.instructions, report.skipped), (2, 2, 2, 0));
    let stored = stored(&store).await;
    assert_eq!(
        stored[0].1,
        [r#"{"content":"Hi!\nWho are you?","role":"user"} {"content":"A model.\n","role":"assistant"}"#]
    );
    assert_eq!(stored[1].1, [r#"{"content":"Hi","name":"nemo","role":"user"}"#]);
}

#[tokio::test]
async fn the_text_form_of_chat_ml_on_one_line() {
    let text = "<|im_start|>user Hi <|im_end|><|im_start|>assistant name=bot\r\nHello<|im_end|> \n";
    let (store, report) = import_twice(|| chat_ml_text(text.as_bytes())).await;
    assert_eq!((report.conversations, report.stored, report.skipped), (1, 1, 0));
    let expected = r#"{"content":"Hi ","role":"user"} {"content":"Hello","name":"bot","role":"assistant"}"#;
    assert_eq!(stored(&store).await[0].1, [expected]);
}

#[tokio::test]
async fn an_unknown_role_of_chat_ml_costs_its_conversation_only() {
    let text = "<|im_start|>system\nOne.<|im_end|>\n<|im_start|>critic\nNo.<|im_end|>\n\
                <|im_start|>user\nHi<|im_end|>\n<|im_start|>system\nTwo.<|im_end|>\n\
                <|im_start|>user name=Ann Lee\nHello<|im_end|>\n";
    let read: Vec<_> = chat_ml_text(text.as_bytes()).collect();
    let [Err(ForeignError::Conversation { record: 4, .. }), Ok(two)] = &read[..] else { panic!("{read:?}") };
    assert_eq!(two.name, "2");
    let (store, report) = import_twice(|| chat_ml_text(text.as_bytes())).await;
    assert_eq!((report.conversations, report.stored, report.skipped), (2, 1, 1));
    assert_eq!(stored(&store).await[0].1, [r#"{"content":"Hello","name":"Ann Lee","role":"user"}"#]);
}

#[tokio::test]
async fn text_of_chat_ml_is_no_role_and_is_not_left_out() {
    let whole = "<|im_start|>user\nHi<|im_end|>\n";
    for rest in ["<|im_start|>Hello<|im_end|>", "<|im_start|>", "lost", "<|im_end|>", "<|im_start|>user\nHi"] {
        let text = format!("{whole}<|im_start|>assistant\nHello<|im_end|>{rest}");
        let read: Vec<_> = chat_ml_text(text.as_bytes()).collect();
        assert!(matches!(read[..], [Err(ForeignError::Conversation { .. })]), "{rest}: {read:?}");
    }
}

#[tokio::test]
async fn share_gpt_in_a_list_and_in_lines() {
    let one = r#"{"id":"QWJhYvA_0","conversations":[{"from":"system","value":"s"},{"from":"human","value":"Weather?"},{"from":"function_call","value":"{\"name\":\"weather\",\"arguments\":{\"city\":\"Paris\"}}"},{"from":"observation","value":"18"},{"from":"gpt","value":"Warm."}]}"#;
    let two = r#"{"conversations":[{"from":"user","value":"Hi"},{"from":"chatgpt","value":"Hello"}]}"#;
    for file in [format!("{one}\n{two}\n"), format!("[\n{one},\n{two}\n]"), format!("[{one},{two}]")] {
        let (store, report) = import_twice(|| share_gpt(file.as_bytes())).await;
        assert_eq!((report.conversations, report.stored, report.skipped), (2, 3, 0), "{report:?}");
        let stored = stored(&store).await;
        assert_eq!((stored[0].0.as_str(), stored[1].0.as_str()), ("in/2", "in/QWJhYvA_0"));
        assert_eq!(
            stored[1].1[0],
            r#"{"role":"user","content":"Weather?"} {"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{\"city\":\"Paris\"}","name":"weather"},"id":"call_1","type":"function"}]}"#
        );
        assert_eq!(
            stored[1].1[1],
            r#"continues {"role":"tool","tool_call_id":"call_1","content":"18"} {"role":"assistant","content":"Warm."}"#
        );
    }
}

/// A page as `GET /v1/threads/{thread_id}/messages` returned it, newest first.
const THREAD: &str = r#"{
  "object": "list",
  "data": [
    {"id": "msg_2", "object": "thread.message", "created_at": 1699016384, "thread_id": "thread_abc123", "role": "assistant", "content": [{"type": "text", "text": {"value": "It is warm.", "annotations": []}}, {"type": "image_file", "image_file": {"file_id": "file-1"}}], "assistant_id": "asst_1", "run_id": "run_1", "attachments": [], "metadata": {}},
    {"id": "msg_1", "object": "thread.message", "created_at": 1699016383, "thread_id": "thread_abc123", "role": "user", "content": [{"type": "text", "text": {"value": "Look:", "annotations": []}}, {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "auto"}}], "assistant_id": null, "run_id": null, "attachments": [], "metadata": {}}
  ],
  "first_id": "msg_2", "last_id": "msg_1", "has_more": false
}"#;

#[tokio::test]
async fn threads_of_the_assistants_api() {
    let one_line = THREAD.replace('\n', "");
    let list = format!("[{one_line}]");
    let value: serde_json::Value = serde_json::from_str(THREAD).unwrap();
    let messages = value["data"].to_string();
    let exported = format!("{{\"thread\":{{\"id\":\"thread_abc123\"}},\"messages\":{messages}}}");
    for file in [THREAD, &one_line, &list, &messages, &exported] {
        let (store, report) = import_twice(|| assistants_threads(file.as_bytes())).await;
        assert_eq!((report.stored, report.left_out, report.skipped), (1, 1, 0), "{report:?}");
        let stored = stored(&store).await;
        assert_eq!(stored[0].0, "in/thread_abc123");
        assert_eq!(
            stored[0].1,
            [
                r#"{"content":[{"text":"Look:","type":"text"},{"image_url":{"detail":"auto","url":"https://example.com/a.png"},"type":"image_url"}],"role":"user"} {"content":"It is warm.","role":"assistant"}"#
            ]
        );
        assert_eq!(store.logs()["in/thread_abc123"].updated_at.as_unix_millis(), 1_699_016_384_000);
    }
}

#[tokio::test]
async fn pages_of_a_thread_are_one_conversation() {
    let page = |from: u64| {
        let message = |at: u64| {
            let role = if at.is_multiple_of(2) { "user" } else { "assistant" };
            format!(r#"{{"thread_id":"t","created_at":{at},"role":"{role}","content":"{at}"}}"#)
        };
        format!("{{\"data\":[{},{}]}}\n", message(from + 1), message(from))
    };
    let file = [page(2), page(0)].concat();
    let (store, _) = import_twice(|| assistants_threads(file.as_bytes())).await;
    let stored = stored(&store).await;
    assert!(stored[0].1[0].contains("\"0\"") && stored[0].1[1].contains("\"2\""), "{stored:?}");
}

#[tokio::test]
async fn dumps_of_lists_in_redis() {
    let human =
        r#"{"type": "human", "data": {"content": "Hi", "additional_kwargs": {}, "type": "human", "example": false}}"#;
    let ai = r#"{"type": "ai", "data": {"content": [{"type": "thinking", "thinking": "x"}, "Hello"], "response_metadata": {"model_name": "gpt-4o"}, "type": "ai"}}"#;
    let line = serde_json::json!({ "key": "message_store:user-42:a", "values": [ai, human] }).to_string();
    let store = TestStore::default();
    let options = ForeignOptions::new(prefix("in")).separator(Some(":".into()));
    let report = import_foreign(&store, langchain_redis(line.as_bytes()), &options).await.unwrap();
    assert_eq!((report.stored, report.left_out), (1, 1));
    let log = &store.logs()["in/user-42/a"];
    assert_eq!(log.exchanges[0].exchange.model.as_deref(), Some("gpt-4o"));
    assert_eq!(log.exchanges[0].exchange.reply()[0].text(), "Hello");
}
