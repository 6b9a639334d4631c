//! A message with its blocks, as it is read from its JSON.

use std::borrow::Cow;

use crate::{
    digest::Digest,
    json::{self, Object},
    message::{
        MessageError, PartKinds,
        dialect::{Bound, CallId, Closes, Index, Space, ToolCall, cache_control},
    },
    role::Role,
};

use super::{
    AnthropicMessages,
    sent::{self, Sent},
    server_tools::ServerTools,
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
    /// A call that no result can answer, because it has no id or no name.
    UnsoundCall,
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

    pub(super) const fn is_result(&self) -> bool {
        matches!(self, Self::Result(_) | Self::Orphan)
    }
}

impl<'a> Block<'a> {
    fn read(json: &'a str, speaker: &Speaker) -> Self {
        Self { json, kind: kind(json, speaker) }
    }
}

fn kind<'a>(json: &'a str, speaker: &Speaker) -> Kind<'a> {
    let is_reply = *speaker == Speaker::Model;
    let Some(block) = Object::read(json) else { return Kind::Other { is_bound: false } };
    let id = |name: &str| block.text(name).filter(|id| !id.is_empty()).map(|id| CallId::new(Space::DEFAULT, &*id));
    let has = |name: &str| block.get(name).is_some_and(|json| json != "\"\"");
    // An object whose type cannot be read could be signed.
    let Some(name) = block.text("type") else { return Kind::Other { is_bound: is_reply } };
    match (&*name, speaker) {
        ("text", _) => match block.text("text") {
            Some(text) => Kind::Text(text),
            None => Kind::Other { is_bound: false },
        },
        ("thinking", Speaker::Model) => Kind::Thinking { is_signed: has("signature") },
        ("redacted_thinking", Speaker::Model) => Kind::Thinking { is_signed: true },
        ("tool_use", Speaker::Model) => match (id("id"), block.text("name").filter(|name| !name.is_empty())) {
            (Some(id), Some(name)) => {
                Kind::Call(ToolCall::new(id, name.as_ref(), block.get("input").unwrap_or_default()))
            }
            _ => Kind::UnsoundCall,
        },
        ("compaction", Speaker::Model) => Kind::Compaction,
        (name, Speaker::Model) if AnthropicMessages::is_server_call(name) => {
            id("id").map_or(Kind::Other { is_bound: false }, Kind::ServerCall)
        }
        (name, Speaker::Model) if AnthropicMessages::is_server_result(name) => {
            id("tool_use_id").map_or(Kind::Other { is_bound: false }, Kind::ServerResult)
        }
        ("tool_result", Speaker::User) => id("tool_use_id").map_or(Kind::Orphan, Kind::Result),
        _ => Kind::Other { is_bound: is_reply && has("signature") },
    }
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
        sent::sent(self)
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
        index.says_nothing = self.says_nothing(&sent);
        index.is_rewritten = !index.says_nothing && sent.is_changed;
        let kinds = || sent.blocks.iter().map(|sent| &sent.block.kind);
        index.bound = kinds().map(Kind::bound).fold(Bound::NONE, Bound::or);
        if self.speaker == Speaker::System && !sent.blocks.is_empty() {
            index.bound = index.bound.and_next();
        }
        let (mut opens, mut answers) = (Vec::new(), Vec::new());
        for block in &self.blocks {
            match &block.kind {
                Kind::Call(call) => opens.push(call.clone()),
                Kind::Result(call) => answers.push(call.clone()),
                _ => {}
            }
        }
        (index.opens, index.answers) = (opens.into(), answers.into());
        // Texts have no other parts. The parts of other blocks are read when their kinds are needed.
        let are_texts = self.blocks.iter().all(|block| matches!(block.kind, Kind::Text(_)));
        index.part_kinds = are_texts.then(PartKinds::default);
        let server = ServerTools::of(&self.blocks);
        (index.server_calls, index.server_results) = (server.calls().into(), server.results().into());
        index
    }

    fn role(&self, sent: &Sent<'_, '_>) -> Role {
        let has_only_results = || {
            self.blocks.iter().any(|block| block.kind.is_result())
                && sent.blocks.iter().all(|sent| sent.block.kind.is_result())
        };
        match &self.speaker {
            Speaker::User if has_only_results() => Role::Tool,
            Speaker::User => Role::User,
            Speaker::Model => Role::Assistant,
            Speaker::System => Role::System,
            Speaker::Unknown(role) => Role::Other(role.as_str().into()),
        }
    }

    /// Returns `true` if nothing is left that the API accepts. A system message can have other members that count, such
    /// as settings of the output.
    pub(super) fn says_nothing(&self, sent: &Sent<'_, '_>) -> bool {
        let has_more = || self.object.members().iter().any(|member| !FIELDS.contains(&&*member.name));
        let is_settings = || self.speaker == Speaker::System && has_more();
        !matches!(self.speaker, Speaker::Unknown(_)) && sent.blocks.is_empty() && !is_settings()
    }

    /// Returns the digest of what the provider compares.
    pub(super) fn digest(&self) -> Digest {
        let rest = self.object.without("content");
        let mut digest = Digest::of(cache_control::without(&rest, 1).as_bytes());
        let mut add = |json: &str, levels: usize| {
            digest = digest.then(Digest::of(cache_control::without(json, levels).as_bytes()));
        };
        let sent = self.sent();
        if matches!(self.speaker, Speaker::Unknown(_)) {
            add(self.object.get("content").unwrap_or_default(), 0);
        } else if sent.changes_before_thinking {
            self.blocks.iter().for_each(|block| add(block.json, block.levels()));
        } else {
            sent.blocks.iter().for_each(|sent| add(&sent.json, sent.block.levels()));
        }
        digest
    }
}

/// The members that every message can have.
const FIELDS: [&str; 3] = ["role", "content", cache_control::NAME];

fn blocks<'a>(content: &'a str, speaker: &Speaker) -> Vec<Block<'a>> {
    if let Some(blocks) = json::entries(content) {
        return blocks.into_iter().map(|json| Block::read(json, speaker)).collect();
    }
    let kind = match json::text(content) {
        Some(text) => Kind::Text(text),
        // An object could be signed.
        None => Kind::Other { is_bound: *speaker == Speaker::Model && content.starts_with('{') },
    };
    vec![Block { json: content, kind }]
}
