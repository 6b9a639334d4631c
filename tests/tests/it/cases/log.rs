//! Logs: broken, damaged, too long.

use rusqlite::Connection;
use tests::{ABANDONED, BOTH_KINDS, Chat, NO_REPLY, Storage, exchanges, history_error, log, over_every_store, prompts};
use tower_chat_history::{
    ContextOptions, HistoryError, HistoryOptions, HistoryStore as _, HistoryStoreExt as _, Message, StoreError,
    store::{Load, LoadLimit, Loaded, Seq},
};
use tower_chat_history_test::{Fault, Op, Reply};

over_every_store! {
    #[tokio::test]
    a_broken_log_is_repaired_in_the_prompt,
    the_error_names_a_corrupt_record,
    a_damaged_row_affects_one_conversation_only,
    a_log_beyond_the_load_limit_starts_at_three_quarters_of_it,
}

async fn a_broken_log_is_repaired_in_the_prompt(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, [Reply::text("a2")]), storage.conversation());
        let calls = |ids: &str| {
            let call = |id| format!(r#"{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{"}}}}"#);
            let calls: Vec<_> = ids.chars().map(call).collect();
            Message::from_json(format!(r#"{{"role":"assistant","tool_calls":[{}]}}"#, calls.join(","))).unwrap()
        };
        let empty_list = Message::from_json(r#"{"role":"assistant","content":"a1","tool_calls":[]}"#).unwrap();
        let broken = [
            Message::tool("x", "orphan"),
            Message::user("u0"),
            calls("xy"),
            Message::tool("y", "ry"),
            Message::tool("y", "again"),
            Message::user("u1"),
            Message::tool("x", "late"),
            Message::assistant(""),
            empty_list,
        ];
        let imported = storage.store.conversation(&id).import(broken.clone()).await.unwrap();
        assert_eq!(imported, 4 - 1);
        assert_eq!(chat.ask(kind, &id, "u2").await.unwrap(), "a2");

        let abandoned = format!("tool x: {ABANDONED}");
        let mut sent = vec!["user: u0", "assistant calls x,y: ", "tool y: ry", &abandoned, NO_REPLY];
        sent.extend(["user: u1", "assistant: a1", "user: u2"]);
        assert_eq!(prompts(&chat.llm), [sent]);
        let messages = storage.store.conversation(&id).messages().await.unwrap();
        assert_eq!(messages[..broken.len()], broken, "byte for byte");
        assert_eq!(tests::prompt(&messages[broken.len()..]), ["user: u2", "assistant: a2"]);
    }
}

async fn the_error_names_a_corrupt_record(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id, other) =
            (Chat::new(&storage, [Reply::text("a")]), storage.conversation(), storage.conversation());
        storage.store.fail(Op::Load, 1, Fault::Corrupt);
        let error = chat.ask(kind, &id, "u").await.unwrap_err();
        let HistoryError::Load(StoreError::Corrupt { conversation, seq, .. }) = history_error(&error) else {
            panic!("{error}")
        };
        assert_eq!((conversation, *seq), (&id, Seq::FIRST));
        let why = error.to_string();
        assert!(why.contains("exchange 0 cannot be read"), "{why}");
        assert!(!why.contains(id.as_str()), "ids are private: {why}");
        assert!(chat.llm.requests().is_empty() && log(&storage.store, &id).await.is_empty());
        chat.ask(kind, &other, "u").await.unwrap();
    }
}

/// The same with a record that is damaged in the file, if the store has a file.
async fn a_damaged_row_affects_one_conversation_only(storage: Storage) {
    let Some(file) = storage.file() else { return };
    let chat = Chat::new(&storage, ["a0", "a1", "b0", "b1"].map(Reply::text));
    let [damaged, whole] = [storage.conversation(), storage.conversation()];
    let [unary, stream] = BOTH_KINDS;
    chat.ask(unary, &damaged, "u0").await.unwrap();
    chat.ask(unary, &damaged, "u1").await.unwrap();
    chat.ask(unary, &whole, "u0").await.unwrap();
    let sql = "UPDATE exchange SET body = '{secret' WHERE seq = 1";
    Connection::open(file).unwrap().execute_batch(sql).unwrap();
    for kind in BOTH_KINDS {
        let error = chat.ask(kind, &damaged, "u2").await.unwrap_err();
        let HistoryError::Load(StoreError::Corrupt { conversation, seq, .. }) = history_error(&error) else {
            panic!("{error}")
        };
        assert_eq!((conversation, *seq), (&damaged, Seq::new(1)));
        assert!(!format!("{error:?}").contains("secret"));
    }
    assert_eq!(chat.ask(stream, &whole, "u1").await.unwrap(), "b1");
    assert_eq!(storage.store.read(&damaged, Seq::FIRST, 1).await.unwrap().exchanges.len(), 1);
}

/// A short log and a low limit. Invariant 9 is tested with a long log.
async fn a_log_beyond_the_load_limit_starts_at_three_quarters_of_it(storage: Storage) {
    for kind in BOTH_KINDS {
        let options =
            HistoryOptions::new().context(ContextOptions::new().load_limit(LoadLimit::new(20, 1 << 20).unwrap()));
        let (chat, id) = (Chat::with_options(&storage, [Reply::text("a")], options), storage.conversation());
        let messages = (0..50).flat_map(|turn| [Message::user(format!("u{turn}")), Message::assistant("a")]);
        storage.store.conversation(&id).import(messages).await.unwrap();
        chat.ask(kind, &id, "u50").await.unwrap();
        let sent = &prompts(&chat.llm)[0];
        assert_eq!((sent.len(), sent[0].as_str()), (14 + 1, "user: u43"));
        let Loaded::Window(window) = storage.store.load(&id, Load::new()).await.unwrap() else { panic!() };
        assert_eq!(window.compaction.unwrap().window_start, Seq::new(43));
        assert_eq!(exchanges(&storage.store, &id).await.len(), 51, "the log keeps everything");
    }
}
