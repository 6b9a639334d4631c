//! The elements of an array that is joined from pieces.

use tower_chat_history_core::json;

use super::{Fields, Node};
use crate::completion::{
    TooLarge,
    members::{MAX_PARTS, number, object},
};

/// The types of content parts that arrive in pieces without an `index`. The name of the field with the text equals
/// the type.
const PIECEWISE: [&str; 2] = ["text", "thinking"];

/// The elements of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::completion) struct List {
    elements: Vec<Node>,
    /// The keys of elements with an `index`, and their positions in `elements`.
    keys: Vec<(Key, usize)>,
}

/// The properties by which a piece is assigned to its element, if it has an `index`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    index: u64,
    /// The type, with its quotes. Empty until it comes.
    kind: String,
    /// The id, with its quotes. Empty until it comes.
    id: String,
}

impl Key {
    /// Returns the key of an object with an `index`, or `None` for other values.
    pub(super) fn of(json: &str) -> Result<Option<Self>, TooLarge> {
        let Some(piece) = object(json)? else { return Ok(None) };
        let Some(index) = piece.get("index").and_then(number) else { return Ok(None) };
        let name = |name: &str| piece.get(name).filter(|json| *json != "\"\"").unwrap_or_default().to_owned();
        Ok(Some(Self { index, kind: name("type"), id: name("id") }))
    }

    /// Returns `true` if a piece belongs to this element. The index alone does not suffice: some providers count each
    /// type separately, or start again with another id.
    fn matches(&self, piece: &Self) -> bool {
        let agree = |own: &str, other: &str| own.is_empty() || other.is_empty() || own == other;
        self.index == piece.index && agree(&self.kind, &piece.kind) && agree(&self.id, &piece.id)
    }

    /// Takes over the type and the id of a piece if they were missing.
    fn complete(&mut self, piece: Self) {
        for (own, other) in [(&mut self.kind, piece.kind), (&mut self.id, piece.id)] {
            if own.is_empty() {
                *own = other;
            }
        }
    }
}

impl List {
    pub(super) const fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// See [`Node::end_texts`].
    pub(super) fn end_texts(&mut self) {
        self.elements.iter_mut().for_each(Node::end_texts);
    }

    /// Writes the elements, with commas between them.
    pub(super) fn write(&self, out: &mut String) {
        for (at, element) in self.elements.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            element.write(out);
        }
    }

    /// Joins or adds the elements of an array.
    pub(super) fn append(&mut self, name: &str, json: &str, depth: usize) -> Result<(), TooLarge> {
        json::entries(json).unwrap_or_default().into_iter().try_for_each(|element| self.push(name, element, depth))
    }

    /// Joins a piece to its element, or adds it as a new one. `name` is the name of the field with the list.
    pub(super) fn push(&mut self, name: &str, json: &str, depth: usize) -> Result<(), TooLarge> {
        let key = Key::of(json)?;
        if let Some(key) = key {
            if let Some((own, at)) = self.keys.iter_mut().rfind(|(own, _)| own.matches(&key)) {
                own.complete(key);
                return self.elements[*at].join("", json, depth);
            }
            return self.add(Some(key), json);
        }
        let last_has_key = self.keys.last().is_some_and(|(_, at)| at + 1 == self.elements.len());
        if let Some(last) = self.elements.last_mut().filter(|_| !last_has_key) {
            let is_next_piece = match name {
                "content" | "thinking" => continues(last, json)?,
                "thinking_blocks" => continues_block(last, json)?,
                _ => false,
            };
            if is_next_piece {
                return last.join("", json, depth);
            }
        }
        self.add(None, json)
    }

    /// Adds a new element.
    pub(super) fn add(&mut self, key: Option<Key>, json: &str) -> Result<(), TooLarge> {
        if let Some(key) = key {
            if self.keys.len() >= MAX_PARTS {
                return Err(TooLarge);
            }
            self.keys.push((key, self.elements.len()));
        }
        self.elements.push(Node::new(json));
        Ok(())
    }
}

/// Returns `true` if a content part is the next piece of the previous part: it has the same type, and the previous
/// part has only a type and text.
fn continues(last: &mut Node, piece: &str) -> Result<bool, TooLarge> {
    let Some(piece) = object(piece)? else { return Ok(false) };
    let Some(Node::Text(kind)) = piece.get("type").map(Node::new) else { return Ok(false) };
    if !PIECEWISE.contains(&kind.as_str()) || piece.written(&kind).is_none() {
        return Ok(false);
    }
    last.expand()?;
    let Node::Object(before) = last else { return Ok(false) };
    Ok(before.text("type") == kind && before.names().all(|name| name == "type" || name == kind))
}

/// Returns `true` if a block of thinking is the next piece of the previous block, which is not signed yet: more text,
/// or the signature. A block with both is whole. LiteLLM streams blocks in either form, without an index.
fn continues_block(last: &mut Node, piece: &str) -> Result<bool, TooLarge> {
    let mut piece = Node::new(piece);
    last.expand()?;
    piece.expand()?;
    let (Node::Object(before), Node::Object(piece)) = (last, piece) else { return Ok(false) };
    let is_thinking = |block: &Fields| block.text("type") == "thinking";
    let is_whole = !piece.text("thinking").is_empty() && !piece.text("signature").is_empty();
    Ok(is_thinking(before) && is_thinking(&piece) && before.text("signature").is_empty() && !is_whole)
}
