//! The items of the format, as they are read from JSON.

use std::borrow::Cow;

use super::{content, kind::CallKind};
use crate::{
    json::{self, Object},
    message::dialect::{Bound, Closes, Index},
    message::{MessageError, PartKinds},
    role::Role,
};

/// An item.
pub(super) struct Item<'a> {
    /// The type. It is that of a message or a reference if the item has none.
    pub(super) name: Cow<'a, str>,
    pub(super) kind: Kind,
    pub(super) fields: Object<'a>,
}

/// A kind of items.
#[derive(Debug, PartialEq)]
pub(super) enum Kind {
    /// A message. The role is `Other` if the format does not define it.
    Message(Role),
    Reasoning,
    /// A call that a program answers.
    Call(CallKind),
    /// The output of such a call.
    Output(CallKind),
    /// A call that the provider executed, or its output.
    OfServer,
    Compaction,
    /// A request of the program to compact the conversation now.
    Trigger,
    Unknown,
}

/// The types of calls that the provider executes, and of their outputs.
const OF_SERVER: [&str; 8] = [
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
    "mcp_list_tools",
    "program",
    "program_output",
];

impl<'a> Item<'a> {
    /// Reads an item.
    pub(super) fn read(json: &'a str) -> Result<Self, MessageError> {
        let fields = Object::read(json).ok_or(MessageError::new("it is not an object"))?;
        let name = match fields.get("type") {
            Some(kind) => json::text(kind).ok_or(MessageError::new("its type is not a string"))?,
            None if fields.get("role").is_some() => Cow::Borrowed("message"),
            None if fields.get("id").is_some() => Cow::Borrowed("item_reference"),
            None => return Err(MessageError::new("it has neither a type nor a role")),
        };
        let kind = match &*name {
            "message" => Kind::Message(role(&fields)?),
            "reasoning" => Kind::Reasoning,
            // The second name is that of earlier versions.
            "compaction" | "compaction_summary" => Kind::Compaction,
            "compaction_trigger" => Kind::Trigger,
            name if OF_SERVER.contains(&name) || is_search_of_server(name, &fields) => Kind::OfServer,
            name => CallKind::of_call(name)
                .map(Kind::Call)
                .or_else(|| CallKind::of_output(name).map(Kind::Output))
                .unwrap_or(Kind::Unknown),
        };
        Ok(Self { name, kind, fields })
    }

    /// Returns the properties that history needs.
    pub(super) fn index(&self) -> Index {
        let mut index = Index::new(self.role());
        match index.role {
            Role::Assistant => index.closes = Closes::AfterResult,
            Role::Other(_) => index.closes = Closes::Never,
            _ => {}
        }
        match &self.kind {
            Kind::Call(kind) => index.opens = kind.call(&self.fields).into_iter().collect(),
            Kind::Output(kind) => index.answers = kind.answered(&self.fields).into_iter().collect(),
            Kind::Compaction => index.restarts = self.sealed().is_some(),
            _ => {}
        }
        index.part_kinds = self.part_kinds();
        index.bound = self.bound();
        index.says_nothing = self.says_nothing();
        index
    }

    /// Returns the kinds of parts of the most frequent items.
    fn part_kinds(&self) -> Option<PartKinds> {
        match &self.kind {
            Kind::Message(Role::Other(_)) | Kind::Call(_) => Some(PartKinds::default()),
            Kind::Message(_) => Some(content::part_kinds(self.fields.get("content"))),
            _ => None,
        }
    }

    fn role(&self) -> Role {
        match &self.kind {
            Kind::Message(role) => role.clone(),
            Kind::Reasoning | Kind::Call(_) | Kind::OfServer | Kind::Compaction => Role::Assistant,
            Kind::Output(_) => Role::Tool,
            Kind::Trigger | Kind::Unknown => Role::Other(self.name.as_ref().into()),
        }
    }

    fn bound(&self) -> Bound {
        match self.kind {
            Kind::Reasoning => Bound::TO_ORIGIN.and_next(),
            Kind::Compaction => Bound::TO_ORIGIN,
            // A response names the request by its id.
            Kind::Call(CallKind::McpApproval) => Bound::NONE,
            Kind::Message(Role::Assistant) | Kind::Call(_) | Kind::OfServer if self.has_id() => Bound::TO_ORIGIN,
            _ => Bound::NONE,
        }
    }

    /// Returns `true` if the item is never sent to the provider.
    pub(super) fn says_nothing(&self) -> bool {
        match &self.kind {
            // The provider expects its own messages back, also empty ones: reasoning may require them.
            Kind::Message(Role::Assistant) => !self.has_id() && content::is_blank(self.fields.get("content")),
            Kind::Call(kind) => kind.call(&self.fields).is_none(),
            Kind::Trigger => true,
            _ => false,
        }
    }

    fn has_id(&self) -> bool {
        self.fields.get("id").is_some()
    }

    /// Returns the encrypted content, unless it is empty.
    pub(super) fn sealed(&self) -> Option<Cow<'a, str>> {
        self.fields.text("encrypted_content").filter(|sealed| !sealed.is_empty())
    }
}

/// Returns the role of a message.
fn role(fields: &Object<'_>) -> Result<Role, MessageError> {
    let role = fields.text("role").ok_or(MessageError::new("a message has no role"))?;
    Ok(match &*role {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        "developer" => Role::Developer,
        other => Role::Other(other.into()),
    })
}

/// Returns `true` for a search of tools that the provider executed, and for its output. They name no call.
fn is_search_of_server(name: &str, fields: &Object<'_>) -> bool {
    let of_server = || match fields.text("execution").as_deref() {
        Some("server") => true,
        Some("client") => false,
        _ => fields.get("call_id").is_none(),
    };
    matches!(name, "tool_search_call" | "tool_search_output") && of_server()
}
