//! Refusals of items that the provider cannot read.

use tower_chat_history_core::json::Object;

use crate::adapt::Repair;

/// Returns the repair for a refusal, if the provider refused encrypted content or the ids of items.
pub(super) fn of_refusal(body: &[u8]) -> Option<Repair> {
    let body = std::str::from_utf8(body).ok()?;
    let error = Object::read(body)?.object("error")?;
    let is_unreadable = error.text("code").is_some_and(|code| code == "invalid_encrypted_content");
    let is_lost = error.text("message").is_some_and(|message| is_lost_item(&message));
    (is_unreadable || is_lost).then_some(Repair::WithoutEncrypted)
}

/// Returns `true` if a message says that the provider's storage does not have an item.
fn is_lost_item(message: &str) -> bool {
    let id = message.strip_prefix("Item with id '").and_then(|rest| rest.split_once('\''));
    id.is_some_and(|(_, rest)| rest.starts_with(" not found"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_repaired(error: &str) -> bool {
        of_refusal(format!(r#"{{"error":{error}}}"#).as_bytes()) == Some(Repair::WithoutEncrypted)
    }

    #[test]
    fn refusals_of_encrypted_content_and_lost_items_are_repaired() {
        for error in [
            r#"{"message":"The encrypted content gAAA...DQ== could not be verified.","type":"invalid_request_error","param":null,"code":"invalid_encrypted_content"}"#,
            r#"{"code":"invalid_encrypted_content"}"#,
            r#"{"message":"Item with id 'rs_1' not found.","type":"invalid_request_error","param":"input"}"#,
            r#"{"message":"Item with id 'fc_1' not found. Items are not persisted when `store` is set to false.","code":null}"#,
        ] {
            assert!(is_repaired(error), "{error}");
        }
    }

    #[test]
    fn other_refusals_are_not_repaired() {
        for error in [
            "null",
            "{}",
            r#""invalid_encrypted_content""#,
            r#"{"message":"invalid_encrypted_content"}"#,
            r#"{"code":"invalid_value","message":"Invalid 'input[1].id': 'x'."}"#,
            r#"{"code":"previous_response_not_found","message":"Previous response with id 'resp_1' not found."}"#,
            r#"{"message":"Item with id 'x' of type 'reasoning' was provided without its required following item."}"#,
            r#"{"message":"Did the Item with id 'x' not found."}"#,
            r#"{"message":"Item with id 'x"}"#,
        ] {
            assert!(!is_repaired(error), "{error}");
        }
        for body in [&b""[..], b"<html>", b"[]", b"{\"error\":", b"\xff"] {
            assert_eq!(of_refusal(body), None);
        }
    }
}
