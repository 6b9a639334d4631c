//! A collection of everything that is shown of a conversation, to be searched.

use std::{error::Error, fmt::Debug, sync::Mutex};

use crate::trace::Trace;

/// A part of every text of a conversation.
pub(crate) const SECRET: &str = "hush-hush";

/// Collects exports and logs of the library, and the output of its values and errors.
#[derive(Default)]
pub(crate) struct ShownTexts(Mutex<Vec<String>>);

impl ShownTexts {
    fn add(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    pub(crate) fn debug(&self, value: &dyn Debug) {
        self.add(format!("{value:?} {value:#?}"));
    }

    pub(crate) fn error(&self, error: &(dyn Error + 'static)) {
        let mut next = Some(error);
        while let Some(error) = next {
            // Errors of the inner service are passed on unchanged.
            if !error.is::<async_openai::error::OpenAIError>() {
                self.add(format!("{error} {error:?} {error:#?}"));
            }
            next = error.source();
        }
    }

    /// Adds everything that was exported, including log events.
    pub(crate) fn exported(&self, trace: &Trace) {
        assert!(!trace.spans.is_empty());
        self.debug(trace);
    }

    pub(crate) fn assert_no_secret(&self) {
        let all = self.0.lock().unwrap();
        assert!(!all.is_empty());
        for shown in &*all {
            assert!(!shown.contains(SECRET), "{shown}");
        }
    }
}

#[test]
#[should_panic(expected = "hush-hush")]
fn a_secret_is_found() {
    let shown = ShownTexts::default();
    shown.debug(&("said", [SECRET]));
    shown.assert_no_secret();
}
