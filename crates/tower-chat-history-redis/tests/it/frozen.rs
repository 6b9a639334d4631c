//! A conversation in layout 1, byte for byte. If this test fails, stored data would be misread: the layout
//! has changed and needs another number.

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{
    Append, Citation, Compaction, CompactionVersion, ConversationId, Cut, Digest, Exchange, ExchangeId, Expect,
    HistoryStore, HistoryStoreExt, Incarnation, Labels, LabelsVersion, List, Listed, Load, LoadLimit, Loaded, Message,
    Origin, Page, Provenance, Recalled, Revision, Seq, Summary, Timestamp, Window,
};

use crate::support::{TestServer, conversation, key, texts};

pub(crate) fn tests() -> Vec<Trial> {
    trials![a_conversation_of_layout_1_is_read_and_written_unchanged]
}

// Six exchanges were appended and four compactions stored. Then the first two exchanges were pruned, derived data was
// erased, and the last exchange was truncated. None of these is swept yet. The numbers of the state differ as far as
// they can. Only the first exchange has media.
const INCARNATION: &str = "375b959c9d064a0dbbba56aa5a8971f3";
const STATE: &str = "0100375b959c9d064a0dbbba56aa5a8971f3\
    000660ce72a7aa3b\
    000000000005000000000002000000000000000000000001000000000009000000000000012e000000000021000000000003\
    000001a1ff9a4798000001a1ff9a47a7\
    000000000006000000000002000000000002000000000004000000000004";
const INDEX: [(&str, &str); 6] = [
    ("03000000000000000000000000000000000000000000000000000000000002000000000041000000000021", "4a7347c60b134b40zero"),
    ("03000000000002000000000000004100000000002100000000000100000003000000000065000000000000", "b1de7d2c4e8f4342one"),
    ("0300000000000500000000000000a60000000000210000000000020000000100000000001e000000000000", "fa82b58346a84973two"),
    ("0200000000000600000000000000c400000000002100000000000300000002000000000047000000000000", "fdf95a63b202412dthree"),
    ("02000000000008000000000000010b00000000002100000000000300000001000000000023000000000000", "56c1a5aa854d4307four"),
    ("03000000000009000000000000012e00000000002100000000000300000002000000000041000000000000", "1058c23cda81499cfive"),
];
const LOG: [&str; 6] = [
    r#"{"v":1,"id":"zero","at":1795289663384,"messages":[{"role":"user","content":"q0"},{"role":"assistant","content":"a0"}]}"#,
    r#"{"v":1,"id":"one","at":1795289663384,"messages":[{"role":"user","content":"q1"},{"role":"assistant","content":"a1"},{"role":"assistant","content":"a1b"}]}"#,
    r#"{"v":1,"id":"two","at":1795289663384,"messages":[{"role":"user","content":"q2"}]}"#,
    r#"{"v":1,"id":"three","at":1795289663384,"continues":2,"messages":[{"role":"assistant","content":"a3"},{"role":"assistant","content":"a3b"}]}"#,
    r#"{"v":1,"id":"four","at":1795289663384,"continues":3,"messages":[{"role":"assistant","content":"a4"}]}"#,
    r#"{"v":1,"id":"five","at":1795289663384,"messages":[{"role":"user","content":"q5"},{"role":"assistant","content":"a5"}]}"#,
];
const IDS: [&str; 12] = ["zero", "0", "one", "1", "two", "2", "three", "3", "four", "4", "five", "5"];
const LABELS: &str = r#"7 0123456789abcdef {"pinned":"","title":"Nemo"}"#;
const COMPACTION: [&str; 6] = ["v:default", "4 2 1 9abb75ff57374149", "c:default", "state", "d:default", "zero"];
// The recalled messages of all six exchanges. The erasure that is not swept yet has removed those of exchange 2, and
// exchange 4 was appended after it.
const RECALLED: [&str; 12] = [
    "0",
    r#" {"v":1,"message":{"role":"user","content":"r0"},"citations":[]}"#,
    "1",
    r#"0 {"v":1,"message":{"role":"user","content":"r1"},"citations":[[0,0,2]]}"#,
    "2",
    r#"1 {"v":1,"message":{"role":"user","content":"r2"},"citations":[[1,0,2]]}"#,
    "3",
    r#"2 {"v":1,"message":{"role":"user","content":"r3"},"citations":[[2,0,1]],"tokens":7}"#,
    "4",
    r#"0 {"v":1,"message":{"role":"user","content":"r4"},"citations":[[3,0,1],[0,0,2]]}"#,
    "5",
    r#" {"v":1,"message":{"role":"user","content":"r5"},"citations":[]}"#,
];
// The provenances of exchanges 4 and 5. The erasure has removed those of the exchanges before.
const PROVENANCES: [&str; 2] = [
    r#"[1,1,null,null,"LQaABTjTlMIAESIzRFVmdw",[2,3,1,4,5,3,4],["p4"]]"#,
    r#"[1,1,null,null,"LQaABTjTlMIAESIzRFVmdw",[]]"#,
];

