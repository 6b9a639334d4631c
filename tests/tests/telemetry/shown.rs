//! What is shown of a conversation, collected to be searched.

use std::{error::Error, fmt::Debug, sync::Mutex};

use crate::trace::Trace;

/// Stands in every text of a conversation.
pub(crate) const SECRET: &str = "hush-hush";

/// Collects what the library exports and logs, and what its values and errors show of themselves.
#[derive(Default)]
pub(crate) struct Shown(Mutex<Vec<String>>);

impl Shown {
    fn add(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    pub(crate) fn debug(&self, value: &dyn Debug) {
        self.add(format!("{value:?} {value:#?}"));
    }

    pub(crate) fn error(&self, error: &(dyn Error + 'static)) {
        let mut next = Some(error);
        while let Some(error) = next {
            // What the inner service fails with is its own, and is passed on as it is.
            if !error.is::<async_openai::error::OpenAIError>() {
                self.add(format!("{error} {error:?} {error:#?}"));
            }
            next = error.source();
        }
    }

    /// Everything that was exported, with what was logged on the way.
    pub(crate) fn exported(&self, trace: &Trace) {
        assert!(!trace.spans.is_empty());
        self.debug(trace);
    }

    pub(crate) fn is_quiet(&self) {
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
    let shown = Shown::default();
    shown.debug(&("said", [SECRET]));
    shown.is_quiet();
}
