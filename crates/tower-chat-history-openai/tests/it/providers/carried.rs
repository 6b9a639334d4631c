//! The integrations that carry every field.

use super::*;

/// Two turns: one of two rounds and an answer, and one of a round with parallel calls and an answer.
fn replies() -> Replies {
    Replies::script([
        Reply::calls([("x", "f", "{}")]).thinking("first"),
        Reply::calls([("y", "f", "{}")]).thinking("then").redacted_thinking().thinking("more"),
        Reply::text("a").thinking("done"),
        Reply::calls([("p", "f", "{}"), ("q", "f", "{\"a\":1}")]).redacted_thinking(),
        Reply::text("b"),
    ])
}

fn inputs() -> Vec<Vec<Value>> {
    vec![vec![user("u")], vec![result("x")], vec![result("y")], vec![user("v")], vec![result("p"), result("q")]]
}

#[tokio::test]
async fn every_reply_is_sent_back_as_its_provider_requires() {
    for (provider, name) in PROVIDERS {
        for integration in CARRYING {
            for name in [Some(name), None] {
                let chat = Chat::start(provider, name, replies(), HistoryOptions::new()).await;
                for input in inputs() {
                    let said = chat.say(integration, &input).await;
                    assert_eq!(said, Ok(()), "{provider:?}, {integration:?}, {name:?}");
                }
                let log = chat.log().await;
                let last = &chat.server.prompts_json()[4];
                let sent = last.as_array().unwrap();
                // The log, without the last reply, is sent after the system message.
                let expected = &log[..log.len() - 1];
                assert_eq!(&sent[1..], expected, "{provider:?}, {integration:?}, {name:?}");
                assert!(with_reasoning(sent) >= 3, "{provider:?}, {integration:?}, {name:?}: {last}");
            }
        }
    }
}

#[tokio::test]
async fn a_stream_and_a_whole_response_store_the_same_fields() {
    for (provider, name) in PROVIDERS {
        let mut logs = Vec::new();
        for integration in CARRYING {
            let chat = Chat::start(provider, Some(name), replies(), HistoryOptions::new()).await;
            for input in inputs() {
                chat.say(integration, &input).await.unwrap();
            }
            // A whole response has null or an empty text where a stream has nothing. With DeepSeek, the empty text of
            // `reasoning_content` counts.
            let counts = |name: &str| name == "reasoning_content" && provider == ChatProvider::DeepSeek;
            let mut log = chat.log().await;
            for message in &mut log {
                let fields = message.as_object_mut().unwrap();
                fields.retain(|name, value| !value.is_null() && (value != "" || counts(name)));
            }
            logs.push(log);
        }
        for log in &logs[1..] {
            assert_eq!(log, &logs[0], "{provider:?}");
        }
    }
}

#[tokio::test]
async fn an_empty_reasoning_content_is_sent_back() {
    for integration in CARRYING {
        let replies = Replies::script([Reply::calls([("x", "f", "{}")]).redacted_thinking(), Reply::text("a")]);
        let chat = Chat::start(ChatProvider::DeepSeek, Some("deepseek"), replies, HistoryOptions::new()).await;
        chat.say(integration, &[user("u")]).await.unwrap();
        chat.say(integration, &[result("x")]).await.unwrap();
        assert_eq!(chat.server.prompts_json()[1][2]["reasoning_content"], "", "{integration:?}");
    }
}
