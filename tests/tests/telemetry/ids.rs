//! Conversations are exported under the name that an option selects.

use serde_json::{Value, json};
use tests::{BOTH_KINDS, Chat, Storage, over_every_store};
use tower_chat_history::{ConversationId, HistoryOptions, telemetry::Telemetry};
use tower_chat_history_test::Reply;

use crate::{chats::ask, trace::traced};

over_every_store! {
    #[tokio::test(start_paused = true)]
    a_conversation_has_the_selected_name,
}

async fn a_conversation_has_the_selected_name(storage: Storage) {
    let id = ConversationId::new(["acme", "user 42"]).unwrap();
    // printf 'acme/user%%2042' | openssl dgst -sha256 -hmac key
    let hashed = "bb6e0eab4b9ec03c8fb49beb2340c395c502ad0acb4adf4d930355f45a0074d9";
    for (telemetry, name) in [
        (Telemetry::new(), Value::Null),
        (Telemetry::new().hashed_conversation_ids("key"), json!(hashed)),
        (Telemetry::new().raw_conversation_ids(), json!("acme/user%2042")),
    ] {
        for kind in BOTH_KINDS {
            let options = HistoryOptions::new().telemetry(telemetry.clone());
            let chat = Chat::with_options(&storage, [Reply::text("a")], options);
            let (answered, trace) = traced(ask(&chat, kind, &id, "u")).await;
            assert!(answered);
            for span in &trace.spans {
                let named = ["chat_history", "chat mock"].contains(&&*span.name);
                span.assert_attributes([("gen_ai.conversation.id", if named { name.clone() } else { Value::Null })]);
            }
        }
    }
}
