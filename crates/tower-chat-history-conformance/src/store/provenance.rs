//! The provenance of replies, which is stored with their exchange.

use super::support::*;

/// Returns an exchange with a provenance that depends on the text.
pub(super) fn made_after(text: &str) -> Exchange {
    let last = Seq::new(u64::from(u32::MAX));
    let cut = with!(Cut::window_from(Seq::new(3)), reasoning_from: last, encrypted_from: Seq::new(4));
    let origin = Origin::unknown().provider("ä \u{0} \"\\").route("").account(text).model("m");
    let digests = PromptDigests::new(Digest::of(text.as_bytes()), Digest::of(b"prompt"));
    let provenance = with!(
        Provenance::new(u32::MAX, cut.positions(), digests, origin),
        made_at: Some(last),
        reader: Some(Digest::of(b"reader")),
        tokens: Some(u64::from(u32::MAX)),
    );
    with!(turn_of(text), provenance: Some(Box::new(provenance)))
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
