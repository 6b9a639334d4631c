//! Items that somebody changed, swapped or moved in the store.

use proptest::prelude::*;
use tokio::runtime::Runtime;
use tower_chat_history::{
    MemoryStore,
    encryption::{EncryptedStore, OpenError},
};
use tower_chat_history_core::{
    Append, ConversationId, Exchange, Expect, HistoryStore, Recorded, Sealed, Seq, StoreError, Timestamp,
};

use crate::support::{append, id, in_memory, keys, read_at, turn};

/// Returns an encrypted store whose conversation has these sealed exchanges in place of its own. The keys are the same.
async fn with_log(
    store: &EncryptedStore<MemoryStore>,
    id: &ConversationId,
    log: impl IntoIterator<Item = Exchange>,
) -> EncryptedStore<MemoryStore> {
    let inner = MemoryStore::new();
    for sealed in log {
        inner.append(id, Append::new(Expect::AnyOrCreate, sealed)).await.unwrap();
    }
    EncryptedStore::new(inner, store.keys().clone())
}

/// Returns the log as the inner store has it.
async fn sealed_log(store: &EncryptedStore<MemoryStore>, id: &ConversationId) -> Vec<Exchange> {
    let page = store.inner().read(id, Seq::FIRST, 100).await.unwrap();
    page.exchanges.into_iter().map(|Recorded { exchange, .. }| (*exchange).clone()).collect()
}

