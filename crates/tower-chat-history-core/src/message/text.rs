//! The texts of a message, in all dialects.

use std::borrow::Cow;

use super::{ChatCompletions, Content, Message, Part};

impl Message {
    /// Returns everything that the message says in words, joined without a separator: its texts and those of its
    /// results. It is empty if there are none. Names, refusals, reasoning and the arguments of calls are other
    /// [parts](Self::parts).
    ///
    /// As long as the [dialect](Self::dialect) is not known, it is empty.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        if self.is_chat_completions() { self.content().into_text() } else { joined(self.texts_of_parts()) }
    }

    /// Returns the texts that [`text`](Self::text) joins, in order.
    #[must_use]
    pub fn texts(&self) -> Vec<Cow<'_, str>> {
        if self.is_chat_completions() { self.content().into_texts() } else { self.texts_of_parts() }
    }

    fn is_chat_completions(&self) -> bool {
        self.dialect().is_some_and(|dialect| dialect.name() == ChatCompletions::NAME)
    }

    /// Returns the texts of a message of any dialect.
    fn texts_of_parts(&self) -> Vec<Cow<'_, str>> {
        let mut texts = Vec::new();
        self.parts(&mut |part| {
            if let Part::Text(text) | Part::Result { text, .. } = part {
                texts.push(text);
            }
        });
        texts
    }
}

impl<'a> Content<'a> {
    fn into_text(self) -> Cow<'a, str> {
        match self {
            Self::Text(text) => text,
            content => joined(content.into_texts()),
        }
    }

    fn into_texts(self) -> Vec<Cow<'a, str>> {
        match self {
            Self::None | Self::Other(_) => Vec::new(),
            Self::Text(text) => vec![text],
            Self::Parts(parts) => parts.into_iter().filter_map(Self::text_of_part).collect(),
        }
    }
}

/// Joins the texts without a separator. One text is not copied.
fn joined(mut texts: Vec<Cow<'_, str>>) -> Cow<'_, str> {
    if texts.len() > 1 { Cow::Owned(texts.concat()) } else { texts.pop().unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{CallId, Dialect, Index, MessageError, Role, Space, ToolCall};

    /// A dialect whose messages are lists: a result, reasoning, a text, a call, and a text.
    #[derive(Debug)]
    struct Lists;

    impl Dialect for Lists {
        fn name(&self) -> &'static str {
            "test/lists"
        }

        fn index(&self, json: &str) -> Result<Index, MessageError> {
            if !json.starts_with(['[', '{']) {
                return Err(MessageError::new("it is no list"));
            }
            let call = CallId::new(Space::DEFAULT, "x");
            let mut index = Index::new(Role::User);
            (index.answers, index.opens) = (Box::new([call.clone()]), Box::new([ToolCall::new(call, "f", "no text")]));
            Ok(index)
        }

        fn parts<'m>(&self, message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
            let texts: Vec<String> = serde_json::from_str(message.json()).unwrap_or_default();
            let [result, reasoning, first, second] = texts.try_into().unwrap_or_default();
            visit(Part::Result { call: &message.answers()[0], text: result.into() });
            visit(Part::Reasoning(reasoning.into()));
            visit(Part::Text(first.into()));
            visit(Part::Call(&message.tool_calls()[0]));
            visit(Part::Text(second.into()));
        }

        fn compose(&self, _: &Role, text: &str) -> String {
            serde_json::Value::from(vec!["", "", text, ""]).to_string()
        }

        fn abandoned(&self, _: &CallId) -> String {
            "[]".to_owned()
        }

        fn cleared(&self, _: &Message, _: &dyn Fn(&CallId) -> bool, _: &str) -> Option<String> {
            None
        }
    }

    #[test]
    fn the_text_of_another_dialect_is_that_of_its_texts_and_results() {
        let message = Message::in_dialect(&Lists, r#"["20","hm","It is ","warm."]"#).unwrap();
        assert_eq!(message.texts(), ["20", "It is ", "warm."]);
        assert_eq!(message.text(), "20It is warm.");
        assert_eq!((message.content(), message.name()), (Content::None, None));
        assert_eq!(Message::compose(&Lists, &Role::User, "Hi").unwrap().text(), "Hi");
    }

    #[test]
    fn changed_fields_keep_the_dialect() {
        let message = Message::in_dialect(&Lists, r#"{"role":"user","b":1}"#).unwrap();
        let changed = message.with_field("a", "2").unwrap();
        assert_eq!(changed.json(), r#"{"a":2,"b":1,"role":"user"}"#);
        assert_eq!(changed.without_field("role").unwrap().json(), r#"{"a":2,"b":1}"#);
        assert_eq!(changed.dialect().map(Dialect::name), Some("test/lists"));
        assert!(message.with_text("t").is_err() && message.with_parts(&["1"]).is_err(), "it has no content");
        assert!(Message::in_dialect(&Lists, "[]").unwrap().with_field("a", "2").is_err(), "it is no object");
    }
}
