//! Unusual replies. `http.rs` has some of these cases over HTTP.

use async_openai::error::OpenAIError;
use futures_util::StreamExt as _;
use tests::{
    BOTH_KINDS, CallKind, Chat, NO_REPLY, Storage, TypedRequest, exchanges, log, over_every_store, prompts, request,
    user_call,
};
use tower_chat_history::{
    InConversation, Message,
    report::{NotStored, TurnOutcome},
};
use tower_chat_history_test::{Choice, Reply};

over_every_store! {
    #[tokio::test]
    no_choices,
    an_empty_reply,
    a_refusal,
    finish_reasons_length_and_content_filter,
    an_unknown_finish_reason,
    several_choices,
}

async fn no_choices(storage: Storage) {
    let (chat, id) = (Chat::new(&storage, [Reply::no_choices(), Reply::no_choices()]), storage.conversation());
    let (call, report) = user_call(&id, "u").with_report();
    assert!(chat.unary(call).await.unwrap().choices.is_empty());
    assert!(matches!(report.await.unwrap().outcome, TurnOutcome::NotStored(NotStored::NoReply)));

    // A stream without items counts as interrupted.
    let (call, report) = user_call(&id, "u").with_report();
    assert!(chat.stream(call).await.unwrap().collect::<Vec<_>>().await.is_empty());
    assert!(matches!(report.await.unwrap().outcome, TurnOutcome::NotStored(NotStored::Interrupted)));
    assert!(log(&storage.store, &id).await.is_empty());
}

async fn an_empty_reply(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, [Reply::empty(), Reply::text("a1")]), storage.conversation());
        assert_eq!(chat.ask(kind, &id, "u0").await.unwrap(), "");
        chat.ask(kind, &id, "u1").await.unwrap();
        assert_eq!(prompts(&chat.llm)[1], ["user: u0", NO_REPLY, "user: u1"]);
        assert_eq!(log(&storage.store, &id).await, ["user: u0", "assistant: ", "user: u1", "assistant: a1"]);
        let stored = exchanges(&storage.store, &id).await;
        assert_eq!(stored[0].exchange.finish_reason.as_deref(), Some("stop"));
        assert!(stored[0].exchange.messages[1].is_blank());
    }
}

async fn a_refusal(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, [Reply::refusal("I can't."), Reply::text("a")]), storage.conversation());
        chat.ask(kind, &id, "u0").await.unwrap();
        let refusal = &exchanges(&storage.store, &id).await[0].exchange.messages[1];
        let json: serde_json::Value = serde_json::from_str(refusal.json()).unwrap();
        assert_eq!((&json["refusal"], &json["content"]), (&"I can't.".into(), &serde_json::Value::Null));
        chat.ask(kind, &id, "u1").await.unwrap();
        assert_eq!(chat.llm.prompts_json()[1][1]["refusal"], "I can't.", "it is also sent as a refusal");
    }
}

async fn finish_reasons_length_and_content_filter(storage: Storage) {
    for kind in BOTH_KINDS {
        for reason in ["length", "content_filter"] {
            let (chat, id) = (Chat::new(&storage, [Reply::text("a").finish(reason)]), storage.conversation());
            assert_eq!(chat.ask(kind, &id, "u").await.unwrap(), "a");
            let stored = exchanges(&storage.store, &id).await;
            assert_eq!(stored[0].exchange.finish_reason.as_deref(), Some(reason));
            assert!(!stored[0].exchange.incomplete);
        }
    }
}

async fn an_unknown_finish_reason(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, [Reply::text("a").finish("end_turn")]), storage.conversation());
        let (call, report) = user_call(&id, "u").with_report();
        let error = chat.call(kind, call).await.unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(OpenAIError::JSONDeserialize(..))));
        let interrupted = |report: &tower_chat_history::TurnReport| {
            matches!(report.outcome, TurnOutcome::NotStored(NotStored::Interrupted))
        };
        match kind {
            CallKind::Unary => assert!(report.await.is_none(), "no reply, no turn"),
            CallKind::Stream => assert!(interrupted(&report.await.unwrap())),
        }
        assert!(log(&storage.store, &id).await.is_empty());
    }
}

async fn several_choices(storage: Storage) {
    for kind in BOTH_KINDS {
        let two = Reply::choices([Choice::text("heads"), Choice::text("tails, and a longer text").finish("length")]);
        let (chat, id) = (Chat::new(&storage, [two]), storage.conversation());
        let asked = TypedRequest { n: Some(2), ..request([Message::user("u")]) };
        let call = InConversation::new(id.clone(), asked);
        match kind {
            CallKind::Unary => assert_eq!(chat.unary(call).await.unwrap().choices.len(), 2),
            CallKind::Stream => {
                let chunks: Vec<_> = chat.stream(call).await.unwrap().map(Result::unwrap).collect().await;
                assert!(chunks.iter().flat_map(|chunk| &chunk.choices).any(|choice| choice.index == 1));
            }
        }
        let stored = exchanges(&storage.store, &id).await;
        assert_eq!(tests::prompt(&stored[0].exchange.messages), ["user: u", "assistant: heads"]);
        assert_eq!(stored[0].exchange.finish_reason.as_deref(), Some("stop"));
    }
}
