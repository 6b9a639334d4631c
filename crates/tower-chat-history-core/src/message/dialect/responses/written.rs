//! The items that history writes, and the changes of stored items.

use super::{
    item::{Item, Kind},
    kind::CallKind,
};
use crate::{json::quoted, message::dialect::CallId, role::Role};

/// The result of a call that was abandoned. It is constant, so that it never changes a part of a prompt that was
/// already sent.
const ABANDONED: &str = "[no result: this call was abandoned]";

/// A transparent image of one pixel, in place of a screenshot.
const SCREENSHOT: &str = concat!(
    r#"{"type":"computer_screenshot","image_url":"data:image/png;base64,"#,
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==",
    r#""}"#
);

/// Returns a message with this text.
pub(super) fn message(role: &Role, text: &str) -> String {
    let role = match role {
        Role::Assistant | Role::System | Role::Developer => role.as_str(),
        _ => "user",
    };
    format!(r#"{{"type":"message","role":"{role}","content":{}}}"#, quoted(text))
}

/// Returns the constant output of a call that was abandoned.
pub(super) fn abandoned(call: &CallId) -> String {
    let kind = CallKind::of_space(call.space());
    let text = quoted(ABANDONED);
    let rest = match kind {
        CallKind::Function | CallKind::Custom | CallKind::LocalShell => format!(r#""output":{text}"#),
        CallKind::ToolSearch => r#""execution":"client","status":"completed","tools":[]"#.to_owned(),
        CallKind::Shell => format!(r#""output":[{{"stdout":"","stderr":{text},"outcome":{{"type":"timeout"}}}}]"#),
        CallKind::Computer => format!(r#""output":{SCREENSHOT}"#),
        CallKind::ApplyPatch => format!(r#""status":"failed","output":{text}"#),
        CallKind::McpApproval => r#""approve":false"#.to_owned(),
    };
    let (name, field, id) = (kind.output_type(), kind.answer_field(), quoted(call.as_str()));
    format!(r#"{{"type":"{name}","{field}":{id},{rest}}}"#)
}

/// Returns the output with this text in place of its own one, or `None` if it must stay.
pub(super) fn cleared(json: &str, placeholder: &str) -> Option<String> {
    let item = Item::read(json).ok()?;
    let Kind::Output(kind) = item.kind else { return None };
    let text = quoted(placeholder);
    let output = match kind {
        CallKind::Function | CallKind::Custom | CallKind::LocalShell | CallKind::ApplyPatch => text,
        CallKind::Shell => {
            format!(r#"[{{"stdout":{text},"stderr":"","outcome":{{"type":"exit","exit_code":0}}}}]"#)
        }
        CallKind::Computer => SCREENSHOT.to_owned(),
        CallKind::ToolSearch | CallKind::McpApproval => return None,
    };
    Some(item.fields.with("output", &output))
}

/// Returns the item without everything that only its origin accepts, or `None` if nothing is left.
pub(super) fn unbound(json: &str) -> Option<String> {
    let item = Item::read(json).ok()?;
    match item.kind {
        Kind::Message(_) | Kind::Call(_) => {
            // The provider knows by the id that reasoning came before the item, and requires it.
            let without = item.fields.without("id");
            let says_nothing = Item::read(&without).map_or(true, |item| item.says_nothing());
            (!says_nothing).then_some(without)
        }
        // The format requires the ids of items that the provider made for itself.
        _ => None,
    }
}
