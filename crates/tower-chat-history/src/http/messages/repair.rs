//! Refusals of thinking that the provider cannot verify.

use tower_chat_history_core::json::Object;

use crate::adapt::Repair;

/// The ends of the first sentence of such a refusal, after the place of the block.
const UNREADABLE: [&str; 2] =
    [": Invalid `signature` in `thinking` block", ": Invalid `data` in `redacted_thinking` block"];

/// Returns the repair for a refusal, if the provider refused the signature or the data of thinking.
pub(super) fn of_refusal(body: &[u8]) -> Option<Repair> {
    let body = std::str::from_utf8(body).ok()?;
    let message = Object::read(body)?.object("error")?.text("message")?;
    let is_unreadable = message.starts_with("messages.") && UNREADABLE.iter().any(|end| message.contains(end));
    is_unreadable.then_some(Repair::WithoutEncrypted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repair(message: &str) -> Option<Repair> {
        let error = serde_json::json!({"type": "invalid_request_error", "message": message});
        of_refusal(serde_json::json!({"type": "error", "error": error}).to_string().as_bytes())
    }

    #[test]
    fn refusals_of_signatures_are_repaired() {
        for message in [
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            "messages.23.content.2: Invalid `data` in `redacted_thinking` block",
            "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation.",
        ] {
            assert_eq!(repair(message), Some(Repair::WithoutEncrypted), "{message}");
        }
    }

    #[test]
    fn other_refusals_are_not_repaired() {
        for message in [
            "",
            "messages.1: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
            "messages.0.content.0.redacted_thinking.data: Field required",
            "The text: Invalid `signature` in `thinking` block",
        ] {
            assert_eq!(repair(message), None, "{message}");
        }
        for body in [&b""[..], b"<html>", b"{}", br#"{"error":"x"}"#, b"\xff"] {
            assert_eq!(of_refusal(body), None);
        }
    }
}