/// Returns the error of an exchange that must not open. It must name the position.
async fn refused(store: &EncryptedStore<MemoryStore>, id: &ConversationId, seq: Seq) -> OpenError {
    match read_at(store, id, seq).await {
        Err(StoreError::Corrupt { seq: found, source, .. }) if found == seq => *source.downcast().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Returns the id of the key that is named in a sealed exchange.
fn key_of(exchange: &Exchange) -> String {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    let bytes = URL_SAFE_NO_PAD.decode(exchange.sealed.as_ref().unwrap().text()).unwrap();
    bytes[1..9].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn with_text(mut exchange: Exchange, text: String) -> Exchange {
    let sealed = exchange.sealed.unwrap();
    exchange.sealed = Some(Sealed::new(text, sealed.messages(), sealed.bytes(), sealed.media_bytes()).unwrap());
    exchange
}

#[tokio::test]
async fn every_change_of_a_single_bit_is_an_error_that_names_the_position() {
    let (store, id) = (in_memory(), id("acme/anna/1"));
    append(&store, &id, turn("a")).await;
    append(&store, &id, turn("b")).await;
    let log = sealed_log(&store, &id).await;
    let (text, key) = (log[1].sealed.as_ref().unwrap().text().to_owned(), key_of(&log[1]));
    let mut named = 0;
    for bit in 0..text.len() * 8 {
        let mut bytes = text.clone().into_bytes();
        bytes[bit / 8] ^= 1 << (bit % 8);
        // A text of the store is UTF-8.
        let Ok(changed) = String::from_utf8(bytes) else { continue };
        let changed = with_log(&store, &id, [log[0].clone(), with_text(log[1].clone(), changed)]).await;
        assert!(read_at(&changed, &id, Seq::FIRST).await.is_ok(), "the other exchange still opens");
        let error = refused(&changed, &id, Seq::new(1)).await.to_string();
        // The first 12 characters are the version and the id of the key. If they are changed, another key is named.
        if bit / 8 >= 12 {
            assert!(error.contains(&key), "bit {bit}: {error}");
            named += 1;
        }
    }
    assert!(named > 1000, "{named}");
}

#[tokio::test]
async fn an_exchange_at_another_position_or_of_another_conversation_does_not_open() {
    let (store, id, other) = (in_memory(), id("acme/anna/1"), id("acme/anna/2"));
    for text in ["a", "b"] {
        append(&store, &id, turn(text)).await;
        append(&store, &other, turn(text)).await;
    }
    let (log, log_of_other) = (sealed_log(&store, &id).await, sealed_log(&store, &other).await);
    let key = key_of(&log[0]);
    let swapped = with_log(&store, &id, [log[1].clone(), log[0].clone()]).await;
    let foreign = with_log(&store, &id, [log[0].clone(), log_of_other[1].clone()]).await;
    // The same exchange id, so that only the content is that of the other conversation.
    let text = log_of_other[1].sealed.as_ref().unwrap().text().to_owned();
    let content = with_log(&store, &id, [log[0].clone(), with_text(log[1].clone(), text)]).await;
    for (store, seq) in [(swapped, 0), (foreign, 1), (content, 1)] {
        let error = refused(&store, &id, Seq::new(seq)).await;
        assert!(matches!(error, OpenError::Changed { .. }), "{error:?}");
        assert!(error.to_string().contains(&key), "{error}");
    }
}

#[tokio::test]
async fn changed_visible_properties_are_errors() {
    let (store, id) = (in_memory(), id("acme/anna/1"));
    append(&store, &id, turn("a")).await;
    append(&store, &id, turn("b")).await;
    let log = sealed_log(&store, &id).await;
    let sealed = log[1].sealed.clone().unwrap();
    let sized = |messages, bytes, media| Some(Sealed::new(sealed.text().to_owned(), messages, bytes, media).unwrap());
    let change = |change: &dyn Fn(&mut Exchange)| {
        let mut exchange = log[1].clone();
        change(&mut exchange);
        exchange
    };
    let changed = [
        change(&|exchange| exchange.at = Timestamp::from_unix_millis(7)),
        change(&|exchange| exchange.continues = Some(Seq::FIRST)),
        change(&|exchange| exchange.sealed = sized(sealed.messages() + 1, sealed.bytes(), 0)),
        change(&|exchange| exchange.sealed = sized(sealed.messages(), sealed.bytes() - 1, 0)),
        change(&|exchange| exchange.sealed = sized(sealed.messages(), sealed.bytes(), 1)),
        change(&|exchange| exchange.id = turn("").id),
    ];
    for changed in changed {
        let store = with_log(&store, &id, [log[0].clone(), changed]).await;
        let error = refused(&store, &id, Seq::new(1)).await.to_string();
        assert!(error.contains(&key_of(&log[1])), "{error}");
    }
}

#[tokio::test]
async fn an_exchange_that_is_not_sealed_is_an_error() {
    let (store, id) = (in_memory(), id("acme/anna/1"));
    let store = with_log(&store, &id, [turn("planted by somebody else")]).await;
    assert!(matches!(refused(&store, &id, Seq::FIRST).await, OpenError::NotSealed { .. }));
}

#[tokio::test]
async fn keys_of_another_vault_open_nothing_and_the_error_names_the_key() {
    let (store, id) = (in_memory(), id("acme/anna/1"));
    append(&store, &id, turn("a")).await;
    let key = key_of(&sealed_log(&store, &id).await[0]);
    let other = EncryptedStore::new(store.inner().clone(), keys(&Default::default()));
    let error = refused(&other, &id, Seq::FIRST).await;
    assert!(matches!(error, OpenError::Key { .. }) && error.to_string().contains(&key), "{error:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Any number of positions of sealed logs are replaced by sealed exchanges from anywhere.
    #[test]
    fn an_exchange_opens_at_its_own_place_only(
        moves in prop::collection::vec((0..3_usize, 0..4_usize, 0..3_usize, 0..4_usize), 1..4),
    ) {
        Runtime::new().unwrap().block_on(async {
            let store = in_memory();
            let ids = [id("acme/anna/1"), id("acme/anna/2"), id("acme/ben/1")];
            let mut logs = Vec::new();
            for id in &ids {
                for n in 0..4 {
                    append(&store, id, turn(&format!("{n}"))).await;
                }
                logs.push(sealed_log(&store, id).await);
            }
            let mut changed = logs.clone();
            for (to, at, from, of) in moves {
                let text = logs[from][of].sealed.as_ref().unwrap().text().to_owned();
                changed[to][at] = with_text(logs[to][at].clone(), text);
            }
            for ((id, log), was) in ids.iter().zip(&changed).zip(&logs) {
                let store = with_log(&store, id, log.iter().cloned()).await;
                for (seq, (now, was)) in (0..).zip(log.iter().zip(was)) {
                    let opened = read_at(&store, id, Seq::new(seq)).await;
                    assert_eq!(opened.is_ok(), now == was, "{id} at {seq}");
                }
            }
        });
    }
}
