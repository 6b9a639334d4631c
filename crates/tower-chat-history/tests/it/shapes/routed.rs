//! A routed store reaches all of its inner stores.

use std::sync::Arc;

use tower_chat_history::{
    ConversationId, HistoryStoreExt as _, MemoryStore, Message, RoutedStore,
    error::OptionError,
    store::{Erase, EraseExt as _, ForkError, List, OtherStore, Prefix, Prune, Receipt, Seq, StoreError, Truncate},
};
use tower_chat_history_conformance::store::Handle;
use tower_chat_history_test::{Fault, FaultStore, Op};

use super::{id, log};

/// Returns one of two stores. Each gets about half of the conversations.
fn pick<S: Clone>(stores: &[S; 2], id: &ConversationId) -> S {
    let sum: usize = id.as_str().bytes().map(usize::from).sum();
    stores[sum % stores.len()].clone()
}

#[tokio::test]
async fn a_list_of_stores_is_listed_and_erased_as_one() {
    let (one, two) = (MemoryStore::new(), MemoryStore::new());
    let is_in_two = |id: &ConversationId| id.as_str().ends_with(['1', '3', '5', '7', '9']);
    let stores = [("one", one.clone()), ("two", two.clone())];
    let routed = RoutedStore::over(stores, move |id| usize::from(is_in_two(id))).unwrap();
    for number in 0..30 {
        let id = id(&["acme", &format!("{number:02}")]);
        routed.conversation(&id).import([Message::user("u"), Message::assistant("a")]).await.unwrap();
    }
    // The closure does not choose this store for the conversation, so no call finds it, but an erasure does.
    let lost = id(&["acme", "01-lost-2"]);
    two.conversation(&lost).import([Message::user("u"), Message::assistant("a")]).await.unwrap();
    let acme: Prefix = "acme".parse().unwrap();
    for limit in 1..12 {
        let found = listed(&routed, &acme, limit).await;
        assert_eq!(found, (0..30).map(|number| format!("acme/{number:02}")).collect::<Vec<_>>(), "{limit}");
    }
    let receipt = routed.erase_all(&acme).await.unwrap();
    let removed: Vec<_> = receipt.removed.iter().map(|(name, removed)| (name, removed.conversations)).collect();
    assert_eq!(removed, [("one", 15), ("two", 16)]);
    assert!(receipt.is_complete());
}

/// Lists all pages. Returns the ids.
async fn listed(routed: &impl List, under: &Prefix, limit: usize) -> Vec<String> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = routed.list(under, after.as_ref(), limit).await.unwrap();
        assert!(page.len() <= limit);
        found.extend(page.conversations.into_iter().map(|listed| listed.id.to_string()));
        after = page.next;
        if after.is_none() {
            return found;
        }
    }
}

/// A page may end between two copies of one conversation, of which only one counts.
#[tokio::test]
async fn a_conversation_of_which_each_store_has_a_copy_is_listed_once() {
    let [one, two] = [MemoryStore::new(), MemoryStore::new()];
    for number in 0..8 {
        let id = id(&["acme", &number.to_string()]);
        for store in [&one, &two] {
            store.conversation(&id).import([Message::user("u"), Message::assistant("a")]).await.unwrap();
        }
    }
    let expected: Vec<_> = (0..8).map(|number| format!("acme/{number}")).collect();
    for chosen in 0..4 {
        let stores = [("one", one.clone()), ("two", two.clone())];
        let choose = move |id: &ConversationId| match chosen {
            0 | 1 => chosen,
            _ => usize::from(id.as_str().ends_with(['1', '2', '5', '6'])) + chosen,
        };
        let routed = RoutedStore::over(stores, choose).unwrap();
        for limit in 1..20 {
            assert_eq!(listed(&routed, &"acme".parse().unwrap(), limit).await, expected, "{limit} a page, {chosen}");
        }
    }
}

/// A repetition does not find again what was erased in one store.
#[tokio::test]
async fn the_receipt_of_an_erasure_that_failed_in_one_store_has_what_was_erased_in_the_others() {
    let [one, two] = [MemoryStore::new(), MemoryStore::new()];
    let failing = FaultStore::new(two.clone());
    let stores: [(&str, Arc<dyn Erase>); 2] = [("one", Arc::new(one)), ("two", Arc::new(failing.clone()))];
    let routed = RoutedStore::over(stores, |id: &ConversationId| usize::from(id.as_str() > "acme/3")).unwrap();
    for number in 0..8 {
        let id = id(&["acme", &number.to_string()]);
        routed.conversation(&id).import([Message::user("u"), Message::assistant("a")]).await.unwrap();
    }
    failing.fail(Op::Erase, 1, Fault::Backend);
    let under = Prefix::all();
    let error = routed.erase_all(&under).await.unwrap_err();
    assert!(matches!(error.source, StoreError::Backend { .. }), "{error:?}");
    let again = routed.erase_all(&under).await.unwrap();
    let removed = |receipt: &Receipt| {
        receipt.removed.iter().map(|(name, one)| (name.to_owned(), one.conversations)).collect::<Vec<_>>()
    };
    assert_eq!(removed(&error.done), [("one".into(), 4), ("two".into(), 0)]);
    assert_eq!(removed(&again), [("one".into(), 0), ("two".into(), 4)]);
    assert!(again.is_complete());
}

