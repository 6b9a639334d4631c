//! Short texts of the caller's own that belong to a conversation, such as its title.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{conversation_id::ConversationId, invalid::InvalidValue, seq::Seq};

/// The labels of a conversation: a few short texts by name, such as `title` or `pinned`. The library never sends them
/// to a model. It writes one itself: [`FORKED_FROM`](Self::FORKED_FROM).
///
/// There are at most [`MAX_LABELS`](Self::MAX_LABELS) labels. Their names and values together have at most
/// [`MAX_BYTES`](Self::MAX_BYTES) bytes. A name is not empty.
///
/// `Debug` shows the number of labels, because a title often repeats what was said.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// The maximum number of labels.
    pub const MAX_LABELS: usize = 16;
    /// The maximum size of all names and values together, in bytes.
    pub const MAX_BYTES: usize = 2048;
    /// The maximum size of [encrypted](Self::sealed) labels, in bytes.
    pub const MAX_SEALED_BYTES: usize = 4096;

    /// The name of the label that a [fork](crate::Conversation::fork) gives to the copy. Its value is the id of the
    /// conversation that was copied, `@`, and the position at which the copy goes its own way.
    /// [`forked_from`](Self::forked_from) reads it.
    ///
    /// It is a label like every other one: whoever lists the copy can read the id, also after that conversation is
    /// erased, and whoever sets labels can change it. So decide nothing about rights by it. If the copy is for another
    /// person, replace it.
    pub const FORKED_FROM: &str = "forked_from";

    /// The name under which encrypted labels are stored.
    const SEALED: &str = "sealed";

    /// Creates labels from names and values. If a name occurs more than once, the last value counts.
    ///
    /// # Errors
    ///
    /// Returns an error if a name is empty, or if there are too many labels or bytes.
    pub fn new<N, V>(labels: impl IntoIterator<Item = (N, V)>) -> Result<Self, InvalidValue>
    where
        N: Into<String>,
        V: Into<String>,
    {
        let mut checked = BTreeMap::new();
        for (name, value) in labels {
            checked.insert(name.into(), value.into());
            if checked.len() > Self::MAX_LABELS {
                return Err(InvalidValue::TooManyLabels { max: Labels::MAX_LABELS });
            }
        }
        Self::check(checked)
    }

    fn check(labels: BTreeMap<String, String>) -> Result<Self, InvalidValue> {
        if labels.len() > Self::MAX_LABELS {
            return Err(InvalidValue::TooManyLabels { max: Labels::MAX_LABELS });
        }
        if labels.contains_key("") {
            return Err(InvalidValue::EmptyLabelName);
        }
        let labels = Self(labels);
        match labels.bytes() {
            bytes if bytes > Self::MAX_BYTES => Err(InvalidValue::LargeLabels { bytes }),
            _ => Ok(labels),
        }
    }

    /// Creates the labels that a store wrapper stores in place of encrypted ones: a single label with this text.
    ///
    /// # Errors
    ///
    /// Returns an error if the text and the name of the label have more than
    /// [`MAX_SEALED_BYTES`](Self::MAX_SEALED_BYTES) bytes.
    pub fn sealed(text: impl Into<String>) -> Result<Self, InvalidValue> {
        Self::check_stored(BTreeMap::from([(Self::SEALED.to_owned(), text.into())]))
    }

    /// Returns the text of [encrypted](Self::sealed) labels. Returns `None` if this is anything else than a single label
    /// of that name.
    #[must_use]
    pub fn as_sealed(&self) -> Option<&str> {
        if self.len() == 1 { self.get(Self::SEALED) } else { None }
    }

    /// Checks labels that are read from a store. Encrypted ones may be larger than others.
    fn check_stored(labels: BTreeMap<String, String>) -> Result<Self, InvalidValue> {
        let labels = Self(labels);
        match labels.as_sealed() {
            Some(_) if labels.bytes() <= Self::MAX_SEALED_BYTES => Ok(labels),
            Some(_) => Err(InvalidValue::LargeLabels { bytes: labels.bytes() }),
            None => Self::check(labels.0),
        }
    }

    /// Returns the labels of a copy of the exchanges before this position. They have space for every id.
    pub(crate) fn of_fork(id: &ConversationId, at: Seq) -> Self {
        Self(BTreeMap::from([(Self::FORKED_FROM.to_owned(), format!("{id}@{at}"))]))
    }

    /// Returns the origin of a [fork](crate::Conversation::fork): the id of the conversation that was copied, and the
    /// position of the first exchange that was not copied. Returns `None` if there is no such label.
    #[must_use]
    pub fn forked_from(&self) -> Option<(ConversationId, Seq)> {
        let (id, position) = self.get(Self::FORKED_FROM)?.rsplit_once('@')?;
        Some((id.parse().ok()?, Seq::new(position.parse().ok()?)))
    }

    /// Returns the value of a label.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the number of labels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there is no label.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the size of all names and values together, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// Returns these labels with one more, or with another value for it.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is empty, or if there are too many labels or bytes.
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Result<Self, InvalidValue> {
        self.0.insert(name.into(), value.into());
        Self::check(self.0)
    }

    /// Returns these labels without this one.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.0.remove(name);
        self
    }

    /// Returns the JSON object to store.
    #[must_use]
    pub fn encode(&self) -> String {
        serde_json::to_value(&self.0).unwrap_or_default().to_string()
    }

    /// Reads labels that [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a JSON object of valid labels.
    pub fn decode(json: &str) -> Result<Self, InvalidValue> {
        // serde_json's error may quote the text, so it is dropped.
        serde_json::from_str(json).map_err(|error| InvalidValue::MalformedLabels { column: error.column() })
    }
}

