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
    /// returns `true`, and otherwise `call_` with 16 hexadecimal digits.
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

    /// Returns the [reusable](Self::reusable) id for a dialect whose ids have visible ASCII characters, of at most this
    /// number.
    pub(crate) fn visible_ascii(&self, max: usize) -> Cow<'a, str> {
        self.reusable(|id| !id.is_empty() && id.len() <= max && id.bytes().all(|byte| byte.is_ascii_graphic()))
    }

    /// Returns the id for a dialect in which every call of a conversation needs an id of its own: the original one with
    /// the place of the call, such as `x-4-0-0`, if `is_legal` returns `true` for it, and otherwise `call_` with 16
    /// hexadecimal digits, which depend on the place.
    ///
    /// The place is the position of the exchange with the call, the number of its round there, and the number of
    /// earlier calls with the same id in this round.
    #[must_use]
    pub fn unique(&self, is_legal: impl Fn(&str) -> bool) -> String {
        let Place { asked, round, occurrence } = self.place;
        let placed = format!("{}-{asked}-{round}-{occurrence}", self.id.as_str());
        if self.id.space() == Space::DEFAULT && is_legal(&placed) {
            return placed;
        }
        self.digest(&format!("{asked}/{round}/{occurrence}"))
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
        let (x, custom) = (id(0, "x"), id(1, "x"));
        assert_eq!(placed(&x, 3, 1, 0).reusable(|_| true), "x");
        assert_eq!(placed(&x, 3, 1, 0).unique(|_| true), "x-3-1-0");
        for changed in [
            placed(&custom, 3, 1, 0).reusable(|_| true).into_owned(),
            placed(&x, 3, 1, 1).reusable(|_| true).into_owned(),
            placed(&x, 3, 1, 0).reusable(|_| false).into_owned(),
            placed(&x, 3, 1, 0).unique(|_| false),
            placed(&custom, 3, 1, 0).unique(|_| true),
        ] {
            assert_eq!(changed.len(), 21, "{changed}");
            assert!(changed.strip_prefix("call_").unwrap().bytes().all(|digit| digit.is_ascii_hexdigit()));
        }
    }

    #[test]
    fn changed_ids_differ_if_the_calls_differ() {
        let (x, y, custom) = (id(0, "x"), id(0, "y"), id(1, "x"));
        let all = [
            placed(&x, 3, 0, 0),
            placed(&x, 4, 0, 0),
            placed(&x, 3, 1, 0),
            placed(&x, 3, 0, 1),
            placed(&y, 3, 0, 0),
            placed(&custom, 3, 0, 0),
        ];
        for is_legal in [true, false] {
            let mut unique = all.map(|id| id.unique(|_| is_legal)).to_vec();
            unique.sort();
            unique.dedup();
            assert_eq!(unique.len(), all.len());
        }
        // Where ids may be used again, the position makes no difference.
        assert_eq!(placed(&custom, 3, 0, 0).reusable(|_| true), placed(&custom, 4, 1, 0).reusable(|_| true));
        assert_ne!(placed(&custom, 3, 0, 0).reusable(|_| true), placed(&custom, 3, 0, 1).reusable(|_| true));
    }
}
