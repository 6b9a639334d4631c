//! Listings: the cost of a page, times, sizes and labels.

use std::sync::Arc;

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{
    Append, Cursor, Derived, Expect, HistoryStore, Labels, LabelsOutcome, LabelsVersion, List, Listing, Load, Loaded,
    Prefix, Prune, PruneTo, Seq, StoreError, Timestamp,
};
use tower_chat_history_postgres::PostgresStore;

use crate::{
    cost::rows_of,
    no_text::shown,
    proxy::Proxy,
    support::{append, connect, conversation, database, exchange, say, single},
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_page_reads_only_its_conversations,
        a_plan_for_a_few_conversations_is_right_for_many,
        a_duplicate_changes_no_time,
        the_bytes_of_a_pruned_log_are_those_that_are_left,
        labels_whose_acknowledgment_is_lost_are_stored_once,
        a_listing_names_conversations_whose_labels_cannot_be_read,
    ]
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

async fn listed(store: &PostgresStore, under: &str) -> Listing {
    store.list(&prefix(under), None, 9).await.unwrap()
}

/// Creates 100,000 conversations under each of two prefixes, from one that the store wrote.
const MANY: &str = "insert into chat_history.conversation (key, incarnation, first, len, opening, messages, bytes, media, \
                        created_at, updated_at, updated_before) \
                    select kind || n, incarnation, 1, len, opening, messages, bytes, media, 0, 0, 0 \
                    from chat_history.conversation, unnest('{test-,test/}'::text[]) kind, generate_series(100000, 199999) n";

const PAGES: [&str; 3] = [
    "select * from chat_history.list_1('test', 'test/', 'test0', 51)",
    "select * from chat_history.list_1(null, 'test/150000', 'test0', 51)",
    "select * from chat_history.list_1('test/150000', '', '', 0)",
];

async fn a_page_reads_only_its_conversations() {
    let url = database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    say(&store, &"test".parse().unwrap(), "x").await;
    client.batch_execute(MANY).await.unwrap();
    let mut after = Some(Cursor::after("test/150000".parse().unwrap()));
    for first in ["test/150001", "test/150051"] {
        let page = store.list(&prefix("test"), after.as_ref(), 50).await.unwrap();
        assert_eq!((page.conversations.len(), page.conversations[0].id.as_str()), (50, first));
        after = page.next;
    }
    for analyzed in [false, true] {
        if analyzed {
            client.batch_execute("analyze").await.unwrap();
        }
        for (page, read) in PAGES.into_iter().zip([52, 51, 1]) {
            assert_eq!(rows_of(&client, "'conversation'", page).await, read, "{page}, analyzed: {analyzed}");
        }
    }
}

async fn a_plan_for_a_few_conversations_is_right_for_many() {
    let url = database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    say(&store, &"test".parse().unwrap(), "x").await;
    let small = "alter table chat_history.conversation set (autovacuum_enabled = off); analyze";
    client.batch_execute(small).await.unwrap();
    for page in PAGES {
        client.batch_execute(page).await.unwrap();
    }
    let erased = "select chat_history.bar_1('test/gone/'); select chat_history.erased_1('test/gone/a', 0)";
    client.batch_execute(erased).await.unwrap();
    let more = "insert into chat_history.erasure \
                select sha256(convert_to('many/' || n, 'UTF8')), n from generate_series(10, 100000) n";
    connect(&url).await.batch_execute(&format!("{MANY}; {more}")).await.unwrap();
    for (page, read) in PAGES.into_iter().zip([52, 51, 1]) {
        assert_eq!(rows_of(&client, "'conversation'", page).await, read, "{page}");
    }
    let erased = "select chat_history.erased_1('test/gone/a', 0)";
    assert_eq!(rows_of(&client, "'erasure'", erased).await, 1);
}