impl std::fmt::Debug for Labels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Labels({})", self.len())
    }
}

impl TryFrom<BTreeMap<String, String>> for Labels {
    type Error = InvalidValue;

    fn try_from(labels: BTreeMap<String, String>) -> Result<Self, Self::Error> {
        Self::check_stored(labels)
    }
}

impl From<Labels> for BTreeMap<String, String> {
    fn from(labels: Labels) -> Self {
        labels.0
    }
}

/// The number of changes of a conversation's labels. A change names the version that it replaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LabelsVersion(u64);

impl LabelsVersion {
    /// The version of labels that were never set.
    pub const NONE: Self = Self(0);

    /// Creates the version with this number. Stores use it to read back the version they wrote.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number to store.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the version after one more change.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_bounded() {
        let many = (0..17).map(|number| (number.to_string(), String::new()));
        assert_eq!(Labels::new(many), Err(InvalidValue::TooManyLabels { max: Labels::MAX_LABELS }));
        assert_eq!(Labels::new([("", "x")]), Err(InvalidValue::EmptyLabelName));
        let long = Labels::new([("title", "x".repeat(2044))]);
        assert_eq!(long, Err(InvalidValue::LargeLabels { bytes: 2049 }));
        let full = Labels::new([("title", "x".repeat(2043))]).unwrap();
        assert_eq!(full.with("pinned", ""), Err(InvalidValue::LargeLabels { bytes: 2054 }));
    }

    #[test]
    fn stored_labels_read_back() {
        let labels = Labels::new([("title", "Nemo\u{0} \"quoted\""), ("pinned", "")]).unwrap();
        assert_eq!(Labels::decode(&labels.encode()).unwrap(), labels);
        assert_eq!(Labels::decode("{}").unwrap(), Labels::default());
        for wrong in ["", "[]", "{\"\":\"x\"}", "{\"a\":1}"] {
            assert!(Labels::decode(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_label_says_where_a_copy_is_from() {
        let id = ConversationId::new(["a/b", "c@1"]).unwrap();
        assert_eq!(Labels::of_fork(&id, Seq::new(7)).forked_from(), Some((id, Seq::new(7))));
        let written = Labels::new([(Labels::FORKED_FROM, "a%2Fb/c@7")]).unwrap();
        assert_eq!(written.forked_from(), Some((ConversationId::new(["a/b", "c"]).unwrap(), Seq::new(7))));
        assert_eq!(Labels::default().forked_from(), None);
        for wrong in ["", "a", "a@", "a@x", "@7"] {
            assert_eq!(Labels::new([(Labels::FORKED_FROM, wrong)]).unwrap().forked_from(), None, "{wrong}");
        }
    }

    #[test]
    fn encrypted_labels_may_be_larger() {
        let text = "x".repeat(Labels::MAX_SEALED_BYTES - 6);
        let sealed = Labels::sealed(&text).unwrap();
        assert_eq!(Labels::decode(&sealed.encode()).unwrap().as_sealed(), Some(&*text));
        assert_eq!(Labels::sealed(text + "x"), Err(InvalidValue::LargeLabels { bytes: 4097 }));
        assert!(Labels::new([("sealed", "x".repeat(2043))]).is_err(), "only a wrapper may store larger ones");
        assert_eq!(Labels::new([("sealed", "x"), ("title", "y")]).unwrap().as_sealed(), None);
    }

    #[test]
    fn an_error_does_not_quote_labels() {
        let error = Labels::decode(r#"["secret"]"#).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }

    #[test]
    fn debug_does_not_show_values() {
        assert_eq!(format!("{:?}", Labels::new([("title", "secret")]).unwrap()), "Labels(1)");
    }
}
