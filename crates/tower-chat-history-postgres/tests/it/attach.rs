//! Attachments: locks, damaged rows, and what is read.

use futures_util::future::join;
use libtest_mimic::Trial;
use test_servers::trials;
use tokio_postgres::Client;
use tower_chat_history_core::{
    Attach, Attachment, AttachmentName, ConversationId, HistoryStore, Incarnation, Seq, StoreError,
};
use tower_chat_history_postgres::PostgresStore;

use crate::{
    no_text::shown,
    support::{
        append, attachment, attachments, connect, conversation, database, say, single, texts, waits_for_a_lock, window,
    },
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        an_append_waits_for_an_attach_in_flight,
        an_attach_waits_for_an_append_in_flight_and_sees_its_exchange,
        an_attach_that_waits_for_a_deletion_is_refused,
        damaged_attachments_are_errors_without_their_data,
        damaged_attachments_are_removed_with_their_conversation,
        the_data_beyond_a_limit_is_not_read,
        a_call_with_too_much_data_is_refused,
        an_append_next_to_attachments_updates_no_further_index,
    ]
}

/// Creates a conversation of two exchanges, and two connections next to that of the store.
async fn setup() -> (PostgresStore, [Client; 2], ConversationId, Incarnation) {
    let url = database().await;
    let (store, id) = (single(&url).await, conversation("a"));
    say(&store, &id, "one").await;
    let incarnation = say(&store, &id, "two").await.revision.incarnation();
    (store, [connect(&url).await, connect(&url).await], id, incarnation)
}

async fn an_append_waits_for_an_attach_in_flight() {
    let (store, [other, watcher], id, _) = setup().await;
    let attach = "begin; select * from chat_history.attach_1('test/a', (select incarnation from chat_history.conversation), \
                  '{}', '{}', '{a}', '{0}', '{2}', '{x}')";
    other.batch_execute(attach).await.unwrap();
    let ending = async {
        waits_for_a_lock(&watcher, &[]).await;
        other.batch_execute("commit").await.unwrap();
    };
    let (appended, ()) = join(store.append(&id, append("three")), ending).await;
    assert_eq!(appended.unwrap().seq, Seq::new(2));
    assert_eq!(attachments(&store, &id, &["a"]).await, [attachment("a", 0..2, b"x")]);
}

async fn an_attach_waits_for_an_append_in_flight_and_sees_its_exchange() {
    let (store, [other, watcher], id, incarnation) = setup().await;
    let append = "begin; select * from chat_history.append_1(null, 'test/a', 3, null, null, null, 0, gen_random_uuid(), 'x', 0, null, 1, 1, \
                  'x', null, null, null, null, 0, 0, 0, 0, 0, 0, 0, 0, '')";
    for (end, visible) in [("commit", true), ("rollback", false)] {
        let len = window_len(&other).await;
        other.batch_execute(append).await.unwrap();
        let put = [attachment(end, 0..len + 1, b"x")];
        let ending = async {
            waits_for_a_lock(&watcher, &[]).await;
            other.batch_execute(end).await.unwrap();
        };
        let (attached, ()) = join(store.attach(&id, incarnation, &[], &put), ending).await;
        assert_eq!(attached.is_ok(), visible, "{end}: {attached:?}");
        assert_eq!(attachments(&store, &id, &[end]).await.len(), usize::from(visible), "{end}");
        other.batch_execute("update chat_history.exchange set id = seq where id = 'x'").await.unwrap();
    }
}

async fn window_len(client: &Client) -> u64 {
    let row = client.query_one("select len from chat_history.conversation", &[]).await.unwrap();
    u64::try_from(row.get::<_, i64>(0)).unwrap()
}

async fn an_attach_that_waits_for_a_deletion_is_refused() {
    let (store, [other, watcher], id, incarnation) = setup().await;
    let delete = "begin; select chat_history.delete_1('test/a', (select incarnation from chat_history.conversation))";
    other.batch_execute(delete).await.unwrap();
    let put = [attachment("a", 0..1, b"late")];
    let ending = async {
        waits_for_a_lock(&watcher, &[]).await;
        other.batch_execute("commit").await.unwrap();
    };
    let (attached, ()) = join(store.attach(&id, incarnation, &[], &put), ending).await;
    assert!(matches!(attached, Err(StoreError::Gone)), "{attached:?}");
    let left = other.query_one("select count(*) from chat_history.attachment", &[]).await.unwrap();
    assert_eq!(left.get::<_, i64>(0), 0);
}

/// Changes of an attachment that break a rule.
const DAMAGES: [&str; 7] = [
    "range_start = -1",
    "range_start = -9223372036854775808",
    "range_start = 2",
    "range_end = 0",
    "range_end = 3",
    "range_end = 9223372036854775807",
    "body = ('secret' || repeat('x', 4194368))::bytea",
];

