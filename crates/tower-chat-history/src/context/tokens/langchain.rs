//! LangChain's approximation.

use std::sync::Arc;

use tower_chat_history_core::{ChatCompletions, Content, Media, Message, Part, Role, json};

use super::TokenCounter;

/// Counts tokens as LangChain's `count_tokens_approximately` does: the number of characters (Unicode code points)
/// divided by four, and three tokens for each message. Source: langchain-core 1.7.2.
///
/// It counts the same parts as LangChain: the texts, the role, the name, the id of the call that a result answers, and
/// the list of tool calls (`[{'name': .., 'args': .., 'id': .., 'type': 'tool_call'}]`). An image costs 85 tokens. A
/// content part of any other type except text is counted as a whole, including base64. If the content is a list of
/// parts, tool calls do not count.
///
/// JSON counts as it is written: the arguments of calls, parts of other types, and tools. LangChain counts it as Python
/// prints it, with other quotes, escapes and white space, so its count can be a few tokens higher or lower.
///
/// With the default of four characters per token, the estimate is far too low for Chinese, Japanese and Korean. Use
/// [`ByteEstimate`](super::ByteEstimate) for them. `use_usage_metadata_scaling` is not available, because messages here
/// contain no usage.
///
/// LangChain has no messages of dialects other than chat completions. For them, the counter adds up the characters of
/// the role, of all texts, names, reasoning and data, of the ids of the calls that results answer, and of the list of
/// calls. An image costs 85 tokens.
///
/// ```
/// use tower_chat_history::{Message, tokens::{LangChainEstimate, TokenCounter}};
///
/// // 3 for the message, and 4 characters for its role, `user`.
/// let empty = Message::user("");
/// assert_eq!(LangChainEstimate::new().count_message(&empty), 3 + 1);
/// assert_eq!(LangChainEstimate::new().chars_per_token(2.0).count_message(&empty), 3 + 2);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LangChainEstimate {
    chars_per_token: f64,
    extra_tokens_per_message: u32,
    count_name: bool,
    tokens_per_image: u32,
}

impl LangChainEstimate {
    /// Creates the counter with LangChain's defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self { chars_per_token: 4.0, extra_tokens_per_message: 3, count_name: true, tokens_per_image: 85 }
    }

    /// Sets the number of characters per token. A number that is not positive is ignored. The default is 4.
    #[must_use]
    pub const fn chars_per_token(mut self, chars: f64) -> Self {
        if chars > 0.0 {
            self.chars_per_token = chars;
        }
        self
    }

    /// Sets the number of tokens that frame a message. The default is 3.
    #[must_use]
    pub const fn extra_tokens_per_message(mut self, tokens: u32) -> Self {
        self.extra_tokens_per_message = tokens;
        self
    }

    /// Sets whether names count. The default is `true`.
    #[must_use]
    pub const fn count_name(mut self, count: bool) -> Self {
        self.count_name = count;
        self
    }

    /// Sets the number of tokens of an image. The default is 85.
    #[must_use]
    pub const fn tokens_per_image(mut self, tokens: u32) -> Self {
        self.tokens_per_image = tokens;
        self
    }

    /// Returns the tokens of tools, given as the JSON of their schemas. LangChain adds them to the tokens of the
    /// messages.
    #[must_use]
    pub fn count_tools(&self, tools: &[impl AsRef<str>]) -> u32 {
        self.tokens(tools.iter().map(|tool| chars(tool.as_ref())).sum())
    }

    fn tokens(&self, chars: usize) -> u32 {
        (chars as f64 / self.chars_per_token).ceil() as u32
    }

    /// Returns the characters of the content, and the tokens of its images.
    fn content(&self, message: &Message) -> (usize, u32) {
        match message.content() {
            Content::Text(text) => (chars(&text), 0),
            Content::Parts(parts) => {
                let parts = parts.iter().map(|part| self.part(part));
                parts.fold((0, 0), |(chars, images), (more, image)| (chars + more, images.saturating_add(image)))
            }
            Content::Other(json) => (chars(json), 0),
            _ => (0, 0),
        }
    }

    /// Returns the characters of a message of another dialect without its role, and the tokens of its images.
    fn parts(&self, message: &Message) -> (usize, u32) {
        let mut count = calls(message);
        let mut images = 0_u32;
        message.parts(&mut |part| match part {
            Part::Name(name) => count += if self.count_name { chars(name) } else { 0 },
            Part::Text(text) | Part::Refusal(text) | Part::Reasoning(text) | Part::Other { text, .. } => {
                count += chars(&text);
            }
            Part::Result { call, text } => count += chars(call.as_str()) + chars(&text),
            Part::Sealed(bytes) => count += bytes,
            Part::OtherCall { name, arguments } => count += chars(&name) + chars(&arguments),
            Part::Media { media: Media::Image | Media::ImageLowDetail, .. } => {
                images = images.saturating_add(self.tokens_per_image);
            }
            Part::Media { words, data, .. } => {
                count += [words, data].into_iter().flatten().map(|text| chars(&text)).sum::<usize>();
            }
            // `calls` has the calls.
            _ => {}
        });
        (count, images)
    }

    fn part(&self, json: &str) -> (usize, u32) {
        let Some(part) = json::Object::read(json) else { return (chars(&json::text_or_json(json)), 0) };
        match part.text("type").as_deref() {
            Some("image" | "image_url") => (0, self.tokens_per_image),
            Some("text") => (part.text("text").map_or(0, |text| chars(&text)), 0),
            _ => (chars(json), 0),
        }
    }
}