/// Both ways to find a duplicate restore the time of the newest exchange.
async fn a_duplicate_changes_no_time() {
    let store = single(&database().await).await;
    let id = conversation("a");
    let at = |append: &Append, millis| {
        let mut append = append.clone();
        Arc::make_mut(&mut append.exchange).at = Timestamp::from_unix_millis(millis);
        append
    };
    let [one, two] = [append("one"), append("two")];
    for append in [at(&one, 100), at(&two, 50), at(&one, 900), at(&two, 10)] {
        store.append(&id, append).await.unwrap();
    }
    let Loaded::Absent(epoch) = store.load(&conversation("absent"), Load::new()).await.unwrap() else { unreachable!() };
    store.append(&id, at(&two, 800).since(Some(epoch))).await.unwrap();
    let times = async || {
        let entry = store.describe(&id).await.unwrap().unwrap();
        (entry.created_at.as_unix_millis(), entry.updated_at.as_unix_millis())
    };
    assert_eq!(times().await, (100, 100));
    store.append(&id, at(&append("three"), 700)).await.unwrap();
    assert_eq!(times().await, (100, 700));
}

async fn the_bytes_of_a_pruned_log_are_those_that_are_left() {
    let store = single(&database().await).await;
    let id = conversation("a");
    let bytes = async || store.describe(&id).await.unwrap().unwrap().bytes;
    let copied = Append::new(Expect::Absent, exchange("one")).beginning_at(Seq::new(5));
    let one = copied.exchange.bytes() as u64;
    let incarnation = store.append(&id, copied).await.unwrap().revision.incarnation();
    let second = append("two and more");
    let two = second.exchange.bytes() as u64;
    store.append(&id, second).await.unwrap();
    assert_eq!(bytes().await, one + two);
    store.prune(&id, incarnation, PruneTo::LastTurns(1), Derived::Keep).await.unwrap();
    assert_eq!(bytes().await, two);
}

async fn labels_whose_acknowledgment_is_lost_are_stored_once() {
    let (url, proxy) = (database().await, Proxy::new());
    let (store, other) = (single(&proxy.url(&url)).await, single(&url).await);
    let id = conversation("a");
    let incarnation = say(&other, &id, "one").await.revision.incarnation();
    let title = Labels::new([("title", "x")]).unwrap();
    store.set_labels(&id, incarnation, LabelsVersion::NONE, title.clone()).await.unwrap();
    proxy.lose(1);
    let first = LabelsVersion::new(1);
    let outcome = store.set_labels(&id, incarnation, first, title.clone()).await.unwrap();
    assert!(proxy.has_lost());
    assert_eq!(outcome, LabelsOutcome::Stored(LabelsVersion::new(2)));
    let outcome = other.set_labels(&id, incarnation, first, title.clone()).await.unwrap();
    assert_eq!(outcome, LabelsOutcome::Kept(title, LabelsVersion::new(2)), "another call is no repetition");
}

async fn a_listing_names_conversations_whose_labels_cannot_be_read() {
    let url = database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    let id = conversation("a");
    let incarnation = say(&store, &id, "one").await.revision.incarnation();
    client.batch_execute("update chat_history.conversation set labels = '{\"secret\": []}'").await.unwrap();
    say(&store, &conversation("b"), "one").await;
    let page = listed(&store, "test").await;
    let whole: Vec<_> = page.conversations.iter().map(|listed| listed.id.as_str()).collect();
    assert_eq!(whole, ["test/b"]);
    let [damaged] = &page.damaged[..] else { panic!("{:?}", page.damaged) };
    assert_eq!(damaged.id, id);
    let errors = [
        store.describe(&id).await.map(drop).unwrap_err(),
        store.set_labels(&id, incarnation, LabelsVersion::new(7), Labels::default()).await.map(drop).unwrap_err(),
    ];
    for error in errors.iter().chain([&*damaged.error]) {
        assert!(matches!(error, StoreError::Backend { .. }), "{error:?}");
        assert!(!shown(error).contains("secret"), "{error:?}");
    }
    let first = store.list(&prefix("test"), None, 1).await.unwrap();
    assert_eq!((first.conversations.len(), first.damaged.len()), (0, 1), "the cursor passes a damaged conversation");
    assert_eq!(first.next, Some(Cursor::after(id)));
}