async fn damaged_attachments_are_errors_without_their_data() {
    for damage in DAMAGES {
        let (store, [client, _], id, incarnation) = setup().await;
        let (whole, damaged) = (attachment("whole", 0..2, b"x"), attachment("damaged", 0..2, b"a secret"));
        store.attach(&id, incarnation, &[], &[whole.clone(), damaged]).await.unwrap();
        let change = format!("update chat_history.attachment set {damage} where name = 'damaged'");
        client.batch_execute(&change).await.unwrap();
        let names = ["whole", "damaged"].map(|name| AttachmentName::new(name).unwrap());
        let error = store.attachments(&id, &names, usize::MAX).await.unwrap_err();
        assert!(matches!(error, StoreError::Backend { .. }), "{damage}: {error:?}");
        let shown = shown(&error);
        assert!(shown.contains("attachment") && !shown.contains("secret"), "{damage}: {shown}");
        assert_eq!(attachments(&store, &id, &["whole"]).await, [whole], "{damage}");
        assert_eq!(texts(&store, &id).await, ["one", "two"], "{damage}");
        assert_eq!(say(&store, &id, "three").await.seq, Seq::new(2), "{damage}");
    }
}

async fn damaged_attachments_are_removed_with_their_conversation() {
    let (store, [client, _], id, incarnation) = setup().await;
    let put: Vec<Attachment> = (0..DAMAGES.len()).map(|number| attachment(&number.to_string(), 0..1, b"x")).collect();
    store.attach(&id, incarnation, &[], &put).await.unwrap();
    for (number, damage) in DAMAGES.iter().enumerate() {
        let change = format!("update chat_history.attachment set {damage} where name = '{number}'");
        client.batch_execute(&change).await.unwrap();
    }
    store.delete(&id).await.unwrap();
    let left = client.query_one("select count(*) from chat_history.attachment", &[]).await.unwrap();
    assert_eq!(left.get::<_, i64>(0), 0);
}

/// Large data is stored in pieces outside of the rows.
async fn the_data_beyond_a_limit_is_not_read() {
    const BYTES: usize = 100_000;
    let (store, [client, _], id, incarnation) = setup().await;
    let put: Vec<_> = (0..5).map(|number| attachment(&number.to_string(), 0..1, &[number; BYTES])).collect();
    store.attach(&id, incarnation, &[], &put).await.unwrap();
    let pieces = async || {
        let read = "select s.idx_tup_fetch from pg_stat_xact_all_tables s join pg_class c on c.reltoastrelid = s.relid \
                    where c.oid = 'chat_history.attachment'::regclass";
        client.query_one(read, &[]).await.unwrap().get::<_, i64>(0)
    };
    let of_all = async |limit: usize| {
        client.batch_execute("begin").await.unwrap();
        let before = pieces().await;
        let read = format!("select * from chat_history.attachments_1('test/a', '{{4,3,2,1,0}}', {limit})");
        client.batch_execute(&read).await.unwrap();
        let read = pieces().await - before;
        client.batch_execute("commit").await.unwrap();
        read
    };
    let of_one = of_all(BYTES).await;
    assert!(of_one >= 50, "{of_one}");
    assert_eq!([of_all(0).await, of_all(3 * BYTES - 1).await, of_all(5 * BYTES).await], [0, 2 * of_one, 5 * of_one]);
}

/// PostgreSQL would close the connection, and the call would be repeated.
async fn a_call_with_too_much_data_is_refused() {
    let (store, _, id, incarnation) = setup().await;
    let largest = attachment("a", 0..1, &vec![0; Attachment::MAX_BYTES]);
    let put = vec![largest; 129];
    let refused = store.attach(&id, incarnation, &[], &put).await;
    assert!(matches!(refused, Err(StoreError::Full { limit: 0x2000_0000, .. })), "{refused:?}");
    assert_eq!(attachments(&store, &id, &["a"]).await, []);
}

/// As long as the page has room, an update of the conversation's row touches no index ("heap-only tuple").
async fn an_append_next_to_attachments_updates_no_further_index() {
    const APPENDS: i64 = 10;
    let (store, [client, _], id, incarnation) = setup().await;
    store.attach(&id, incarnation, &[], &[attachment("a", 0..2, b"x")]).await.unwrap();
    assert_eq!(window(&store, &id).await.exchanges.len(), 2);
    let indexes = "select count(*) filter (where c.relname = 'exchange'), count(*) filter (where c.relname = 'conversation') \
                   from pg_index i join pg_class c on c.oid = i.indrelid \
                   where c.relnamespace = 'chat_history'::regnamespace";
    let row = client.query_one(indexes, &[]).await.unwrap();
    assert_eq!([row.get::<_, i64>(0), row.get(1)], [2, 2]);
    client.batch_execute("begin").await.unwrap();
    for number in 0..APPENDS {
        let append = format!(
            "select * from chat_history.append_1(null, 'test/a', 3, null, null, null, 0, gen_random_uuid(), 'x{number}', 0, null, 1, 1, \
             'x', 0, 'recalled', 'provenance', null, 0, 0, 0, 0, 0, 0, 0, 0, ''); \
             select * from chat_history.attach_1('test/a', (select incarnation from chat_history.conversation), \
             '{{}}', '{{}}', '{{a{number}}}', '{{0}}', '{{1}}', '{{x}}')"
        );
        client.batch_execute(&append).await.unwrap();
    }
    let updates = "select n_tup_upd, n_tup_hot_upd from pg_stat_xact_user_tables where relname = 'conversation'";
    let row = client.query_one(updates, &[]).await.unwrap();
    assert_eq!([row.get::<_, i64>(0), row.get(1)], [APPENDS, APPENDS]);
    client.batch_execute("rollback").await.unwrap();
}
