//! Errors in log events.

use std::{error::Error, fmt};

use tower_chat_history_core::StoreError;

/// Shows an error and its sources, outermost first, joined by colons.
///
/// It is for this library's own errors and those of stores, which by contract contain no message text, sources
/// included. Errors of other user code (a summarizer, the model's service) may quote a request: they are told by a
/// constant name.
///
/// Conversation ids are left out: logs and spans name conversations only if [`Telemetry`](crate::Telemetry) asks for
/// that.
pub(crate) fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl fmt::Display + 'a {
    Chain(error)
}

struct Chain<'a>(&'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut next = Some(self.0);
        let mut separator = "";
        while let Some(error) = next {
            f.write_str(separator)?;
            match error.downcast_ref() {
                Some(StoreError::Corrupt { seq, .. }) => write!(f, "exchange {seq} cannot be read")?,
                Some(StoreError::CorruptCompaction { profile, .. }) => {
                    write!(f, "the compaction of profile {profile} cannot be read")?;
                }
                // Any other store error shows its causes itself.
                Some(error) => return write!(f, "{error}"),
                None => write!(f, "{error}")?,
            }
            separator = ": ";
            next = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{ConversationId, Profile, Seq};

    use super::*;
    use crate::error::SaveError;

    #[test]
    fn sources_are_shown_from_the_outermost_on() {
        let error = SaveError::Store(StoreError::unavailable(std::io::Error::other("connection refused")));
        let shown = chain(&error).to_string();
        assert_eq!(shown, "the exchange could not be stored: the store is not available: connection refused");
    }

    #[test]
    fn conversation_ids_are_left_out() {
        let conversation = || ConversationId::new(["secret-user"]).unwrap();
        let (seq, profile) = (Seq::new(7), Profile::default());
        let exchange = StoreError::Corrupt { conversation: conversation(), seq, source: "no JSON".into() };
        assert_eq!(chain(&exchange).to_string(), "exchange 7 cannot be read: no JSON");
        let compaction =
            StoreError::CorruptCompaction { conversation: conversation(), profile, source: "no JSON".into() };
        let shown = chain(&compaction).to_string();
        assert_eq!(shown, "the compaction of profile default cannot be read: no JSON");
    }
}
