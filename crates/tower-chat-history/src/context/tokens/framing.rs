//! The tokens of a message, and those of a request besides its messages.
//!
//! A message has the tokens of its texts, and those of its other parts. A part that is not a text costs a fixed number
//! of tokens, because its size in bytes is no measure of them.

use std::fmt;

use tower_chat_history_core::{CallId, Media, Message, Part};

use super::{Costs, TokenCounter};

/// Returns the tokens of a message: the costs of its parts, and the counter's tokens of its texts.
pub(super) fn message<C: TokenCounter + ?Sized>(counter: &C, costs: &Costs, message: &Message) -> u32 {
    let mut tokens = costs.message;
    // A result can be several parts.
    let mut answered: Option<CallId> = None;
    message.parts(&mut |part| {
        if let Part::Result { call, .. } = &part
            && answered.as_ref() != Some(*call)
        {
            answered = Some((*call).clone());
            tokens = tokens.saturating_add(costs.result);
        }
        tokens = tokens.saturating_add(self::part(counter, costs, &part));
    });
    tokens
}

fn part<C: TokenCounter + ?Sized>(counter: &C, costs: &Costs, part: &Part<'_>) -> u32 {
    match part {
        Part::Name(name) => counter.count_text(name).saturating_add(costs.name),
        Part::Text(text)
        | Part::Refusal(text)
        | Part::Reasoning(text)
        | Part::Result { text, .. }
        | Part::Other { text, .. } => counter.count_text(text),
        Part::Sealed(bytes) => u32::try_from(bytes.div_ceil(costs.sealed_bytes.max(1) as usize)).unwrap_or(u32::MAX),
        Part::Call(called) => call(counter, costs, called.name(), called.arguments()),
        Part::OtherCall { name, arguments } => call(counter, costs, name, arguments),
        Part::Media { media, data, .. } => {
            let data = data.as_deref();
            match media {
                Media::ImageLowDetail => costs.low_detail,
                Media::Image => costs.image.tokens(data),
                Media::Audio => costs.audio.tokens(data),
                Media::Video => costs.video.tokens(data),
                _ => costs.document.tokens(data, |text| counter.count_text(text)),
            }
        }
        _ => 0,
    }
}

fn call<C: TokenCounter + ?Sized>(counter: &C, costs: &Costs, name: &str, arguments: &str) -> u32 {
    costs.call.saturating_add(counter.count_text(name)).saturating_add(counter.count_text(arguments))
}

/// Returns `true` if the tokens of a part of the message are a guess with every counter: an image, audio, a file.
#[inline]
#[must_use]
pub(crate) fn has_fixed_cost(message: &Message) -> bool {
    message.part_kinds().has_media
}

/// Counts the tokens of a request other than those of its messages: tools, response format, and the priming of the
/// reply. If there are tools, the tokens that the provider [adds](TokenCounter::tools_priming) count too.
///
/// Schemas are counted as JSON. Providers convert them to a shorter form, which they do not publish, before the model
/// sees them. The count is therefore slightly higher than what they charge.
///
/// ```
/// use tower_chat_history::tokens::{ByteEstimate, RequestTokens};
///
/// let tools = r#"[{"type":"function","function":{"name":"weather","parameters":{}}}]"#;
/// let cost = RequestTokens::new().tools(tools).count(&ByteEstimate::new());
/// assert_eq!(cost, 3 + 17); // 3 prime the reply.
/// ```
#[derive(Clone, Copy, Default)]
pub struct RequestTokens<'a> {
    tools: Option<&'a str>,
    response_format: Option<&'a str>,
}

impl<'a> RequestTokens<'a> {
    /// Creates a request without tools and response format. Its count is that of the reply's priming.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the JSON of the tools. The default is none.
    #[must_use]
    pub const fn tools(mut self, json: &'a str) -> Self {
        self.tools = Some(json);
        self
    }

    /// Sets the JSON of the response format. The default is none.
    #[must_use]
    pub const fn response_format(mut self, json: &'a str) -> Self {
        self.response_format = Some(json);
        self
    }

    /// Returns the sum of the tokens.
    #[must_use]
    pub fn count<C: TokenCounter + ?Sized>(self, counter: &C) -> u32 {
        let schemas = [self.tools, self.response_format].into_iter().flatten();
        let added = self.tools.map_or(0, |_| counter.tools_priming());
        let priming = counter.reply_priming().saturating_add(added);
        schemas.map(|json| counter.count_text(json)).fold(priming, u32::saturating_add)
    }
}

