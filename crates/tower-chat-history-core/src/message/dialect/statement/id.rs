//! The ids of calls in another dialect.

use std::{borrow::Cow, fmt};

use crate::{
    digest::Digest,
    message::dialect::{CallId, Space},
    seq::Seq,
};

/// The id of a call that is written in another dialect. A call and its result get the same id, although they can be in
/// different exchanges.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StatedId<'a> {
    id: &'a CallId,
    place: Place,
}

/// The place of a call in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The exchange with the call.
    pub(crate) asked: Seq,
    /// The number of the round within its exchange. That of the reply is 0.
    pub(crate) round: usize,
    /// The number of earlier calls with the same id in the same round.
    pub(crate) occurrence: usize,
}

/// The least length of an id that is taken for unique in its conversation. Providers make longer ones at random.
/// Shorter ones are often counted, and begin anew with each reply.
const LEAST_UNIQUE: usize = 16;

impl<'a> StatedId<'a> {
    /// Creates the id of a call as the provider wrote it.
    #[must_use]
    pub fn new(id: &'a CallId) -> Self {
        Self { id, place: Place::default() }
    }

    /// Returns the id as the provider wrote it.
    #[must_use]
    pub const fn original(&self) -> &'a CallId {
        self.id
    }

    pub(crate) fn set_place(&mut self, place: Place) {
        self.place = place;
    }

    /// Returns the id for a dialect in which ids may be used again by later calls: the original one if `is_legal`
    /// returns `true`, and otherwise `call_` with 32 hexadecimal digits.
    ///
    /// The id of a call of another [space](Space) than the first one is always changed, because two calls of different
    /// spaces can have the same id.
    #[must_use]
    pub fn reusable(&self, is_legal: impl Fn(&str) -> bool) -> Cow<'a, str> {
        let id = self.id.as_str();
        if self.id.space() == Space::DEFAULT && self.place.occurrence == 0 && is_legal(id) {
            return Cow::Borrowed(id);
        }
        let Place { occurrence, .. } = self.place;
        Cow::Owned(self.digest(&format!("{occurrence}")))
    }

    /// Returns the id for a dialect in which every call of a conversation needs an id of its own: the original one if
    /// `is_legal` returns `true` and it has at least 16 characters, and otherwise `call_` with 32 hexadecimal digits,
    /// which depend on the position of the exchange with the call.
    #[must_use]
    pub fn unique(&self, is_legal: impl Fn(&str) -> bool) -> Cow<'a, str> {
        let is_long = |id: &str| id.len() >= LEAST_UNIQUE;
        match self.reusable(|id| is_long(id) && is_legal(id)) {
            Cow::Borrowed(id) => Cow::Borrowed(id),
            Cow::Owned(_) => {
                let Place { asked, round, occurrence } = self.place;
                Cow::Owned(self.digest(&format!("{asked}/{round}/{occurrence}")))
            }
        }
    }

    fn digest(&self, place: &str) -> String {
        let Space(space) = self.id.space();
        let digest = Digest::of(format!("{space}/{place}/{}", self.id.as_str()).as_bytes());
        format!("call_{digest}")
    }
}

impl fmt::Debug for StatedId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "call_0123456789abcdef";

    fn id(space: u8, id: &str) -> CallId {
        CallId::new(Space(space), id)
    }

    fn placed(id: &CallId, asked: u64, round: usize, occurrence: usize) -> StatedId<'_> {
        let mut stated = StatedId::new(id);
        stated.set_place(Place { asked: Seq::new(asked), round, occurrence });
        stated
    }

    #[test]
    fn a_legal_id_stays_if_no_other_call_can_have_it() {
        let (short, long, custom) = (id(0, "x"), id(0, LONG), id(1, LONG));
        assert_eq!(placed(&short, 3, 1, 0).reusable(|_| true), "x");
        assert_eq!(placed(&long, 3, 1, 0).unique(|_| true), LONG);
        for changed in [
            placed(&custom, 3, 1, 0).reusable(|_| true),
            placed(&long, 3, 1, 1).reusable(|_| true),
            placed(&long, 3, 1, 0).reusable(|_| false),
            placed(&short, 3, 1, 0).unique(|_| true),
            placed(&custom, 3, 1, 0).unique(|_| true),
        ] {
            assert_eq!(changed.len(), 37, "{changed}");
            assert!(changed.strip_prefix("call_").unwrap().bytes().all(|digit| digit.is_ascii_hexdigit()));
        }
    }

    #[test]
    fn changed_ids_differ_if_the_calls_differ() {
        let (x, y, custom) = (id(0, "x"), id(0, "y"), id(1, "x"));
        let unique = [
            placed(&x, 3, 0, 0),
            placed(&x, 4, 0, 0),
            placed(&x, 3, 1, 0),
            placed(&x, 3, 0, 1),
            placed(&y, 3, 0, 0),
            placed(&custom, 3, 0, 0),
        ]
        .map(|id| id.unique(|_| true));
        let mut sorted = unique.to_vec();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), unique.len());
        // Where ids may be used again, the position makes no difference.
        assert_eq!(placed(&custom, 3, 0, 0).reusable(|_| true), placed(&custom, 4, 1, 0).reusable(|_| true));
        assert_ne!(placed(&custom, 3, 0, 0).reusable(|_| true), placed(&custom, 3, 0, 1).reusable(|_| true));
    }
}
