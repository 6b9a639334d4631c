use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{json, value::RawValue};
use tower_chat_history::{
    Message, Role,
    dialect::{Bound, CallId, Closes, Dialect, Digest, Index, MessageError, Part, Space, ToolCall},
};

/// Messages whose content is a list of blocks.
#[derive(Clone, Copy, Debug)]
struct Blocks;

/// A block, as it is read from its JSON.
enum Block {
    Text(String),
    Thinking { text: String, signature: String },
    Call(ToolCall),
    Result { call: CallId, text: String },
    /// An object in a reply whose type cannot be read. It could be signed.
    Unreadable,
    /// A block that this dialect does not know, or a block of another type that cannot be read. It stays as it is
    /// written.
    Other,
}

impl Block {
    fn read(json: &str, is_reply: bool) -> Self {
        let fields: BTreeMap<String, &RawValue> = match serde_json::from_str(json) {
            Ok(fields) => fields,
            // A name that is not Unicode makes the whole object unreadable.
            Err(_) if is_reply && json.starts_with('{') => return Self::Unreadable,
            Err(_) => return Self::Other,
        };
        // A call's input can be any JSON. It stays a text, so that deep nesting does no harm.
        let json = |name: &str| fields.get(name).map_or("", |value| value.get());
        let text = |name: &str| serde_json::from_str::<String>(json(name)).ok();
        let text_or_json = |name: &str| text(name).unwrap_or_else(|| json(name).to_owned());
        let id = |name: &str| Some(CallId::new(Space::DEFAULT, text(name)?));
        let read = || match (text("type")?.as_str(), is_reply) {
            ("text", _) => Some(Self::Text(text("text")?)),
            // The type alone decides, so that no signed block is sent after another prompt.
            ("thinking", true) => {
                Some(Self::Thinking { text: text_or_json("thinking"), signature: text_or_json("signature") })
            }
            ("tool_use", true) => Some(Self::Call(ToolCall::new(id("id")?, text("name")?, json("input")))),
            ("tool_result", false) => Some(Self::Result { call: id("tool_use_id")?, text: text_or_json("content") }),
            _ => None,
        };
        read().unwrap_or(Self::Other)
    }
}

/// A message, as it is read from its JSON. An element in an unknown role has no blocks.
struct Element<'a> {
    role: Role,
    content: &'a str,
    blocks: Vec<(&'a str, Block)>,
}

impl<'a> Element<'a> {
    fn read(json: &'a str) -> Result<Self, MessageError> {
        #[derive(Deserialize)]
        struct Fields<'a> {
            role: String,
            #[serde(borrow)]
            content: Option<&'a RawValue>,
        }
        let Fields { role, content } = serde_json::from_str(json).map_err(MessageError::from_json)?;
        let content = content.map_or("", RawValue::get);
        let is_reply = role == "assistant";
        if !is_reply && role != "user" {
            return Ok(Self { role: Role::Other(role.into()), content, blocks: Vec::new() });
        }
        let list: Result<Vec<&RawValue>, _> = serde_json::from_str(content);
        let list = list.map_err(|_| MessageError::new("the content is not a list"))?;
        let blocks: Vec<_> = list.iter().map(|json| (json.get(), Block::read(json.get(), is_reply))).collect();
        let only_results = !blocks.is_empty() && blocks.iter().all(|(_, block)| matches!(block, Block::Result { .. }));
        let of_user = if only_results { Role::Tool } else { Role::User };
        Ok(Self { role: if is_reply { Role::Assistant } else { of_user }, content, blocks })
    }
}

/// Returns the message with changed blocks, or `None` if no block is left. `change` returns the JSON of a block, or
/// `None` to remove it. Everything else stays as it is written.
fn with_blocks(json: &str, mut change: impl FnMut(&str, &Block) -> Option<String>) -> Option<String> {
    let Element { content, blocks, .. } = Element::read(json).ok()?;
    let blocks: Vec<String> = blocks.iter().filter_map(|(json, block)| change(json, block)).collect();
    if blocks.is_empty() {
        return None;
    }
    let start = content.as_ptr().addr() - json.as_ptr().addr();
    let (before, after) = (&json[..start], &json[start + content.len()..]);
    Some(format!("{before}[{}]{after}", blocks.join(",")))
}

