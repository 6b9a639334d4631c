//! Putting values together from their pieces, without knowing their fields.

use super::{
    TooLarge,
    members::{MAX_PARTS, Members, elements, number},
};

/// Texts that come whole, as often as they come.
const WHOLE: [&str; 7] = ["role", "type", "id", "name", "format", "model", "provider"];

/// Content parts that come in pieces, by their type, and the field that has the piece. A list of them has no `index`.
const PIECEWISE: [&str; 2] = ["text", "thinking"];

/// How deep values are joined; below that the last one counts. No provider nests so deep, and recursion must end.
const MAX_DEPTH: usize = 16;

/// A JSON value that may still grow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// Verbatim: anything but text.
    Raw(String),
    /// A text as it is escaped, without its quotes.
    Text(String),
    Object(Fields),
    List(List),
}

/// The fields of an object, in the order in which they came first. Names are escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields(Vec<(String, Node)>);

/// The elements of an array, and where those stand that later pieces find by a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct List {
    elements: Vec<Node>,
    keys: Vec<(Key, usize)>,
}

/// What an object with an `index` is found by.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    index: u64,
    /// Its type and its id, quoted; empty while none has come.
    kind: String,
    id: String,
}

impl Key {
    fn of(json: &str) -> Result<Option<Self>, TooLarge> {
        let Some(members) = Members::of(json)? else { return Ok(None) };
        let Some(index) = members.get("index").and_then(number) else { return Ok(None) };
        let name = |name: &str| members.some(name).filter(|json| *json != "\"\"").unwrap_or_default().to_owned();
        Ok(Some(Self { index, kind: name("type"), id: name("id") }))
    }

    /// Whether a piece belongs to this element: some providers count each type by itself, or start again with another
    /// id.
    fn takes(&self, piece: &Self) -> bool {
        let agree = |own: &str, other: &str| own.is_empty() || other.is_empty() || own == other;
        self.index == piece.index && agree(&self.kind, &piece.kind) && agree(&self.id, &piece.id)
    }

    fn learn(&mut self, piece: Self) {
        for (own, other) in [(&mut self.kind, piece.kind), (&mut self.id, piece.id)] {
            if own.is_empty() {
                *own = other;
            }
        }
    }
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

    pub(super) const fn is_text(&self) -> bool {
        matches!(self, Self::Text(_))
    }

    /// Returns whether it has any text or any element.
    pub(super) fn says_something(&self) -> bool {
        match self {
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => !list.elements.is_empty(),
            Self::Raw(json) => json.strip_prefix('[').is_some_and(|rest| rest.trim_ascii_start() != "]"),
            Self::Object(_) => false,
        }
    }

    /// Joins a later piece, which stands under that name.
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
            (Self::Text(text), Self::Text(piece)) if WHOLE.contains(&name) => {
                if !piece.is_empty() {
                    *text = piece;
                }
            }
            (Self::Text(text), Self::Text(piece)) => text.push_str(&piece),
            // Content that changes between text and parts, which one provider streams: an empty text says nothing.
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

    /// Makes verbatim JSON something to join to.
    fn expand(&mut self) -> Result<(), TooLarge> {
        let Self::Raw(json) = self else { return Ok(()) };
        if json.starts_with('{') {
            let mut fields = Fields::default();
            fields.join(json, MAX_DEPTH)?;
            *self = Self::Object(fields);
        } else if let Some(elements) = elements(json) {
            let mut list = List::default();
            elements.into_iter().try_for_each(|element| list.add(Key::of(element)?, element))?;
            *self = Self::List(list);
        }
        Ok(())
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
                for (at, element) in list.elements.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    element.write(out);
                }
                out.push(']');
            }
        }
    }
}

impl Fields {
    /// Joins the fields of an object. What is no object changes nothing.
    pub(super) fn join(&mut self, json: &str, depth: usize) -> Result<(), TooLarge> {
        match Members::of(json)? {
            Some(members) => members.into_iter().try_for_each(|(name, value)| self.join_one(&name, value, depth)),
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

    /// The text of a field as it is escaped; empty if there is none.
    pub(super) fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Some(Node::Text(text)) => text,
            _ => "",
        }
    }

    /// The fields of a field that is an object.
    pub(super) fn object(&mut self, name: &str) -> Option<&mut Self> {
        let (_, node) = self.0.iter_mut().find(|(other, _)| other == name)?;
        node.expand().ok()?;
        match node {
            Node::Object(fields) => Some(fields),
            Node::Raw(_) | Node::Text(_) | Node::List(_) => None,
        }
    }

