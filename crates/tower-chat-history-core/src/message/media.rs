//! The part of a message's JSON that is media.
//!
//! # Decisions
//!
//! - **Media are runs of base64**, not the [parts](Message::parts) that a dialect calls media. Stores keep the number,
//!   so it must not change when a dialect learns to read another part. It's also known for messages in dialects that
//!   this crate doesn't have, and for media in fields that no format defines, such as the images in some replies. A
//!   long text that only looks like base64 is limited as well, with the media.

use super::Message;

/// The length from which on a run of base64 counts as media, in bytes. Words, ids and paths are shorter.
const SHORTEST_RUN: usize = 1 << 10;

impl Message {
    /// Returns the number of bytes of the JSON that are media: images, audio and files, and everything else in base64,
    /// such as encrypted reasoning.
    ///
    /// Each run of base64 counts if it has at least 1 KiB, wherever the message has it. The number therefore depends on
    /// the JSON alone, and not on the [dialect](Self::dialect) or on the fields that this library knows. A store can
    /// keep it. It is a part of the [`bytes`](Self::bytes).
    ///
    /// ```
    /// use tower_chat_history_core::Message;
    ///
    /// let part = |data: &str| format!(r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}"#);
    /// let photo = Message::user("").with_parts(&[part(&"iVBORw0K".repeat(1_000))])?;
    /// assert_eq!(photo.media_bytes(), 8_000);
    /// assert_eq!(Message::user("What is a photo?").media_bytes(), 0);
    /// # Ok::<(), tower_chat_history_core::MessageError>(())
    /// ```
    #[must_use]
    pub fn media_bytes(&self) -> usize {
        media_bytes(self.json().as_bytes())
    }
}

fn media_bytes(json: &[u8]) -> usize {
    let mut media = 0;
    let mut from = 0;
    while let Some(next) = json.get(from..from + SHORTEST_RUN) {
        // Search from the end, so that most of a text is skipped.
        if let Some(other) = next.iter().rposition(|byte| !is_base64(*byte)) {
            from += other + 1;
            continue;
        }

        let rest = json[from..].iter();
        let run = rest.take_while(|byte| is_base64(**byte)).count();
        media += run;
        from += run;
    }
    media
}

/// Returns `true` for the characters of base64, of its variant for URLs, and of escapes: some writers of JSON escape
/// each `/`, and base64 can have line breaks.
const fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_' | b'\\')
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;
    use crate::message::{AnthropicMessages, ChatCompletions, Dialect, OpenAiResponses};

    const PHOTO: usize = 100_000;

    /// Messages with `DATA` in place of a photo.
    const MEDIA: &[(&dyn Dialect, &str)] = &[
        (
            &ChatCompletions,
            r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,DATA"}}]}"#,
        ),
        (
            &ChatCompletions,
            r#"{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"DATA","format":"wav"}}]}"#,
        ),
        (
            &ChatCompletions,
            r#"{"role":"user","content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,DATA"}}]}"#,
        ),
        (&ChatCompletions, r#"{"role":"assistant","content":null,"audio":{"id":"a","data":"DATA","transcript":"Hi"}}"#),
        (
            &ChatCompletions,
            r#"{"role":"assistant","content":"","images":[{"image_url":{"url":"data:image/png;base64,DATA"}}]}"#,
        ),
        (
            &AnthropicMessages,
            r#"{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"DATA"}}]}"#,
        ),
        (
            &AnthropicMessages,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"image","source":
               {"type":"base64","media_type":"image/png","data":"DATA"}}]}]}"#,
        ),
        (
            &OpenAiResponses,
            r#"{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,DATA"}]}"#,
        ),
        (&OpenAiResponses, r#"{"type":"image_generation_call","id":"ig_1","status":"completed","result":"DATA"}"#),
        (
            &OpenAiResponses,
            r#"{"type":"computer_call_output","call_id":"c","output":
               {"type":"computer_screenshot","image_url":"data:image/png;base64,DATA"}}"#,
        ),
    ];

    #[test]
    fn images_files_and_audio_are_media_in_each_dialect() {
        let photo = "+Ab/".repeat(PHOTO / 4);
        for (dialect, json) in MEDIA {
            let message = Message::in_dialect(*dialect, json.replace("DATA", &photo)).unwrap();
            assert_eq!(message.media_bytes(), PHOTO, "{json}");
        }
    }

    #[test]
    fn the_media_of_a_message_in_an_unknown_dialect_are_known() {
        let json = format!(r#"{{"speech":"{}"}}"#, "UklGR".repeat(1_000));
        assert_eq!(Message::unread(json.into()).media_bytes(), 5_000);
    }

    #[test]
    fn escapes_do_not_interrupt_base64() {
        let slashes = r"ab\/c".repeat(1_000);
        let lines = format!(r"{}\r\n", "A".repeat(76)).repeat(100);
        for data in [slashes, lines] {
            assert_eq!(media_bytes(format!(r#"{{"data":"{data}"}}"#).as_bytes()), data.len());
        }
    }

    #[test]
    fn text_is_no_media() {
        let prose = "Long words such as Donaudampfschifffahrtsgesellschaft are no photos. ".repeat(100);
        let characters = "写真".repeat(1_000);
        let short = "A".repeat(SHORTEST_RUN - 1);
        for text in [prose, characters, short] {
            assert_eq!(Message::user(&text).media_bytes(), 0);
        }
        assert_eq!(Message::user("A".repeat(SHORTEST_RUN)).media_bytes(), SHORTEST_RUN);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_sum_of_all_long_runs_is_counted(
            pieces in vec((select(b"A9+/=_-\\"), prop_oneof![0..40_usize, 1_000..1_050_usize, 1_024..4_000_usize], 0..3_usize), 0..12),
        ) {
            let mut json = Vec::new();
            for (byte, run, others) in pieces {
                json.extend(std::iter::repeat_n(byte, run));
                json.extend(std::iter::repeat_n(b' ', others));
            }
            let runs = json.split(|byte| *byte == b' ').map(<[u8]>::len);
            let expected: usize = runs.filter(|run| *run >= SHORTEST_RUN).sum();
            prop_assert_eq!(media_bytes(&json), expected);
        }
    }
}
