//! The one reader of JSON of this workspace's crates. It is no public API: it can change in any version.
//!
//! It finds the members of an object and the entries of a list. serde_json checks their values, but does not read them
//! ([`RawValue`]), so deep values take no recursion. Names and values are slices of the text. They keep their spelling
//! and their place.
//!
//! # Decisions
//!
//! - **All JSON is read here**, so repeated names, names that aren't Unicode, null and deep values mean the same
//!   everywhere. A scanner for JSON that was checked before takes fewer instructions, but it's a second parser.
//!   Property tests compare this module with serde_json.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    fmt,
    marker::PhantomData,
    ops::Range,
};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Error, value::RawValue};

/// The bytes that some programs write before a text.
pub const BOM: &[u8] = b"\xef\xbb\xbf";

/// A list of at most `N` elements. A longer one is an error before it takes memory.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct AtMost<T, const N: usize>(pub(crate) Vec<T>);

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for AtMost<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AtMostVisitor<T, const N: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for AtMostVisitor<T, N> {
            type Value = AtMost<T, N>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {N} elements")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = list.next_element()? {
                    if elements.len() == N {
                        return Err(A::Error::invalid_length(N + 1, &self));
                    }
                    elements.push(element);
                }
                Ok(AtMost(elements))
            }
        }

        deserializer.deserialize_seq(AtMostVisitor(PhantomData))
    }
}

impl<T, const N: usize> AtMost<T, N> {
    /// Returns `true` if the list has no element.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T, const N: usize> Default for AtMost<T, N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// An object: its members in order, including repeated ones.
#[derive(Debug)]
pub struct Object<'a> {
    json: &'a str,
    members: Vec<Member<'a>>,
}

/// A member of an object.
#[derive(Debug)]
pub struct Member<'a> {
    /// The name as it is written, with its quotes.
    pub quoted: &'a str,
    /// The name. Lone surrogates in it become U+FFFD.
    pub name: Cow<'a, str>,
    /// The value.
    pub value: &'a RawValue,
}

impl<'a> Object<'a> {
    /// Reads an object. Returns `None` if the text is something else.
    #[must_use]
    pub fn read(json: &'a str) -> Option<Self> {
        // serde_json would write a long string into its error.
        if json.trim_ascii_start().starts_with('{') { Self::parse(json).ok() } else { None }
    }

    /// Reads an object, as [`read`](Self::read) does.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is something else. It says where, and may quote the text.
    pub fn parse(json: &'a str) -> Result<Self, Error> {
        serde_json::from_str(json).map(|Members(members)| Self { json, members })
    }

    /// Returns the members, in order.
    #[must_use]
    pub fn members(&self) -> &[Member<'a>] {
        &self.members
    }

