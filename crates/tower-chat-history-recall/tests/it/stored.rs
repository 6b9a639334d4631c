//! Records are read as they were written, or refused.

use proptest::prelude::*;
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_core::{Recorded, Seq};
use tower_chat_history_recall::{Analyzer, Gate, IndexPart, Language, LogIndex, Query, RecordName, Search};

use crate::logs::log;

fn block(analyzer: &Analyzer, log: &[Recorded]) -> IndexPart {
    IndexPart::index(analyzer, Seq::FIRST..Seq::new(log.len() as u64), log)
}

#[test]
fn names_are_short_ascii() {
    let names = [RecordName::Block, RecordName::Bucket(7), RecordName::Bucket(63), RecordName::Documents];
    assert_eq!(names.map(|name| name.to_string()), ["all", "b07", "b63", "docs"]);
}

#[test]
fn records_of_other_rules_count_as_absent() {
    let (english, german) = (Analyzer::default(), Analyzer::new([Language::German]));
    let records = block(&english, &[]).records(&english);
    assert_eq!(IndexPart::block(&german, &records[0].1), Ok(None));
}

#[test]
fn a_missing_bucket_is_an_error() {
    let analyzer = Analyzer::default();
    let segment =
        IndexPart::merge(&[&block(&analyzer, &Recorded::log(vec![tower_chat_history_core::Message::user("dog")]))])
            .unwrap();
    let (_, documents) = segment.records(&analyzer).pop().unwrap();
    let part = IndexPart::segment(&analyzer, &documents, []).unwrap().unwrap();
    let index = LogIndex::from_parts(analyzer.clone(), [part]);
    let search = Search::new(Seq::FIRST..Seq::new(9), Gate::new(&analyzer));
    let error = search.run(&index, &[], &Query::new(&analyzer, "dog")).unwrap_err();
    assert!(error.to_string().contains("a bucket of the segment is missing"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(64)))]

    #[test]
    fn blocks_are_read_as_written(log in log(0..60)) {
        let analyzer = Analyzer::default();
        let block = block(&analyzer, &log);
        let records = block.records(&analyzer);
        prop_assert_eq!(records.len(), 1);
        prop_assert_eq!(IndexPart::block(&analyzer, &records[0].1), Ok(Some(block)));
    }

    #[test]
    fn merging_in_steps_is_merging_at_once(log in log(2..60), at in any::<prop::sample::Index>()) {
        let analyzer = Analyzer::default();
        let whole = block(&analyzer, &log);
        let (end, at) = (Seq::new(log.len() as u64), Seq::new(at.index(log.len()) as u64));
        let halves = [IndexPart::index(&analyzer, Seq::FIRST..at, &log), IndexPart::index(&analyzer, at..end, &log)];
        let merged = IndexPart::merge(&halves.iter().collect::<Vec<_>>()).unwrap();
        prop_assert_eq!(merged.records(&analyzer), IndexPart::merge(&[&whole]).unwrap().records(&analyzer));
    }

    #[test]
    fn damaged_blocks_are_searched_or_refused(
        log in log(1..30),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let analyzer = Analyzer::default();
        let (_, mut bytes) = block(&analyzer, &log).records(&analyzer).remove(0);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let search = Search::new(Seq::FIRST..Seq::new(u64::MAX), Gate::always_open());
        let query = Query::new(&analyzer, "dog Rex walks blue Tokyo 42");
        for bytes in [&bytes[..], &bytes[..cut.index(bytes.len())]] {
            if let Ok(Some(part)) = IndexPart::block(&analyzer, bytes) {
                let _ = search.run_parts([&part], &query);
                let _ = IndexPart::merge(&[&part]);
                let mut index = LogIndex::from_parts(analyzer.clone(), [part]);
                let _ = index.cover(Seq::FIRST, &log).and_then(|()| search.run(&index, &log, &query).map(drop));
            }
        }
    }
}
