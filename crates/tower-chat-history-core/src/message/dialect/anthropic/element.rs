//! A message with its blocks, as it is read from its JSON, and the blocks that the API accepts.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    ptr,
};

use super::AnthropicMessages;
use crate::{
    digest::Digest,
    json::{self, Object, quoted},
    message::{
        MessageError, PartKinds, Role,
        dialect::{Bound, CallId, Closes, Index, KnownDigest, Space, ToolCall, cache_control},
    },
};

/// A message.
pub(super) struct Element<'a> {
    json: &'a str,
    pub(super) speaker: Speaker,
    pub(super) object: Object<'a>,
    /// The blocks of the content. A content that is not a list is one block, and a missing one is none. An element in
    /// an unknown role has no blocks.
    pub(super) blocks: Vec<Block<'a>>,
}

/// The role of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    User,
    Model,
    System,
    Unknown(String),
}

/// A block of the content, or a text in place of a list of blocks.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub(super) json: &'a str,
    pub(super) kind: Kind<'a>,
}

#[derive(Debug)]
pub(super) enum Kind<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// Readable or redacted thinking.
    Thinking { is_signed: bool },
    /// A call that waits for a result.
    Call(ToolCall),
    /// A block that lacks a required field: a type, the text of a text, or the id or name of a call.
    Unsound,
    /// The result of a call.
    Result(CallId),
    /// A result that names no call.
    Orphan,
    /// A call that the provider executes itself.
    ServerCall(CallId),
    /// The result of such a call.
    ServerResult(CallId),
    /// A summary by the provider. It has none if it could not make one.
    Compaction,
    /// Any other block. It stays as it is written.
    Other { is_bound: bool },
}

impl Kind<'_> {
    /// Returns the conditions under which the block may be sent again.
    pub(super) const fn bound(&self) -> Bound {
        match self {
            Self::Thinking { is_signed: true } | Self::Other { is_bound: true } => Bound::TO_PREFIX,
            Self::Compaction => Bound::TO_ORIGIN,
            _ => Bound::NONE,
        }
    }

    const fn is_result(&self) -> bool {
        matches!(self, Self::Result(_) | Self::Orphan)
    }

    const fn is_thinking(&self) -> bool {
        matches!(self, Self::Thinking { .. })
    }
}

impl<'a> Block<'a> {
    fn read(json: &'a str, speaker: &Speaker) -> Self {
        Self { json, kind: kind(json, speaker) }
    }
}

fn kind<'a>(json: &'a str, speaker: &Speaker) -> Kind<'a> {
    let is_reply = *speaker == Speaker::Model;
    let Some(block) = Object::read(json) else { return Kind::Unsound };
    let Some(name) = block.text("type") else { return Kind::Unsound };

    match (&*name, speaker) {
        ("text", _) => block.text("text").map_or(Kind::Unsound, Kind::Text),
        ("thinking", Speaker::Model) => Kind::Thinking { is_signed: has_signature(&block) },
        ("redacted_thinking", Speaker::Model) => Kind::Thinking { is_signed: true },
        ("tool_use", Speaker::Model) => match (id(&block, "id"), block.text("name").filter(|name| !name.is_empty())) {
            (Some(id), Some(name)) => {
                Kind::Call(ToolCall::new(id, name.as_ref(), block.get("input").unwrap_or_default()))
            }
            _ => Kind::Unsound,
        },
        ("compaction", Speaker::Model) => Kind::Compaction,
        (name, Speaker::Model) if AnthropicMessages::is_server_call(name) => {
            id(&block, "id").map_or(Kind::Other { is_bound: false }, Kind::ServerCall)
        }
        (name, Speaker::Model) if AnthropicMessages::is_server_result(name) => {
            id(&block, "tool_use_id").map_or(Kind::Other { is_bound: false }, Kind::ServerResult)
        }
        ("tool_result", Speaker::User) => id(&block, "tool_use_id").map_or(Kind::Orphan, Kind::Result),
        _ => Kind::Other { is_bound: is_reply && has_signature(&block) },
    }
}

fn id(block: &Object<'_>, name: &str) -> Option<CallId> {
    let id = block.text(name).filter(|id| !id.is_empty())?;
    Some(CallId::new(Space::DEFAULT, &*id))
}

fn has_signature(block: &Object<'_>) -> bool {
    block.get("signature").is_some_and(|json| json != "\"\"")
}

