//! What a behavior needs that not every store can do.

use std::fmt;

use super::Fixture;

/// Something that not every store can do, and that some behaviors need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Capability {
    /// Everything is still there when the storage is opened again ([`Capabilities::durable`](super::Capabilities)).
    Durable,
    /// The store can [truncate](crate::Truncate) ([`Fixture::open_truncate`]).
    Truncate,
    /// The store can [prune](crate::Prune) ([`Fixture::open_prune`]).
    Prune,
}

impl Capability {
    /// Whether the fixture's store has it.
    pub async fn is_in(self, fixture: &dyn Fixture) -> bool {
        match self {
            Self::Durable => fixture.capabilities().durable,
            Self::Truncate => fixture.open_truncate().await.is_some(),
            Self::Prune => fixture.open_prune().await.is_some(),
        }
    }

    /// Fails if the fixture's store lacks it.
    pub(super) async fn demand(self, fixture: &dyn Fixture) {
        if !self.is_in(fixture).await {
            self.lacking();
        }
    }

    /// Fails: a behavior was asked for that the fixture's store cannot have.
    #[track_caller]
    pub(super) fn lacking(self) -> ! {
        let says = match self {
            Self::Durable => "`Fixture::capabilities` does not say `durable`",
            Self::Truncate => "`Fixture::open_truncate` opens no store",
            Self::Prune => "`Fixture::open_prune` opens no store",
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
        })
    }
}
