//! Recall over the conversations of a user, through the layer: never of another user or tenant, and erased with them.

use std::{num::NonZeroUsize, sync::Arc};

use tests::{CallKind, Chat, Storage, exchanges, over_every_store, prompts, user_call};
use tower_chat_history::{
    ConversationId, HistoryOptions, HistoryStoreExt as _, Message,
    recall::{Analyzer, LogRecall, LogSearch, RecallOptions, SearchScope},
    store::{Citation, Erase as _, EraseExt as _, Prefix, Recalled, Seq, erase_quotes},
};
use tower_chat_history_test::{Replies, Reply};

over_every_store! {
    #[tokio::test]
    a_turn_recalls_from_conversations_of_the_same_user_only,
    an_erasure_of_a_user_leaves_no_quote,
    quotes_of_an_erased_conversation_are_removed_in_steps,
}

/// Ids that collide if parts are not compared whole.
const TENANTS: [&str; 6] = ["acme", "acme-2", "acme/x", "acme%2Fx", "acm", "acme.x"];
const USERS: [&str; 3] = ["ann", "ann-2", "ann/1"];
const QUESTION: &str = "What is my dog called?";

fn id(tenant: &str, user: &str, chat: &str) -> ConversationId {
    ConversationId::new([tenant, user, chat]).unwrap()
}

/// Tells the name of the user's dog, and much else.
async fn tell(storage: &Storage, id: &ConversationId, name: &str) {
    let mut messages = vec![Message::user(format!("My dog is called {name}.")), Message::assistant("A good name!")];
    messages.extend((0..30).flat_map(|n| [Message::user(format!("Chapter {n}")), Message::assistant("Read.")]));
    storage.store.conversation(id).import(messages).await.unwrap();
}

/// Returns a chat whose recall covers all conversations of a user.
fn chat(storage: &Storage) -> Chat {
    let scope = SearchScope::parts(NonZeroUsize::new(2).unwrap());
    let search = LogSearch::under(Arc::new(storage.store.clone()), Analyzer::default(), scope);
    let timeout = std::time::Duration::from_secs(60);
    let options = HistoryOptions::new().recall(RecallOptions::new(LogRecall::from(search)).timeout(timeout));
    Chat::with_options(storage, Replies::rules(|_| Reply::text("I see.")), options)
}

async fn recalled(storage: &Storage, id: &ConversationId) -> Vec<Recalled> {
    exchanges(&storage.store, id).await.iter().filter_map(|recorded| recorded.exchange.recalled.clone()).collect()
}

pub(crate) async fn a_turn_recalls_from_conversations_of_the_same_user_only(storage: Storage) {
    let name = |tenant: usize, user: usize| format!("Rex{tenant}x{user}");
    for (tenant, number) in TENANTS.iter().zip(0..) {
        for (user, at) in USERS.iter().zip(0..) {
            tell(&storage, &id(tenant, user, "told"), &name(number, at)).await;
        }
    }
    let chat = chat(&storage);
    for (tenant, number) in TENANTS.iter().zip(0..) {
        for (user, at) in USERS.iter().zip(0..) {
            let new = id(tenant, user, "new");
            let (call, report) = user_call(&new, QUESTION).with_report();
            chat.call(CallKind::Unary, call).await.unwrap();
            let prompt = prompts(&chat.llm).pop().unwrap().join("\n");
            for other in 0..TENANTS.len() * USERS.len() {
                let (of_tenant, of_user) = (other / USERS.len(), other % USERS.len());
                let is_own = (of_tenant, of_user) == (number, at);
                assert_eq!(
                    prompt.contains(&format!("called {}.", name(of_tenant, of_user))),
                    is_own,
                    "{new}: {prompt}"
                );
            }
            let report = report.await.unwrap().recall.clone().unwrap();
            assert_eq!((report.conversations, report.failed_conversations), (1, 0));
            let stored = recalled(&storage, &new).await;
            assert_eq!(stored[0].citations[0], Citation::new(Seq::FIRST, 0..2).of(id(tenant, user, "told")));
        }
    }
}

async fn an_erasure_of_a_user_leaves_no_quote(storage: Storage) {
    let chat = chat(&storage);
    for user in ["ann", "ann-2"] {
        tell(&storage, &id("acme", user, "told"), &format!("Rex of {user}")).await;
        chat.call(CallKind::Unary, user_call(&id("acme", user, "asked"), QUESTION)).await.unwrap();
        assert_eq!(recalled(&storage, &id("acme", user, "asked")).await.len(), 1);
    }
    let ann = Prefix::new(["acme", "ann"]).unwrap();
    assert!(storage.store.erase_all(&ann).await.unwrap().is_complete());
    assert!(storage.store.count(&ann).await.unwrap().total().is_nothing());
    let (call, report) = user_call(&id("acme", "ann", "again"), QUESTION).with_report();
    chat.call(CallKind::Unary, call).await.unwrap();
    assert_eq!(report.await.unwrap().recall.as_ref().map(|recall| recall.messages), Some(0));
    assert_eq!(recalled(&storage, &id("acme", "ann-2", "asked")).await.len(), 1, "another user's stays");
}

async fn quotes_of_an_erased_conversation_are_removed_in_steps(storage: Storage) {
    let chat = chat(&storage);
    for user in ["ann", "ann-2"] {
        tell(&storage, &id("acme", user, "told"), "Rex").await;
        tell(&storage, &id("acme", user, "zoo"), "Bello").await;
        chat.call(CallKind::Unary, user_call(&id("acme", user, "asked"), QUESTION)).await.unwrap();
    }
    let [asked, told, zoo] = ["asked", "told", "zoo"].map(|chat| id("acme", "ann", chat));
    let log = storage.store.conversation(&asked).messages().await.unwrap();
    assert!(storage.store.erase_all(&Prefix::from(&told)).await.unwrap().is_complete());
    assert!(recalled(&storage, &asked).await[0].message.text().contains("Rex"), "an erasure leaves the quote");

    let (user, mut after, mut sums) = (Prefix::new(["acme", "ann"]).unwrap(), None, (0, 0, 0));
    loop {
        let run = erase_quotes(&storage.store, &user, after.as_ref(), 1).await.unwrap();
        sums = (sums.0 + run.examined, sums.1 + run.changed, sums.2 + 1);
        after = run.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((sums.0, sums.1), (2, 1));
    assert!(sums.2 >= 2, "{sums:?}");
    for handle in [&storage, &storage.replica().await] {
        assert_eq!(recalled(handle, &asked).await, []);
        assert_eq!(handle.store.conversation(&asked).messages().await.unwrap(), log);
        assert_eq!(handle.store.conversation(&zoo).messages().await.unwrap().len(), 62);
        assert_eq!(recalled(handle, &id("acme", "ann-2", "asked")).await.len(), 1, "another user's stays");
    }
    let again = erase_quotes(&storage.store, &user, None, 100).await.unwrap();
    assert_eq!((again.examined, again.changed, again.next), (2, 0, None));
    chat.call(CallKind::Unary, user_call(&asked, "And?")).await.unwrap();
}
