//! A sum of what a stored exchange must have exactly as it was sent: each byte of its elements, its dialect, the length
//! of its reply, and its provenance.

use test_providers::signing::SigningDialect;
use tower_chat_history::{
    Exchange, Message,
    dialect::Dialect as _,
    store::{Origin, PromptDigests},
};

use crate::rng::hash;

/// An exchange that is sent to be stored.
pub(crate) struct Sent<'a> {
    pub(crate) input: &'a [Message],
    pub(crate) reply: &'a [Message],
    /// The digests of the prompt, and the provider.
    pub(crate) made_after: (PromptDigests, &'a Origin),
}

impl Sent<'_> {
    /// Returns the sum that the stored exchange must have.
    pub(crate) fn sum(&self) -> u64 {
        sum_of(SigningDialect.name(), self.reply.len(), Some(self.made_after), [self.input, self.reply])
    }
}

/// Returns the sum of a stored exchange.
pub(crate) fn sum(exchange: &Exchange) -> u64 {
    let made_after = exchange.provenance.as_ref().map(|from| (from.digests, &from.origin));
    sum_of(exchange.dialect.as_str(), exchange.reply_len, made_after, [&exchange.messages, &[]])
}

fn sum_of(
    dialect: &str,
    reply_len: usize,
    made_after: Option<(PromptDigests, &Origin)>,
    elements: [&[Message]; 2],
) -> u64 {
    let about = [dialect.to_owned(), reply_len.to_string(), format!("{made_after:?}")];
    hash(about.iter().map(String::as_str).chain(elements.into_iter().flatten().map(Message::json)))
}

#[cfg(test)]
mod tests {
    use tower_chat_history::{Role, dialect::Digest, store::Provenance};

    use super::*;
    use crate::{
        exchange::{Kind, Name, Task},
        signed::exchange,
    };

    #[test]
    fn every_change_changes_the_sum() {
        let task = Task { name: Name { worker: 1, number: 3 }, conversation: 1, kind: Kind::Call };
        let stored = exchange(task);
        let Provenance { digests, origin, .. } = stored.provenance.clone().unwrap();
        let sent = Sent { input: stored.input(), reply: stored.reply(), made_after: (digests, &origin) };
        assert_eq!(sum(&stored), sent.sum());
        let differs = |change: &dyn Fn(&mut Exchange)| {
            let mut changed = stored.clone();
            change(&mut changed);
            assert_ne!(sum(&changed), sent.sum(), "{changed:#?}");
        };
        differs(&|exchange| exchange.reply_len += 1);
        differs(&|exchange| exchange.dialect = Exchange::new(exchange.id.clone(), []).dialect);
        differs(&|exchange| exchange.provenance = None);
        differs(&|exchange| {
            exchange.provenance.as_mut().unwrap().digests.prompt = Digest::of(b"another prompt");
        });
        differs(&|exchange| exchange.provenance.as_mut().unwrap().origin = Origin::unknown());
        differs(&|exchange| exchange.messages.swap(0, 1));
        differs(&|exchange| drop(exchange.messages.pop()));
        differs(&|exchange| {
            exchange.messages[0] = Message::compose(&SigningDialect, &Role::User, "another").unwrap();
        });
    }
}
