//! The registry of conversations: their names in order, and the erasures. It is divided into slots, so that the nodes
//! of a Cluster share it.

mod forget;
mod names;
mod register;
mod stamp;

use tower_chat_history_core::ConversationId;
use xxhash_rust::xxh3::xxh3_64;

pub(crate) use self::{
    forget::{Forgotten, forget},
    names::{NamesFor, NamesPage, names},
    register::{MIN_AGE, Registered, Registration, register},
    stamp::{Stamp, bar, bar_id, epoch, stamp},
};
use crate::{
    call::{Call, Shared},
    scripts::Script,
};

/// The number of slots. It is a part of the layout.
const SLOTS: u8 = 16;

/// The parts of a slot's keys after the hash tag, in the order that the scripts use.
const PARTS: [&str; 4] = [":names", ":registered", ":erasures", ":epochs"];

/// A part of the registry, whose keys are on one node of a Cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(u8);

impl Slot {
    /// Returns the slot of a conversation: the XXH3 hash of its id, modulo the number of slots.
    pub(crate) fn of(id: &ConversationId) -> Self {
        // The remainder is less than the number of slots.
        Self((xxh3_64(id.as_str().as_bytes()) % u64::from(SLOTS)) as u8)
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..SLOTS).map(Self)
    }

    /// Returns the slot's keys. No id contains `!`, so they are not those of a conversation.
    fn keys(self, prefix: &str) -> Vec<String> {
        PARTS.iter().map(|part| format!("{prefix}{{!{}}}{part}", self.0)).collect()
    }

    /// Adds the slot's keys to a call that has the keys of a conversation.
    pub(crate) fn add_to<'a>(self, call: Call<'a>, shared: &Shared) -> Call<'a> {
        call.with_keys(self.keys(&shared.options.prefix))
    }

    pub(crate) fn call<'a>(self, shared: &Shared, script: &'a Script) -> Call<'a> {
        Call::new(script, self.keys(&shared.options.prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_of_an_id_never_changes() {
        for (id, slot) in [("a", 15), ("b", 15), ("acme/user-42", 3)] {
            assert_eq!(Slot::of(&id.parse().unwrap()), Slot(slot), "{id}");
        }
    }

    #[test]
    fn ids_spread_over_all_slots() {
        let mut found = [0; SLOTS as usize];
        for number in 0..1_600 {
            let Slot(slot) = Slot::of(&format!("acme/user-{number}").parse().unwrap());
            found[usize::from(slot)] += 1;
        }
        assert!(found.iter().all(|ids| (60..140).contains(ids)), "{found:?}");
    }
}