impl Default for LangChainEstimate {
    fn default() -> Self {
        Self::new()
    }
}

impl TokenCounter for LangChainEstimate {
    /// Returns `None`, because counting again is cheap.
    fn name(&self) -> Option<&Arc<str>> {
        None
    }

    fn count_text(&self, text: &str) -> u32 {
        self.tokens(chars(text))
    }

    fn count_message(&self, message: &Message) -> u32 {
        if message.dialect().is_some_and(|dialect| dialect.name() != ChatCompletions::NAME) {
            let (count, images) = self.parts(message);
            let tokens = self.tokens(count + chars(message.role().as_str()));
            return tokens.saturating_add(self.extra_tokens_per_message).saturating_add(images);
        }
        let (content, images) = self.content(message);
        let calls = match message.content() {
            Content::Parts(parts) if !parts.is_empty() => 0,
            _ => calls(message),
        };
        let answers = message.tool_call_id().filter(|_| *message.role() == Role::Tool).map_or(0, chars);
        let name = message.name().filter(|_| self.count_name).map_or(0, chars);
        let chars = content + calls + answers + chars(message.role().as_str()) + name;
        self.tokens(chars).saturating_add(self.extra_tokens_per_message).saturating_add(images)
    }

    fn is_estimate(&self) -> bool {
        true
    }
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

/// Returns the length of the list of calls, as LangChain has it.
fn calls(message: &Message) -> usize {
    let calls = message.tool_calls().iter().map(|call| {
        let frame = "{'name': '', 'args': , 'id': '', 'type': 'tool_call'}, ".len();
        frame + chars(call.name()) + chars(call.arguments()) + chars(call.id())
    });
    // The last comma stands for the brackets around the list: both have two characters.
    calls.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(json: &str) -> u32 {
        LangChainEstimate::new().count_message(&Message::from_json(json).unwrap())
    }

    #[test]
    fn lengths_are_counted_in_code_points() {
        assert_eq!(tokens(r#"{"role":"user","content":"\u4eca\u5929\ud83d\ude00\u0041"}"#), 3 + 2);
        assert_eq!(chars("今天😀A"), 4);
    }

    #[test]
    fn calls_count_with_their_arguments_as_they_are_written() {
        // [{'name': 'f', 'args': {"x":1}, 'id': 'c', 'type': 'tool_call'}] has 64 characters, and the role 9.
        let call = |arguments: &str| {
            format!(
                r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"c","type":"function","function":{{"name":"f","arguments":"{arguments}"}}}}]}}"#
            )
        };
        assert_eq!(tokens(&call(r#"{\"x\":1}"#)), 3 + 73_u32.div_ceil(4));
        assert_eq!(tokens(&call(r#" { \"x\" : 1 } "#)), 3 + 79_u32.div_ceil(4));
    }

    #[test]
    fn calls_of_a_message_with_a_list_of_parts_do_not_count() {
        let calls = r#""tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]"#;
        let listed = tokens(&format!(r#"{{"role":"assistant","content":[{{"type":"text","text":"abc"}}],{calls}}}"#));
        assert_eq!(listed, 3 + 3);
        assert!(tokens(&format!(r#"{{"role":"assistant","content":"abc",{calls}}}"#)) > listed);
    }
}