/// Returns the block after a change of one of its fields.
fn with_field<'a, R>(json: &'a str, change: impl FnOnce(&mut BTreeMap<String, &'a RawValue>) -> R) -> Option<String> {
    let mut fields = serde_json::from_str(json).ok()?;
    change(&mut fields);
    serde_json::to_string(&fields).ok()
}

impl Dialect for Blocks {
    fn name(&self) -> &'static str {
        "acme/blocks"
    }

    fn index(&self, json: &str) -> Result<Index, MessageError> {
        let Element { role, blocks, .. } = Element::read(json)?;
        let mut index = Index::new(role);
        match index.role {
            Role::Other(_) => index.closes = Closes::Never,
            _ => index.is_blank = blocks.is_empty(),
        }
        let (mut opens, mut answers) = (Vec::new(), Vec::new());
        for (_, block) in blocks {
            match block {
                Block::Thinking { .. } | Block::Unreadable => index.bound = Bound::TO_PREFIX,
                Block::Call(call) => opens.push(call),
                Block::Result { call, .. } => answers.push(call),
                Block::Text(_) | Block::Other => {}
            }
        }
        (index.opens, index.answers) = (opens.into(), answers.into());
        Ok(index)
    }

    fn parts<'m>(&self, message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
        let Ok(Element { role, blocks, .. }) = Element::read(message.json()) else { return };
        if let Role::Other(kind) = role {
            return visit(Part::Other { kind: String::from(kind).into(), text: message.json().into() });
        }
        let (mut calls, mut answers) = (message.tool_calls().iter(), message.answers().iter());
        for (json, block) in blocks {
            match block {
                Block::Text(text) => visit(Part::Text(text.into())),
                Block::Thinking { text, signature } => {
                    visit(Part::Reasoning(text.into()));
                    visit(Part::Sealed(signature.len()));
                }
                Block::Call(_) => calls.by_ref().take(1).for_each(|call| visit(Part::Call(call))),
                Block::Result { text, .. } => {
                    if let Some(call) = answers.next() {
                        visit(Part::Result { call, text: text.into() });
                    }
                }
                Block::Unreadable | Block::Other => visit(Part::Other { kind: "".into(), text: json.into() }),
            }
        }
    }

    fn compose(&self, role: &Role, text: &str) -> String {
        let role = if *role == Role::Assistant { "assistant" } else { "user" };
        json!({"role": role, "content": [{"type": "text", "text": text}]}).to_string()
    }

    fn abandoned(&self, call: &CallId) -> String {
        let text = "[no result: this call was abandoned]";
        let block = json!({"type": "tool_result", "tool_use_id": call.as_str(), "content": text, "is_error": true});
        json!({"role": "user", "content": [block]}).to_string()
    }

    fn cleared(&self, message: &Message, clears: &dyn Fn(&CallId) -> bool, placeholder: &str) -> Option<String> {
        let placeholder = serde_json::value::to_raw_value(placeholder).ok()?;
        let is_cleared = message.answers().iter().any(clears);
        is_cleared.then_some(message.json()).and_then(|json| {
            with_blocks(json, |json, block| match block {
                Block::Result { call, .. } if clears(call) => {
                    with_field(json, |fields| fields.insert("content".to_owned(), &placeholder))
                }
                _ => Some(json.to_owned()),
            })
        })
    }

    fn answering(&self, message: &Message, kept: &[CallId]) -> Option<String> {
        // Both lists have the same order. Of several results of one call, the first ones are kept.
        let mut kept = kept.iter().peekable();
        with_blocks(message.json(), |json, block| match block {
            Block::Result { call, .. } => kept.next_if(|id| *id == call).map(|_| json.to_owned()),
            _ => Some(json.to_owned()),
        })
    }

    fn unbound(&self, message: &Message) -> Option<String> {
        with_blocks(message.json(), |json, block| match block {
            Block::Thinking { .. } | Block::Unreadable => None,
            _ => Some(json.to_owned()),
        })
    }

    fn digest(&self, json: &str) -> Digest {
        // Providers do not compare this field.
        let compared = |json: &str| with_field(json, |fields| fields.remove("cache_control"));
        let compared = with_blocks(json, |json, _| Some(compared(json).unwrap_or_else(|| json.to_owned())));
        Digest::of(compared.as_deref().unwrap_or(json).as_bytes())
    }
}
