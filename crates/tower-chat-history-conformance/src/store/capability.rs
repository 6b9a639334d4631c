//! The optional abilities of stores.

use std::fmt;

use super::Fixture;

/// An ability that not every store has, and that some behaviors need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Capability {
    /// All data is still there when the storage is opened again ([`Capabilities::durable`](super::Capabilities)).
    Durable,
    /// The store can [truncate](tower_chat_history_core::Truncate) ([`Fixture::open_truncate`]).
    Truncate,
    /// The store can [prune](tower_chat_history_core::Prune) ([`Fixture::open_prune`]).
    Prune,
    /// The store lists its conversations and [erases](tower_chat_history_core::Erase) them ([`Fixture::open_erase`]).
    Erase,
    /// The store keeps exchanges that a wrapper has [encrypted]. Only a store that encrypts them itself cannot
    /// ([`Capabilities::refuses_sealed`](super::Capabilities)).
    ///
    /// [encrypted]: tower_chat_history_core::Exchange::sealed
    Sealed,
}

impl Capability {
    /// Returns `true` if the fixture's store has this ability.
    pub async fn is_in(self, fixture: &dyn Fixture) -> bool {
        match self {
            Self::Durable => fixture.capabilities().durable,
            Self::Truncate => fixture.open_truncate().await.is_some(),
            Self::Prune => fixture.open_prune().await.is_some(),
            Self::Erase => fixture.open_erase().await.is_some(),
            Self::Sealed => !fixture.capabilities().refuses_sealed,
        }
    }

    /// Fails if the fixture's store lacks this ability.
    pub(super) async fn demand(self, fixture: &dyn Fixture) {
        if !self.is_in(fixture).await {
            self.lacking();
        }
    }

    /// Fails because a behavior needs an ability that the fixture's store lacks.
    #[track_caller]
    pub(super) fn lacking(self) -> ! {
        let says = match self {
            Self::Durable => "`Fixture::capabilities` does not say `durable`",
            Self::Truncate => "`Fixture::open_truncate` opens no store",
            Self::Prune => "`Fixture::open_prune` opens no store",
            Self::Erase => "`Fixture::open_erase` opens no store",
            Self::Sealed => "`Fixture::capabilities` says `refuses_sealed`",
        };
        panic!("{says}. If the store cannot do it, say so: `conformance_tests! {{ .., without: [{self}] }}`")
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Durable => "durable",
            Self::Truncate => "truncate",
            Self::Prune => "prune",
            Self::Erase => "erase",
            Self::Sealed => "sealed",
        })
    }
}