    /// Puts a field in place of what stood there.
    pub(super) fn set(&mut self, name: &str, node: Node) {
        match self.0.iter_mut().find(|(other, _)| other == name) {
            Some((_, old)) => *old = node,
            None => self.0.push((name.to_owned(), node)),
        }
    }

    /// The names of the fields that are neither null nor an empty text.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let is_void = |node: &Node| node.is_null() || matches!(node, Node::Text(text) if text.is_empty());
        self.0.iter().filter(move |(_, node)| !is_void(node)).map(|(name, _)| name.as_str())
    }

    /// Writes the fields that are asked for, separated, after what is there already.
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

/// A quoted text as a content part.
fn text_part(quoted: &str) -> String {
    format!(r#"{{"type":"text","text":{quoted}}}"#)
}

impl List {
    /// Adds the elements of an array.
    fn append(&mut self, name: &str, json: &str, depth: usize) -> Result<(), TooLarge> {
        elements(json).unwrap_or_default().into_iter().try_for_each(|element| self.push(name, element, depth))
    }

    /// Joins an element to the one that it is a piece of, or adds it. The list stands under that name.
    fn push(&mut self, name: &str, json: &str, depth: usize) -> Result<(), TooLarge> {
        let key = Key::of(json)?;
        if let Some(key) = key {
            if let Some((own, at)) = self.keys.iter_mut().rfind(|(own, _)| own.takes(&key)) {
                own.learn(key);
                return self.elements[*at].join("", json, depth);
            }
            return self.add(Some(key), json);
        }
        let last_has_key = self.keys.last().is_some_and(|(_, at)| at + 1 == self.elements.len());
        if matches!(name, "content" | "thinking")
            && !last_has_key
            && let Some(last) = self.elements.last_mut()
            && goes_on(last, json)?
        {
            return last.join("", json, depth);
        }
        self.add(None, json)
    }

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

/// Whether a content part is the next piece of the one before: of the same type, of which nothing but text has come.
fn goes_on(last: &mut Node, piece: &str) -> Result<bool, TooLarge> {
    let Some(members) = Members::of(piece)? else { return Ok(false) };
    let Some(Node::Text(kind)) = members.get("type").map(Node::new) else { return Ok(false) };
    if !PIECEWISE.contains(&kind.as_str()) || !members.has(&kind) {
        return Ok(false);
    }
    last.expand()?;
    let Node::Object(before) = last else { return Ok(false) };
    Ok(before.text("type") == kind && before.names().all(|name| name == "type" || name == kind))
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
    fn text_grows_and_names_do_not() {
        assert_eq!(
            joined(&[r#"{"role":"assistant","x":"a"}"#, r#"{"role":"assistant","x":"b","id":""}"#, r#"{"x":null}"#]),
            r#"{"role":"assistant","x":"ab","id":""}"#
        );
        assert_eq!(joined(&[r#"{"x":"\ud83d"}"#, r#"{"x":"\ude00"}"#]), r#"{"x":"\ud83d\ude00"}"#);
        assert_eq!(joined(&[r#"{"x":null,"y":1}"#, r#"{"x":"a","y":2}"#]), r#"{"x":"a","y":2}"#);
        assert_eq!(joined(&[r#"{"x":"a"}"#, r#"{"\u0078":"b"}"#]), r#"{"x":"ab"}"#);
    }

    #[test]
    fn lists_grow_and_elements_with_an_index_are_joined() {
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
    fn elements_of_one_index_and_different_types_or_ids_stay_apart() {
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
    fn parts_of_text_and_thinking_go_on_in_the_next_piece() {
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
        assert_eq!(joined(&[signed, next]), apart, "a signed part is over");
    }

    #[test]
    fn deep_values_end() {
        let deep = format!("{{\"a\":{}1{}}}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
        assert!(joined(&[&deep, &deep]).len() >= deep.len());
    }

    #[test]
    fn a_large_index_is_only_a_name_and_very_many_are_too_large() {
        let one = |index: u64| format!(r#"{{"r":[{{"index":{index}}}]}}"#);
        assert_eq!(joined(&[&one(4_000_000_000), &one(4_000_000_000)]), one(4_000_000_000));
        let mut fields = Fields::default();
        let all = (0..=MAX_PARTS as u64).try_for_each(|index| fields.join(&one(index), 0));
        assert!(all.is_err());
    }
}