impl<'a> Element<'a> {
    /// Reads a message.
    pub(super) fn read(json: &'a str) -> Result<Self, MessageError> {
        let object = Object::read(json).ok_or(MessageError::new("it is not an object"))?;
        let role = object.text("role").ok_or(MessageError::new("it has no role"))?;
        let speaker = match &*role {
            "user" => Speaker::User,
            "assistant" => Speaker::Model,
            "system" => Speaker::System,
            _ => Speaker::Unknown(role.into_owned()),
        };
        let blocks = match object.get("content") {
            _ if matches!(speaker, Speaker::Unknown(_)) => Vec::new(),
            Some(content) => blocks(content, &speaker),
            None => Vec::new(),
        };
        Ok(Self { json, speaker, object, blocks })
    }

    /// Returns the form of the message that the API accepts.
    pub(super) fn sent(&self) -> Sent<'_, 'a> {
        sent(self)
    }

    /// Returns the message with these blocks in place of its own.
    pub(super) fn with_blocks<'b>(&self, blocks: impl IntoIterator<Item = &'b str>) -> String {
        let blocks: Vec<&str> = blocks.into_iter().collect();
        self.object.with("content", &format!("[{}]", blocks.join(",")))
    }

    /// Returns the properties that history needs.
    pub(super) fn index(&self) -> Index {
        let sent = self.sent();
        let mut index = Index::new(self.role(&sent));
        index.may_have_cache_marks = cache_control::may_have_some(self.json);
        if matches!(self.speaker, Speaker::Unknown(_)) {
            index.closes = Closes::Never;
            return index;
        }

        index.is_blank = self.is_blank(&sent);
        index.is_rewritten = !index.is_blank && sent.is_changed;
        index.bound = sent.blocks.iter().map(|sent| sent.block.kind.bound()).fold(Bound::NONE, Bound::or);
        if self.speaker == Speaker::System && !sent.blocks.is_empty() {
            index.bound = index.bound.and_next();
        }

        let mut opens = Vec::new();
        let mut answers = Vec::new();
        for block in &self.blocks {
            match &block.kind {
                Kind::Call(call) => opens.push(call.clone()),
                Kind::Result(call) => answers.push(call.clone()),
                _ => {}
            }
        }
        index.opens = opens.into();
        index.answers = answers.into();

        // Texts have no other parts. The parts of other blocks are read when their kinds are needed.
        let are_texts = self.blocks.iter().all(|block| matches!(block.kind, Kind::Text(_)));
        index.part_kinds = are_texts.then(PartKinds::default);

        let server = ServerTools::of(&self.blocks);
        index.server_calls = server.calls().into();
        index.server_results = server.results().into();
        index.digest = KnownDigest::Read(self.digest_of(&sent, index.may_have_cache_marks));
        index
    }

    fn role(&self, sent: &Sent<'_, '_>) -> Role {
        match &self.speaker {
            Speaker::User if self.has_only_results(sent) => Role::Tool,
            Speaker::User => Role::User,
            Speaker::Model => Role::Assistant,
            Speaker::System => Role::System,
            Speaker::Unknown(role) => Role::Other(role.as_str().into()),
        }
    }

    fn has_only_results(&self, sent: &Sent<'_, '_>) -> bool {
        self.blocks.iter().any(|block| block.kind.is_result())
            && sent.blocks.iter().all(|sent| sent.block.kind.is_result())
    }

    /// Returns `true` if nothing is left that the API accepts. A system message can have other members that count, such
    /// as settings of the output.
    pub(super) fn is_blank(&self, sent: &Sent<'_, '_>) -> bool {
        if !sent.blocks.is_empty() {
            return false;
        }
        match self.speaker {
            Speaker::User | Speaker::Model => true,
            Speaker::System => self.object.members().iter().all(|member| FIELDS.contains(&&*member.name)),
            Speaker::Unknown(_) => false,
        }
    }

    /// Returns the digest of what the provider compares.
    pub(super) fn digest(&self) -> Digest {
        self.digest_of(&self.sent(), cache_control::may_have_some(self.json))
    }

    fn digest_of(&self, sent: &Sent<'_, '_>, may_have_marks: bool) -> Digest {
        let marked = usize::from(may_have_marks);
        let mut digest = Digest::default();

        let members = self.object.members().iter();
        for member in members.filter(|member| !matches!(&*member.name, "content" | cache_control::NAME)) {
            digest = digest.then(Digest::of(self.json[self.object.place(member)].as_bytes()));
        }

        if matches!(self.speaker, Speaker::Unknown(_)) {
            digest = digest.then(digest_of(self.object.get("content").unwrap_or_default(), 0));
        } else if sent.changes_before_thinking {
            for block in &self.blocks {
                digest = digest.then(digest_of(block.json, marked * block.levels()));
            }
        } else {
            for sent in &sent.blocks {
                digest = digest.then(digest_of(&sent.json, marked * sent.block.levels()));
            }
        }

        digest
    }
}

