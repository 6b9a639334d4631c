//! Tests of logs.

use tower_chat_history_core::{
    Citation, Derived, KnownState, Message, Origin, Positions, PromptDigests, Provenance, PruneTo, Truncated,
};

use super::*;

static UNLIMITED: Space = Space::new(usize::MAX);

static FULL: Space = Space::new(0);

fn begin(append: Append) -> (Log, Appended) {
    Log::begin(&ConversationId::new(["a"]).unwrap(), append, &UNLIMITED).unwrap()
}

fn append(id: &str) -> Append {
    Append::new(Expect::AnyOrCreate, Exchange::new(ExchangeId::new(id).unwrap(), [Message::user(id)]))
}

#[test]
fn a_refused_append_does_not_change_the_log() {
    let (mut log, first) = begin(append("a"));
    let compact = Compact::new(Profile::default(), CompactionVersion::NONE, Seq::new(1), Arc::from([0_u8; 9]), None);
    let refused = log.append(append("b").compact(compact), &FULL).unwrap_err();
    assert!(matches!(refused, StoreError::Full { .. }));
    assert_eq!((log.revision(), log.entries.len(), log.compactions.len()), (first.revision, 1, 0));
    let known = KnownState { revision: first.revision, compaction: CompactionVersion::NONE, newest: None };
    let load = Load::new().known(known.clone()).exchange(ExchangeId::new("b").unwrap());
    assert_eq!(log.load(&load), Loaded::Unchanged);
}

#[test]
fn other_errors_and_duplicates_come_before_the_check_of_space() {
    let (mut log, _) = begin(append("a"));
    assert!(log.append(append("a"), &FULL).unwrap().duplicate);
    let refused = log.append(Append::new(Expect::Absent, append("b").exchange), &FULL).unwrap_err();
    assert!(matches!(refused, StoreError::Conflict { .. }), "{refused}");
}

#[test]
fn loading_shares_the_exchanges() {
    let (log, _) = begin(append("a"));
    let Loaded::Window(window) = log.load(&Load::new()) else { panic!("no window") };
    assert!(Arc::ptr_eq(&window.exchanges[0].exchange, &log.entries[0].exchange));
}

fn to(before: u64) -> ForkTo {
    ForkTo::new("copy".parse().unwrap(), Seq::new(before))
}

#[test]
fn a_copy_shares_the_exchanges_and_counts_them() {
    let (mut log, first) = begin(append("a"));
    log.append(append("b"), &UNLIMITED).unwrap();
    let space = Space::new(usize::MAX);
    let incarnation = first.revision.incarnation();
    let copy = log.fork(incarnation, &to(2), &space).unwrap().unwrap();
    for (entry, copied) in log.entries.iter().zip(&copy.entries) {
        assert!(Arc::ptr_eq(&entry.exchange, &copied.exchange));
    }
    let longer_id = "copy".len() - "a".len();
    assert_eq!((copy.bytes, space.used()), (log.bytes + longer_id, copy.bytes));
    assert_eq!((copy.message_bytes, copy.ids.len()), (log.message_bytes, 2));
}

#[test]
fn a_copy_counts_its_compaction_and_labels() {
    let (log, first) = begin(append("a"));
    let incarnation = first.revision.incarnation();
    let space = Space::new(usize::MAX);
    let bare = log.fork(incarnation, &to(1), &space).unwrap().unwrap();
    let state = Arc::from([0; 9]);
    let compact =
        Compact::new(Profile::default(), CompactionVersion::new(7), Seq::FIRST, state, Some(Arc::from([0; 100])));
    let labels = Labels::new([("title", "x".repeat(1000))]).unwrap();
    let to = to(1).labels(labels).compact(Some(compact));
    let copy = log.fork(incarnation, &to, &space).unwrap().unwrap();
    assert!(copy.bytes > bare.bytes + 1100, "{} and {}", copy.bytes, bare.bytes);
    assert_eq!(space.used(), bare.bytes + copy.bytes);
    assert_eq!(copy.compactions[&Profile::default()].version, CompactionVersion::new(1));
    assert_eq!(copy.labels_version, LabelsVersion::new(1));
}

#[test]
fn recalled_messages_that_are_not_copied_do_not_count() {
    let citation = Citation::new(Seq::FIRST, 0..1).of("other".parse().unwrap());
    let mut citing = append("a");
    Arc::make_mut(&mut citing.exchange).recalled = Some(Recalled::new("x".repeat(1000), vec![citation]));
    let (log, first) = begin(citing);
    let copy = log.fork(first.revision.incarnation(), &to(1), &UNLIMITED).unwrap().unwrap();
    assert!(log.bytes > copy.bytes + 1000, "{} and {}", log.bytes, copy.bytes);
    assert!(copy.entries[0].exchange.recalled.is_none() && log.entries[0].exchange.recalled.is_some());
}

