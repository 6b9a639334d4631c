//! The warning about responses that are not stored because they cannot be read. The test has its own process,
//! because `tracing` decides once for all threads which events a subscriber receives.

#![allow(clippy::unwrap_used)] // Tests may unwrap.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ConversationId, Engine, InConversation, MemoryStore, adapt::Json,
};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

fn anthropic() -> Value {
    json!({"type": "message", "role": "assistant", "content": [{"type": "text", "text": "a secret"}]})
}

async fn answered(engine: &Engine, answer: Value) {
    let model = service_fn(move |_: Value| {
        let answer = answer.clone();
        async move { Ok::<_, BoxError>(answer) }
    });
    let chat = ChatHistoryLayer::from_engine(engine.clone(), Json::new()).layer(model);
    let ask = json!({"messages": [{"role": "user", "content": "u"}]});
    chat.oneshot(InConversation::new(ConversationId::new(["tests"]).unwrap(), ask)).await.unwrap();
}

/// Collects log events.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

impl Subscriber for Events {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                self.0.push_str(&format!("{field}={value:?} "));
            }
        }
        let mut text = Text(format!("{} ", event.metadata().level()));
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn a_warning_without_text_is_logged_once_for_each_format_and_engine() {
    let events = Events::default();
    let _logging = tracing::subscriber::set_default(events.clone());
    for engine in [Engine::new(MemoryStore::new()), Engine::new(MemoryStore::new())] {
        for answer in [anthropic(), anthropic(), json!({"error": {"message": "a secret"}}), json!({"choices": []})] {
            answered(&engine, answer).await;
        }
    }
    let logged = events.0.lock().unwrap().clone();
    let warnings: Vec<_> = logged.iter().filter(|event| event.contains("was not stored")).collect();
    assert_eq!(warnings.len(), 4, "{logged:#?}");
    for (warning, shape) in warnings.iter().zip(["Anthropic message", "error"].iter().cycle()) {
        assert!(warning.starts_with("WARN") && warning.contains(shape), "{warning}");
    }
    assert!(!logged.iter().any(|event| event.contains("secret")), "{logged:#?}");
}
