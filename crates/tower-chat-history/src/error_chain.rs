//! Errors in log events.

use std::{error::Error, fmt};

/// Shows an error and its sources, outermost first, joined by colons.
///
/// It is for this library's own errors and those of stores, which by contract contain no message text, sources included.
/// Errors of other user code (a summarizer, the model's service) may quote a request: they are told by a constant name.
pub(crate) fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl fmt::Display + 'a {
    Chain(error)
}

struct Chain<'a>(&'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut next = self.0.source();
        while let Some(error) = next {
            write!(f, ": {error}")?;
            next = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::StoreError;

    use super::*;
    use crate::SaveError;

    #[test]
    fn sources_are_shown_from_the_outermost_on() {
        let error = SaveError::Store(StoreError::unavailable(std::io::Error::other("connection refused")));
        let shown = chain(&error).to_string();
        assert_eq!(shown, "the exchange could not be stored: the store is not available: connection refused");
    }
}