// The writes of another append, and of a truncation of the last two exchanges.
const APPENDED_STATE: &str = "0100375b959c9d064a0dbbba56aa5a8971f3\
    000660ce72a7aa3b\
    00000000000600000000000200000000000200000000000000000000000b000000000000016f000000000021000000000004\
    000001a1ff9a4798000001a1ff9a480c\
    000000000002000000000000000000000000000000000000000000000004";
const APPENDED_ENTRY: &str = "01000000000009000000000000012e00000000002100000000000300000002000000000041000000000000";
const TRUNCATED_STATE: &str = "000660ce72a7aa3b\
    000000000004000000000002000000000002000000000000\
    000000000008000000000000010b000000000021000000000003\
    000001a1ff9a4798000001a1ff9a480c\
    000000000001000000000000000000000000000000000000000000000004";

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn write(test: &mut TestServer, id: &ConversationId) {
    test.set_state(id, &bytes(STATE));
    test.run::<()>(&["HSET", &key(id, ""), "l", LABELS]);
    test.run::<()>(&[&["HSET", &key(id, "")], COMPACTION.as_slice()].concat());
    test.run::<()>(&[&["HSET", &key(id, ":ids")], IDS.as_slice()].concat());
    test.run::<()>(&[&["RPUSH", &key(id, ":log")], LOG.as_slice()].concat());
    test.run::<()>(&[&["HSET", &key(id, ":recalled")], RECALLED.as_slice()].concat());
    test.run::<()>(&[&["RPUSH", &key(id, ":provenances")], PROVENANCES.as_slice()].concat());
    for (numbers, names) in INDEX {
        test.push(&key(id, ":index"), &[&bytes(numbers), names.as_bytes()].concat());
    }
}

fn named(name: &str) -> Exchange {
    let mut exchange = Exchange::new(ExchangeId::new(name).unwrap(), [Message::user("q6"), Message::assistant("a6")]);
    exchange.at = Timestamp::from_unix_millis(1_795_289_663_500);
    exchange
}

async fn limited(test: &TestServer, id: &ConversationId, messages: usize, bytes: usize) -> (Seq, bool) {
    let limit = LoadLimit::new(messages, bytes).unwrap();
    let Loaded::Window(window) = test.store.load(id, Load::new().limit(limit)).await.unwrap() else { unreachable!() };
    (window.exchanges[0].seq, window.truncated)
}

