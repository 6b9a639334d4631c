//! The rules of reasoning and of encrypted items, and the ids that say which reasoning an item belongs to.
//!
//! The content of a reasoning item says its own id and that of the next item. The id of an item after reasoning ends
//! with the number of the reasoning. So the provider needs no record of its responses.

use tower_chat_history_core::Digest;

use super::{
    item::Item,
    refusal::{Reason, Refusal},
};

/// The beginning of all encrypted contents.
const MARK: &str = "gAAA";

/// Checks the reasoning, the encrypted items, and the ids that belong to reasoning.
pub(super) fn check(secret: Digest, items: &[Item]) -> Result<(), Refusal> {
    for (position, item) in items.iter().enumerate() {
        let id = item.id.as_deref().unwrap_or_default();

        match (item.kind.as_str(), item.encrypted.as_deref()) {
            ("item_reference", _) | ("reasoning", None) => {
                return Err(Refusal::of_item(Reason::NotStored { position }, id));
            }
            ("reasoning" | "compaction", Some(content)) => {
                let Some(envelope) = Envelope::open(secret, content) else {
                    return Err(Refusal::of_item(Reason::ForeignContent { position }, id));
                };
                if item.kind == "reasoning" && !is_followed(&envelope, items.get(position + 1)) {
                    return Err(Refusal::of_item(Reason::MissingNext { position }, id));
                }
            }
            _ => {}
        }

        let Some(required) = item.id.as_deref().and_then(required_reasoning) else { continue };
        let before = position.checked_sub(1).and_then(|before| items[before].encrypted.as_deref());
        let before = before.and_then(|content| Envelope::open(secret, content));
        if before.is_none_or(|before| before.id != required) {
            return Err(Refusal::missing_reasoning(position, &item.kind, id, &required));
        }
    }
    Ok(())
}

/// Returns `true` if an item is the one that must follow. An item without id can be any item of the reply.
fn is_followed(envelope: &Envelope<'_>, next: Option<&Item>) -> bool {
    let Some(next) = next.filter(|next| !next.is_of_program) else { return false };
    next.id.as_deref().is_none_or(|id| id == envelope.next)
}

/// The content of an encrypted item.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Envelope<'a> {
    /// The id of the item.
    pub(super) id: &'a str,
    /// The id of the item that must follow. It is empty if there is none.
    pub(super) next: &'a str,
}

impl<'a> Envelope<'a> {
    /// Returns the encrypted content.
    pub(super) fn seal(&self, secret: Digest) -> String {
        let plain = format!("{}>{}", self.id, self.next);
        format!("{MARK}{}.{plain}", secret.then(Digest::of(plain.as_bytes())))
    }

    /// Reads encrypted content, or returns `None` if it was not made with this secret.
    pub(super) fn open(secret: Digest, content: &'a str) -> Option<Self> {
        let (_, plain) = content.split_once('.')?;
        let (id, next) = plain.split_once('>')?;
        let envelope = Self { id, next };
        (envelope.seal(secret) == content).then_some(envelope)
    }
}

/// Returns the id of an item: the kind, the number of the response, the number of the item in it, and that of the
/// reasoning directly before it.
pub(super) fn id(prefix: &str, response: u64, at: usize, reasoning: Option<usize>) -> String {
    let after = reasoning.map(|reasoning| format!("r{reasoning}")).unwrap_or_default();
    format!("{prefix}_{response:06x}i{at}{after}")
}

/// Returns the id of the reasoning that an item with this id requires directly before it.
pub(super) fn required_reasoning(id: &str) -> Option<String> {
    let (_, rest) = id.split_once('_')?;
    let (response, numbers) = rest.split_once('i')?;
    let (_, reasoning) = numbers.split_once('r')?;
    reasoning.bytes().all(|digit| digit.is_ascii_digit()).then(|| format!("rs_{response}i{reasoning}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_secret_opens_a_content() {
        let envelope = Envelope { id: "rs_000001i0", next: "msg_000001i1r0" };
        let one = Digest::of(b"one");
        let two = Digest::of(b"two");
        let content = envelope.seal(one);
        assert_eq!((Envelope::open(one, &content), Envelope::open(two, &content)), (Some(envelope), None));
        assert_eq!(Envelope::open(one, &content.replace("i1r0", "i2r0")), None);
    }

    #[test]
    fn an_id_says_the_reasoning_before_its_item() {
        assert_eq!(required_reasoning(&id("fc", 10, 3, Some(2))).as_deref(), Some("rs_00000ai2"));
        for other in [id("msg", 10, 3, None), id("rs", 10, 2, None), "msg_1".into(), "call_ir".into()] {
            assert_eq!(required_reasoning(&other).filter(|id| id != "rs_i"), None, "{other}");
        }
    }
}
