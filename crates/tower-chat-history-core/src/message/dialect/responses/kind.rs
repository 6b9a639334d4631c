//! The kinds of calls that a program answers.

use std::borrow::Cow;

use crate::{
    json::Object,
    message::dialect::{CallId, Space, ToolCall},
};

/// A kind of calls that a program answers. Each is a [`Space`] of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    Function,
    Custom,
    ToolSearch,
    LocalShell,
    Shell,
    Computer,
    ApplyPatch,
    McpApproval,
}

/// All kinds, with the types of their calls and outputs. The space of a kind is its index.
const KINDS: [(CallKind, &str, &str); 8] = [
    (CallKind::Function, "function_call", "function_call_output"),
    (CallKind::Custom, "custom_tool_call", "custom_tool_call_output"),
    (CallKind::ToolSearch, "tool_search_call", "tool_search_output"),
    (CallKind::LocalShell, "local_shell_call", "local_shell_call_output"),
    (CallKind::Shell, "shell_call", "shell_call_output"),
    (CallKind::Computer, "computer_call", "computer_call_output"),
    (CallKind::ApplyPatch, "apply_patch_call", "apply_patch_call_output"),
    (CallKind::McpApproval, "mcp_approval_request", "mcp_approval_response"),
];

impl CallKind {
    /// Returns the kind whose calls have this type.
    pub(super) fn of_call(kind: &str) -> Option<Self> {
        KINDS.iter().find(|(_, call, _)| *call == kind).map(|(kind, ..)| *kind)
    }

    /// Returns the kind whose outputs have this type.
    pub(super) fn of_output(kind: &str) -> Option<Self> {
        KINDS.iter().find(|(.., output)| *output == kind).map(|(kind, ..)| *kind)
    }

    /// Returns the kind of a space.
    pub(super) fn of_space(space: Space) -> Self {
        KINDS.get(usize::from(space.0)).map_or(Self::Function, |(kind, ..)| *kind)
    }

    /// Returns the type of outputs.
    pub(super) const fn output_type(self) -> &'static str {
        KINDS[self as usize].2
    }

    /// Returns the field of an output that names its call.
    pub(super) const fn answer_field(self) -> &'static str {
        if matches!(self, Self::McpApproval) { "approval_request_id" } else { "call_id" }
    }

    /// Returns the call of an item, or `None` if no output can name it, because it has no id.
    pub(super) fn call(self, item: &Object<'_>) -> Option<ToolCall> {
        let id = self.id(&item.text(if self == Self::McpApproval { "id" } else { "call_id" })?)?;
        let name = |name: &'static str| Cow::Borrowed(name);
        let (name, arguments) = match self {
            Self::Function | Self::McpApproval => (item.text_or_json("name"), item.text_or_json("arguments")),
            Self::Custom => (item.text_or_json("name"), item.text_or_json("input")),
            Self::ToolSearch => (name("tool_search"), item.text_or_json("arguments")),
            Self::LocalShell => (name("local_shell"), item.text_or_json("action")),
            Self::Shell => (name("shell"), item.text_or_json("action")),
            Self::Computer => {
                let actions = if item.get("actions").is_some() { "actions" } else { "action" };
                (name("computer"), item.text_or_json(actions))
            }
            Self::ApplyPatch => (name("apply_patch"), item.text_or_json("operation")),
        };
        let call = ToolCall::new(id, &*name, &*arguments);
        Some(if self == Self::Custom { call.custom() } else { call })
    }

    /// Returns the call that an output names.
    pub(super) fn answered(self, item: &Object<'_>) -> Option<CallId> {
        // OpenAI's reference calls the field of a local shell's output `id`, and its guide calls it `call_id`.
        let or_id = || if self == Self::LocalShell { item.text("id") } else { None };
        self.id(&item.text(self.answer_field()).or_else(or_id)?)
    }

    fn id(self, id: &str) -> Option<CallId> {
        (!id.is_empty()).then(|| CallId::new(Space(self as u8), id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_space_of_a_kind_is_its_index() {
        for (at, (kind, call, output)) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            assert_eq!(CallKind::of_space(Space(kind as u8)), kind);
            assert_eq!((CallKind::of_call(call), CallKind::of_output(output)), (Some(kind), Some(kind)));
            assert_eq!(kind.output_type(), output);
        }
        assert_eq!(CallKind::of_space(Space(u8::MAX)), CallKind::Function);
    }
}
