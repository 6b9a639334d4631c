//! The items of the format, as they are read from JSON: their kinds, and the content of messages and outputs.

use std::borrow::Cow;

use crate::{
    json::{self, Object, entries},
    message::{
        MessageError, PartKinds, Role,
        dialect::{Bound, CallId, Closes, Index, Media, Part, Space, ToolCall, index::is_object},
    },
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
            Kind::Call(kind) => {
                index.opens = kind.call(&self.fields).into_iter().collect();
                index.is_rewritten = !index.opens.is_empty() && !self.has_sendable_arguments();
            }
            Kind::Output(kind) => index.answers = kind.answered(&self.fields).into_iter().collect(),
            Kind::Compaction => index.restarts = self.sealed().is_some(),
            _ => {}
        }
        index.part_kinds = self.part_kinds();
        index.bound = self.bound();
        index.is_blank = self.is_blank();
        index
    }

    /// Returns the kinds of parts of the most frequent items.
    fn part_kinds(&self) -> Option<PartKinds> {
        match &self.kind {
            Kind::Message(Role::Other(_)) | Kind::Call(_) => Some(PartKinds::default()),
            Kind::Message(_) => Some(content_part_kinds(self.fields.get("content"))),
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
    pub(super) fn is_blank(&self) -> bool {
        match &self.kind {
            // The provider expects its own messages back, also empty ones: reasoning may require them.
            // The API requires the content.
            Kind::Message(Role::Assistant) => match self.fields.get("content") {
                Some(content) if content.starts_with(['"', '[']) => !self.has_id() && is_blank_content(content),
                _ => true,
            },
            Kind::Call(kind) => kind.call(&self.fields).is_none(),
            Kind::Trigger => true,
            _ => false,
        }
    }

    /// Returns `true` if the item is no call of a function, or if its arguments are the text of an object.
    pub(super) fn has_sendable_arguments(&self) -> bool {
        self.kind != Kind::Call(CallKind::Function)
            || self.fields.text("arguments").is_some_and(|text| is_object(&text))
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
    if !matches!(name, "tool_search_call" | "tool_search_output") {
        return false;
    }
    match fields.text("execution").as_deref() {
        Some("server") => true,
        Some("client") => false,
        _ => fields.get("call_id").is_none(),
    }
}

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
    fn of_call(kind: &str) -> Option<Self> {
        KINDS.iter().find(|(_, call, _)| *call == kind).map(|(kind, ..)| *kind)
    }

    /// Returns the kind whose outputs have this type.
    fn of_output(kind: &str) -> Option<Self> {
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

    /// Returns the call of an item, or `None` if no output can name it, because it has no id, or if the API requires a
    /// name that it doesn't have.
    pub(super) fn call(self, item: &Object<'_>) -> Option<ToolCall> {
        let id = self.id(&item.text(if self == Self::McpApproval { "id" } else { "call_id" })?)?;
        let name = item.text("name").filter(|name| !name.is_empty());
        let (name, arguments) = match self {
            Self::Function | Self::McpApproval => (name?, item.text_or_json("arguments")),
            Self::Custom => (name?, item.text_or_json("input")),
            Self::ToolSearch => (Cow::Borrowed("tool_search"), item.text_or_json("arguments")),
            Self::LocalShell => (Cow::Borrowed("local_shell"), item.text_or_json("action")),
            Self::Shell => (Cow::Borrowed("shell"), item.text_or_json("action")),
            Self::Computer => {
                let actions = if item.get("actions").is_some() { "actions" } else { "action" };
                (Cow::Borrowed("computer"), item.text_or_json(actions))
            }
            Self::ApplyPatch => (Cow::Borrowed("apply_patch"), item.text_or_json("operation")),
        };
        let call = ToolCall::new(id, &*name, &*arguments);
        Some(if self == Self::Custom { call.custom() } else { call })
    }

    /// Returns the call that an output names.
    fn answered(self, item: &Object<'_>) -> Option<CallId> {
        let id = match item.text(self.answer_field()) {
            // OpenAI's reference calls the field of a local shell's output `id`, and its guide calls it `call_id`.
            None if self == Self::LocalShell => item.text("id"),
            id => id,
        };
        self.id(&id?)
    }

    fn id(self, id: &str) -> Option<CallId> {
        (!id.is_empty()).then(|| CallId::new(Space(self as u8), id))
    }
}

/// Visits a content: a text, or a list of parts. `said` makes a part of a text.
pub(super) fn visit_content<'m>(
    json: &'m str,
    said: impl Fn(Cow<'m, str>) -> Part<'m>,
    visit: &mut (impl FnMut(Part<'m>) + ?Sized),
) {
    if let Some(text) = json::text(json) {
        return visit(said(text));
    }
    match entries(json) {
        Some(parts) => parts.into_iter().for_each(|json| visit(content_part(json, &said))),
        None => visit(Part::Other { kind: Cow::Borrowed(""), text: Cow::Borrowed(json) }),
    }
}

pub(super) fn content_part<'m>(json: &'m str, said: impl Fn(Cow<'m, str>) -> Part<'m>) -> Part<'m> {
    let Some(fields) = Object::read(json) else {
        return Part::Other { kind: Cow::Borrowed(""), text: json::text_or_json(json) };
    };
    let kind = fields.text("type").unwrap_or_default();
    let is_text = matches!(&*kind, "input_text" | "output_text" | "text");
    if let Some(text) = fields.text("text").filter(|_| is_text) {
        return said(text);
    }
    if let Some(media) = media(&kind, &fields) {
        return Part::Media { media, kind, words: None, data: data(&fields) };
    }
    match (&*kind, fields.text("text"), fields.text("refusal")) {
        ("refusal", _, Some(refusal)) => Part::Refusal(refusal),
        (_, Some(text), _) => Part::Other { kind, text },
        (_, None, _) => Part::Other { kind, text: Cow::Borrowed(json) },
    }
}

fn media(kind: &str, fields: &Object<'_>) -> Option<Media> {
    if kind.contains("image") || kind.contains("screenshot") {
        let is_low = fields.text("detail").is_some_and(|detail| detail == "low");
        return Some(if is_low { Media::ImageLowDetail } else { Media::Image });
    }
    if kind.contains("audio") {
        return Some(Media::Audio);
    }
    if kind.contains("video") {
        return Some(Media::Video);
    }
    kind.contains("file").then_some(Media::File)
}

/// Returns the data of a part: base64, or a URL that begins with `data:`.
fn data<'m>(fields: &Object<'m>) -> Option<Cow<'m, str>> {
    if let Some(data) = fields.text("file_data") {
        return Some(data);
    }
    if let Some(url) = fields.text("image_url").filter(|url| url.starts_with("data:")) {
        return Some(url);
    }
    fields.object("input_audio")?.text("data")
}

/// Returns the image of a computer's output, or the output's JSON if it is not an image.
pub(super) fn screenshot(json: &str) -> Part<'_> {
    match content_part(json, Part::Text) {
        media @ Part::Media { .. } => media,
        _ => Part::Other { kind: Cow::Borrowed(""), text: Cow::Borrowed(json) },
    }
}

/// Returns the kinds of the parts of a content.
fn content_part_kinds(json: Option<&str>) -> PartKinds {
    let mut kinds = PartKinds::default();
    // A text has no parts of these kinds.
    if let Some(json) = json.filter(|json| !json.starts_with('"')) {
        visit_content(json, Part::Text, &mut |part| kinds.add(&part));
    }
    kinds
}

/// Returns `true` if a content has no part, or only empty texts and refusals.
fn is_blank_content(json: &str) -> bool {
    let mut is_blank = true;
    visit_content(json, Part::Text, &mut |part| {
        is_blank &= matches!(part, Part::Text(text) | Part::Refusal(text) if text.is_empty());
    });
    is_blank
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
