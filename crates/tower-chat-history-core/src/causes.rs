//! Error messages that include their causes.

use std::{error::Error, fmt};

/// Shows an error and its sources, outermost first, separated by colons.
///
/// The text of many errors already ends with the text of their source. Such a source is not shown again.
pub(crate) struct Causes<'a>(pub(crate) &'a (dyn Error + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.to_string();
        f.write_str(&shown)?;
        let mut next = self.0.source();
        while let Some(source) = next {
            let text = source.to_string();
            if !shown.ends_with(&text) {
                write!(f, ": {text}")?;
                shown = text;
            }
            next = source.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Step {
        text: &'static str,
        source: Option<Box<Self>>,
    }

    fn shown(texts: &[&'static str]) -> String {
        let error = texts.iter().rev().fold(None, |source, text| Some(Box::new(Step { text, source })));
        Causes(&*error.unwrap()).to_string()
    }

    #[test]
    fn sources_are_shown_outermost_first() {
        assert_eq!(shown(&["a"]), "a");
        assert_eq!(shown(&["a", "b", "c"]), "a: b: c");
    }

    #[test]
    fn a_source_that_was_shown_already_is_not_repeated() {
        assert_eq!(shown(&["a: b: c", "b: c", "c"]), "a: b: c");
        assert_eq!(shown(&["a", "b: c", "c", "d"]), "a: b: c: d");
    }
}