#[test]
fn a_refused_copy_takes_no_space() {
    let (log, first) = begin(append("a"));
    let space = Space::new(log.bytes);
    let refused = log.fork(first.revision.incarnation(), &to(1), &space).unwrap_err();
    assert!(matches!(refused, StoreError::Full { .. }), "{refused}");
    assert!(matches!(log.fork(Incarnation::random(), &to(1), &space), Err(StoreError::Gone)));
    assert!(log.fork(first.revision.incarnation(), &to(0), &space).unwrap().is_none());
    assert_eq!(space.used(), 0);
}

#[test]
fn labels_count_for_the_memory_until_they_are_replaced() {
    let (mut log, first) = begin(append("a"));
    let bare = log.bytes;
    let incarnation = first.revision.incarnation();
    let long = Labels::new([("title", "x".repeat(1000))]).unwrap();
    log.set_labels(incarnation, LabelsVersion::NONE, long.clone(), &UNLIMITED).unwrap();
    let labeled = log.bytes;
    assert!(labeled > bare + 1000, "{labeled}");
    let full = log.set_labels(incarnation, log.labels_version, long.with("a", "b").unwrap(), &Space::new(0));
    assert!(matches!(full, Err(StoreError::Full { .. })), "{full:?}");
    assert_eq!((log.bytes, log.labels.len()), (labeled, 1));
    log.set_labels(incarnation, log.labels_version, Labels::default(), &UNLIMITED).unwrap();
    assert_eq!(log.bytes, bare);
}

#[test]
fn removed_exchanges_are_not_in_the_size() {
    let (mut log, first) = begin(append("a"));
    let one = log.message_bytes;
    let second = log.append(append("b"), &UNLIMITED).unwrap();
    assert_eq!(log.message_bytes, 2 * one);
    log.truncate(second.revision, Seq::new(1), None, &UNLIMITED).unwrap();
    assert_eq!((log.message_bytes, log.numbers().bytes), (one, one as u64));
    assert_ne!(log.revision(), first.revision);
}

#[test]
fn a_truncated_log_counts_only_its_remaining_exchanges() {
    let (mut log, first) = begin(append("a"));
    let empty = log.bytes - log.entries[0].memory;
    let mut last = first.revision;
    for id in ["b", "c"] {
        last = log.append(append(id), &UNLIMITED).unwrap().revision;
    }
    let (truncated, tail) = log.truncate(last, Seq::new(1), None, &UNLIMITED).unwrap();
    assert_eq!((truncated.removed, truncated.revision), (2, Some(log.revision())));
    let one = log.entries[0].memory;
    assert_eq!((tail.bytes(), log.bytes), (2 * one, empty + one));
    assert_eq!(log.ids.len(), 1);
    let grown = log.append(append("b"), &UNLIMITED).unwrap();
    assert_eq!((grown.seq, grown.duplicate), (Seq::new(1), false));
    let (truncated, tail) = log.truncate(grown.revision, Seq::FIRST, None, &UNLIMITED).unwrap();
    assert_eq!((truncated, tail.len(), log.bytes), (Truncated::new(None, 2), 2, empty));
}

#[test]
fn a_truncation_frees_the_memory_of_compactions_but_of_the_kept_one() {
    let (mut log, first) = begin(append("a"));
    let incarnation = first.revision.incarnation();
    let none = CompactionVersion::NONE;
    let state = Arc::<[u8]>::from([0; 9]);
    let compact = |name: &str, replaces, derived: usize| {
        let (profile, derived) = (Profile::new(name).unwrap(), Arc::from(vec![0; derived]));
        Compact::new(profile, replaces, Seq::FIRST, Arc::clone(&state), Some(derived))
    };
    let last = log.append(append("b"), &UNLIMITED).unwrap();
    let bare = log.bytes - log.entries[1].memory;
    log.compact(incarnation, compact("one", none, 100), &UNLIMITED).unwrap();
    let with_one = log.bytes - log.entries[1].memory;
    log.compact(incarnation, compact("two", none, 200), &UNLIMITED).unwrap();

    let keep = compact("one", none.next(), 90);
    let (_, tail) = log.truncate(last.revision, Seq::new(1), Some(keep), &UNLIMITED).unwrap();
    assert_eq!((log.bytes, tail.bytes()), (with_one - 10, log.entries[0].memory));
    assert_eq!(log.compactions.values().map(|kept| kept.version).collect::<Vec<_>>(), [none.next().next()]);

    // Another version than the stored one is not kept.
    let last = log.append(append("b"), &UNLIMITED).unwrap();
    log.truncate(last.revision, Seq::new(1), Some(compact("one", none.next(), 90)), &UNLIMITED).unwrap();
    assert_eq!((log.bytes, log.compactions.len()), (bare, 0));
}

