//! The provenance of replies, which is stored with their exchange.

use super::support::*;

/// Returns an exchange with a provenance that depends on the text.
pub(super) fn made_after(text: &str) -> Exchange {
    let last = Seq::new(u64::from(u32::MAX));
    let cut = with!(Cut::window_from(Seq::new(3)), reasoning_from: last, encrypted_from: Seq::new(4));
    let origin = Origin::unknown().provider("ä \u{0} \"\\").route("").account(text).model("m");
    let digests = PromptDigests::new(Digest::of(text.as_bytes()), Digest::of(b"prompt"));
    let provenance = Provenance::new(u32::MAX, cut.positions(), origin).digests(Some(digests)).made_at(Some(last));
    with!(turn_of(text), provenance: Some(Box::new(provenance)))
}

fn provenances(log: &[Recorded]) -> Vec<Option<Box<Provenance>>> {
    log.iter().map(|recorded| recorded.exchange.provenance.clone()).collect()
}

/// A provenance is returned unchanged.
pub async fn a_provenance_comes_back(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_all([made_after("first"), turn_of("has none"), made_after("third")]).await;
    chat.assert_log_everywhere(fixture, &log).await;
}

/// A prune that erases derived data removes all provenances, because they are made from the removed text. One that
/// keeps derived data keeps them.
pub async fn an_erasure_removes_provenances(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let mut log = chat.add_all(["first", "second"].map(made_after)).await;
    chat.prune(PruneTo::From(Seq::new(1))).await;
    assert_eq!(chat.log().await[1..], log);

    chat.forget(PruneTo::From(Seq::new(2))).await;
    for recorded in &mut log {
        *recorded = changed(recorded, |exchange| exchange.provenance = None);
    }
    chat.assert_log_everywhere(fixture, &log).await;
}

/// A fork of a whole log has the provenances.
pub async fn provenances_are_forked(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_all(["first", "second"].map(made_after)).await;
    let copy = chat.other();
    chat.conversation().fork(Seq::new(2), &copy.id).await.unwrap();
    assert_eq!(provenances(&copy.log().await), provenances(&log));
}

/// A fork of a pruned log has the provenances, with positions that are counted from the first copied exchange.
pub async fn provenances_of_a_pruned_log_are_forked(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(1).await;
    chat.add(made_after("second")).await;
    chat.prune(PruneTo::From(Seq::new(1))).await;
    let copy = chat.other();
    chat.conversation().fork(Seq::new(2), &copy.id).await.unwrap();

    let last = Seq::new(u64::from(u32::MAX) - 1);
    let cut = with!(Cut::window_from(Seq::new(2)), reasoning_from: last, encrypted_from: Seq::new(3));
    let mut expected = made_after("second").provenance.unwrap();
    expected.cut = cut.positions();
    expected.made_at = Some(last);
    assert_eq!(provenances(&copy.log().await), [Some(expected)]);
}
