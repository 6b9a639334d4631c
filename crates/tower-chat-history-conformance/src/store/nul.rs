//! Compactions with U+0000 in their texts, which some databases cannot store or cannot parse in JSON.

use super::support::*;

/// Returns a compaction with U+0000 in its state and in its derived text.
fn cut_with_nul(seq: u64) -> Compact {
    with!(summary_to(seq, "\0They sent \0 to each other.\0"), state: b"mo\0del"[..].into())
}

/// A summary with U+0000 is returned unchanged, and can be replaced.
pub async fn a_summary_with_nul_is_stored_and_replaced(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(4).await;
    let first = chat.cut(NONE, cut_with_nul(1)).await;
    assert_eq!(chat.compaction().await, Some(first.clone()));
    let second = chat.cut(first.version, cut_with_nul(2)).await;
    let third = chat.cut(second.version, summary_to(3, "plain")).await;
    assert_eq!(chat.compaction().await, Some(third));
    assert_eq!(chat.log().await, log);
}

/// An append replaces a compaction whose summary has U+0000.
pub async fn an_append_replaces_a_summary_with_nul(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(3).await;
    let first = chat.cut(NONE, cut_with_nul(1)).await;
    let with_nul = chat.append_with(turn_of("with NUL"), first.version, cut_with_nul(2)).await;
    let second = stored(with_nul.unwrap().compaction);
    let plain = chat.append_with(turn_of("plain"), second, summary_to(3, "plain")).await;
    let third = stored(plain.unwrap().compaction);
    let compaction = chat.compaction().await.unwrap();
    assert_eq!(compaction, summary_to(3, "plain").stored_as(third));
    assert_eq!(chat.log().await.len(), 5);
}

/// An append with a stale compaction is stored, and the remaining summary with U+0000 is returned.
pub async fn a_stale_compaction_is_left_out_for_a_summary_with_nul(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(3).await;
    let stays = chat.cut(NONE, cut_with_nul(2)).await;
    for replaces in [NONE, CompactionVersion::new(77)] {
        let exchange = turn_of("stale");
        let compact = compact(replaces, cut_with_nul(1));
        let append = Append::new(Expect::AnyOrCreate, exchange.clone()).compact(compact);
        let appended = chat.submit(append).await.unwrap();
        assert_eq!(appended.compaction, Some(CompactOutcome::Kept(Some(stays.clone()))), "replaces {replaces:?}");
        log.push(Recorded::new(appended.seq, exchange));
        let outcome = chat.compact(replaces, cut_with_nul(3)).await.unwrap();
        assert_eq!(outcome, CompactOutcome::Kept(Some(stays.clone())), "replaces {replaces:?}");
    }
    log.push(chat.add(turn_of("without a compaction")).await);
    assert_eq!(chat.log().await, log);
}

/// A truncation carries a summary with U+0000 over like any other.
pub async fn a_truncation_spares_a_summary_with_nul(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(4).await;
    let first = chat.cut(NONE, cut_with_nul(1)).await;
    chat.shorten_with(3, compact(first.version, cut_with_nul(1))).await;
    let stays = chat.compaction().await.unwrap();
    assert_eq!(stays, cut_with_nul(1).stored_as(first.version.next()));
    chat.cut(stays.version, cut_with_nul(2)).await;
}

/// A prune that erases derived data removes a summary with U+0000 like any other.
pub async fn a_prune_removes_a_summary_with_nul(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(4).await;
    let before = chat.cut(NONE, cut_with_nul(1)).await;
    let pruned = chat.forget(PruneTo::LastTurns(2)).await;
    assert_eq!(chat.compaction().await, Some(before.without_derived(pruned.revision.first())));
}
