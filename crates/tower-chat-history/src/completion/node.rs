//! Joining JSON values from their pieces, without knowledge of their fields.
//!
//! A value stays JSON text until a second piece comes for it, so a value that arrives in one piece is kept byte for
//! byte. Texts stay escaped, because some providers send the two halves of a character in two pieces.

use tower_chat_history_core::json::{self, Object};

use super::{
    TooLarge,
    members::{MAX_PARTS, members, number, object, without_half_pair},
};

/// The fields whose text is replaced by a later piece. In other fields, a later piece is appended.
const REPLACED: [&str; 7] = ["role", "type", "id", "name", "format", "model", "provider"];

/// The largest number of levels at which values are joined. For deeper values, the last one applies. The limit ends
/// the recursion. No provider nests values that deep.
const MAX_DEPTH: usize = 16;

/// The types of content parts that arrive in pieces without an `index`. The name of the field with the text equals
/// the type.
const PIECEWISE: [&str; 2] = ["text", "thinking"];

/// A JSON value to which later pieces may be joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// A value that is not a string, as JSON.
    Raw(String),
    /// A string's text as it is escaped, without its quotes.
    Text(String),
    Object(Fields),
    List(List),
}

impl Node {
    pub(super) fn new(json: &str) -> Self {
        match json.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Raw(json.to_owned()),
        }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Raw(raw) if raw == "null")
    }

    /// Returns `true` for null and an empty text.
    fn is_void(&self) -> bool {
        self.is_null() || matches!(self, Self::Text(text) if text.is_empty())
    }

    pub(super) const fn is_text(&self) -> bool {
        matches!(self, Self::Text(_))
    }

    /// Returns `true` for a text and for an array that are not empty.
    pub(super) fn has_content(&self) -> bool {
        match self {
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => !list.is_empty(),
            Self::Raw(json) => json.strip_prefix('[').is_some_and(|rest| rest.trim_ascii_start() != "]"),
            Self::Object(_) => false,
        }
    }

    /// Joins a later piece. `name` is the name of the field.
    fn join(&mut self, name: &str, json: &str, depth: usize) -> Result<(), TooLarge> {
        let piece = Self::new(json);
        if piece.is_null() {
            return Ok(());
        }
        if self.is_null() || depth >= MAX_DEPTH {
            *self = piece;
            return Ok(());
        }

        self.expand()?;
        match (&mut *self, piece) {
            (Self::Text(text), Self::Text(piece)) if REPLACED.contains(&name) => {
                if !piece.is_empty() {
                    *text = piece;
                }
            }
            (Self::Text(text), Self::Text(piece)) => text.push_str(&piece),
            // One provider streams content that is sometimes a text and sometimes a list of parts. In a list, an
            // empty text changes nothing.
            (_, Self::Text(piece)) if piece.is_empty() => {}
            (Self::Object(fields), Self::Raw(_)) if json.starts_with('{') => fields.join(json, depth + 1)?,
            (Self::List(list), Self::Raw(_)) if json.starts_with('[') => list.append(name, json, depth + 1)?,
            (Self::List(list), Self::Text(_)) if name == "content" => list.push(name, &text_part(json), depth + 1)?,
            (Self::Text(text), Self::Raw(_)) if name == "content" && json.starts_with('[') && !text.is_empty() => {
                let mut list = List::default();
                list.push(name, &text_part(&format!("\"{text}\"")), depth + 1)?;
                list.append(name, json, depth + 1)?;
                *self = Self::List(list);
            }
            (_, piece) => *self = piece,
        }
        Ok(())
    }

    /// Reads an object or an array that is still JSON text, so that pieces can be joined to it.
    fn expand(&mut self) -> Result<(), TooLarge> {
        let Self::Raw(json) = self else { return Ok(()) };
        if json.starts_with('{') {
            let mut fields = Fields::default();
            fields.join(json, MAX_DEPTH)?;
            *self = Self::Object(fields);
        } else if let Some(elements) = json::entries(json) {
            let mut list = List::default();
            elements.into_iter().try_for_each(|element| list.add(Key::of(element)?, element))?;
            *self = Self::List(list);
        }
        Ok(())
    }

    /// Leaves out an [escaped half of a character](without_half_pair) at the end of each text that was joined.
    pub(super) fn end_texts(&mut self) {
        match self {
            Self::Text(text) => text.truncate(without_half_pair(text).len()),
            Self::Object(fields) => fields.end_texts(),
            Self::List(list) => list.end_texts(),
            Self::Raw(_) => {}
        }
    }

    pub(super) fn write(&self, out: &mut String) {
        match self {
            Self::Raw(json) => out.push_str(json),
            Self::Text(text) => out.extend(["\"", text, "\""]),
            Self::Object(fields) => {
                out.push('{');
                fields.write(out, |_, _| true);
                out.push('}');
            }
            Self::List(list) => {
                out.push('[');
                list.write(out);
                out.push(']');
            }
        }
    }
}

