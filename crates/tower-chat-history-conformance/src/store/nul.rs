//! Compactions with U+0000 in their texts, which some databases cannot store or cannot parse in JSON.

use tower_chat_history_core::{
    Append, Compact, CompactOutcome, CompactionVersion, Cut, Expect, Profile, PruneTo, Recorded,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::SUMMARY_VERBATIM;

const NONE: CompactionVersion = CompactionVersion::NONE;

/// Returns a cut with a summary that has U+0000 in its text and in its model's name.
fn cut_with_nul(seq: u64) -> Cut {
    let mut cut = summary_to(seq, "\0They sent \0 to each other.\0");
    cut.summary = cut.summary.map(|summary| with!(summary, model: Some("mo\0del".into())));
    cut
}

/// A summary with U+0000 is returned unchanged, and can be replaced.
pub async fn a_summary_with_nul_is_stored_and_replaced(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(4).await;
    let first = chat.cut(NONE, cut_with_nul(1)).await;
    assert_eq!(chat.compaction(&Profile::default()).await, Some(first.clone()));
    let second = chat.cut(first.version, cut_with_nul(2)).await;
    let third = chat.cut(second.version, summary_to(3, "plain")).await;
    assert_eq!(chat.compaction(&Profile::default()).await, Some(third));
    assert_eq!(chat.log().await, log);
}

/// An append replaces a compaction whose summary has U+0000.
pub async fn an_append_replaces_a_summary_with_nul(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(3).await;
    let first = chat.cut(NONE, cut_with_nul(1)).await;
    let with_nul = chat.append_with(turn_of("with NUL"), first.version, cut_with_nul(2)).await;
    let second = stored(with_nul.must("the compaction is legal", &CLAUSE).compaction);
    let plain = chat.append_with(turn_of("plain"), second, summary_to(3, "plain")).await;
    let third = stored(plain.must("the compaction is legal", &CLAUSE).compaction);
    let compaction = chat.compaction(&Profile::default()).await.must("a compaction was stored", &CLAUSE);
    assert_eq!((compaction.version, compaction.cut), (third, summary_to(3, "plain")));
    assert_eq!(chat.log().await.len(), 5);
}

/// An append with a stale compaction is stored, and the remaining summary with U+0000 is returned.
pub async fn a_stale_compaction_is_left_out_for_a_summary_with_nul(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::STALE;
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(3).await;
    let stays = chat.cut(NONE, cut_with_nul(2)).await;
    for replaces in [NONE, CompactionVersion::new(77)] {
        let exchange = turn_of("stale");
        let compact = Compact::new(Profile::default(), replaces, cut_with_nul(1));
        let append = Append::new(Expect::AnyOrCreate, exchange.clone()).compact(compact);
        let appended = chat.store.append(&chat.id, append).await.must("a stale compaction stops no exchange", &CLAUSE);
        assert_eq!(appended.compaction, Some(CompactOutcome::Kept(Some(stays.clone()))), "replaces {replaces:?}");
        log.push(Recorded::new(appended.seq, exchange));
        let outcome = chat.compact(replaces, cut_with_nul(3)).await.must("a stale compaction is no mistake", &CLAUSE);
        assert_eq!(outcome, CompactOutcome::Kept(Some(stays.clone())), "replaces {replaces:?}");
    }
    log.push(chat.add(turn_of("without a compaction")).await);
    assert_eq!(chat.log().await, log);
}

/// A truncation treats a summary with U+0000 like any other.
pub async fn a_truncation_spares_a_summary_with_nul(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::TRUNCATE_COMPACTIONS;
    let editable = Editable::new(fixture).await;
    let chat = &editable.chat;
    chat.add_turns(4).await;
    let first = chat.cut(NONE, cut_with_nul(1)).await;
    editable.keep(3).await;
    let stays = chat.compaction(&Profile::default()).await.must("its window starts at what stays", &CLAUSE);
    assert_eq!(stays.cut, first.cut);
    chat.cut(stays.version, cut_with_nul(2)).await;
}

/// A prune that erases derived data removes a summary with U+0000 like any other.
pub async fn a_prune_removes_a_summary_with_nul(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::PRUNE_DERIVED;
    let prunable = Prunable::new(fixture).await;
    let chat = &prunable.chat;
    chat.add_turns(4).await;
    chat.cut(NONE, cut_with_nul(1)).await;
    prunable.forget(PruneTo::LastTurns(2)).await;
    assert_eq!(chat.compaction(&Profile::default()).await, None, "the summary describes removed exchanges");
}
