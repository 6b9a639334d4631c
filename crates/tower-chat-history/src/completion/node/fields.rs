//! The fields of an object that is joined from pieces.

use super::Node;
use crate::completion::{
    TooLarge,
    members::{MAX_PARTS, members, object},
};

/// The fields of an object, in the order of their first pieces. Names are escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::completion) struct Fields(Vec<(String, Node)>);

impl Fields {
    /// Joins the fields of an object. Other values change nothing.
    pub(in crate::completion) fn join(&mut self, json: &str, depth: usize) -> Result<(), TooLarge> {
        match object(json)? {
            Some(object) => members(&object).try_for_each(|(name, value)| self.join_one(&name, value, depth)),
            None => Ok(()),
        }
    }

    /// Joins one field.
    pub(in crate::completion) fn join_one(&mut self, name: &str, json: &str, depth: usize) -> Result<(), TooLarge> {
        if let Some((_, node)) = self.0.iter_mut().find(|(other, _)| other == name) {
            return node.join(name, json, depth);
        }
        if self.0.len() >= MAX_PARTS {
            return Err(TooLarge);
        }
        self.0.push((name.to_owned(), Node::new(json)));
        Ok(())
    }

    pub(in crate::completion) fn get(&self, name: &str) -> Option<&Node> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, node)| node)
    }

    /// Returns the escaped text of a field. Returns an empty text if the field is missing or not a string.
    pub(in crate::completion) fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Some(Node::Text(text)) => text,
            _ => "",
        }
    }

    /// Returns the fields of a field that is an object.
    pub(in crate::completion) fn object(&mut self, name: &str) -> Option<&mut Self> {
        let (_, node) = self.0.iter_mut().find(|(other, _)| other == name)?;
        node.expand().ok()?;
        match node {
            Node::Object(fields) => Some(fields),
            Node::Raw(_) | Node::Text(_) | Node::List(_) => None,
        }
    }

    /// Sets the value of a field.
    pub(in crate::completion) fn set(&mut self, name: &str, node: Node) {
        match self.0.iter_mut().find(|(other, _)| other == name) {
            Some((_, old)) => *old = node,
            None => self.0.push((name.to_owned(), node)),
        }
    }

    /// See [`Node::end_texts`].
    pub(in crate::completion) fn end_texts(&mut self) {
        self.0.iter_mut().for_each(|(_, node)| node.end_texts());
    }

    /// Returns the names of the fields whose value is neither null nor an empty text.
    pub(in crate::completion) fn names(&self) -> impl Iterator<Item = &str> {
        let is_void = |node: &Node| node.is_null() || matches!(node, Node::Text(text) if text.is_empty());
        self.0.iter().filter(move |(_, node)| !is_void(node)).map(|(name, _)| name.as_str())
    }

    /// Writes the fields that `wanted` selects. Writes a comma before each field, except directly after an opening
    /// brace in `out`.
    pub(in crate::completion) fn write(&self, out: &mut String, wanted: impl Fn(&str, &Node) -> bool) {
        for (name, node) in self.0.iter().filter(|(name, node)| wanted(name, node)) {
            if !out.ends_with('{') {
                out.push(',');
            }
            out.extend(["\"", name, "\":"]);
            node.write(out);
        }
    }
}
