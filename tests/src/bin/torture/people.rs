//! The conversations of people, which the workers list, label, expire, delete and erase, next to the chats, which stay.
//!
//! A person belongs to one worker. Only this worker changes the conversations of the person, so it knows what exists.

use std::{fmt, str::FromStr};

use tower_chat_history::{
    ConversationId, Exchange, ExchangeId, Message,
    store::{ConversationIdError, Labels, Prefix, Timestamp},
};

/// The first part of the ids of all people.
const ALL: &str = "people";

/// The conversations of a person, by the parts of their ids after those of the person. The first
/// [`UNDER_ERASED`] are under the prefix to erase, the others have similar ids.
pub(crate) const PLACES: [&[&str]; 9] =
    [&["a"], &["a", "0"], &["a", "1"], &["a", "2", "x"], &["a-2"], &["a-2", "0"], &["a/0"], &["b"], &[]];

/// The number of places under the prefix to erase, which is the first place.
pub(crate) const UNDER_ERASED: usize = 4;

/// The largest number of exchanges in a conversation.
pub(crate) const MAX_EXCHANGES: u64 = 3;

/// The time of the exchanges, in milliseconds since the Unix epoch. Those under the prefix to erase are older.
pub(crate) const OLD: u64 = 1_700_000_000_000;
pub(crate) const NEW: u64 = OLD + 1_000_000;

/// A person: a worker, and the number of the person in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Person {
    pub(crate) worker: u32,
    pub(crate) number: u32,
}

impl Person {
    fn parts(self) -> [String; 3] {
        [ALL.to_owned(), format!("w{}", self.worker), format!("p{}", self.number)]
    }

    /// Returns the prefix of all conversations of the person.
    pub(crate) fn prefix(self) -> Result<Prefix, ConversationIdError> {
        Prefix::new(self.parts())
    }

    /// Returns the prefix to erase.
    pub(crate) fn erased(self) -> Result<Prefix, ConversationIdError> {
        Ok(Prefix::from(&self.at(0).id()?))
    }

    /// Returns the conversation at a [place](PLACES).
    pub(crate) const fn at(self, place: usize) -> Owned {
        Owned { person: self, place }
    }

    pub(crate) fn all_places(self) -> impl Iterator<Item = Owned> {
        (0..PLACES.len()).map(move |place| self.at(place))
    }
}

/// Returns the prefix of the conversations of all people.
pub(crate) fn everyone() -> Result<Prefix, ConversationIdError> {
    Prefix::new([ALL])
}

/// A conversation of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Owned {
    pub(crate) person: Person,
    pub(crate) place: usize,
}

impl Owned {
    pub(crate) fn id(self) -> Result<ConversationId, ConversationIdError> {
        let place = PLACES.get(self.place).copied().unwrap_or_default();
        ConversationId::new(self.person.parts().into_iter().chain(place.iter().map(|part| (*part).to_owned())))
    }

    pub(crate) const fn is_under_erased(self) -> bool {
        self.place < UNDER_ERASED
    }

    /// Returns the exchange at a position, in a life of the conversation.
    pub(crate) fn exchange(self, life: u32, seq: u64) -> Result<Exchange, tower_chat_history::BoxError> {
        let text = format!("{self} in life {life}, exchange {seq}");
        let messages = [Message::user(&text), Message::assistant(format!("the reply to {text}"))];
        let mut exchange = Exchange::new(ExchangeId::new(format!("e{life}-{seq}"))?, messages);
        exchange.at = Timestamp::from_unix_millis(if self.is_under_erased() { OLD } else { NEW });
        Ok(exchange)
    }

    /// Returns the labels of the conversation. Every second place has some.
    pub(crate) fn labels(self, life: u32) -> Result<Labels, tower_chat_history::BoxError> {
        let title = format!("The title of {self} in life {life}");
        Ok(if self.place.is_multiple_of(2) { Labels::new([("title", title)])? } else { Labels::default() })
    }
}

impl fmt::Display for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "w{}-{}-{}", self.person.worker, self.person.number, self.place)
    }
}

impl FromStr for Owned {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut numbers = text.strip_prefix('w').ok_or(())?.split('-');
        let mut number = || numbers.next().ok_or(());
        let person = Person { worker: number()?.parse().map_err(drop)?, number: number()?.parse().map_err(drop)? };
        let owned = Self { person, place: number()?.parse().map_err(drop)? };
        if owned.place < PLACES.len() && owned.to_string() == text { Ok(owned) } else { Err(()) }
    }
}

/// The state of a conversation of a person, as its worker reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The worker begins to store it, in this life. From now on it may exist, with some of its exchanges.
    Begins { life: u32 },
    /// It exists with this number of exchanges and with its labels.
    Kept { life: u32, exchanges: u64 },
    /// The worker begins to remove it. From now on, it may not exist any more.
    Removing { life: u32 },
    /// It does not exist any more.
    Removed,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begins { life } => write!(f, "begins {life}"),
            Self::Kept { life, exchanges } => write!(f, "kept {life} {exchanges}"),
            Self::Removing { life } => write!(f, "removing {life}"),
            Self::Removed => f.write_str("removed"),
        }
    }
}

impl FromStr for State {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = |text: &str| text.parse().map_err(drop);
        Ok(match text.split(' ').collect::<Vec<_>>().as_slice() {
            ["begins", life] => Self::Begins { life: number(life)? },
            ["kept", life, exchanges] => {
                Self::Kept { life: number(life)?, exchanges: exchanges.parse().map_err(drop)? }
            }
            ["removing", life] => Self::Removing { life: number(life)? },
            ["removed"] => Self::Removed,
            _ => return Err(()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERSON: Person = Person { worker: 3, number: 17 };

    #[test]
    fn names_and_states_round_trip() {
        for owned in PERSON.all_places() {
            assert_eq!(owned.to_string().parse(), Ok(owned));
        }
        for state in [
            State::Begins { life: 1 },
            State::Kept { life: 2, exchanges: 3 },
            State::Removing { life: 0 },
            State::Removed,
        ] {
            assert_eq!(state.to_string().parse(), Ok(state));
        }
        for wrong in ["", "w3-17", "w3-17-9", "w3-17-1-1", "3-17-1"] {
            assert_eq!(wrong.parse::<Owned>(), Err(()), "{wrong}");
        }
        assert_eq!("kept 1".parse::<State>(), Err(()));
    }

    #[test]
    fn the_first_places_are_under_the_prefix_to_erase() {
        for owned in PERSON.all_places() {
            let id = owned.id().unwrap();
            assert_eq!(PERSON.erased().unwrap().contains(&id), owned.is_under_erased(), "{id}");
            assert!(PERSON.prefix().unwrap().contains(&id) && everyone().unwrap().contains(&id), "{id}");
        }
    }
}
