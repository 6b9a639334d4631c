//! Each batched call gets its own answer, and a batch costs one round trip.

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{
    Append, Appended, Citation, CompactOutcome, CompactionVersion, Expect, HistoryStore, Load, LoadLimit, Loaded,
    Origin, Provenance, Recalled, Seq, StoreError,
};

use super::{at_once, conversations};
use crate::{
    proxy::Proxy,
    support::{append, compact, conversation, database, exchange, say, single, texts, window},
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        loads_that_wait_share_round_trips,
        appends_that_wait_share_round_trips,
        each_load_has_its_own_answer,
        each_append_has_its_own_answer,
        recalled_messages_and_provenances_are_appended_and_loaded_in_batches,
        appends_to_one_conversation_follow_each_other,
        of_appends_that_expect_the_same_revision_one_is_stored,
    ]
}

async fn loads_that_wait_share_round_trips() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let ids = conversations(40);
    for id in &ids {
        say(&store, id, id.as_str()).await;
    }
    at_once(&store, ids.iter().take(2).map(|id| store.load(id, Load::new()))).await;
    proxy.trips();
    let loaded = at_once(&store, ids.iter().map(|id| store.load(id, Load::new()))).await;
    assert_eq!(proxy.trips(), 3, "16, 16 and 8");
    for (id, loaded) in ids.iter().zip(loaded) {
        let Ok(Loaded::Window(window)) = loaded else { panic!("{loaded:?}") };
        assert_eq!(window.exchanges[0].exchange.messages[0].text(), id.as_str());
    }
}

async fn appends_that_wait_share_round_trips() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let ids = conversations(40);
    at_once(&store, ids.iter().take(2).map(|id| store.append(id, append("one")))).await;
    proxy.trips();
    let appended = at_once(&store, ids.iter().map(|id| store.append(id, append(id.as_str())))).await;
    assert_eq!(proxy.trips(), 3, "16, 16 and 8");
    for (number, (id, appended)) in ids.iter().zip(appended).enumerate() {
        assert_eq!(appended.unwrap().seq.get(), u64::from(number < 2));
        assert_eq!(texts(&store, id).await.last().unwrap(), id.as_str());
    }
}

async fn each_load_has_its_own_answer() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let [absent, known, changed, recorded, cut] = ["absent", "known", "changed", "recorded", "cut"].map(conversation);
    for id in [&known, &changed, &recorded, &cut] {
        say(&store, id, "one").await;
    }
    let of = async |id| {
        let window = window(&store, id).await;
        Load::new().known(window.known())
    };
    let (of_known, of_changed) = (of(&known).await, of(&changed).await);
    say(&store, &changed, "two").await;
    let again = append("again");
    store.append(&recorded, again.clone()).await.unwrap();
    let (small, large) = ("small", "large ".repeat(1000));
    say(&store, &cut, &large).await;
    say(&store, &cut, small).await;
    let little = LoadLimit::new(100, 1000).unwrap();
    let loads = [
        (&absent, Load::new()),
        (&known, of_known),
        (&changed, of_changed),
        (&recorded, Load::new().exchange(again.exchange.id.clone())),
        (&cut, Load::new().limit(little)),
        (&cut, Load::new()),
    ];
    let mut alone = Vec::new();
    for (id, load) in &loads {
        alone.push(store.load(id, load.clone()).await.unwrap());
    }
    assert!(&alone[0].is_absent());
    assert!(matches!(&alone[1], Loaded::Unchanged));
    assert!(matches!(&alone[2], Loaded::Window(window) if window.exchanges.len() == 2));
    assert!(matches!(&alone[3], Loaded::AlreadyRecorded(found) if found.exchange.id == again.exchange.id));
    assert!(matches!(&alone[4], Loaded::Window(window) if window.truncated && window.exchanges.len() == 1));
    assert!(matches!(&alone[5], Loaded::Window(window) if window.exchanges.len() == 3));
    at_once(&store, loads.iter().map(|(id, load)| store.load(id, load.clone()))).await;
    proxy.trips();
    let together = at_once(&store, loads.iter().map(|(id, load)| store.load(id, load.clone()))).await;
    assert_eq!(together.into_iter().map(Result::unwrap).collect::<Vec<_>>(), alone);
    assert_eq!(proxy.trips(), 1);
}