/// The fields of an object, in the order of their first pieces. Names are escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields(Vec<(String, Node)>);

impl Fields {
    /// Joins the fields of an object. Other values change nothing.
    fn join(&mut self, json: &str, depth: usize) -> Result<(), TooLarge> {
        match object(json)? {
            Some(object) => members(&object).try_for_each(|(name, value)| self.join_one(&name, value, depth)),
            None => Ok(()),
        }
    }

    /// Joins one field.
    pub(super) fn join_one(&mut self, name: &str, json: &str, depth: usize) -> Result<(), TooLarge> {
        if let Some((_, node)) = self.0.iter_mut().find(|(other, _)| other == name) {
            return node.join(name, json, depth);
        }
        if self.0.len() >= MAX_PARTS {
            return Err(TooLarge);
        }

        self.0.push((name.to_owned(), Node::new(json)));
        Ok(())
    }

    pub(super) fn get(&self, name: &str) -> Option<&Node> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, node)| node)
    }

    /// Returns the escaped text of a field. Returns an empty text if the field is missing or not a string.
    pub(super) fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Some(Node::Text(text)) => text,
            _ => "",
        }
    }

    /// Returns the fields of a field that is an object.
    pub(super) fn object(&mut self, name: &str) -> Option<&mut Self> {
        let (_, node) = self.0.iter_mut().find(|(other, _)| other == name)?;
        node.expand().ok()?;
        match node {
            Node::Object(fields) => Some(fields),
            Node::Raw(_) | Node::Text(_) | Node::List(_) => None,
        }
    }

    /// Sets the value of a field.
    pub(super) fn set(&mut self, name: &str, node: Node) {
        match self.0.iter_mut().find(|(other, _)| other == name) {
            Some((_, old)) => *old = node,
            None => self.0.push((name.to_owned(), node)),
        }
    }

    /// See [`Node::end_texts`].
    pub(super) fn end_texts(&mut self) {
        self.0.iter_mut().for_each(|(_, node)| node.end_texts());
    }

    /// Returns the names of the fields whose value is neither null nor an empty text.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, node)| !node.is_void()).map(|(name, _)| name.as_str())
    }

    /// Writes the fields that `wanted` selects. Writes a comma before each field, except directly after an opening
    /// brace in `out`.
    pub(super) fn write(&self, out: &mut String, wanted: impl Fn(&str, &Node) -> bool) {
        for (name, node) in self.0.iter().filter(|(name, node)| wanted(name, node)) {
            if !out.ends_with('{') {
                out.push(',');
            }
            out.extend(["\"", name, "\":"]);
            node.write(out);
        }
    }
}

/// The elements of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct List {
    elements: Vec<Node>,
    /// The keys of elements with an `index`, and their positions in `elements`.
    keys: Vec<(Key, usize)>,
}

/// The properties by which a piece is assigned to its element, if it has an `index`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    index: u64,
    /// The type, with its quotes. Empty until it comes.
    kind: String,
    /// The id, with its quotes. Empty until it comes.
    id: String,
}

impl Key {
    /// Returns the key of an object with an `index`, or `None` for other values.
    fn of(json: &str) -> Result<Option<Self>, TooLarge> {
        let Some(piece) = object(json)? else { return Ok(None) };
        let Some(index) = piece.get("index").and_then(number) else { return Ok(None) };
        Ok(Some(Self { index, kind: Self::name(&piece, "type"), id: Self::name(&piece, "id") }))
    }

    /// Returns a name with its quotes. Returns an empty text if it is missing or empty.
    fn name(piece: &Object<'_>, field: &str) -> String {
        piece.get(field).filter(|json| *json != "\"\"").unwrap_or_default().to_owned()
    }