/// Returns the digest of JSON without the marks for the cache at its first `levels` levels.
fn digest_of(json: &str, levels: usize) -> Digest {
    if levels == 0 {
        return Digest::of(json.as_bytes());
    }
    Digest::of(cache_control::without(json, levels).as_bytes())
}

/// The members that every message can have.
const FIELDS: [&str; 3] = ["role", "content", cache_control::NAME];

fn blocks<'a>(content: &'a str, speaker: &Speaker) -> Vec<Block<'a>> {
    if let Some(blocks) = json::entries(content) {
        return blocks.into_iter().map(|json| Block::read(json, speaker)).collect();
    }
    let kind = json::text(content).map_or(Kind::Unsound, Kind::Text);
    vec![Block { json: content, kind }]
}

/// The blocks of a message that are sent.
pub(super) struct Sent<'e, 'a> {
    pub(super) blocks: Vec<SentBlock<'e, 'a>>,
    /// `true` if these are not the message's own blocks.
    pub(super) is_changed: bool,
    /// `true` if a block that is left out or changed has thinking after it that is sent.
    pub(super) changes_before_thinking: bool,
}

/// A block that is sent.
pub(super) struct SentBlock<'e, 'a> {
    pub(super) block: &'e Block<'a>,
    /// The JSON, as it is sent.
    pub(super) json: Cow<'a, str>,
}

/// Returns the blocks that the API accepts, in an order that it accepts.
fn sent<'e, 'a>(element: &'e Element<'a>) -> Sent<'e, 'a> {
    let has_words = element.blocks.iter().any(|block| matches!(&block.kind, Kind::Text(text) if !is_blank(text)));
    let mut sent = Sent { blocks: Vec::new(), is_changed: false, changes_before_thinking: false };
    let mut has_more = false;
    let mut results_are_last = false;
    // The number of blocks before the first one that is left out or changed.
    let mut unchanged = None;

    for block in &element.blocks {
        let is_left_out = match &block.kind {
            Kind::Text(text) => text.is_empty() || !has_words && is_blank(text),
            Kind::Unsound | Kind::Orphan => true,
            _ => false,
        };
        if is_left_out {
            unchanged = unchanged.or(Some(sent.blocks.len()));
            continue;
        }

        let json = match &block.kind {
            Kind::Result(_) => sendable_result(block.json),
            Kind::Call(call) => sendable_call(block.json, call),
            _ => Cow::Borrowed(block.json),
        };
        if matches!(json, Cow::Owned(_)) {
            unchanged = unchanged.or(Some(sent.blocks.len()));
        }
        results_are_last |= has_more && block.kind.is_result();
        has_more |= !block.kind.is_result();
        sent.blocks.push(SentBlock { block, json });
    }

    if results_are_last {
        sent.blocks.sort_by_key(|sent| !sent.block.kind.is_result());
    }
    let thinking = without_last_thinking(&mut sent.blocks, element);
    sent.is_changed |= unchanged.is_some() || results_are_last || thinking;
    if let Some(first) = unchanged {
        sent.changes_before_thinking = sent.blocks.iter().skip(first).any(|sent| sent.block.kind.is_thinking());
    }
    sent
}

/// Removes the thinking at the end of a reply. Returns `true` if there was some.
pub(super) fn without_last_thinking(blocks: &mut Vec<SentBlock<'_, '_>>, element: &Element<'_>) -> bool {
    let kept = blocks.iter().rposition(|sent| !sent.block.kind.is_thinking()).map_or(0, |last| last + 1);
    let has_some = element.speaker == Speaker::Model && kept < blocks.len();
    if has_some {
        blocks.truncate(kept);
    }
    has_some
}

/// Returns `true` if the API does not count the text as one.
fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Returns a call in the form that the API accepts: its input is an object.
fn sendable_call<'a>(json: &'a str, call: &ToolCall) -> Cow<'a, str> {
    // The JSON of the input was read before, so its first byte says what it is.
    if call.arguments().starts_with('{') {
        return Cow::Borrowed(json);
    }
    Object::read(json).map_or(Cow::Borrowed(json), |block| Cow::Owned(block.with("input", &call.arguments_object())))
}

/// The content of a failed result that has none.
const FAILED: &str = "[the call failed, and returned no text]";

