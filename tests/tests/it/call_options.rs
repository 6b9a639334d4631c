//! The options of a call, in the typed integration.

use tests::{BOTH_KINDS, Chat, Storage, exchanges, log, over_every_store, prompts, request, user_call};
use tower_chat_history::{
    HistoryStoreExt as _, InConversation, Message,
    report::{NotStored, TurnOutcome},
    store::Seq,
};
use tower_chat_history_test::Reply;

over_every_store! {
    #[tokio::test]
    few_shot_messages_are_sent_first_and_never_stored,
    a_call_with_dont_store_is_not_stored,
    a_call_can_store_another_input,
    a_call_can_store_shorter_results,
    fields_without_a_type_are_left_out_and_reported,
}

async fn few_shot_messages_are_sent_first_and_never_stored(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, ["a0", "a1"].map(Reply::text)), storage.conversation());
        for text in ["u0", "u1"] {
            let shots = [Message::system("S"), Message::user("2 + 2"), Message::assistant("4"), Message::user(text)];
            chat.call(kind, InConversation::new(id.clone(), request(shots)).few_shot_messages(2)).await.unwrap();
        }
        let shots = ["system: S", "user: 2 + 2", "assistant: 4"];
        assert_eq!(prompts(&chat.llm)[1], [&shots[..], &["user: u0", "assistant: a0", "user: u1"]].concat());
        assert_eq!(log(&storage.store, &id).await, ["user: u0", "assistant: a0", "user: u1", "assistant: a1"]);
    }
}

async fn a_call_with_dont_store_is_not_stored(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, ["a0", "a title", "a1"].map(Reply::text)), storage.conversation());
        chat.ask(kind, &id, "u0").await.unwrap();
        let (call, report) = user_call(&id, "a title for this?").dont_store().with_report();
        assert_eq!(chat.call(kind, call).await.unwrap(), "a title");
        assert!(matches!(report.await.unwrap().outcome, TurnOutcome::NotStored(NotStored::Asked)));
        chat.ask(kind, &id, "u1").await.unwrap();
        assert_eq!(prompts(&chat.llm)[1], ["user: u0", "assistant: a0", "user: a title for this?"]);
        assert_eq!(prompts(&chat.llm)[2], ["user: u0", "assistant: a0", "user: u1"]);
    }
}

async fn a_call_can_store_another_input(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, ["a0", "a1"].map(Reply::text)), storage.conversation());
        let long = user_call(&id, "u0, and ten pages of documents").store_instead([Message::user("u0")]);
        chat.call(kind, long).await.unwrap();
        chat.ask(kind, &id, "u1").await.unwrap();
        assert_eq!(prompts(&chat.llm)[0], ["user: u0, and ten pages of documents"]);
        assert_eq!(prompts(&chat.llm)[1], ["user: u0", "assistant: a0", "user: u1"]);
    }
}

async fn a_call_can_store_shorter_results(storage: Storage) {
    for kind in BOTH_KINDS {
        let replies = [Reply::calls([("x", "f", "{}")]), Reply::text("a")];
        let (chat, id) = (Chat::new(&storage, replies), storage.conversation());
        chat.ask(kind, &id, "u").await.unwrap();
        let results = || InConversation::new(id.clone(), request([Message::tool("x", "ten pages")]));
        // The stored messages must fit the conversation, like the sent ones.
        let misfit = chat.call(kind, results().store_instead([Message::tool("y", "short")])).await.unwrap_err();
        assert!(matches!(tests::input_error(&misfit), tower_chat_history::error::InputError::UnexpectedResult { .. }));
        chat.call(kind, results().store_instead([Message::tool("x", "short")])).await.unwrap();
        let stored = exchanges(&storage.store, &id).await;
        assert_eq!(tests::prompt(&stored[1].exchange.messages), ["tool x: short", "assistant: a"]);
        assert_eq!(stored[1].exchange.continues, Some(Seq::FIRST));
    }
}

async fn fields_without_a_type_are_left_out_and_reported(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, [Reply::text("a")]), storage.conversation());
        let log = [
            r#"{"role":"user","content":"u0"}"#,
            r#"{"role":"assistant","content":"a0","reasoning_content":"r"}"#,
            r#"{"role":"user","content":"u1"}"#,
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"t"}]}]}"#,
        ];
        let log = log.map(|json| Message::from_json(json).unwrap());
        storage.store.conversation(&id).import(log.clone()).await.unwrap();
        let (call, report) = user_call(&id, "u2").with_report();
        chat.call(kind, call).await.unwrap();
        // A reply of which nothing remains is not sent: the provider would refuse it.
        assert_eq!(prompts(&chat.llm), [["user: u0", "assistant: a0", "user: u1", "user: u2"]]);
        assert_eq!(report.await.unwrap().downgraded, 2);
        assert_eq!(storage.store.conversation(&id).messages().await.unwrap()[..4], log, "the log keeps it");
    }
}