#[test]
fn an_erasure_frees_the_memory_of_derived_text() {
    let (mut log, first) = begin(append("a"));
    let last = log.append(append("b"), &UNLIMITED).unwrap();
    let of_first = log.entries[0].memory;
    let incarnation = first.revision.incarnation();
    let compact = |derived| {
        let state = Arc::from([0; 9]);
        Compact::new(Profile::default(), CompactionVersion::NONE, Seq::FIRST, state, derived)
    };
    log.compact(incarnation, compact(Some(Arc::from([0; 100]))), &UNLIMITED).unwrap();
    let before = log.bytes;
    let (pruned, head) = log.prune(incarnation, PruneTo::From(last.seq), Derived::Erase).unwrap();
    let freed = head.bytes() - of_first;
    assert!(pruned.removed == 1 && freed >= 100, "{freed}");
    assert_eq!(log.bytes, before - head.bytes());
    let left = &log.compactions[&Profile::default()];
    assert_eq!((left.window_start, &left.derived), (last.seq, &None));
}

#[test]
fn an_erasure_frees_the_memory_of_provenances() {
    let (mut log, first) = begin(append("a"));
    let plain = log.append(append("b"), &UNLIMITED).unwrap();
    let mut with_provenance = append("c");
    let origin = Origin::unknown().provider("p".repeat(100));
    let provenance = Provenance::new(1, Positions::default(), PromptDigests::default(), origin);
    Arc::make_mut(&mut with_provenance.exchange).provenance = Some(provenance);
    log.append(with_provenance, &UNLIMITED).unwrap();
    let held = log.entries[2].memory - log.entries[1].memory;
    assert!(held >= 100, "{held}");
    let before = log.bytes;
    let of_first = log.entries[0].memory;
    let keep = PruneTo::From(plain.seq);
    let (pruned, removed) = log.prune(first.revision.incarnation(), keep, Derived::Erase).unwrap();
    assert_eq!((pruned.removed, removed.bytes()), (1, of_first + held));
    assert_eq!((log.bytes, log.entries[1].memory), (before - of_first - held, log.entries[0].memory));
    assert_eq!(log.entries[1].exchange.provenance, None);
}

#[test]
fn a_pruned_log_counts_only_its_remaining_exchanges() {
    let (mut log, first) = begin(append("a"));
    let empty = log.bytes - log.entries[0].memory;
    for id in ["b", "c"] {
        log.append(append(id), &UNLIMITED).unwrap();
    }
    let incarnation = first.revision.incarnation();
    let (pruned, head) = log.prune(incarnation, PruneTo::LastTurns(1), Derived::Keep).unwrap();
    assert_eq!((pruned.removed, pruned.revision.first(), pruned.revision), (2, Seq::new(2), log.revision()));
    let one = log.entries[0].memory;
    assert_eq!((head.bytes(), log.bytes, log.ids.len()), (2 * one, empty + one, 1));
    let grown = log.append(append("a"), &UNLIMITED).unwrap();
    assert_eq!((grown.seq, grown.duplicate), (Seq::new(3), false));
    let (truncated, tail) = log.truncate(grown.revision, Seq::new(2), None, &UNLIMITED).unwrap();
    assert_eq!((truncated, tail.len(), log.bytes), (Truncated::new(None, 2), 2, empty));
}

#[test]
fn a_refused_request_takes_no_space() {
    let space = Space::new(10);
    space.take(6, 0).unwrap();
    let full = space.take(5, 0).unwrap_err();
    assert!(matches!(full, StoreError::Full { used: 6, requested: 5, limit: 10 }), "{full}");
    assert!(space.take(usize::MAX, 0).is_err(), "sums do not wrap");
    space.take(4, 0).unwrap();
    space.give_back(6);
    assert_eq!(space.used(), 4);
    space.take(12, 4).unwrap_err();
    space.take(10, 4).unwrap();
    space.take(3, 10).unwrap();
    assert_eq!(space.used(), 3);
}
