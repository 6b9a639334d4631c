//! The memory that a message takes.

use super::{Message, Parsed, indexed::LazyIndex};
use crate::memory::{block, shared};

/// The factor for the JSON of a message whose index is read later. A message with bound reasoning and a call is three
/// messages with its copies, and each may have the arguments of the call a second time.
const READ_LATER: usize = 6;

impl Message {
    /// Returns an estimate of the memory that this message takes, in bytes: its JSON, the copies in its index
    /// (names, ids, and the arguments of tool calls), and a constant. Clones share this memory.
    ///
    /// A message with reasoning that is [bound](Self::bound) counts once more for each copy without that reasoning,
    /// which it keeps after the first prompt that needs the copy: the one that is [unbound](Self::unbound), and, if the
    /// reasoning is bound to its prompt, the one that is [unbound from it](Self::unbound_from_prompt).
    ///
    /// If the message was created before its dialect was known, the estimate is six times its JSON and the constant. It
    /// stays the same after the dialect has read the message, so that a store can add and subtract it. A message with
    /// many very short calls takes more.
    #[must_use]
    pub fn memory(&self) -> usize {
        let json = shared(size_of::<Parsed>()) + block(self.bytes());
        if let LazyIndex::ReadLater(_) = self.0.indexed {
            return json * READ_LATER;
        }
        let own = json + self.index().memory();
        let bound = self.bound();
        own * (1 + usize::from(bound.can_be_removed()) + usize::from(bound.to_prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AnthropicMessages, OpenAiResponses};

    #[test]
    fn a_message_with_bound_reasoning_counts_with_its_copies() {
        let said = "x".repeat(10_000);
        let thinking = r#"{"type":"thinking","thinking":"t","signature":"s"}"#;
        let signed = format!(r#"{{"role":"assistant","content":[{thinking},{{"type":"text","text":"{said}"}}]}}"#);
        let sealed = format!(r#"{{"type":"reasoning","summary":[],"encrypted_content":"{said}"}}"#);
        let plain = Message::assistant(&said);
        let signed = Message::in_dialect(&AnthropicMessages, signed).unwrap();
        let sealed = Message::in_dialect(&OpenAiResponses, sealed).unwrap();
        assert!((10_000..11_000).contains(&plain.memory()));
        assert!((20_000..22_000).contains(&sealed.memory()), "bound to its origin");
        assert!((30_000..33_000).contains(&signed.memory()), "bound to its prompt, too");
        let [one, other] = [signed.unbound().unwrap(), signed.unbound_from_prompt().unwrap()];
        assert_ne!(one.json().as_ptr(), other.json().as_ptr(), "two copies");
    }

    #[test]
    fn the_estimate_of_a_message_that_is_read_later_stays_and_includes_its_copies() {
        let thinking = r#"{"type":"thinking","thinking":"t","signature":"s"}"#;
        let input = "x".repeat(10_000);
        let call = format!(r#"{{"type":"tool_use","id":"1","name":"f","input":{{"a":"{input}"}}}}"#);
        let json = format!(r#"{{"role":"assistant","content":[{thinking},{call}]}}"#);
        let read = Message::in_dialect(&AnthropicMessages, &json).unwrap();
        let later = Message::unread(json.into());
        let before = later.memory();
        later.read_in(&AnthropicMessages).unwrap();
        assert_eq!(later.memory(), before, "stores add and subtract it");
        assert!((read.memory()..read.memory() * 2).contains(&before), "{before}, and {} if read", read.memory());
    }
}
