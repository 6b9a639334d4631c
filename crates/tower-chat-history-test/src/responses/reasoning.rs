//! The rules of reasoning and of encrypted items.

use tower_chat_history_core::Digest;

use super::{
    item::Item,
    refusal::{Reason, Refusal},
    seal::{Sealed, required_reasoning},
};

/// Checks the reasoning, the encrypted items, and the ids that belong to reasoning.
pub(super) fn check(secret: Digest, items: &[Item]) -> Result<(), Refusal> {
    for (position, item) in items.iter().enumerate() {
        let refused = |reason| Err(Refusal::of_item(reason, item, &item.kind));
        let not_stored = || refused(Reason::NotStored { position });
        match (item.kind.as_str(), item.encrypted.as_deref()) {
            ("item_reference", _) | ("reasoning", None) => return not_stored(),
            ("reasoning" | "compaction", Some(content)) => {
                let Some(sealed) = Sealed::open(secret, content) else {
                    return refused(Reason::ForeignContent { position });
                };
                if item.kind == "reasoning" && !is_followed(&sealed, items.get(position + 1)) {
                    return refused(Reason::MissingNext { position });
                }
            }
            _ => {}
        }
        let Some(required) = item.id.as_deref().and_then(required_reasoning) else { continue };
        let before = position.checked_sub(1).and_then(|before| items[before].encrypted.as_deref());
        let before = before.and_then(|content| Sealed::open(secret, content));
        if before.is_none_or(|before| before.id != required) {
            return Err(Refusal::of_item(Reason::MissingReasoning { position }, item, &required));
        }
    }
    Ok(())
}

/// Returns `true` if an item is the one that must follow. An item without id can be any item of the reply.
fn is_followed(sealed: &Sealed<'_>, next: Option<&Item>) -> bool {
    let Some(next) = next.filter(|next| !next.is_of_program) else { return false };
    next.id.as_deref().is_none_or(|id| id == sealed.next)
}