async fn each_append_has_its_own_answer() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let ids = conversations(8);
    let prepares = conversation("prepares");
    at_once(&store, ["x", "y"].map(|text| store.append(&prepares, append(text)))).await;
    let mut revisions = Vec::new();
    let again = append("again");
    for id in &ids[1..] {
        store.append(id, again.clone()).await.unwrap();
        revisions.push(say(&store, id, "two").await.revision);
    }
    let compacting = |replaces| append("three").compact(compact(CompactionVersion::new(replaces), 1));
    let stale = window(&store, &ids[1]).await.revision;
    say(&store, &ids[1], "newer").await;
    let continues = exchange("no end").continuing(Seq::new(7));
    proxy.trips();
    let answers = at_once(
        &store,
        [
            store.append(&ids[0], append("first")),
            store.append(&ids[1], Append::new(Expect::Exactly(stale), exchange("stale"))),
            store.append(&ids[2], again),
            store.append(&ids[3], compacting(0)),
            store.append(&ids[4], compacting(7)),
            store.append(&ids[5], Append::new(Expect::AnyOrCreate, continues)),
            store.append(&ids[6], Append::new(Expect::Absent, exchange("there is one"))),
            store.append(&ids[7], Append::new(Expect::AnyIn(revisions[6].incarnation()), exchange("three"))),
        ],
    )
    .await;
    assert_eq!(proxy.trips(), 1);
    let [first, stale, again, compacted, kept, unknown, exists, any] = answers.try_into().unwrap();
    let stored = |answer: Result<Appended, StoreError>| (answer.as_ref().unwrap().duplicate, answer.unwrap().seq.get());
    assert_eq!(stored(first), (false, 0));
    assert!(matches!(stale, Err(StoreError::Conflict { .. })), "{stale:?}");
    assert_eq!(stored(again), (true, 0));
    assert_eq!(compacted.unwrap().compaction, Some(CompactOutcome::Stored(CompactionVersion::new(1))));
    let kept = kept.unwrap();
    assert_eq!((kept.seq, kept.compaction), (Seq::new(2), Some(CompactOutcome::Kept(None))));
    assert!(matches!(unknown, Err(StoreError::ContinuesUnknown { len: 2, .. })), "{unknown:?}");
    assert!(matches!(exists, Err(StoreError::Conflict { .. })), "{exists:?}");
    assert_eq!(stored(any), (false, 2));
}

async fn recalled_messages_and_provenances_are_appended_and_loaded_in_batches() {
    let store = single(&database().await).await;
    let ids = conversations(6);
    let exchanges: Vec<_> = (0..ids.len())
        .map(|number| {
            let mut exchange = exchange("asks");
            let cited = vec![Citation::new(Seq::new(number as u64), 0..1)];
            exchange.recalled = (number % 3 > 0).then(|| Recalled::new(format!("{number} \u{0}"), cited));
            exchange.provenance = (number % 2 > 0).then(|| {
                let mut provenance = Provenance::default();
                provenance.origin = Origin::unknown().provider(format!("{number} \u{0}"));
                provenance
            });
            exchange
        })
        .collect();
    let appends = ids.iter().zip(&exchanges);
    let appends = appends.map(|(id, exchange)| store.append(id, Append::new(Expect::Absent, exchange.clone())));
    for appended in at_once(&store, appends).await {
        assert_eq!(appended.unwrap().seq, Seq::FIRST);
    }
    let loaded = at_once(&store, ids.iter().map(|id| store.load(id, Load::new()))).await;
    for (loaded, exchange) in loaded.into_iter().zip(&exchanges) {
        let Ok(Loaded::Window(window)) = loaded else { panic!("{loaded:?}") };
        assert_eq!(*window.exchanges[0].exchange, *exchange);
    }
}

async fn appends_to_one_conversation_follow_each_other() {
    let store = single(&database().await).await;
    let id = conversation("a");
    let said: Vec<_> = (0..20).map(|number| number.to_string()).collect();
    let appended = at_once(&store, said.iter().map(|text| store.append(&id, append(text)))).await;
    let positions: Vec<_> = appended.into_iter().map(|appended| appended.unwrap().seq.get()).collect();
    assert_eq!(positions, (0..20).collect::<Vec<_>>());
    assert_eq!(texts(&store, &id).await, said);
}

async fn of_appends_that_expect_the_same_revision_one_is_stored() {
    let store = single(&database().await).await;
    let id = conversation("a");
    let revision = say(&store, &id, "one").await.revision;
    let same = || Append::new(Expect::Exactly(revision), exchange("two"));
    let answers = at_once(&store, (0..10).map(|_| store.append(&id, same()))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert!(answers.iter().flat_map(Result::as_ref).all(|answer| !answer.duplicate));
    assert_eq!(texts(&store, &id).await, ["one", "two"]);
}
