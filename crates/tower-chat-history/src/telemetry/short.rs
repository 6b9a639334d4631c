//! Texts of callers and providers in spans.

/// The most bytes of such a text: the name of a model, or a finish reason.
const MOST: usize = 256;

/// Returns the beginning of a text. Names are shorter, so a longer text is not a name.
pub(super) fn short(text: &str) -> &str {
    if text.len() <= MOST {
        return text;
    }
    let end = (0..=MOST).rfind(|end| text.is_char_boundary(*end)).unwrap_or_default();
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_ends_between_two_characters() {
        assert_eq!(short("gpt-5.5"), "gpt-5.5");
        assert_eq!(short(&"x".repeat(MOST)), "x".repeat(MOST));
        assert_eq!(short(&"€".repeat(MOST)), "€".repeat(MOST / 3));
    }
}
