//! Several processes serve one conversation, each with its own engine and connections.

use tests::{BOTH_KINDS, Chat, Storage, log, over_every_store, prompts};
use tower_chat_history_test::{Replies, Reply};

over_every_store! {
    #[tokio::test(start_paused = true)]
    each_replica_sees_the_exchanges_of_the_other,
    simultaneous_calls_are_both_stored,
}

fn answers() -> Replies {
    Replies::rules(|messages| Reply::text(format!("{} messages", messages.len())))
}

async fn each_replica_sees_the_exchanges_of_the_other(storage: Storage) {
    let other = storage.replica().await;
    let (chats, id) = ([&storage, &other].map(|storage| Chat::new(storage, answers())), storage.conversation());
    let mut turns = 0;
    for kind in BOTH_KINDS.into_iter().cycle().take(10) {
        for chat in &chats {
            // The other replica's turn has ended, so the next request may be sent to either.
            chat.ask(kind, &id, &format!("u{turns}")).await.unwrap();
            let asked = prompts(&chat.llm).pop().unwrap();
            assert_eq!(asked.len(), 2 * turns + 1, "all earlier messages are sent");
            turns += 1;
        }
    }
    let all = (0..turns).flat_map(|n| [format!("user: u{n}"), format!("assistant: {} messages", 2 * n + 1)]);
    assert_eq!(log(&other.store, &id).await, all.collect::<Vec<_>>());
}

async fn simultaneous_calls_are_both_stored(storage: Storage) {
    let other = storage.replica().await;
    let (chats, id) = ([&storage, &other].map(|storage| Chat::new(storage, answers())), storage.conversation());
    for turn in 0..10 {
        let [one, two] = &chats;
        let texts = [format!("a{turn}"), format!("b{turn}")];
        let asked = futures_util::join!(one.ask(BOTH_KINDS[0], &id, &texts[0]), two.ask(BOTH_KINDS[1], &id, &texts[1]));
        assert!(asked.0.is_ok() && asked.1.is_ok());
    }
    let log = log(&storage.store, &id).await;
    assert_eq!(log.len(), 40);
    for pair in log.chunks(2) {
        assert!(pair[0].starts_with("user: ") && pair[1].starts_with("assistant: "), "nothing is interleaved: {log:?}");
    }
}