    /// Returns the members without those whose name is repeated later.
    #[must_use]
    pub fn last_members(&self) -> Vec<&Member<'a>> {
        let mut names = HashSet::with_capacity(self.members.len());
        let mut last: Vec<_> = self.members.iter().rev().filter(|member| names.insert(&*member.name)).collect();
        last.reverse();
        last
    }

    /// Returns `true` if more than one member has this name.
    #[must_use]
    pub fn repeats(&self, name: &str) -> bool {
        self.members.iter().filter(|member| member.name == name).nth(1).is_some()
    }

    /// Returns a value, even if it is null. If a name is repeated, its last value counts.
    #[must_use]
    pub fn written(&self, name: &str) -> Option<&'a RawValue> {
        self.members.iter().rfind(|member| member.name == name).map(|member| member.value)
    }

    /// Returns a value, unless it is null. If a name is repeated, its last value counts.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.written(name).filter(|value| value.get() != "null")
    }

    /// Returns the JSON of a value, as [`raw`](Self::raw) does.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.raw(name).map(RawValue::get)
    }

    /// Returns the text of a value that is a string.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        text(self.get(name)?)
    }

    /// Returns the text of a value that is a string, as an owned one.
    #[must_use]
    pub fn string(&self, name: &str) -> Option<String> {
        self.text(name).map(Cow::into_owned)
    }

    /// Returns the text of a value that is a string, or `None` if there is no value.
    ///
    /// # Errors
    ///
    /// Returns an error if the value is not a string.
    pub fn text_if_any(&self, name: &str) -> Result<Option<Cow<'a, str>>, Error> {
        let Some(json) = self.get(name) else { return Ok(None) };
        text(json).map(Some).ok_or_else(|| Error::custom("a member is not a string"))
    }

    /// Returns the text of a value that is a string, or the JSON of another value. It is empty if there is no value.
    #[must_use]
    pub fn text_or_json(&self, name: &str) -> Cow<'a, str> {
        text_or_json(self.get(name).unwrap_or_default())
    }

    /// Returns the number of a value that is a whole number, and not negative.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// Returns the number of a value that is a finite number.
    #[must_use]
    pub fn finite(&self, name: &str) -> Option<f64> {
        self.get(name)?.parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// Returns a value that is an object.
    #[must_use]
    pub fn object(&self, name: &str) -> Option<Self> {
        Self::read(self.get(name)?)
    }

    /// Returns the entries of a value that is a list.
    #[must_use]
    pub fn entries(&self, name: &str) -> Option<Vec<&'a str>> {
        entries(self.get(name)?)
    }

    /// Returns the object with another value of this member, given as JSON. If the name is repeated, the last value
    /// changes. If there is no such member, it is added at the end. All other bytes stay.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> String {
        if let Some(old) = self.written(name) {
            let Range { start, end } = range(self.json, old.get());
            return [&self.json[..start], value, &self.json[end..]].concat();
        }
        let comma = if self.members.is_empty() { "" } else { "," };
        let object = self.json.trim_end().strip_suffix('}').unwrap_or(self.json);
        format!("{object}{comma}{}:{value}}}", quoted(name))
    }

    /// Returns the object without all members of this name. White space between the other ones is left out.
    #[must_use]
    pub fn without(&self, name: &str) -> String {
        let kept = self.members.iter().filter(|member| member.name != name);
        let kept: Vec<&str> = kept.map(|member| &self.json[self.place(member)]).collect();
        format!("{{{}}}", kept.join(","))
    }

    /// Returns the range of a member in the object's JSON, from its name to the end of its value.
    #[must_use]
    pub fn place(&self, member: &Member<'_>) -> Range<usize> {
        range(self.json, member.quoted).start..range(self.json, member.value.get()).end
    }
}

/// The members of an object, as serde reads them.
struct Members<'a>(Vec<Member<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        // Most objects have fewer members, so one allocation suffices.
        let mut members = Vec::with_capacity(8);
        // A name is read as a raw value, too, because serde_json checks only those for control characters.
        while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            let quoted = name.get();
            members.push(Member { quoted, name: text_or_json(quoted), value });
        }
        Ok(Members(members))
    }
}

/// Returns the values of an object by name. If a name is repeated, its last value counts.
///
/// # Errors
///
/// Returns an error if the text is something else. It says where, and may quote the text.
pub fn fields(json: &str) -> Result<BTreeMap<String, &RawValue>, Error> {
    let Object { members, .. } = Object::parse(json)?;
    Ok(members.into_iter().map(|member| (member.name.into_owned(), member.value)).collect())
}

/// Returns the entries of a list. Returns `None` if the text is something else.
#[must_use]
pub fn raw_entries(json: &str) -> Option<Vec<&RawValue>> {
    // serde_json would write a long string into its error.
    if json.trim_ascii_start().starts_with('[') { serde_json::from_str(json).ok() } else { None }
}

/// Returns the JSON of the entries of a list, as [`raw_entries`] does.
#[must_use]
pub fn entries(json: &str) -> Option<Vec<&str>> {
    Some(raw_entries(json)?.into_iter().map(RawValue::get).collect())
}

/// Returns a list with other entries in place of those for which `change` returns one. All other bytes stay. Returns
/// `None` if there are none, or if the text is something else.
#[must_use]
pub fn with_entries(list: &str, mut change: impl FnMut(&str) -> Option<String>) -> Option<String> {
    let mut changed = String::new();
    let mut end = 0;
    for entry in entries(list)? {
        let Some(new) = change(entry) else { continue };
        let place = range(list, entry);
        changed.push_str(&list[end..place.start]);
        changed.push_str(&new);
        end = place.end;
    }
    if end == 0 {
        return None;
    }

    changed.push_str(&list[end..]);
    Some(changed)
}