/// An erasure asks each store for its own conversations, so a listing that fails does not prevent it.
#[tokio::test]
async fn an_erasure_of_a_routed_store_does_not_list() {
    let inner = [MemoryStore::new(), MemoryStore::new(), MemoryStore::new()];
    let failing = inner.clone().map(FaultStore::new);
    failing.iter().for_each(|store| store.fail(Op::List, 1_000, Fault::Backend));
    let [one, two, three] = failing;
    let stores = [("one", one), ("two", two), ("three", three)];
    let routed = RoutedStore::over(stores, |id: &ConversationId| id.as_str().len()).unwrap();
    for limit in 1..9 {
        for number in 0..20_usize {
            let id = id(&["acme", &"x".repeat(number + 1)]);
            routed.conversation(&id).import([Message::user("u"), Message::assistant("a")]).await.unwrap();
        }
        let (mut removed, mut after) = (0, None);
        loop {
            let page = routed.erase(&"acme".parse().unwrap(), after.as_ref(), limit).await.unwrap();
            let erased = page.removed.total().conversations;
            assert!(erased <= limit.max(3) as u64, "{erased} of {limit}");
            removed += erased;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(removed, 20, "{limit} a page");
    }
}

#[test]
fn a_list_needs_stores_with_different_names() {
    let choose = |_: &ConversationId| 0;
    let none: [(&str, MemoryStore); 0] = [];
    assert_eq!(RoutedStore::over(none, choose).unwrap_err(), OptionError::NoStore);
    let twice = [("a", MemoryStore::new()), ("a", MemoryStore::new())];
    let error = RoutedStore::over(twice, choose).unwrap_err();
    assert_eq!(error, OptionError::RepeatedStore { name: "a".into() });
}

#[tokio::test]
async fn stores_that_can_prune_are_pruned() {
    let stores: [Arc<dyn Prune>; 2] = [Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new())];
    let routed = RoutedStore::new(move |id: &ConversationId| pick(&stores, id));
    let handle = Handle::new(routed.clone()).prune(routed);
    let left_out = tower_chat_history_conformance::store::all(&handle).await;
    assert!(!left_out.contains(&"prune::the_last_turns_are_kept"), "{left_out:?}");
}

#[tokio::test]
async fn truncation_reaches_the_store_that_has_the_conversation() {
    let (acme, other) = (MemoryStore::new(), MemoryStore::new());
    let stores: [Arc<dyn Truncate>; 2] = [Arc::new(acme.clone()), Arc::new(other.clone())];
    let routed = RoutedStore::new(move |id: &ConversationId| {
        let at = usize::from(id.parts().next().as_deref() != Some("acme"));
        Arc::clone(&stores[at])
    });

    // Both stores have this conversation; only one of them is the routed store's.
    let id = id(&["acme", "1"]);
    for store in [&acme, &other] {
        let turns = ["a", "b"].map(|text| [Message::user(text), Message::assistant(text)]);
        store.conversation(&id).import(turns.into_iter().flatten()).await.unwrap();
    }
    let taken = routed.conversation(&id).take_last().await.unwrap().unwrap();
    assert_eq!(taken.exchange.messages[0].text(), "b");
    assert_eq!(log(&acme, &id).await, ["a", "a"]);
    assert_eq!(log(&other, &id).await, ["a", "a", "b", "b"]);
}

#[tokio::test]
async fn a_fork_stays_in_its_store() {
    let stores = [("acme", MemoryStore::new()), ("others", MemoryStore::new())];
    let is_other = |id: &ConversationId| id.parts().next().as_deref() != Some("acme");
    let routed = RoutedStore::over(stores, move |id| usize::from(is_other(id))).unwrap();
    let (of_acme, copy, of_other) = (id(&["acme", "1"]), id(&["acme", "2"]), id(&["other", "1"]));
    routed.conversation(&of_acme).import([Message::user("u"), Message::assistant("a")]).await.unwrap();
    assert_eq!(routed.conversation(&of_acme).fork(Seq::new(1), &copy).await.unwrap(), 1);
    assert_eq!(log(&routed.route(&copy), &copy).await, ["u", "a"]);

    let refused = routed.conversation(&of_acme).fork(Seq::new(1), &of_other).await.unwrap_err();
    let ForkError::Store(StoreError::Backend { source }) = refused else { panic!("{refused:?}") };
    let error: &OtherStore = source.downcast_ref().unwrap();
    assert_eq!((error.store.as_str(), error.other.as_str()), ("acme", "others"));
    assert!(error.to_string().contains("export the conversation, and import it"), "{error}");
    assert!(routed.conversation(&of_other).is_empty().await.unwrap());
}