    /// Returns `true` if a piece belongs to this element. The index alone does not suffice: some providers count each
    /// type separately, or start again with another id.
    fn matches(&self, piece: &Self) -> bool {
        self.index == piece.index
            && Self::names_agree(&self.kind, &piece.kind)
            && Self::names_agree(&self.id, &piece.id)
    }

    /// Returns `true` if two names are equal, or one of them is missing.
    fn names_agree(own: &str, other: &str) -> bool {
        own.is_empty() || other.is_empty() || own == other
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
    const fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// See [`Node::end_texts`].
    fn end_texts(&mut self) {
        self.elements.iter_mut().for_each(Node::end_texts);
    }

    /// Writes the elements, with commas between them.
    fn write(&self, out: &mut String) {
        for (at, element) in self.elements.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            element.write(out);
        }
    }

    /// Joins or adds the elements of an array.
    fn append(&mut self, name: &str, json: &str, depth: usize) -> Result<(), TooLarge> {
        json::entries(json).unwrap_or_default().into_iter().try_for_each(|element| self.push(name, element, depth))
    }

    /// Joins a piece to its element, or adds it as a new one. `name` is the name of the field with the list.
    fn push(&mut self, name: &str, json: &str, depth: usize) -> Result<(), TooLarge> {
        if let Some(key) = Key::of(json)? {
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
    fn add(&mut self, key: Option<Key>, json: &str) -> Result<(), TooLarge> {
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
    if before.text("type") != "thinking" || piece.text("type") != "thinking" {
        return Ok(false);
    }
    let is_whole = !piece.text("thinking").is_empty() && !piece.text("signature").is_empty();
    Ok(before.text("signature").is_empty() && !is_whole)
}

/// Returns a content part with a text. `quoted` is the text as a JSON string.
fn text_part(quoted: &str) -> String {
    format!(r#"{{"type":"text","text":{quoted}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(pieces: &[&str]) -> String {
        let mut fields = Fields::default();
        pieces.iter().for_each(|piece| assert!(fields.join(piece, 0).is_ok()));
        let mut out = String::new();
        Node::Object(fields).write(&mut out);
        out
    }

    #[test]
    fn one_piece_is_kept_byte_for_byte() {
        let piece = r#"{"a": { "z":1.50, "b" : [ 1e3 ] },"c":"\u00e4\/","d":[ {"index":0} ]}"#;
        assert_eq!(joined(&[piece]), piece.replace("\"a\": {", "\"a\":{"));
    }

    #[test]
    fn text_is_appended_and_names_are_replaced() {
        assert_eq!(
            joined(&[r#"{"role":"assistant","x":"a"}"#, r#"{"role":"assistant","x":"b","id":""}"#, r#"{"x":null}"#]),
            r#"{"role":"assistant","x":"ab","id":""}"#
        );
        assert_eq!(joined(&[r#"{"x":"\ud83d"}"#, r#"{"x":"\ude00"}"#]), r#"{"x":"\ud83d\ude00"}"#);
        assert_eq!(joined(&[r#"{"x":null,"y":1}"#, r#"{"x":"a","y":2}"#]), r#"{"x":"a","y":2}"#);
        assert_eq!(joined(&[r#"{"x":"a"}"#, r#"{"\u0078":"b"}"#]), r#"{"x":"ab"}"#);
    }

    #[test]
    fn elements_are_appended_and_those_with_an_index_are_joined() {
        assert_eq!(
            joined(&[
                r#"{"r":[{"type":"t","text":"a","index":0}]}"#,
                r#"{"r":[{"type":"t","text":"b","index":0.0},{"index":1,"text":"c"}]}"#,
            ]),
            r#"{"r":[{"type":"t","text":"ab","index":0.0},{"index":1,"text":"c"}]}"#
        );
        assert_eq!(joined(&[r#"{"r":[1]}"#, r#"{"r":[ 2.0]}"#]), r#"{"r":[1,2.0]}"#);
    }

    #[test]
    fn elements_with_the_same_index_and_different_types_or_ids_are_not_joined() {
        let pieces = [
            r#"{"r":[{"index":0,"type":"a","x":"1"}]}"#,
            r#"{"r":[{"index":0,"type":"b","x":"2"}]}"#,
            r#"{"r":[{"index":0,"type":"a","id":"i","x":"3"}]}"#,
            r#"{"r":[{"index":0,"type":"a","id":"j","x":"4"}]}"#,
        ];
        assert_eq!(
            joined(&pieces),
            r#"{"r":[{"index":0,"type":"a","x":"13","id":"i"},{"index":0,"type":"b","x":"2"},{"index":0,"type":"a","id":"j","x":"4"}]}"#
        );
    }

    #[test]
    fn content_may_change_between_text_and_parts() {
        assert_eq!(
            joined(&[r#"{"content":""}"#, r#"{"content":[{"type":"image"}]}"#, r#"{"content":"a"}"#]),
            r#"{"content":[{"type":"image"},{"type":"text","text":"a"}]}"#
        );
        assert_eq!(
            joined(&[r#"{"content":"a"}"#, r#"{"content":[{"type":"image"}]}"#]),
            r#"{"content":[{"type":"text","text":"a"},{"type":"image"}]}"#
        );
    }

    #[test]
    fn parts_of_text_and_thinking_are_joined_to_the_previous_part() {
        let thought = |text: &str| {
            format!(r#"{{"content":[{{"type":"thinking","thinking":[{{"type":"text","text":"{text}"}}]}}]}}"#)
        };
        let pieces =
            [&thought("a"), &thought("b"), r#"{"content":"c"}"#, r#"{"content":[{"type":"text","text":"d"}]}"#];
        assert_eq!(
            joined(&pieces),
            r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"ab"}]},{"type":"text","text":"cd"}]}"#
        );
        let signed = r#"{"content":[{"type":"thinking","thinking":"a","signature":"s"}]}"#;
        let next = r#"{"content":[{"type":"thinking","thinking":"b"}]}"#;
        let apart =
            r#"{"content":[{"type":"thinking","thinking":"a","signature":"s"},{"type":"thinking","thinking":"b"}]}"#;
        assert_eq!(joined(&[signed, next]), apart, "a signed part is complete");
    }

    #[test]
    fn pieces_of_a_thinking_block_are_joined_until_it_is_signed() {
        let pieces = |blocks: &[&str]| {
            let piece = |block: &&str| format!(r#"{{"thinking_blocks":[{block}]}}"#);
            let pieces: Vec<String> = blocks.iter().map(piece).collect();
            let joined = joined(&pieces.iter().map(String::as_str).collect::<Vec<_>>());
            joined.strip_prefix(r#"{"thinking_blocks":["#).unwrap().strip_suffix("]}").unwrap().to_owned()
        };
        let block = |text: &str, signature: &str| {
            format!(r#"{{"type":"thinking","thinking":"{text}","signature":"{signature}"}}"#)
        };
        let redacted = r#"{"type":"redacted_thinking","data":"x"}"#;
        let (a, b, signed) = (block("a", ""), block("b", ""), block("", "s"));
        assert_eq!(pieces(&[&a, &b, &signed]), block("ab", "s"));
        assert_eq!(pieces(&[&a, r#"{"type":"thinking","signature":"s"}"#]), block("a", "s"), "without a text");
        assert_eq!(pieces(&[&a, &signed, &b]), [block("a", "s"), b.clone()].join(","), "a signed block is complete");
        let whole = block("b", "t");
        assert_eq!(pieces(&[&a, &whole]), [&*a, &whole].join(","), "a block with text and signature is whole");
        assert_eq!(pieces(&[&signed, &signed]), [&*signed, &signed].join(","), "blocks without text");
        assert_eq!(pieces(&[&a, redacted, &b]), [&*a, redacted, &b].join(","));
    }

    #[test]
    fn deep_values_are_joined_without_endless_recursion() {
        let deep = format!("{{\"a\":{}1{}}}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
        assert!(joined(&[&deep, &deep]).len() >= deep.len());
    }

    #[test]
    fn a_large_index_takes_no_memory_and_too_many_are_refused() {
        let one = |index: u64| format!(r#"{{"r":[{{"index":{index}}}]}}"#);
        assert_eq!(joined(&[&one(4_000_000_000), &one(4_000_000_000)]), one(4_000_000_000));
        let mut fields = Fields::default();
        let all = (0..=MAX_PARTS as u64).try_for_each(|index| fields.join(&one(index), 0));
        assert!(all.is_err());
    }
}