/// Decodes a string. Lone surrogates become U+FFFD: `"\ud83d"` is JSON, and JavaScript clients send it. Returns `None`
/// for another value. `json` must be JSON without white space around it.
///
/// A typed turn decodes all texts of its window. serde_json needs three times the instructions for those with escapes,
/// so it only decodes those with surrogates.
#[must_use]
pub fn text(json: &str) -> Option<Cow<'_, str>> {
    let text = json.strip_prefix('"')?.strip_suffix('"')?;
    let Some(first) = next_escape(text) else { return Some(Cow::Borrowed(text)) };
    match unescaped(text, first) {
        Some(text) => Some(Cow::Owned(text)),
        None => {
            let readable = without_lone_surrogates(json);
            serde_json::from_str(readable.as_deref().unwrap_or(json)).ok().map(Cow::Owned)
        }
    }
}

/// Decodes a text whose first escape is at byte `first`. Returns `None` if one of its escapes is a surrogate.
fn unescaped(text: &str, first: usize) -> Option<String> {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    let mut next = Some(first);
    while let Some(at) = next {
        decoded.push_str(&rest[..at]);
        let (character, len) = match rest.as_bytes().get(at + 1)? {
            b'n' => ('\n', 2),
            b't' => ('\t', 2),
            b'r' => ('\r', 2),
            b'b' => ('\u{8}', 2),
            b'f' => ('\u{c}', 2),
            b'u' => (char::from_u32(u32::from_str_radix(rest.get(at + 2..at + 6)?, 16).ok()?)?, 6),
            itself => (char::from(*itself), 2),
        };
        decoded.push(character);
        rest = rest.get(at + len..)?;
        next = next_escape(rest);
    }
    decoded.push_str(rest);
    Some(decoded)
}

/// Returns the JSON with `\ufffd` in place of each lone surrogate, or `None` if it has none. All other bytes stay.
///
/// `"\ud83d"` is JSON, but its string is no text. Strict readers refuse it, and serde_json is one of them. A stream
/// that is cut within an emoji leaves one behind.
#[must_use]
pub fn without_lone_surrogates(json: &str) -> Option<String> {
    if !may_have_surrogates(json) {
        return None;
    }

    let mut readable = String::new();
    let mut copied = 0;
    let mut from = 0;
    while let Some(at) = json.get(from..).and_then(next_escape).map(|at| from + at) {
        from = match surrogate(json, at) {
            None => at + r"\n".len(),
            Some(Surrogate::High) if surrogate(json, at + UNIT) == Some(Surrogate::Low) => at + 2 * UNIT,
            Some(_) => {
                readable.push_str(&json[copied..at]);
                readable.push_str(r"\ufffd");
                copied = at + UNIT;
                copied
            }
        };
    }
    if copied == 0 {
        return None;
    }

    readable.push_str(&json[copied..]);
    Some(readable)
}

/// Returns `false` if the JSON surely has no escape of a surrogate. Few texts have escapes of this kind, so a search
/// decides.
fn may_have_surrogates(json: &str) -> bool {
    let json = json.as_bytes();
    memchr::memmem::find_iter(json, br"\u").any(|at| matches!(json.get(at + 2), Some(b'd' | b'D')))
}

/// The length of an escape such as `\ud83d`.
const UNIT: usize = r"\ud83d".len();

/// A half of a character that has two escapes.
#[derive(PartialEq, Eq)]
enum Surrogate {
    High,
    Low,
}

/// Returns the surrogate whose escape begins at byte `at`.
fn surrogate(json: &str, at: usize) -> Option<Surrogate> {
    let digits = json.get(at..at + UNIT)?.strip_prefix(r"\u")?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(Surrogate::High),
        0xdc00..=0xdfff => Some(Surrogate::Low),
        _ => None,
    }
}

/// Returns the byte at which the first escape begins.
fn next_escape(text: &str) -> Option<usize> {
    memchr::memchr(b'\\', text.as_bytes())
}

/// Returns the [text] of a string, or the JSON of another value.
#[must_use]
pub fn text_or_json(json: &str) -> Cow<'_, str> {
    text(json).unwrap_or(Cow::Borrowed(json))
}

/// Returns `true` if a string has escapes. Otherwise its text is what is between the quotes.
#[must_use]
pub fn has_escapes(json: &str) -> bool {
    next_escape(json).is_some()
}

/// Returns the JSON of a text.
#[must_use]
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns the range of a part that was borrowed from a text.
#[must_use]
pub fn range(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - text.as_ptr().addr();
    start..start + part.len()
}

#[cfg(test)]
mod tests;