async fn a_conversation_of_layout_1_is_read_and_written_unchanged() {
    let mut test = TestServer::new().await;
    let id = conversation("frozen");
    write(&mut test, &id);
    let store = test.store.clone();

    let incarnation = Incarnation::from_bytes(bytes(INCARNATION).try_into().unwrap());
    let revision = Revision::new(incarnation, 5).beginning_at(Seq::new(2));
    let mut cut = Cut::window_from(Seq::new(2));
    (cut.rounds_start, cut.cleared_before) = (Seq::new(3), Seq::new(4));
    (cut.recalled_from, cut.reasoning_from, cut.encrypted_from) = (Seq::new(5), Seq::new(3), Seq::new(4));
    cut.set_summary(Summary::new("zero"), Seq::new(1));
    let version = CompactionVersion::new(4);
    let compaction = Compaction::new(version, Seq::new(2), b"state"[..].into(), Some(b"zero"[..].into()));
    let page = store.read(&id, Seq::FIRST, 9).await.unwrap();
    let ids: Vec<_> = page.exchanges.iter().map(|recorded| (recorded.seq, recorded.exchange.id.as_str())).collect();
    assert_eq!(ids, [(Seq::new(2), "two"), (Seq::new(3), "three"), (Seq::new(4), "four")]);
    assert_eq!((page.revision, page.more), (Some(revision), false));
    let shown =
        |page: &Page| page.exchanges.iter().map(|recorded| recorded.exchange.recalled.clone()).collect::<Vec<_>>();
    let mut third = Recalled::new("r3", vec![Citation::new(Seq::new(2), 0..1)]);
    third.tokens = Some(7);
    let fourth = Recalled::new("r4", vec![Citation::new(Seq::new(3), 0..1), Citation::new(Seq::FIRST, 0..2)]);
    let recalled = [None, Some(third), Some(fourth)];
    assert_eq!(shown(&page), recalled);
    let [second, third, fourth] = [0, 1, 2].map(|at| page.exchanges[at].exchange.provenance.clone());
    assert_eq!((second, third), (None, None));
    let fourth = fourth.unwrap();
    let digests = fourth.digests;
    assert_eq!((digests.head, &*digests.prompt.to_string()), (Digest::of(b""), "0011223344556677"));
    assert_eq!(fourth, Provenance::new(1, cut.positions, digests, Origin::unknown().provider("p4")));
    let window = Window::new(revision, Some(compaction), page.exchanges, false);
    assert_eq!(store.load(&id, Load::new()).await.unwrap(), Loaded::Window(window));

    let labels = Labels::new([("title", "Nemo"), ("pinned", "")]).unwrap();
    let [created, updated] = [1_795_289_663_384, 1_795_289_663_399].map(Timestamp::from_unix_millis);
    let listed = Listed::new(id.clone(), revision, created, updated, 30 + 71 + 35);
    assert_eq!(store.describe(&id).await.unwrap(), Some(listed.labels(labels.clone(), LabelsVersion::new(7))));

    let known = store.load(&id, Load::new().exchange(ExchangeId::new("three").unwrap())).await.unwrap();
    assert!(matches!(&known, Loaded::AlreadyRecorded(recorded) if recorded.seq == Seq::new(3)), "{known:?}");
    let again = store.append(&id, Append::new(Expect::AnyOrCreate, named("three"))).await.unwrap();
    assert_eq!((again.duplicate, again.seq), (true, Seq::new(3)));

    let appended = store.append(&id, Append::new(Expect::Exactly(revision), named("six"))).await.unwrap();
    assert_eq!((appended.duplicate, appended.seq), (false, Seq::new(5)));
    assert_eq!(test.state(&id), bytes(APPENDED_STATE));
    let entry: Vec<u8> = test.run(&["LINDEX", &key(&id, ":index"), "-1"]);
    assert_eq!((&entry[..43], &entry[59..]), (&bytes(APPENDED_ENTRY)[..], &b"six"[..]));
    let mut fields: Vec<String> = test.run(&["HKEYS", &key(&id, ":recalled")]);
    fields.sort();
    assert_eq!(fields, ["3", "4"], "the others are swept");
    let provenances: Vec<String> = test.run(&["LRANGE", &key(&id, ":provenances"), "0", "-1"]);
    assert_eq!(provenances, [PROVENANCES[0], ""], "the other one is swept, and the new exchange has none");
    let swept: Vec<u8> = test.run(&["LINDEX", &key(&id, ":index"), "0"]);
    assert_eq!(swept[0], 1, "it opens a turn and has no recalled messages");
    // Six messages of 201 bytes. The last two are a turn.
    for (messages, bytes, from, truncated) in
        [(6, usize::MAX, 2, false), (5, usize::MAX, 5, true), (9, 201, 2, false), (9, 200, 5, true)]
    {
        assert_eq!(limited(&test, &id, messages, bytes).await, (Seq::new(from), truncated), "{messages} {bytes}");
    }

    assert_eq!(store.conversation(&id).truncate(Seq::new(4)).await.unwrap().removed, 2);
    assert_eq!(texts(&store, &id).await, ["q2", "a3"]);
    assert!(!test.run::<bool>(&["EXISTS", &key(&id, ":provenances")]));
    let kept = store.describe(&id).await.unwrap().unwrap();
    assert_eq!((kept.labels, kept.labels_version.get(), kept.created_at), (labels, 7, created));
    let state = test.state(&id);
    assert_eq!((&state[..2], &state[18..]), (&[1, 0][..], &bytes(TRUNCATED_STATE)[..]));
}