impl fmt::Debug for RequestTokens<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestTokens")
            .field("tools", &self.tools.map(str::len))
            .field("response_format", &self.response_format.map(str::len))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::tokens::{AUDIO, ByteEstimate, FILE, IMAGE_HIGH_DETAIL, IMAGE_LOW_DETAIL};

    fn tokens(json: &str) -> u32 {
        message(&ByteEstimate::new(), &Costs::new(), &Message::from_json(json).unwrap())
    }

    #[test]
    fn a_message_costs_its_frame_its_role_and_its_text() {
        assert_eq!(tokens(r#"{"role":"user","content":""}"#), 4);
        assert_eq!(tokens(r#"{"role":"user","content":"12345678"}"#), 6);
        assert_eq!(
            tokens(r#"{"role":"user","content":[{"type":"text","text":"12345678"},{"type":"text","text":"1"}]}"#),
            7
        );
        assert_eq!(tokens(r#"{"role":"user","content":"12345678","name":"1234"}"#), 8);
    }

    #[test]
    fn a_call_costs_its_name_and_its_arguments() {
        let calls = r#"[{"id":"x","type":"function","function":{"name":"1234","arguments":"12345678"}},
            {"id":"y","type":"custom","custom":{"name":"1234","input":"no JSON "}}]"#;
        assert_eq!(
            tokens(&format!(r#"{{"role":"assistant","content":null,"tool_calls":{calls}}}"#)),
            4 + 2 * (3 + 1 + 2)
        );
        let function = r#"{"role":"assistant","function_call":{"name":"1234","arguments":"12345678"}}"#;
        assert_eq!(tokens(function), 4 + 6);
    }

    #[test]
    fn a_result_costs_its_text() {
        assert_eq!(tokens(r#"{"role":"tool","tool_call_id":"a long id","content":"12345678"}"#), 6);
    }

    #[test]
    fn attachments_have_a_fixed_cost_and_texts_do_not() {
        let fixed = |json: &str| has_fixed_cost(&Message::from_json(json).unwrap());
        for json in [
            r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{}}]}"#,
            r#"{"role":"user","content":[{"type":"file","file":{}}]}"#,
            r#"{"role":"assistant","audio":{"id":"x"}}"#,
        ] {
            assert!(fixed(json), "{json}");
        }
        for json in [
            r#"{"role":"user","content":"file"}"#,
            r#"{"role":"user","content":["image",{"type":"text","text":"a"},{"type":"thing"}]}"#,
            r#"{"role":"assistant","refusal":"audio"}"#,
        ] {
            assert!(!fixed(json), "{json}");
        }
    }

    #[test]
    fn refusal_and_audio_count() {
        assert_eq!(tokens(r#"{"role":"assistant","refusal":"12345678"}"#), 6);
        assert_eq!(tokens(r#"{"role":"assistant","audio":{"id":"x"}}"#), 4 + AUDIO);
    }

    /// Returns the tokens of a content part.
    fn part_tokens(part: &str) -> u32 {
        tokens(&format!(r#"{{"role":"user","content":[{part}]}}"#)) - 4
    }

    #[test]
    fn the_cost_of_images_depends_on_their_detail_and_not_on_their_bytes() {
        let data = "A".repeat(10_000);
        let image = |detail: &str| format!(r#"{{"type":"image_url","image_url":{{"url":"data:{data}"{detail}}}}}"#);
        assert_eq!(part_tokens(&image(r#","detail":"low""#)), IMAGE_LOW_DETAIL);
        assert_eq!(part_tokens(&image(r#","detail":"high""#)), IMAGE_HIGH_DETAIL);
        assert_eq!(part_tokens(&image(r#","detail":"auto""#)), IMAGE_HIGH_DETAIL);
        assert_eq!(part_tokens(&image("")), IMAGE_HIGH_DETAIL);
        assert_eq!(part_tokens(r#"{"type":"input_image","image_url":"data:","detail":"low"}"#), IMAGE_LOW_DETAIL);
    }

    #[test]
    fn audio_files_and_videos_have_a_fixed_cost() {
        let data = "A".repeat(10_000);
        let with = |kind: &str| part_tokens(&format!(r#"{{"type":"{kind}","{kind}":{{"data":"{data}"}}}}"#));
        assert_eq!((with("input_audio"), with("file"), with("video_url")), (AUDIO, FILE, FILE));
    }

    #[test]
    fn other_parts_cost_their_text() {
        assert_eq!(part_tokens(r#"{"type":"text","text":"12345678","cache_control":{}}"#), 2);
        assert_eq!(part_tokens(r#"{"type":"refusal","refusal":"1234"}"#), 1);
        assert_eq!(part_tokens(r#""12345678""#), 2);
        let unknown = r#"{"type":"thing","of":[1,2,3]}"#;
        assert_eq!(part_tokens(unknown), ByteEstimate::new().count_text(unknown));
    }
}