/// Returns a result in the form that the API accepts: without empty texts in its content, and with a text if the call
/// failed.
fn sendable_result(json: &str) -> Cow<'_, str> {
    let Some(result) = Object::read(json) else { return Cow::Borrowed(json) };
    let content = result.get("content").unwrap_or_default();
    let entries = json::entries(content);
    let kept: Option<Vec<&str>> =
        entries.as_ref().map(|entries| entries.iter().copied().filter(|entry| !is_empty_text(entry)).collect());
    let is_empty = kept.as_ref().map_or(matches!(content, "" | "\"\""), Vec::is_empty);
    if is_empty && result.get("is_error") == Some("true") {
        return Cow::Owned(result.with("content", &quoted(FAILED)));
    }
    match kept {
        Some(kept) if kept.len() < entries.map_or(0, |entries| entries.len()) => {
            // The API takes an empty text as the whole content.
            let content = if kept.is_empty() { "\"\"".to_owned() } else { format!("[{}]", kept.join(",")) };
            Cow::Owned(result.with("content", &content))
        }
        _ => Cow::Borrowed(json),
    }
}

fn is_empty_text(json: &str) -> bool {
    let block = Object::read(json);
    block.is_some_and(|block| {
        block.text("type").as_deref() == Some("text") && block.text("text").is_some_and(|text| text.is_empty())
    })
}

/// The calls of a message that the provider executes itself, without their results, and such results without their
/// calls.
///
/// The provider makes the result in the same reply. There are two exceptions: it may pause the reply before it has the
/// result, and it executes no call as long as another call of the same reply waits for the program. The next reply then
/// begins with the result.
struct ServerTools<'b> {
    /// The blocks, each with its index.
    calls: Vec<(usize, &'b CallId)>,
    results: Vec<(usize, &'b CallId)>,
}

impl<'b> ServerTools<'b> {
    /// Finds the calls and results of these blocks.
    pub(super) fn of(blocks: &'b [Block<'_>]) -> Self {
        let mut open: HashMap<&CallId, Vec<usize>> = HashMap::new();
        let mut results = Vec::new();
        for (at, block) in blocks.iter().enumerate() {
            match &block.kind {
                Kind::ServerCall(id) => open.entry(id).or_default().push(at),
                Kind::ServerResult(id) => {
                    let call = open.get_mut(id).and_then(Vec::pop);
                    if call.is_none() {
                        results.push((at, id));
                    }
                }
                _ => {}
            }
        }
        let calls = open.into_iter().flat_map(|(id, all)| all.into_iter().map(move |at| (at, id)));
        let mut calls: Vec<(usize, &CallId)> = calls.collect();
        calls.sort_unstable_by_key(|(at, _)| *at);
        Self { calls, results }
    }

    pub(super) fn calls(&self) -> Vec<CallId> {
        self.calls.iter().map(|(_, id)| (*id).clone()).collect()
    }

    pub(super) fn results(&self) -> Vec<CallId> {
        self.results.iter().map(|(_, id)| (*id).clone()).collect()
    }
}

/// Returns the indexes of the entries that are not kept. Both lists have the same order.
fn left_out(found: &[(usize, &CallId)], kept: &[CallId]) -> Vec<usize> {
    let mut kept = kept.iter().peekable();
    let mut left_out = Vec::new();
    for (at, id) in found {
        if kept.next_if(|kept| kept == id).is_none() {
            left_out.push(*at);
        }
    }
    left_out
}

/// Returns the blocks that are left with only these calls and results. Thinking after the first block that is left out
/// is left out, too: the provider compares what is before it.
pub(super) fn settled_blocks<'e, 'a>(
    element: &'e Element<'a>,
    calls: &[CallId],
    results: &[CallId],
) -> Vec<SentBlock<'e, 'a>> {
    let found = ServerTools::of(&element.blocks);
    let mut without = left_out(&found.calls, calls);
    without.extend(left_out(&found.results, results));
    let without: HashSet<*const Block<'_>> = without.into_iter().map(|at| ptr::from_ref(&element.blocks[at])).collect();

    let mut is_changed = false;
    let mut next = 0;
    let mut sent = element.sent().blocks;
    sent.retain(|sent| {
        // Blocks that are never sent count, too.
        let skipped = element.blocks[next..].iter().position(|block| ptr::eq(block, sent.block)).unwrap_or_default();
        next += skipped + 1;
        is_changed |= skipped > 0;
        let is_left_out = without.contains(&ptr::from_ref(sent.block));
        is_changed |= is_left_out;
        !(is_left_out || is_changed && sent.block.kind.bound().to_prefix)
    });
    sent
}
