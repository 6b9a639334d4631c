//! The behaviors as values, for harnesses that create their tests at run time.

use std::{fmt, pin::Pin};

use super::{Capability, Fixture};

type Run = for<'a> fn(&'a dyn Fixture) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// One behavior of the [suite](super), as a value.
#[derive(Clone, Copy)]
pub struct Behavior {
    name: &'static str,
    needs: &'static [Capability],
    run: Run,
}

impl Behavior {
    /// Returns the behavior's name after the name of its group: `append::the_first_append_creates_the_log`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the optional abilities that a store must have for this behavior.
    #[must_use]
    pub const fn needs(&self) -> &'static [Capability] {
        self.needs
    }

    /// Returns `true` if the fixture's store has all abilities that this behavior needs. A harness should report the
    /// other behaviors as ignored.
    pub async fn can_run(&self, fixture: &dyn Fixture) -> bool {
        for needed in self.needs {
            if !needed.is_in(fixture).await {
                return false;
            }
        }
        true
    }

    /// Runs the behavior. The future panics if the store breaks the contract, or lacks an ability that the behavior
    /// [needs](Self::needs).
    pub async fn run(&self, fixture: &dyn Fixture) {
        (self.run)(fixture).await;
    }
}

impl fmt::Debug for Behavior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Behavior").field(&self.name).finish()
    }
}

macro_rules! list {
    ($($(#[needs($needs:ident)])? $group:ident $behaviors:tt)+) => {
        [$(group! { [$($needs)?] $group $behaviors }),+].concat()
    };
}

macro_rules! group {
    ($needs:tt $group:ident { $($(#[needs($also:ident)])? $behavior:ident)+ }) => {
        vec![$(Behavior {
            name: concat!(stringify!($group), "::", stringify!($behavior)),
            needs: needs!($needs [$($also)?]),
            run: |fixture| Box::pin(super::$group::$behavior(fixture)),
        }),+]
    };
}

macro_rules! needs {
    ([$($group:ident)?] [$($also:ident)?]) => { &[$(needs!($group),)? $(needs!($also),)?] };
    (durable) => { Capability::Durable };
    (truncate) => { Capability::Truncate };
    (prune) => { Capability::Prune };
    (erase) => { Capability::Erase };
    (sealed) => { Capability::Sealed };
}

/// Returns every behavior, for a harness that creates its tests at run time, for example because they depend on a
/// server that may not be installed.
#[must_use]
pub fn behaviors() -> Vec<Behavior> {
    crate::__conformance_list! { [list] }
}
